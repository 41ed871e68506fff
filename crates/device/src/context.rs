//! Persistent device contexts: one for each device, in one of four forms.
//!
//! ```text
//!  commits       context               form                          stores (units of the medium)
//!  by itself     at most one unit      the unit                      1
//!  by itself     n units               two versions and a word       n + 1
//!  with a step   1 byte, 32-bit units  a tagged word                 1, and 1 to settle it
//!  with a step   others, n units       two versions, a tagged word   n + 1, and 1 to settle it
//! ```
//!
//! A tagged word ([`crate::nvmem::tagged`]) carries the number of the step that stages it, so the
//! step's commit store commits it, too. It is settled right after that store. So no stamp is left
//! when the numbers of steps repeat, however few bits they have. Only a cut leaves one, and the
//! next open settles it. A sweep instead would need the numbers that other calls use up, for a
//! handful of words.
//!
//! ```text
//!   stage      | n | before | after |     the step has not committed: before counts
//!   commit     (the step's header)        after counts
//!   settle     | 0 | after  | after |     after counts, whatever commits
//! ```
//!
//! The settling store of a cell has no fence of its own. A lost one would be misread when the same
//! number is used again. Many other steps commit before that, each with fences.

use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nv_replay::nvmem::persist::{from_bytes, to_bytes};
use nv_replay::nvmem::tagged::{Cells, Fixed, FixedWidths, Widths, Words};
use nv_replay::nvmem::{
    HasVersions, Model, NumberOwner, Plain, Region, Unit, Version, Versions, mapped, planted,
};

/// A context that commits by itself: an item of [`open`](crate::open()). A device has either
/// this or [`Staged`], so its context has one owner.
pub struct Own<C>(PhantomData<fn(C) -> C>);

/// A context that commits with the program's step: an item of [`open`](crate::open()).
pub struct Staged<C>(PhantomData<fn(C) -> C>);

/// The widths of the word of a context that commits by itself.
pub(crate) struct Alone;
impl FixedWidths for Alone {
    const WIDTHS: Widths = Widths {
        sequence: 3,
        owner: 0,
        state: 1,
    };
}

/// Bits of a step's number that a word of this model can hold.
pub(crate) const fn number_bits<M: Model>() -> u8 {
    if wide::<M>() { 16 } else { 8 }
}

/// Whether two states of 8 bits fit into a unit, beside a number.
pub(crate) const fn wide<M: Model>() -> bool {
    M::Unit::BYTES >= 4
}

/// The widths of a word that holds a state of 8 bits.
pub(crate) struct States<M>(PhantomData<M>);
impl<M: Model> FixedWidths for States<M> {
    const WIDTHS: Widths = Widths {
        sequence: 16,
        owner: 0,
        state: 8,
    };
}

/// The widths of a word that names a version.
pub(crate) struct OfVersions<M>(PhantomData<M>);
impl<M: Model> FixedWidths for OfVersions<M> {
    const WIDTHS: Widths = Widths {
        sequence: number_bits::<M>(),
        owner: 0,
        state: 1,
    };
}

/// Says what the steps have committed, for words of some widths.
#[derive(Clone, Copy)]
pub(crate) struct Resolver {
    /// Whose numbers the steps have.
    pub owner: NumberOwner,
    /// The number after the last committed one: a stamp with it is in doubt.
    pub in_doubt: u32,
}

/// A tagged word that a step has staged.
#[inline(always)]
const fn staged(w: &Widths, number: u32, before: u32, after: u32) -> u32 {
    (number << w.state | before) << w.state | after
}

/// A settled word: it counts, and no later commit changes that.
#[inline(always)]
const fn settled(w: &Widths, state: u32) -> u32 {
    staged(w, 0, state, state)
}

/// [`settled`] for a word that names a version.
#[inline(always)]
const fn settled_version<F: FixedWidths>(version: Version) -> u32 {
    const { assert!(F::WIDTHS.state == 1 && F::WIDTHS.owner == 0) };
    version.bits(3)
}

impl Resolver {
    /// The committed number whose successor, in words of these widths, is the number in doubt.
    fn last(self, w: &Widths) -> u32 {
        if planted!("nv-device/context-not-resolved") {
            return self.in_doubt;
        }
        match self.in_doubt {
            0 | 1 => w.max_sequence(),
            n => n - 1,
        }
    }
}

/// The bytes of the word of a context.
const WORD: usize = 8;

/// The form of a context that commits by itself.
pub(crate) struct AsOwn;
impl<M: Model, C> HasVersions<M, C> for AsOwn {
    const VERSIONS: bool = !one_unit::<M, C>();
}

/// The form of a context that commits with a step.
pub(crate) struct AsStaged;
impl<M: Model, C> HasVersions<M, C> for AsStaged {
    const VERSIONS: bool = size_of::<C>() != 0 && !one_state::<M, C>();
}

/// A context on the medium.
struct Stored<'m, C, M, F> {
    medium: Versions<'m, M, C, F>,
    /// The version that counts, if there are versions.
    counts: Cell<Version>,
}

impl<'m, C: Plain + Copy, M: Model, F: HasVersions<M, C>> Stored<'m, C, M, F> {
    /// The context in this region, which holds a sound one.
    fn new(region: Region<'m, M>) -> Option<Self> {
        let medium = Versions::new(region)?;
        let counts = Cell::new(Version::FIRST);
        let stored = Stored { medium, counts };
        stored.counts.set(stored.version());
        Some(stored)
    }

    /// The version that the medium says counts.
    fn version(&self) -> Version {
        if F::VERSIONS && self.medium.word() & 1 != 0 {
            Version::SECOND
        } else {
            Version::FIRST
        }
    }

    /// Commits another version, apart from any step.
    #[inline(always)]
    fn put_settled<W: FixedWidths>(&self, value: C) {
        let version = self.counts.get().other();
        self.medium.write(version, value);
        if !planted!("nv-device/no-fence-before-own-word") {
            mapped::fence::<M>();
        }
        self.medium.store_word(settled_version::<W>(version));
        self.counts.set(version);
    }
}

// INVARIANT "One owner of a context": a context commits by itself or with a step, never both.
// `OwnContext` and `StagedContext` are moved into one device.
// Noticed by: tests/ui/two_owners.rs, tests/ui/own_in_step.rs; planted `committed-apart`,
// `nested-call-saves`.

/// A persistent context that commits by itself, with a copy in RAM.
pub struct OwnContext<'m, C, M> {
    stored: Stored<'m, C, M, AsOwn>,
    value: C,
}

const fn one_unit<M: Model, C>() -> bool {
    size_of::<C>() <= M::Unit::BYTES && align_of::<C>() <= M::Unit::BYTES
}

/// The value as a unit, padded with zeros.
#[inline(always)]
fn unit_of<C: Plain, M: Model>(value: C) -> u32 {
    let mut buffer = [MaybeUninit::new(0); 4];
    let mut bytes = [0; 4];
    if let Some(filled) = to_bytes(value, &mut buffer) {
        for (to, from) in bytes.iter_mut().zip(filled) {
            *to = *from;
        }
    }
    if wide::<M>() {
        u32::from_ne_bytes(bytes)
    } else {
        u16::from_ne_bytes([bytes[0], bytes[1]]).into()
    }
}

impl<'m, C: Plain + Copy, M: Model> OwnContext<'m, C, M> {
    pub(crate) const BYTES: usize = if one_unit::<M, C>() {
        WORD
    } else {
        Cells::<M, C>::bytes(1)
    };

    pub(crate) fn format(region: Region<'m, M>, value: C) -> Option<Self> {
        let stored: Stored<'m, C, M, AsOwn> = if one_unit::<M, C>() {
            let stored: Stored<'m, C, M, AsOwn> = Stored::new(region)?;
            stored.medium.store_word(unit_of::<C, M>(value));
            stored
        } else {
            let cells = Cells::format(region, 1, Fixed::<Alone>::NEW, value).ok()?;
            Stored::new(cells.close())?
        };
        Some(OwnContext { stored, value })
    }

    pub(crate) fn recover(region: Region<'m, M>) -> Option<Self> {
        let (region, value) = if one_unit::<M, C>() {
            let value = region.read_value(0)?;
            (region, value)
        } else {
            let cells = Cells::recover(region, 1, Fixed::<Alone>::NEW, |_| None).ok()?;
            let value = cells.get(0, |_| None).ok()?;
            (cells.close(), value)
        };
        let stored = Stored::new(region)?;
        Some(OwnContext { stored, value })
    }

    /// The committed context.
    #[inline(always)]
    pub(crate) fn value(&self) -> &C {
        &self.value
    }

    /// Commits another value.
    ///
    /// **Power loss**: the old value or the new one. **Cost**: see the table above.
    #[inline(always)]
    pub(crate) fn save(&mut self, value: C) {
        // The copy first: after a store to the medium the compiler no longer knows which parts of
        // the copy are unchanged.
        self.value = value;
        if size_of::<C>() == 0 {
        } else if one_unit::<M, C>() {
            self.stored.medium.store_word(unit_of::<C, M>(value))
        } else {
            self.stored.put_settled::<Alone>(value)
        }
    }
}

/// After a checkpoint was restored.
impl<'m, C: Plain + Copy, M: Model> OwnContext<'m, C, M> {
    /// Commits the copy in RAM, which the checkpoint has restored. The medium may have a later
    /// context.
    ///
    /// **Power loss**: the medium's context, or that of the copy. **Cost**: as for `save`.
    pub(crate) fn rewind(&mut self) {
        if size_of::<C>() == 0 || planted!("nv-device/context-ahead-of-a-restore") {
            return;
        }
        if !planted!("nv-device/version-of-a-restore-believed") {
            self.stored.counts.set(self.stored.version());
        }
        self.save(self.value)
    }

    /// What a restored image says of the context: for tests, which restore no RAM.
    #[cfg(feature = "instrument")]
    #[doc(hidden)]
    pub fn image(&self) -> (C, bool) {
        (self.value, self.stored.counts.get() == Version::SECOND)
    }

    /// Restores what `image` has returned.
    #[cfg(feature = "instrument")]
    #[doc(hidden)]
    pub fn restore_image(&mut self, (value, second): (C, bool)) {
        self.value = value;
        let counts = if second {
            Version::SECOND
        } else {
            Version::FIRST
        };
        self.stored.counts.set(counts);
    }
}

/// A persistent context that commits with a step, with a copy in RAM.
pub struct StagedContext<'m, C, M> {
    stored: Stored<'m, C, M, AsStaged>,
    value: Cell<C>,
    /// Whose numbers it is staged with.
    owner: NumberOwner,
}

const fn one_state<M: Model, C>() -> bool {
    size_of::<C>() == 1 && wide::<M>()
}

/// The value as the state of a tagged word.
#[inline(always)]
fn state<C: Plain>(value: C) -> u32 {
    let mut byte = [MaybeUninit::new(0)];
    match to_bytes(value, &mut byte) {
        Some(&[b]) => b.into(),
        _ => 0,
    }
}

impl<'m, C: Plain + Copy, M: Model> StagedContext<'m, C, M> {
    pub(crate) const BYTES: usize = if size_of::<C>() == 0 || one_state::<M, C>() {
        WORD
    } else {
        Cells::<M, C>::bytes(1)
    };

    pub(crate) fn format(region: Region<'m, M>, value: C, by: Resolver) -> Option<Self> {
        let region = if size_of::<C>() == 0 {
            region
        } else if one_state::<M, C>() {
            let mut words = Words::format(region, 1, Fixed::<States<M>>::NEW).ok()?;
            words.put_settled(0, state(value)).ok()?;
            words.close()
        } else {
            let cells = Cells::format(region, 1, Fixed::<OfVersions<M>>::NEW, value).ok()?;
            cells.close()
        };
        let stored = Stored::new(region)?;
        let value = Cell::new(value);
        Some(StagedContext {
            stored,
            value,
            owner: by.owner,
        })
    }

    pub(crate) fn recover(region: Region<'m, M>, by: Resolver) -> Option<Self> {
        let (region, value) = if size_of::<C>() == 0 {
            (region, from_bytes(&[]).ok()?)
        } else if one_state::<M, C>() {
            let last = by.last(&States::<M>::WIDTHS);
            let words = Words::recover(region, 1, Fixed::<States<M>>::NEW, |_| Some(last)).ok()?;
            let state = u8::try_from(words.get(0, |_| None).ok()?).ok()?;
            (words.close(), from_bytes(&[state]).ok()?)
        } else {
            let last = by.last(&OfVersions::<M>::WIDTHS);
            let fixed = Fixed::<OfVersions<M>>::NEW;
            let cells = Cells::recover(region, 1, fixed, |_| Some(last)).ok()?;
            let value = cells.get(0, |_| None).ok()?;
            (cells.close(), value)
        };
        let stored = Stored::new(region)?;
        let value = Cell::new(value);
        Some(StagedContext {
            stored,
            value,
            owner: by.owner,
        })
    }

    /// Whose numbers it is staged with.
    pub(crate) fn owner(&self) -> NumberOwner {
        self.owner
    }

    /// An address that no other context has, as long as this one lives.
    pub(crate) fn address(&self) -> usize {
        self.stored.medium.base().addr()
    }

    /// The committed context.
    #[inline(always)]
    pub(crate) fn value(&self) -> C {
        self.value.get()
    }

    /// Stages a value for the step of this number.
    #[inline(always)]
    pub(crate) fn stage(&self, number: u32, value: C) {
        if planted!("nv-device/committed-apart") {
            return self.put_settled(value);
        }
        if size_of::<C>() == 0 {
            return;
        }
        let word = if one_state::<M, C>() {
            let (before, after) = (state(self.value.get()), state(value));
            staged(&States::<M>::WIDTHS, number, before, after)
        } else {
            let before = self.stored.counts.get();
            self.stored.medium.write(before.other(), value);
            number << 2 | before.bits(2) | before.other().bits(1)
        };
        self.stored.medium.put_word(word)
    }

    /// Undoes what is staged.
    pub(crate) fn revert(&self) {
        if size_of::<C>() == 0 {
            return;
        }
        let word = if one_state::<M, C>() {
            settled(&States::<M>::WIDTHS, state(self.value.get()))
        } else {
            settled_version::<OfVersions<M>>(self.stored.counts.get())
        };
        self.stored.medium.store_word(word)
    }

    // INVARIANT "No stamp stays": between two steps no word has a stamp, except on the medium,
    // until the fence of the next commit. Each commit settles; `Joining` (set.rs) does so where a
    // join fails or a driver unwinds.
    // Noticed by: planted `tags-not-settled`, `join-does-not-abandon`.

    /// The step has committed: what it has staged counts, whatever commits from now on.
    #[inline(always)]
    pub(crate) fn settle(&self, value: C) {
        self.value.set(value);
        let keep_stamp = planted!("nv-device/tags-not-settled");
        if size_of::<C>() == 0 {
        } else if one_state::<M, C>() {
            if !keep_stamp {
                let word = settled(&States::<M>::WIDTHS, state(value));
                self.stored.medium.store_word(word)
            }
        } else {
            let version = self.stored.counts.get().other();
            self.stored.counts.set(version);
            if !keep_stamp {
                let word = settled_version::<OfVersions<M>>(version);
                self.stored.medium.put_word(word)
            }
        }
    }

    /// Commits apart from a step: for planted bugs.
    pub(crate) fn put_settled(&self, value: C) {
        if size_of::<C>() == 0 {
        } else if one_state::<M, C>() {
            let word = settled(&States::<M>::WIDTHS, state(value));
            self.stored.medium.store_word(word)
        } else {
            self.stored.put_settled::<OfVersions<M>>(value)
        }
    }
}
