//! The superblock: what a mapped region holds, in its first [`Superblock::BYTES`].
//!
//! Two copies of 64 bytes. The newer valid one counts; every change goes to the other one and becomes valid with the
//! store of a single unit, so each of [`begin`], [`finish`] and [`replace`] happens wholly or not at all.
//!
//! ```text
//! offset  0   magic "RLM1"     the last unit to be written, the first to be taken away
//!         4   sequence, u16    one more than in the other copy; wraps
//!         6   state, u16       1 formatting, 2 ready
//!         8   kind             four bytes
//!        12   version, u16
//!        14   zero, u16
//!        16   fingerprint, u64
//!        24   params, 8 × u32
//!        56   zero, u32
//!        60   CRC-32 of bytes 0..60
//! ```
//!
//! All numbers are little-endian. A boot does this:
//!
//! ```
//! # use nvmem::{Region, InOrder32, superblock::{self, State, Superblock}};
//! # fn open(region: &mut Region<'_, InOrder32>, mine: Superblock) -> Result<(), Box<dyn std::error::Error>> {
//! match superblock::probe(region, &mine) {
//!     State::Ready(stored) => stored.check_layout(&mine)?,
//!     State::Blank | State::Formatting => {
//!         superblock::begin(region, &mine);
//!         // … write everything that an empty content consists of …
//!         superblock::finish(region, &mine);
//!     }
//!     State::Foreign => return Err("this region holds something else".into()),
//!     State::Damaged => return Err("the superblock is damaged".into()),
//! }
//! # Ok(()) }
//! ```

use crate::layout::{Layout, LayoutMismatch};
use crate::mapped;
use crate::model::{Model, Unit};
use crate::planted;
use crate::region::Region;
use core::mem::MaybeUninit;

mod copies;
mod copy;
mod view;

pub use copies::{Copies, NewestCopy};
use copy::*;
pub use view::{Difference, View, probe_view};

/// What a region holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
pub struct Superblock {
    /// What manages the region: four bytes, readable in a hex dump.
    pub kind: [u8; 4],
    /// Version of the manager's format.
    pub version: u16,
    /// [Fingerprint](crate::fingerprint) of the types stored.
    pub fingerprint: u64,
    /// The manager's sizes and counts.
    pub params: [u32; 8],
}

/// What [`probe`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State<S = Superblock> {
    /// The whole region is one repeated byte, 0x00 or 0xFF: the caller formats it.
    Blank,
    /// A format of this kind was begun and cut, and nothing of it has ever been used: the caller formats it again, from
    /// [`begin`].
    Formatting,
    /// A complete format, of whatever kind: the caller checks it with [`Superblock::check_layout`] and goes on.
    Ready(S),
    /// Something else, or a region shorter than [`Superblock::BYTES`]: the caller reports it and writes nothing, unless
    /// the user asked for a format by name.
    Foreign,
    /// A superblock by its magic, but no copy of it is intact, which no power cut can cause: the caller reports it and
    /// writes nothing.
    Damaged,
}

/// A copy whose checksum is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// Its place in the order of writes; wraps.
    pub sequence: u16,
    /// Whether it says that a format is under way.
    pub formatting: bool,
    /// What it says.
    pub superblock: Superblock,
}

impl Superblock {
    /// Bytes at the start of a region that the superblock takes.
    pub const BYTES: usize = 2 * Self::COPY_BYTES;
    /// Bytes of one of the two copies.
    pub const COPY_BYTES: usize = WORDS * 4;

    /// Kind, version and fingerprint.
    pub const fn layout(&self) -> Layout {
        Layout {
            kind: self.kind,
            version: self.version,
            fingerprint: self.fingerprint,
        }
    }

    /// Whether `self`, as stored, has the kind, the version and the fingerprint of `expected`. The parameters are for
    /// the caller to judge.
    ///
    /// **Errors**: [`LayoutMismatch`] names both.
    pub fn check_layout(&self, expected: &Superblock) -> Result<(), LayoutMismatch> {
        let (stored, expected) = (self.layout(), expected.layout());
        if stored == expected {
            Ok(())
        } else {
            Err(LayoutMismatch { stored, expected })
        }
    }

    /// The bytes of a copy, as [`decode`](Self::decode) reads them.
    pub fn encode(&self, sequence: u16) -> [u8; Self::COPY_BYTES] {
        self.encode_as(sequence, READY)
    }

    /// The bytes of a copy that says that a format of this kind is under way: for a manager on a
    /// [`Medium`](crate::Medium), which writes its copies itself.
    pub fn encode_marker(&self, sequence: u16) -> [u8; Self::COPY_BYTES] {
        self.encode_as(sequence, FORMATTING)
    }

    fn encode_as(&self, sequence: u16, state: u16) -> [u8; Self::COPY_BYTES] {
        let mut image = MaybeUninit::uninit();
        let image = copy::image(&mut image, self, state);
        set_state_and_checksum(image, sequence_and_state(sequence, state));
        let mut bytes = [0; Self::COPY_BYTES];
        for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(image) {
            *to = word.to_ne_bytes();
        }
        bytes
    }

    /// The copy in these bytes, if they are an intact one.
    pub fn decode(bytes: &[u8; Self::COPY_BYTES]) -> Option<Stored> {
        let mut image = [0; WORDS];
        for (word, from) in image.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*from);
        }
        // SAFETY: invariant "A copy is 16 words".
        unsafe { intact(image.as_ptr()) }.then(|| unpack(|i| u32::from_le(image[i])))
    }
}

/// A region, which is long enough for what is not said to check it.
struct SuperblockRegion<'r, 'm, M>(&'r Region<'m, M>);

impl<M> Clone for SuperblockRegion<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for SuperblockRegion<'_, '_, M> {}

impl<'r, 'm, M: Model> SuperblockRegion<'r, 'm, M> {
    fn new(region: &'r Region<'m, M>) -> Option<Self> {
        (region.len() >= Superblock::BYTES).then_some(SuperblockRegion(region))
    }

    #[inline(always)]
    fn unit(self, off: usize) -> u32 {
        debug_assert!(off < self.0.len());
        // SAFETY: invariants "Inside the region" and "Sole region": callers stay inside; who owns a region has lent no part of it while it asks for
        // the superblock.
        let v = unsafe { self.0.load(off) };
        little(v, M::Unit::BYTES)
    }

    #[inline(always)]
    fn store_unit(self, off: usize, v: u32) {
        debug_assert!(off < Superblock::BYTES);
        // SAFETY: invariants "Inside the region" and "Sole region", as in `unit`.
        unsafe { self.0.store(off, little(v, M::Unit::BYTES)) }
    }

    /// The first word of a copy.
    #[inline(always)]
    fn at(self, copy: usize) -> *const u32 {
        let off = copy * Superblock::COPY_BYTES;
        self.0.base().wrapping_add(off).cast()
    }

    /// A plain load: what nobody asks for is not read.
    #[inline(always)]
    fn word(self, copy: usize, i: usize) -> u32 {
        let at = self.at(copy);
        mapped::will_read(at.wrapping_add(i).cast(), 4);
        // SAFETY: invariants "Regions are aligned", "Inside the region" and "Sole region", as in `unit`.
        unsafe { word(at, i) }
    }

    fn intact(self, copy: usize) -> bool {
        mapped::will_read(self.at(copy).cast(), Superblock::COPY_BYTES);
        // SAFETY: invariant "A copy is 16 words"; the region is as in `word`.
        unsafe { intact(self.at(copy)) }
    }

    /// Where the newest intact copy is. The checksum of one that claims to be older is computed only when the other is not
    /// intact.
    #[inline(never)]
    fn newest(self) -> Option<usize> {
        let (a, b) = (self.word(0, 1) as u16, self.word(1, 1) as u16);
        let later = if planted!("nvmem/superblock-sequence-does-not-wrap") {
            b > a
        } else {
            (b.wrapping_sub(a) as i16) > 0
        };
        let first = usize::from(later);
        if self.intact(first) {
            Some(first)
        } else {
            self.intact(1 - first).then_some(1 - first)
        }
    }

    /// What there is, and in which copy.
    #[inline(never)]
    fn probe(self, expected: &Superblock) -> State<usize> {
        if self.0.len() < Superblock::BYTES {
            return State::Foreign;
        }
        let Some(copy) = self.newest() else {
            return self.classify_without_copy(expected);
        };
        if self.is_damaged(1 - copy, copy) {
            State::Damaged
        } else if state_of(self.word(copy, 1)) == READY {
            State::Ready(copy)
        } else if self.word(copy, 2) == u32::from_le_bytes(expected.kind) {
            State::Formatting
        } else {
            State::Foreign
        }
    }

    /// Whether a copy beside the newest intact one is damaged. It may be the one that counted: then the
    /// newest intact one is out of date, and a format that it announces would lose everything.
    ///
    /// A power cut leaves a copy whole, or with a first unit that is blank: that unit is taken away
    /// before the others are written, and put back after them.
    fn is_damaged(self, copy: usize, newest: usize) -> bool {
        let ready = |i| state_of(self.word(i, 1)) == READY;
        // The mark of the format that the newest copy ended: it counts no more, so its checksum is not
        // worth the time.
        let ended = ready(newest) && state_of(self.word(copy, 1)) == FORMATTING;
        !ended
            && !self.starts_blank(copy)
            && !self.intact(copy)
            && !planted!("nvmem/superblock-damage-formats")
    }

    /// Whether the first unit of a copy is blank, or was taken away.
    fn starts_blank(self, copy: usize) -> bool {
        let first = self.unit(copy * Superblock::COPY_BYTES);
        first == 0 || first == u32::MAX >> (32 - 8 * M::Unit::BYTES)
    }

    /// What a region without an intact copy is: blank, but for units of a marker that was being written, or not ours.
    fn classify_without_copy(self, expected: &Superblock) -> State<usize> {
        let size = M::Unit::BYTES;
        let not_ours = || {
            if self.word(0, 0) == MAGIC || self.word(1, 0) == MAGIC {
                State::Damaged
            } else {
                State::Foreign
            }
        };
        if self.0.holds_values() {
            // Not to be read as bytes, and not blank.
            return not_ours();
        }
        let mask = u32::MAX >> (32 - 8 * size);
        let blank = self.unit(self.0.len() - size);
        let mut marker = MaybeUninit::uninit();
        let marker = image(&mut marker, expected, FORMATTING);
        set_state_and_checksum(marker, sequence_and_state(0, FORMATTING));
        let erased = blank == 0 || blank == mask;
        let (mut state, mut off) = (State::Blank, 0);
        while off < self.0.len() {
            if off >= Superblock::BYTES && planted!("nvmem/superblock-blank-by-its-start") {
                break;
            }
            let v = self.unit(off);
            if !erased || v != blank {
                let half = if off.is_multiple_of(4) { 0 } else { 16 };
                let word = marker.get(off / 4).map(|w| u32::from_le(*w));
                let of_marker = word.is_some_and(|w| w >> half & mask == v);
                if !erased || !of_marker || planted!("nvmem/superblock-torn-marker-is-foreign") {
                    return not_ours();
                }
                state = State::Formatting;
            }
            off += size;
        }
        state
    }

    /// Writes a copy that becomes valid with the store of its first unit, after everything that was stored before.
    fn write_copy(self, copy: usize, image: &Image) {
        let size = M::Unit::BYTES;
        let base = copy * Superblock::COPY_BYTES;
        let first_unit = MAGIC & (u32::MAX >> (32 - 8 * size));
        // A blank first unit stays blank: a cut must leave a region that is blank or a torn marker.
        if !self.starts_blank(copy) || planted!("nvmem/superblock-always-closes") {
            self.store_unit(base, 0);
            mapped::fence::<M>();
        }
        for (i, w) in image.iter().enumerate() {
            let (off, w) = (base + i * 4, u32::from_le(*w));
            if i > 0 {
                self.store_unit(off, w);
            }
            if size == 2 {
                self.store_unit(off + 2, w >> 16);
            }
        }
        if !planted!("nvmem/superblock-no-fence-before-valid") {
            mapped::fence::<M>();
        }
        self.store_unit(base, first_unit);
        mapped::fence::<M>();
    }

    /// Writes the other copy. What the caller stored before persists before it.
    #[inline(never)]
    fn commit(self, state: u16, sb: &Superblock) {
        if self.0.len() < Superblock::BYTES {
            return;
        }
        let newest = self.newest();
        let (mut to, mut sequence) = (0, 0);
        let mut image = MaybeUninit::uninit();
        let image = self::image(&mut image, sb, state);
        if let Some(at) = newest {
            let sequence_and_state = self.word(at, 1);
            (to, sequence) = (1 - at, (sequence_and_state as u16).wrapping_add(1));
            // SAFETY: invariant "A copy is 16 words": one of them.
            let same = |i: usize| self.word(at, i) == unsafe { word(image.as_ptr(), i) };
            if state_of(sequence_and_state) == state && (2..CRC).all(same) {
                return;
            }
        }
        if newest.is_none() && !self.starts_blank(1 - to) {
            // What stands in the place of the other copy is none, and must not look like a damaged one.
            self.store_unit((1 - to) * Superblock::COPY_BYTES, 0);
            mapped::fence::<M>();
        }
        if planted!("nvmem/superblock-overwrites-newest") {
            to = 0;
        }
        set_state_and_checksum(image, sequence_and_state(sequence, state));
        self.write_copy(to, image);
    }
}

/// The low `bytes` of a number, between the medium's little-endian sequence_and_state and the machine's.
#[inline(always)]
fn little(v: u32, bytes: usize) -> u32 {
    if bytes == 2 {
        u32::from(u16::from_le(v as u16))
    } else {
        u32::from_le(v)
    }
}

/// What the region holds. `expected` tells whose torn format is one's own; nothing else of it is compared.
///
/// A copy that is damaged beside an intact one is [`State::Damaged`]: it may be the one that counted.
///
/// **Power loss**: writes nothing. **Cost**: when [`State::Ready`], reads the sequences and states, and
/// one copy twice, to check it and to read it (33 words): some 2,500 instructions, nearly all for the
/// checksum. After a [`replace`] the other copy is checked as well. When not ready, reads the whole
/// region.
pub fn probe<M: Model>(region: &Region<'_, M>, expected: &Superblock) -> State {
    probe_view(region, expected).map(|view| content(|i| view.word(i)))
}

impl<S> State<S> {
    #[inline(always)]
    fn map<T>(self, f: impl FnOnce(S) -> T) -> State<T> {
        match self {
            State::Ready(s) => State::Ready(f(s)),
            State::Blank => State::Blank,
            State::Formatting => State::Formatting,
            State::Foreign => State::Foreign,
            State::Damaged => State::Damaged,
        }
    }
}

/// Both copies as they are, intact or not: for a look from outside.
pub fn copies<M: Model>(region: &Region<'_, M>) -> [Option<Stored>; 2] {
    SuperblockRegion::new(region).map_or([None; 2], |p| {
        [0, 1].map(|c| p.intact(c).then(|| unpack(|i| p.word(c, i))))
    })
}

/// Marks the region as being formatted. Whatever it held is given up.
///
/// Nothing happens when it is so marked already, or when the region is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the region is what it was before, or [`State::Formatting`]; a blank one is either of the two. A region
/// that was [`State::Foreign`] or [`State::Damaged`] may be either of those. **Cost**: 16 words, and
/// one unit more where a copy was before; two fences, or three.
pub fn begin<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    SuperblockRegion(region).commit(FORMATTING, sb)
}

/// Ends a format: the region is [`State::Ready`] with `sb`, together with all that the caller has stored before.
///
/// Nothing happens when it is so already, or when the region is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the region is what [`probe`] said before, or `Ready(sb)`. **Cost**: as [`begin`].
pub fn finish<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    if SuperblockRegion::new(region).is_some_and(|p| p.newest().is_none()) {
        // Only a marker is recognised when it is torn.
        begin(region, sb);
    }
    replace(region, sb)
}

/// Puts `sb` in the place of the stored one, or of the marker of [`begin`]: the commit point of a migration that has prepared
/// the new content elsewhere in the region, and of a format that has just begun.
///
/// Nothing happens when it is so already, or when the region is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the old superblock or the new one, never a mixture, and all that the caller has stored before is there
/// with the new one; where there was neither a superblock nor a marker, anything. **Cost**: as [`begin`].
pub fn replace<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    SuperblockRegion(region).commit(READY, sb)
}
