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
pub enum State {
    /// The whole region is one repeated byte, 0x00 or 0xFF: the caller formats it.
    Blank,
    /// A format of this kind was begun and cut, and nothing of it has ever been used: the caller formats it again, from
    /// [`begin`].
    Formatting,
    /// A complete format, of whatever kind: the caller checks it with [`Superblock::check_layout`] and goes on.
    Ready(Superblock),
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
        let words = words(self, sequence, READY);
        let mut bytes = [0; Self::COPY_BYTES];
        for (to, w) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *to = w.to_le_bytes();
        }
        bytes
    }

    /// The copy in these bytes, if they are an intact one.
    pub fn decode(bytes: &[u8; Self::COPY_BYTES]) -> Option<Stored> {
        let mut words = [0; WORDS];
        for (w, from) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *w = u32::from_le_bytes(*from);
        }
        parse(|i| words[i])
    }
}

fn words(sb: &Superblock, sequence: u16, state: u16) -> [u32; WORDS] {
    let mut w = [0; WORDS];
    w[0] = MAGIC;
    w[1] = u32::from(sequence) | u32::from(state) << 16;
    w[2] = u32::from_le_bytes(sb.kind);
    w[3] = u32::from(sb.version);
    w[4] = sb.fingerprint as u32;
    w[5] = (sb.fingerprint >> 32) as u32;
    w[6..14].copy_from_slice(&sb.params);
    w[15] = w[..15]
        .iter()
        .fold(Crc32::new(), |c, w| c.word(*w))
        .finish();
    w
}

/// What marks a region in which a format of this kind is under way: the same whatever the version and the types, so
/// that a marker torn by one build is known to the next.
fn marker(kind: [u8; 4], sequence: u16) -> [u32; WORDS] {
    let empty = Superblock {
        kind,
        version: 0,
        fingerprint: 0,
        params: [0; 8],
    };
    words(&empty, sequence, FORMATTING)
}

/// Checked before anything in it is believed.
fn parse(word: impl Fn(usize) -> u32) -> Option<Stored> {
    let mut w = [0; WORDS];
    let mut crc = Crc32::new();
    for (i, w) in w.iter_mut().enumerate() {
        *w = word(i);
        if i < 15 {
            crc = crc.word(*w);
        }
    }
    let [
        magic,
        seq_state,
        kind,
        version,
        fp_low,
        fp_high,
        params @ ..,
        zero,
        stored_crc,
    ] = w;
    if magic != MAGIC || (stored_crc != crc.finish() && !planted!("nvmem/superblock-crc-unchecked"))
    {
        return None;
    }
    let state = (seq_state >> 16) as u16;
    if !matches!(state, FORMATTING | READY) || version >> 16 != 0 || zero != 0 {
        return None;
    }
    Some(Stored {
        sequence: seq_state as u16,
        formatting: state == FORMATTING,
        superblock: Superblock {
            kind: kind.to_le_bytes(),
            version: version as u16,
            fingerprint: u64::from(fp_low) | u64::from(fp_high) << 32,
            params,
        },
    })
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

    #[inline(always)]
    fn word(&self, copy: usize, i: usize) -> u32 {
        let off = copy * Superblock::COPY_BYTES + i * 4;
        if M::Unit::BYTES == 4 {
            self.unit(off)
        } else {
            self.unit(off) | self.unit(off + 2) << 16
        }
    }

    fn parse(&self, copy: usize) -> Option<Stored> {
        parse(|i| self.word(copy, i))
    }

    /// The newest intact copy and where it is. The other one's checksum is computed only when the copy that claims
    /// to be newer is not intact.
    fn newest(&self) -> Option<(usize, Stored)> {
        let claim = |c| (self.word(c, 0) == MAGIC).then(|| self.word(c, 1) as u16);
        let first = match (claim(0), claim(1)) {
            (None, None) => return None,
            (Some(_), None) => 0,
            (None, Some(_)) => 1,
            (Some(a), Some(b)) => {
                if planted!("nvmem/superblock-sequence-does-not-wrap") {
                    usize::from(b > a)
                } else {
                    usize::from((b.wrapping_sub(a) as i16) > 0)
                }
            }
        };
        [first, 1 - first]
            .into_iter()
            .find_map(|c| Some((c, self.parse(c)?)))
    }

    /// Whether the region is blank, but for units of a marker that was being written.
    fn blank(&self, kind: [u8; 4]) -> Option<State> {
        let size = M::Unit::BYTES;
        let last = self.unit(self.0.len() - size);
        if last != 0 && last != u32::MAX >> (32 - 8 * size) {
            return None;
        }
        let marker = marker(kind, 0);
        let mut state = State::Blank;
        for off in (0..self.0.len()).step_by(size) {
            if off >= Superblock::BYTES && planted!("nvmem/superblock-blank-by-its-start") {
                break;
            }
            let v = self.unit(off);
            if v == last {
                continue;
            }
            let word = *marker.get(off / 4)?;
            let of_marker = if size == 4 || off.is_multiple_of(4) {
                word & (u32::MAX >> (32 - 8 * size))
            } else {
                word >> 16
            };
            if v != of_marker || planted!("nvmem/superblock-torn-marker-is-foreign") {
                return None;
            }
            state = State::Formatting;
        }
        Some(state)
    }

    /// Writes a copy that becomes valid with the store of its first unit, after everything that was stored before.
    fn write(&self, copy: usize, words: &[u32; WORDS]) {
        let size = M::Unit::BYTES;
        let base = copy * Superblock::COPY_BYTES;
        let gate = words[0] & (u32::MAX >> (32 - 8 * size));
        // A blank first unit stays blank: a cut must leave a region that is blank or a torn marker.
        if self.unit(base) == gate || planted!("nvmem/superblock-always-closes") {
            self.put_unit(base, 0);
            mapped::fence::<M>();
        }
        for (i, w) in words.iter().enumerate() {
            let off = base + i * 4;
            if i > 0 || size == 2 {
                if size == 4 {
                    self.put_unit(off, *w);
                } else {
                    if i > 0 {
                        self.put_unit(off, w & 0xFFFF);
                    }
                    self.put_unit(off + 2, w >> 16);
                }
            }
        }
        if !planted!("nvmem/superblock-no-fence-before-valid") {
            mapped::fence::<M>();
        }
        self.put_unit(base, gate);
        mapped::fence::<M>();
    }

    /// Writes the other copy. What the caller stored before persists before it.
    fn commit(&self, state: u16, sb: &Superblock) {
        let mut newest = self.newest();
        if newest.is_none() && state == READY {
            // Only a marker is recognised when it is torn.
            self.commit(FORMATTING, sb);
            newest = self.newest();
        }
        if let Some((_, c)) = newest {
            let same = match state {
                FORMATTING => c.superblock.kind == sb.kind,
                _ => c.superblock == *sb,
            };
            if same && c.formatting == (state == FORMATTING) {
                return;
            }
        }
        let (to, sequence) = match newest {
            Some((at, c)) => (1 - at, c.sequence.wrapping_add(1)),
            None => (0, 0),
        };
        let to = if planted!("nvmem/superblock-overwrites-newest") {
            0
        } else {
            to
        };
        let words = match state {
            FORMATTING => marker(sb.kind, sequence),
            _ => words(sb, sequence, state),
        };
        self.write(to, &words);
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
/// **Power loss**: writes nothing. **Cost**: when [`State::Ready`], reads the magics, the sequences and one copy (20 words),
/// some 750 instructions; when not, the whole region.
pub fn probe<M: Model>(region: &Region<'_, M>, expected: &Superblock) -> State {
    let Some(place) = Place::new(region) else {
        return State::Foreign;
    };
    match place.newest() {
        Some((_, c)) if !c.formatting => State::Ready(c.superblock),
        Some((_, c)) if c.superblock.kind == expected.kind => State::Formatting,
        Some(_) => State::Foreign,
        None => place.blank(expected.kind).unwrap_or_else(|| {
            if (0..2).any(|c| place.word(c, 0) == MAGIC) {
                State::Damaged
            } else {
                State::Foreign
            }
        }),
    }
}

/// Both copies as they are, intact or not: for a look from outside.
pub fn copies<M: Model>(region: &Region<'_, M>) -> [Option<Stored>; 2] {
    Place::new(region).map_or([None; 2], |p| [p.parse(0), p.parse(1)])
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
