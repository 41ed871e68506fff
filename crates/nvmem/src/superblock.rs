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

use crate::crc::Crc32;
use crate::layout::{Layout, LayoutMismatch};
use crate::mapped;
use crate::model::{Model, Unit};
use crate::planted;
use crate::region::Region;

const WORDS: usize = 16;
/// The last word: the checksum of the others.
const CRC: usize = WORDS - 1;
const MAGIC: u32 = u32::from_le_bytes(*b"RLM1");
const FORMATTING: u16 = 1;
const READY: u16 = 2;

/// What a region holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
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
        let words = Words::new(self, sequence, state);
        let mut bytes = [0; Self::COPY_BYTES];
        let mut crc = Crc32::new();
        for (i, to) in bytes.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *to = words.sealed(i, &mut crc).to_le_bytes();
        }
        bytes
    }

    /// The copy in these bytes, if they are an intact one.
    pub fn decode(bytes: &[u8; Self::COPY_BYTES]) -> Option<Stored> {
        let words = bytes.as_chunks::<4>().0;
        let word = |i: usize| words.get(i).map_or(0, |w| u32::from_le_bytes(*w));
        intact(word).then(|| unpack(word))
    }
}

/// The words of a copy that is to be written.
struct Words<'s> {
    sb: &'s Superblock,
    order: u32,
}

impl<'s> Words<'s> {
    fn new(sb: &'s Superblock, sequence: u16, state: u16) -> Self {
        let order = u32::from(sequence) | u32::from(state) << 16;
        Words { sb, order }
    }

    /// All but the last.
    ///
    /// A region in which a format is under way is marked by its kind alone: the same whatever the version and the types, so
    /// that a marker torn by one build is known to the next.
    #[inline(never)]
    fn get(&self, i: usize) -> u32 {
        match i {
            0 => MAGIC,
            1 => self.order,
            2 => u32::from_le_bytes(self.sb.kind),
            _ if state_of(self.order) == FORMATTING => 0,
            3 => u32::from(self.sb.version),
            4 => self.sb.fingerprint as u32,
            5 => (self.sb.fingerprint >> 32) as u32,
            _ => self.sb.params.get(i - 6).copied().unwrap_or(0),
        }
    }

    /// Each in order; `crc` has taken those before.
    #[inline(never)]
    fn sealed(&self, i: usize, crc: &mut Crc32) -> u32 {
        if i == CRC {
            return crc.finish();
        }
        let w = self.get(i);
        *crc = crc.word(w);
        w
    }
}

/// The state in the second word.
fn state_of(order: u32) -> u16 {
    (order >> 16) as u16
}

/// Checked before anything in it is believed.
fn intact(word: impl Fn(usize) -> u32) -> bool {
    let crc = (0..CRC).fold(Crc32::new(), |c, i| c.word(word(i)));
    word(0) == MAGIC
        && matches!(state_of(word(1)), FORMATTING | READY)
        && (word(3) >> 16 | word(CRC - 1)) == 0
        && (word(CRC) == crc.finish() || planted!("nvmem/superblock-crc-unchecked"))
}

/// What an intact copy says.
fn unpack(word: impl Fn(usize) -> u32) -> Stored {
    let mut params = [0; 8];
    for (i, p) in params.iter_mut().enumerate() {
        *p = word(6 + i);
    }
    Stored {
        sequence: word(1) as u16,
        formatting: state_of(word(1)) == FORMATTING,
        superblock: Superblock {
            kind: word(2).to_le_bytes(),
            version: word(3) as u16,
            fingerprint: u64::from(word(4)) | u64::from(word(5)) << 32,
            params,
        },
    }
}

/// A region that is long enough.
struct Place<'r, 'm, M>(&'r Region<'m, M>);

impl<'r, 'm, M: Model> Place<'r, 'm, M> {
    fn new(region: &'r Region<'m, M>) -> Option<Self> {
        (region.len() >= Superblock::BYTES).then_some(Place(region))
    }

    #[inline(always)]
    fn unit(&self, off: usize) -> u32 {
        debug_assert!(off < self.0.len());
        // SAFETY: callers stay inside; who owns a region has lent no part of it while it asks for the superblock.
        let v = unsafe { self.0.load(off) };
        little(v, M::Unit::BYTES)
    }

    #[inline(always)]
    fn put_unit(&self, off: usize, v: u32) {
        debug_assert!(off < Superblock::BYTES);
        // SAFETY: as in `unit`.
        unsafe { self.0.store(off, little(v, M::Unit::BYTES)) }
    }

    #[inline]
    fn word(&self, copy: usize, i: usize) -> u32 {
        let off = copy * Superblock::COPY_BYTES + i * 4;
        if M::Unit::BYTES == 4 {
            self.unit(off)
        } else {
            self.unit(off) | self.unit(off + 2) << 16
        }
    }

    #[inline(never)]
    fn intact(&self, copy: usize) -> bool {
        intact(|i| self.word(copy, i))
    }

    /// Where the newest intact copy is. The other one's checksum is computed only when the copy that claims to be newer
    /// is not intact.
    #[inline(never)]
    fn newest(&self) -> Option<usize> {
        let (a, b) = (self.word(0, 1) as u16, self.word(1, 1) as u16);
        let later = if planted!("nvmem/superblock-sequence-does-not-wrap") {
            b > a
        } else {
            (b.wrapping_sub(a) as i16) > 0
        };
        let claims = |c| self.word(c, 0) == MAGIC;
        let first = usize::from(claims(1) && (later || !claims(0)));
        if self.intact(first) {
            Some(first)
        } else {
            self.intact(1 - first).then_some(1 - first)
        }
    }

    /// What a region without an intact copy is: blank, but for units of a marker that was being written, or not ours.
    fn other<S>(&self, expected: &Superblock) -> State<S> {
        let size = M::Unit::BYTES;
        let mask = u32::MAX >> (32 - 8 * size);
        let last = self.unit(self.0.len() - size);
        let marker = Words::new(expected, 0, FORMATTING);
        let mut crc = Crc32::new();
        let mut state = State::Blank;
        let mut word = 0;
        for off in (0..self.0.len()).step_by(size) {
            if off >= Superblock::BYTES && planted!("nvmem/superblock-blank-by-its-start") {
                break;
            }
            if off.is_multiple_of(4) && off < Superblock::COPY_BYTES {
                word = marker.sealed(off / 4, &mut crc);
            }
            let v = self.unit(off);
            let of_marker = if off.is_multiple_of(4) {
                word
            } else {
                word >> 16
            } & mask;
            if v == last && (last == 0 || last == mask) {
                continue;
            }
            if off >= Superblock::COPY_BYTES
                || v != of_marker
                || (last != 0 && last != mask)
                || planted!("nvmem/superblock-torn-marker-is-foreign")
            {
                return if self.word(0, 0) == MAGIC || self.word(1, 0) == MAGIC {
                    State::Damaged
                } else {
                    State::Foreign
                };
            }
            state = State::Formatting;
        }
        state
    }

    /// Writes a copy that becomes valid with the store of its first unit, after everything that was stored before.
    fn write(&self, copy: usize, words: &Words<'_>) {
        let size = M::Unit::BYTES;
        let base = copy * Superblock::COPY_BYTES;
        let gate = MAGIC & (u32::MAX >> (32 - 8 * size));
        // A blank first unit stays blank: a cut must leave a region that is blank or a torn marker.
        if self.unit(base) == gate || planted!("nvmem/superblock-always-closes") {
            self.put_unit(base, 0);
            mapped::fence::<M>();
        }
        let mut crc = Crc32::new();
        for i in 0..WORDS {
            let (w, off) = (words.sealed(i, &mut crc), base + i * 4);
            if i > 0 {
                self.put_unit(off, w);
            }
            if size == 2 {
                self.put_unit(off + 2, w >> 16);
            }
        }
        if !planted!("nvmem/superblock-no-fence-before-valid") {
            mapped::fence::<M>();
        }
        self.put_unit(base, gate);
        mapped::fence::<M>();
    }

    /// Writes the other copy. What the caller stored before persists before it.
    #[inline(never)]
    fn commit(&self, state: u16, sb: &Superblock) {
        let mut newest = self.newest();
        if newest.is_none() && state == READY {
            // Only a marker is recognised when it is torn.
            self.commit(FORMATTING, sb);
            newest = self.newest();
        }
        let (mut to, mut sequence) = (0, 0);
        if let Some(at) = newest {
            let order = self.word(at, 1);
            (to, sequence) = (1 - at, (order as u16).wrapping_add(1));
            let words = Words::new(sb, 0, state);
            // A marker is one by its kind.
            let end = if state == FORMATTING { 3 } else { CRC };
            if state_of(order) == state && (2..end).all(|i| self.word(at, i) == words.get(i)) {
                return;
            }
        }
        if planted!("nvmem/superblock-overwrites-newest") {
            to = 0;
        }
        self.write(to, &Words::new(sb, sequence, state));
    }
}

/// The low `bytes` of a number, between the medium's little-endian order and the machine's.
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
/// **Power loss**: writes nothing. **Cost**: when [`State::Ready`], reads the magics, the sequences and one copy twice, to check it
/// and to read it (39 words), some 800 instructions; when not, the whole region.
pub fn probe<M: Model>(region: &Region<'_, M>, expected: &Superblock) -> State {
    match look(region, expected) {
        State::Ready(view) => State::Ready(view.stored().superblock),
        State::Blank => State::Blank,
        State::Formatting => State::Formatting,
        State::Foreign => State::Foreign,
        State::Damaged => State::Damaged,
    }
}

/// An intact copy where it lies.
pub struct View<'r, 'm, M> {
    place: Place<'r, 'm, M>,
    copy: usize,
}

impl<M: Model> View<'_, '_, M> {
    /// Kind, version and fingerprint.
    pub fn layout(&self) -> Layout {
        self.stored().superblock.layout()
    }

    /// Whether it has this kind, this version and this fingerprint. **Cost**: four loads.
    pub fn is(&self, layout: &Layout) -> bool {
        self.word(2) == u32::from_le_bytes(layout.kind)
            && self.word(3) == u32::from(layout.version)
            && self.word(4) == layout.fingerprint as u32
            && self.word(5) == (layout.fingerprint >> 32) as u32
    }

    /// A parameter; 0 if there is none of this number. **Cost**: one load.
    pub fn param(&self, i: usize) -> u32 {
        if i < 8 { self.word(6 + i) } else { 0 }
    }

    /// All of it.
    pub fn stored(&self) -> Stored {
        unpack(|i| self.word(i))
    }

    fn word(&self, i: usize) -> u32 {
        self.place.word(self.copy, i)
    }
}

/// Like [`probe`], with a look at the stored superblock in the place of a copy: for a small program.
#[inline(never)]
pub fn look<'r, 'm, M: Model>(
    region: &'r Region<'m, M>,
    expected: &Superblock,
) -> State<View<'r, 'm, M>> {
    let Some(place) = Place::new(region) else {
        return State::Foreign;
    };
    let Some(copy) = place.newest() else {
        return place.other(expected);
    };
    if state_of(place.word(copy, 1)) == READY {
        State::Ready(View { place, copy })
    } else if place.word(copy, 2) == u32::from_le_bytes(expected.kind) {
        State::Formatting
    } else {
        State::Foreign
    }
}

/// Both copies as they are, intact or not: for a look from outside.
pub fn copies<M: Model>(region: &Region<'_, M>) -> [Option<Stored>; 2] {
    Place::new(region).map_or([None; 2], |p| {
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
    if let Some(place) = Place::new(region) {
        place.commit(FORMATTING, sb)
    }
}

/// Ends a format: the region is [`State::Ready`] with `sb`, together with all that the caller has stored before.
///
/// Nothing happens when it is so already, or when the region is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the region is what [`probe`] said before, or `Ready(sb)`. **Cost**: as [`begin`].
pub fn finish<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    if let Some(place) = Place::new(region) {
        place.commit(READY, sb)
    }
}

/// Puts `sb` in the place of the stored one: the commit point of a migration that has prepared the new content elsewhere
/// in the region.
///
/// Nothing happens when it is so already, or when the region is shorter than [`Superblock::BYTES`].
///
/// **Power loss**: the old superblock or the new one, never a mixture, and all that the caller has stored before is there
/// with the new one. **Cost**: as [`begin`].
pub fn replace<M: Model>(region: &mut Region<'_, M>, sb: &Superblock) {
    finish(region, sb)
}
