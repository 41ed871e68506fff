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
//! step's commit store commits it, too. It is settled right behind that store. So no stamp is left
//! when the step's numbers come round, however few bits they have; only a cut leaves one, and the
//! next open settles that.
//!
//! ```text
//!   stage      | n | before | after |     the step has not committed: before counts
//!   commit     (the step's header)        after counts
//!   settle     | 0 | after  | after |     after counts, whatever commits
//! ```
//!
//! The settling store of a cell has no fence of its own. A lost one would be misread when the same
//! number is used again. Many other steps commit before that, each with fences.

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nv_replay::nvmem::persist::{from_bytes, to_bytes};
use nv_replay::nvmem::tagged::{Cells, Fixed, FixedWidths, Stamp, TagError, Widths, Words};
use nv_replay::nvmem::{Model, Plain, Region, Unit, Units, planted};

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
pub(crate) struct Versions<M>(PhantomData<M>);
impl<M: Model> FixedWidths for Versions<M> {
    const WIDTHS: Widths = Widths {
        sequence: number_bits::<M>(),
        owner: 0,
        state: 1,
    };
}

/// Tells what a step has committed, for words of some widths.
#[derive(Clone, Copy)]
pub(crate) struct Resolver {
    /// The number after the last committed one: a stamp with it is in doubt.
    pub in_doubt: u32,
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

/// A persistent context that commits by itself, with a copy in RAM.
pub struct OwnContext<'m, C, M> {
    /// A context of one unit is here, ...
    unit: Option<Units<'m, M, 1>>,
    /// ... and a longer one here. One without bytes is nowhere.
    cells: Option<Cells<'m, M, C, Fixed<Alone>>>,
    value: C,
}

const fn one_unit<M: Model, C>() -> bool {
    size_of::<C>() <= M::Unit::BYTES && align_of::<C>() <= M::Unit::BYTES
}

/// The value as a unit, with zeros behind it.
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
    pub(crate) const BYTES: usize = if size_of::<C>() == 0 {
        0
    } else if one_unit::<M, C>() {
        8
    } else {
        Cells::<M, C>::bytes(1)
    };

    pub(crate) fn format(region: Region<'m, M>, value: C) -> Option<Self> {
        let (mut unit, mut cells) = (None, None);
        if size_of::<C>() == 0 {
        } else if one_unit::<M, C>() {
            let first = Units::new(region)?;
            first.store(0, unit_of::<C, M>(value));
            unit = Some(first);
        } else {
            cells = Some(Cells::format(region, 1, Fixed::NEW, value).ok()?);
        }
        Some(OwnContext { unit, cells, value })
    }

    pub(crate) fn recover(region: Region<'m, M>) -> Option<Self> {
        let (mut unit, mut cells) = (None, None);
        let value = if size_of::<C>() == 0 {
            from_bytes(&[]).ok()?
        } else if one_unit::<M, C>() {
            let value = region.read_value(0)?;
            unit = Some(Units::new(region)?);
            value
        } else {
            let recovered = Cells::recover(region, 1, Fixed::NEW, |_| None).ok()?;
            let value = recovered.get(0, |_| None).ok()?;
            cells = Some(recovered);
            value
        };
        Some(OwnContext { unit, cells, value })
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
    pub(crate) fn save(&mut self, value: C) -> Result<(), TagError> {
        if size_of::<C>() == 0 {
        } else if one_unit::<M, C>() {
            if let Some(unit) = &self.unit {
                unit.store(0, unit_of::<C, M>(value));
            }
        } else if let Some(cells) = &mut self.cells {
            cells.put_settled(0, value)?;
        }
        self.value = value;
        Ok(())
    }
}

/// A persistent context that commits with a step, with a copy in RAM.
pub struct StagedContext<'m, C, M> {
    form: StagedForm<'m, C, M>,
    value: C,
}

enum StagedForm<'m, C, M> {
    /// The context has no bytes.
    Nothing,
    Word(Words<'m, M, Fixed<States<M>>>),
    Cell(Cells<'m, M, C, Fixed<Versions<M>>>),
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

fn stamp(sequence: u32) -> Stamp {
    Stamp { owner: 0, sequence }
}

impl<'m, C: Plain + Copy, M: Model> StagedContext<'m, C, M> {
    pub(crate) const BYTES: usize = if size_of::<C>() == 0 {
        0
    } else if one_state::<M, C>() {
        Words::<M>::bytes(1)
    } else {
        Cells::<M, C>::bytes(1)
    };

    pub(crate) fn format(region: Region<'m, M>, value: C) -> Option<Self> {
        let form = if size_of::<C>() == 0 {
            StagedForm::Nothing
        } else if one_state::<M, C>() {
            let mut words = Words::format(region, 1, Fixed::NEW).ok()?;
            words.put_settled(0, state(value)).ok()?;
            StagedForm::Word(words)
        } else {
            StagedForm::Cell(Cells::format(region, 1, Fixed::NEW, value).ok()?)
        };
        Some(StagedContext { form, value })
    }

    pub(crate) fn recover(region: Region<'m, M>, by: Resolver) -> Option<Self> {
        let (form, value) = if size_of::<C>() == 0 {
            (StagedForm::Nothing, from_bytes(&[]).ok()?)
        } else if one_state::<M, C>() {
            let last = by.last(&States::<M>::WIDTHS);
            let words = Words::recover(region, 1, Fixed::NEW, |_| Some(last)).ok()?;
            let state = words.get(0, |_| None).ok()?;
            let value = from_bytes(&[u8::try_from(state).ok()?]).ok()?;
            (StagedForm::Word(words), value)
        } else {
            let last = by.last(&Versions::<M>::WIDTHS);
            let cells = Cells::recover(region, 1, Fixed::NEW, |_| Some(last)).ok()?;
            let value = cells.get(0, |_| None).ok()?;
            (StagedForm::Cell(cells), value)
        };
        Some(StagedContext { form, value })
    }

    /// The committed context.
    #[inline(always)]
    pub(crate) fn value(&self) -> &C {
        &self.value
    }

    /// Stages a value for the step of this number.
    #[inline(always)]
    pub(crate) fn stage(&mut self, number: u32, value: C) -> Result<(), TagError> {
        if planted!("nv-device/committed-apart") {
            return self.put_settled(value);
        }
        match &mut self.form {
            StagedForm::Nothing => Ok(()),
            StagedForm::Word(words) => words.put(0, stamp(number), state(self.value), state(value)),
            StagedForm::Cell(cells) => cells.put(0, stamp(number), value),
        }
    }

    /// Undoes what is staged with this number.
    pub(crate) fn revert(&mut self, number: u32) {
        // Fails for damage only, and then nothing of this number is staged.
        let _ = match &mut self.form {
            StagedForm::Nothing => Ok(()),
            StagedForm::Word(words) => words.revert(stamp(number)),
            StagedForm::Cell(cells) => cells.revert(stamp(number)),
        };
    }

    /// The step has committed: what it has staged counts, whatever commits from now on.
    #[inline(always)]
    pub(crate) fn settle(&mut self, value: C) {
        self.value = value;
        if planted!("nv-device/tags-not-settled") {
            return;
        }
        // Fails for damage only.
        let _ = match &mut self.form {
            StagedForm::Nothing => Ok(()),
            // As `settle`, without a look at the word, which is this step's.
            StagedForm::Word(words) => words.put_settled(0, state(value)),
            StagedForm::Cell(cells) => cells.settle(0, 1, 0),
        };
    }

    /// Commits apart from a step: for planted bugs.
    pub(crate) fn put_settled(&mut self, value: C) -> Result<(), TagError> {
        match &mut self.form {
            StagedForm::Nothing => Ok(()),
            StagedForm::Word(words) => words.put_settled(0, state(value)),
            StagedForm::Cell(cells) => cells.put_settled(0, value),
        }
    }
}
