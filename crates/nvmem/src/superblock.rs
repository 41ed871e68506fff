//! The superblock: the first [`Superblock::BYTES`] of a mapped region state what the region holds.
//!
//! It has two copies of 64 bytes, and the newer valid copy counts. Each change writes the other
//! copy, which becomes valid with the store of a single unit. So [`begin`], [`finish`] and
//! [`replace`] are atomic.
//!
//! ```text
//! offset  0   magic "RLM1"     its first unit is written last and zeroed first
//!         4   sequence, u16    one more than in the copy written before; wraps
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
//! All numbers are little-endian.
//!
//! # Order of stores
//!
//! ```text
//! 1  first unit of the other copy = 0   (unless it is blank)   fence    the copy is invalid
//! 2  units 1.. of the copy: sequence + 1, state, content, CRC  fence
//! 3  first unit = start of the magic                           fence    the copy is valid
//! ```
//!
//! # Why it is safe
//!
//! - A cut before step 3 leaves an invalid copy; the copy from before counts.
//! - The first unit is atomic, and the fence before step 3 orders it after all others. So a copy
//!   with a complete magic has complete content, and the CRC detects only damage.
//! - A copy that begins with a magic but has a wrong CRC is damage, never a torn write. [`probe`]
//!   reports it as [`State::Damaged`] and formats nothing.
//! - A format begins with a copy in state *formatting*, the format marker. On a blank region its
//!   first unit is not zeroed first: a cut leaves a blank region or a torn marker, and [`probe`]
//!   recognises both.
//!
//! # Use
//!
//! At boot:
//!
//! ```
//! # use nvmem::{Region, InOrder32, superblock::{self, State, Superblock}};
//! # fn open(region: &mut Region<'_, InOrder32>, mine: Superblock) -> Result<(), Box<dyn std::error::Error>> {
//! match superblock::probe(region, &mine) {
//!     State::Ready(stored) => stored.check_layout(&mine)?,
//!     State::Blank | State::Formatting => {
//!         superblock::begin(region, &mine);
//!         // … write the initial content …
//!         superblock::finish(region, &mine);
//!     }
//!     State::Foreign => return Err("the region holds other content".into()),
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
use core::ops::Range;

mod copies;
mod copy;
mod view;

pub use copies::{Copies, NewestCopy};
use copy::*;
pub use view::{Difference, View, probe_view};

/// The content of a superblock: what a region holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(C)]
pub struct Superblock {
    /// The manager of the region: four bytes, readable in a hex dump.
    pub kind: [u8; 4],
    /// Version of the manager's format.
    pub version: u16,
    /// [Fingerprint](crate::fingerprint) of the types stored.
    pub fingerprint: u64,
    /// Sizes and counts of the manager.
    pub params: [u32; 8],
}

/// The state of a region as [`probe`] finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum State<S = Superblock> {
    /// The whole region is one repeated byte, 0x00 or 0xFF: the caller formats it.
    Blank,
    /// A format of this kind was begun and cut, and nothing of it has been used: the caller formats
    /// the region again, from [`begin`].
    Formatting,
    /// A complete format of any kind: the caller checks it with [`Superblock::check_layout`].
    Ready(S),
    /// Other content, or a region shorter than [`Superblock::BYTES`]. The caller reports it and
    /// writes nothing, unless the user explicitly asked for a format.
    Foreign,
    /// A superblock by its magic, but a copy is damaged. No power cut can cause this. The caller
    /// reports it and writes nothing.
    Damaged,
}

/// An intact copy: its checksum is correct.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The sequence number: one more than that of the copy written before; wraps.
    pub sequence: u16,
    /// Whether this copy is a format marker.
    pub formatting: bool,
    /// The content.
    pub superblock: Superblock,
}

impl Superblock {
    /// Bytes of both copies, at the start of the region.
    pub const BYTES: usize = 2 * Self::COPY_BYTES;
    /// Bytes of one copy.
    pub const COPY_BYTES: usize = WORDS * 4;

    /// Kind, version and fingerprint.
    pub const fn layout(&self) -> Layout {
        Layout {
            kind: self.kind,
            version: self.version,
            fingerprint: self.fingerprint,
        }
    }

    /// Compares kind, version and fingerprint of `self`, as stored, with `expected`. The caller
    /// judges the parameters.
    ///
    /// **Errors**: [`LayoutMismatch`] with both layouts.
    pub fn check_layout(&self, expected: &Superblock) -> Result<(), LayoutMismatch> {
        let (stored, expected) = (self.layout(), expected.layout());
        if stored == expected {
            Ok(())
        } else {
            Err(LayoutMismatch { stored, expected })
        }
    }

    /// Encodes a copy; [`decode`](Self::decode) is the inverse.
    pub fn encode(&self, sequence: u16) -> [u8; Self::COPY_BYTES] {
        self.encode_as(sequence, READY)
    }

    /// Encodes a format marker of this kind. For a manager on a [`Medium`](crate::Medium), which
    /// writes its copies itself.
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

    /// Decodes a copy; `None` if it is not intact.
    pub fn decode(bytes: &[u8; Self::COPY_BYTES]) -> Option<Stored> {
        let mut image = [0; WORDS];
        for (word, from) in image.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*from);
        }
        // SAFETY: invariant "A copy is 16 words".
        unsafe { intact(image.as_ptr()) }.then(|| unpack(|i| u32::from_le(image[i])))
    }
}

/// Which copy counts, and whether it was seen to say what is expected.
struct Counts {
    copy: usize,
    as_expected: bool,
}

impl Counts {
    /// That of a region as a format of a blank one leaves it.
    const AS_EXPECTED: Self = Counts {
        copy: 1,
        as_expected: true,
    };
}

/// Access to the superblock of a region. Methods that do not check the length need a region of at
/// least [`Superblock::BYTES`].
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
        // SAFETY: invariants "Inside the region" and "Sole region": callers stay inside; the owner
        // of a region lends no part of it while it accesses the superblock.
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

    /// A plain load, not a volatile one: the compiler may drop unused reads.
    #[inline(always)]
    fn word(self, copy: usize, i: usize) -> u32 {
        let at = self.at(copy);
        mapped::will_read(at.wrapping_add(i).cast(), 4);
        // SAFETY: invariants "Regions are aligned", "Inside the region" and "Sole region", as in
        // `unit`.
        unsafe { word(at, i) }
    }

    fn intact(self, copy: usize) -> bool {
        mapped::will_read(self.at(copy).cast(), Superblock::COPY_BYTES);
        // SAFETY: invariant "A copy is 16 words"; the region is as in `word`.
        unsafe { intact(self.at(copy)) }
    }

    /// The index of the newest intact copy. Computes the checksum of the older copy only if the
    /// newer one is not intact.
    #[inline(never)]
    fn newest(self) -> Option<usize> {
        let (a, b) = (self.word(0, 1) as u16, self.word(1, 1) as u16);
        let later = if planted!("nvmem/superblock-sequence-does-not-wrap") {
            b > a
        } else {
            crate::sequence::is_newer_16(b, a)
        };
        let first = usize::from(later);
        if self.intact(first) {
            Some(first)
        } else {
            self.intact(1 - first).then_some(1 - first)
        }
    }

    /// The state of the region, and which copy counts.
    #[inline(never)]
    fn probe(self, expected: &Superblock) -> State<Counts> {
        if self.0.len() < Superblock::BYTES {
            return State::Foreign;
        }
        if self.is_as_formatted(expected) {
            return State::Ready(Counts::AS_EXPECTED);
        }
        let Some(copy) = self.newest() else {
            return self.classify_without_copy(expected);
        };
        if self.is_damaged(1 - copy, copy) {
            State::Damaged
        } else if state_of(self.word(copy, 1)) == READY {
            State::Ready(Counts {
                copy,
                as_expected: false,
            })
        } else if self.word(copy, 2) == u32::from_le_bytes(expected.kind) {
            State::Formatting
        } else {
            State::Foreign
        }
    }

    /// Whether the region is as a format of a blank one leaves it: the second copy is the newer one
    /// and says what is expected, beside the marker. The checksum would tell nothing more. It takes
    /// 410 instructions of a Cortex-M4, the comparison 70, and nearly every boot comes here.
    #[inline(always)]
    fn is_as_formatted(self, expected: &Superblock) -> bool {
        let word = |i| self.word(1, i);
        if self.word(0, 1) != sequence_and_state(0, FORMATTING) {
            return false;
        }
        let mut differing = word(1) ^ sequence_and_state(1, READY);
        differing |= word(0) ^ MAGIC;
        differing |= word(2) ^ u32::from_le_bytes(expected.kind);
        differing |= word(3) ^ u32::from(expected.version);
        // Five words at a time: else the loop itself takes longer than what is in it.
        let mut i = 4;
        let (fives, rest) = expected.tail().as_chunks();
        debug_assert!(rest.is_empty());
        for [a, b, c, d, e] in fives {
            differing |= word(i) ^ a;
            differing |= word(i + 1) ^ b;
            differing |= word(i + 2) ^ c;
            differing |= word(i + 3) ^ d;
            if i == 4 || !planted!("nvmem/superblock-parameter-not-compared") {
                differing |= word(i + 4) ^ e;
            }
            i += 5;
        }
        differing | word(CRC - 1) == 0
    }

    /// Whether the copy beside the newest intact one is damaged. The damaged copy may be the one
    /// that counted. Then the intact one is out of date, and a format that it announces would lose
    /// everything.
    ///
    /// A power cut leaves a copy complete, or with a blank first unit: that unit is zeroed before
    /// the others are written, and written after them.
    fn is_damaged(self, copy: usize, newest: usize) -> bool {
        if planted!("nvmem/superblock-damage-ignored") {
            return false;
        }
        // The marker of the format that the newest copy completed no longer counts: skip its
        // checksum. A marker with a later number is that of a format that has given the newest copy
        // up.
        let (counts, marker) = (self.word(newest, 1), self.word(copy, 1));
        let before = (counts as u16).wrapping_sub(1);
        let later = marker != sequence_and_state(before, FORMATTING);
        let later = later && !planted!("nvmem/superblock-later-marker-ended");
        let ended = state_of(counts) == READY && state_of(marker) == FORMATTING && !later;
        !ended && !self.starts_blank(copy) && !self.intact(copy)
    }

    /// Whether the first unit of a copy is blank or was zeroed.
    fn starts_blank(self, copy: usize) -> bool {
        let first = self.unit(copy * Superblock::COPY_BYTES);
        first == 0 || first == u32::MAX >> (32 - 8 * M::Unit::BYTES)
    }

    /// Classifies a region without an intact copy: blank except perhaps for a torn format marker,
    /// or other content.
    fn classify_without_copy(self, expected: &Superblock) -> State<Counts> {
        let size = M::Unit::BYTES;
        let not_ours = || {
            if self.word(0, 0) == MAGIC || self.word(1, 0) == MAGIC {
                State::Damaged
            } else {
                State::Foreign
            }
        };
        if self.0.holds_values() {
            // Its padding must not be read as bytes. It is not blank.
            return not_ours();
        }
        let mask = u32::MAX >> (32 - 8 * size);
        let blank = self.unit(self.0.len() - size);
        let erased = blank == 0 || blank == mask;
        let (head, end) = (Superblock::BYTES, self.0.len());
        let by_its_start = planted!("nvmem/superblock-blank-by-its-start");
        if !erased || !(by_its_start || self.is_blank(head..end, blank)) {
            return not_ours();
        }
        if self.is_blank(0..head, blank) {
            return State::Blank;
        }
        let mut marker = MaybeUninit::uninit();
        let marker = image(&mut marker, expected, FORMATTING);
        set_state_and_checksum(marker, sequence_and_state(0, FORMATTING));
        for off in (0..head).step_by(size) {
            let v = self.unit(off);
            let half = if off.is_multiple_of(4) { 0 } else { 16 };
            let word = marker.get(off / 4).map(|w| u32::from_le(*w));
            let of_marker = word.is_some_and(|w| w >> half & mask == v);
            if v != blank && !of_marker {
                return not_ours();
            }
        }
        if planted!("nvmem/superblock-torn-marker-is-foreign") {
            return not_ours();
        }
        State::Formatting
    }

    /// Whether each unit of this part is `blank`, which is 0 or has all bits set. The part begins
    /// and ends at multiples of 8. Reads several zeros at a time, because a region is read to its
    /// end before it is formatted.
    #[inline(never)]
    fn is_blank(self, part: Range<usize>, blank: u32) -> bool {
        let mut off = part.start;
        if blank == 0 {
            while part.end - off >= 32 {
                if self.differing::<8>(off, 0) != 0 {
                    return false;
                }
                off += 32;
            }
        }
        let blank = if blank == 0 { 0 } else { u32::MAX };
        while off < part.end {
            if self.differing::<2>(off, blank) != 0 {
                return false;
            }
            off += 8;
        }
        true
    }

    /// The bits in which one of `N` words differs from `blank`. They begin at `off`, a multiple of
    /// 8, and lie inside the region, which holds bytes and not values.
    #[inline(always)]
    fn differing<const N: usize>(self, off: usize, blank: u32) -> u32 {
        debug_assert!(off.is_multiple_of(8) && off + 4 * N <= self.0.len());
        let at = self.0.base().wrapping_add(off);
        mapped::will_read(at, 4 * N);
        // SAFETY: invariants "Regions are aligned", "Inside the region" and "Sole region", as in
        // `unit`.
        let words = unsafe { at.cast::<[u32; N]>().read() };
        words.iter().fold(0, |bits, w| bits | (w ^ blank))
    }

    /// Writes a copy. It becomes valid with the store of its first unit, after all earlier stores.
    fn write_copy(self, copy: usize, image: &Image) {
        let size = M::Unit::BYTES;
        let base = copy * Superblock::COPY_BYTES;
        let first_unit = MAGIC & (u32::MAX >> (32 - 8 * size));
        // Leave a blank first unit: a cut must leave a blank region or a torn marker.
        if !self.starts_blank(copy) || planted!("nvmem/superblock-blank-unit-zeroed") {
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

    /// Writes the copy beside the newest intact one. All earlier stores of the caller persist
    /// before it becomes valid. Returns the copy that counts then.
    #[inline(never)]
    fn commit(self, newest: Option<usize>, state: u16, sb: &Superblock) -> usize {
        let (mut to, mut sequence) = (0, 0);
        let mut image = MaybeUninit::uninit();
        let image = self::image(&mut image, sb, state);
        if let Some(at) = newest {
            let sequence_and_state = self.word(at, 1);
            (to, sequence) = (1 - at, (sequence_and_state as u16).wrapping_add(1));
            // SAFETY: invariant "A copy is 16 words": one of them.
            let same = |i: usize| self.word(at, i) == unsafe { word(image.as_ptr(), i) };
            if state_of(sequence_and_state) == state && (2..CRC).all(same) {
                return at;
            }
        }
        if newest.is_none() && !self.starts_blank(1 - to) {
            // The bytes of the other copy are not a copy, and must not look like a damaged one.
            self.store_unit((1 - to) * Superblock::COPY_BYTES, 0);
            mapped::fence::<M>();
        }
        if planted!("nvmem/superblock-overwrites-newest") {
            to = 0;
        }
        set_state_and_checksum(image, sequence_and_state(sequence, state));
        self.write_copy(to, image);
        to
    }
}

/// The low `bytes` of a number, between the medium's little-endian order and the
/// machine's.
#[inline(always)]
fn little(v: u32, bytes: usize) -> u32 {
    if bytes == 2 {
        u32::from(u16::from_le(v as u16))
    } else {
        u32::from_le(v)
    }
}

/// Determines the state of a region. `expected.kind` distinguishes a cut format of the caller from
/// another manager's. Nothing else of `expected` is compared.
///
/// A damaged copy beside an intact one is [`State::Damaged`], because the damaged one may be the
/// newer.
///
/// A region that was blank before its format, and says what is expected, is [`State::Ready`]
/// without a check of the checksum: only damage of the checksum itself stays unnoticed.
///
/// **Power loss**: writes nothing. **Cost**: if [`State::Ready`], reads both sequence numbers, and
/// one copy twice: to compare and to decode it (28 words, about 100 instructions of a Cortex-M4).
/// If it says something else than expected, or after a [`replace`], it also checks that copy's
/// checksum (400 instructions), and after a [`replace`] the other copy's. Otherwise it reads the
/// whole region, about two instructions for each word that is zero, and five for one of an erased
/// flash.
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

/// Decodes each copy that is intact. For inspectors and tests.
pub fn copies<M: Model>(region: &Region<'_, M>) -> [Option<Stored>; 2] {
    SuperblockRegion::new(region).map_or([None; 2], |p| {
        [0, 1].map(|c| p.intact(c).then(|| unpack(|i| p.word(c, i))))
    })
}

/// The format marker that [`begin_marked`] has stored: for [`finish_marked`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Marker(Option<usize>);

/// Begins a format: writes the format marker. Gives up all previous content of the region.
///
/// Does nothing if the region has this marker already, or is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the region is in its previous state or in [`State::Formatting`]. A region that
/// was [`State::Foreign`] or [`State::Damaged`] may also be in the other of these two, or blank, if
/// only the first unit of a copy held other content. **Cost**: stores 16 words and two fences; one
/// more unit and fence if it replaces a copy.
pub fn begin<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    begin_marked(region, sb);
}

/// [`begin`], for a caller that ends the format with [`finish_marked`].
///
/// **Power loss** and **Cost**: as there.
#[doc(hidden)]
pub fn begin_marked<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) -> Marker {
    let place = SuperblockRegion::new(region);
    Marker(place.map(|p| p.commit(p.newest(), FORMATTING, sb)))
}

/// [`finish`] in the boot that has begun the format, when nobody else has stored to a copy since:
/// the marker is not checked again. With a marker of another region the state is undefined.
///
/// **Power loss** and **Cost**: as there, less the checksum of the marker.
#[doc(hidden)]
pub fn finish_marked<M: Model>(region: &mut Region<'_, M>, marker: Marker, sb: &Superblock) {
    if let (Some(p), Some(at)) = (SuperblockRegion::new(region), marker.0) {
        p.commit(Some(at), READY, sb);
    }
}

/// Ends a format: the region becomes [`State::Ready`] with `sb`. All earlier stores of the caller
/// persist first.
///
/// Does nothing if the region is in this state already, or is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: [`probe`] finds the previous state or `Ready(sb)`. **Cost**: as [`begin`].
pub fn finish<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    if let Some(p) = SuperblockRegion::new(region) {
        // Write a marker first: of a torn copy in a blank region, `probe` recognises only a marker.
        let newest = p.newest();
        let newest = newest.unwrap_or_else(|| p.commit(None, FORMATTING, sb));
        p.commit(Some(newest), READY, sb);
    }
}

/// Replaces the stored superblock, or the marker of [`begin`], by `sb`. This is the commit point of
/// a migration that has prepared the new content elsewhere in the region, and of a format.
///
/// Does nothing if the region is in this state already, or is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the old superblock or the new one, never a mixture. With the new one, all
/// earlier stores of the caller have persisted. If the region had neither a superblock nor a
/// marker, its state is undefined. **Cost**: as [`begin`].
pub fn replace<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    if let Some(p) = SuperblockRegion::new(region) {
        p.commit(p.newest(), READY, sb);
    }
}
