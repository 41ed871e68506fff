//! Where everything lies in a pool, and what its words mean. docs/SPEC.md shows the same as pictures.

use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"POOL";
/// Version of the format.
pub(crate) const VERSION: u16 = 1;
/// Blocks are multiples of this, and payloads are aligned to it.
pub(crate) const GRANULE: usize = 8;

/// How a pool is divided; fixed when it is formatted and read from the medium afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many ranges and blocks one transaction may touch before its journal is full.
    pub journal_entries: u16,
    /// How many bytes of old content one transaction may log, rounded up to 8.
    pub journal_bytes: u32,
    /// Width of the sequence number, 4 to 16 bits (8 on a medium with 16-bit units). After 2^(bits-1) transactions stale
    /// journal headers are cleared; a small width is for tests.
    pub seq_bits: u8,
}

impl Config {
    /// 32 entries, 1 KiB of old content, sequence numbers as wide as the medium's units allow.
    pub const DEFAULT: Config = Config {
        journal_entries: 32,
        journal_bytes: 1024,
        seq_bits: 16,
    };
    /// 8 entries and 64 bytes of old content, for pools of less than a kilobyte.
    pub const SMALL: Config = Config {
        journal_entries: 8,
        journal_bytes: 64,
        seq_bits: 16,
    };
}

impl Config {
    /// What [`Pool::open`](crate::Pool::open) takes for a region of `len` bytes: old content up to an eighth of it, between 64
    /// bytes and 1 KiB, and an entry for each 32 bytes of that, at least 8.
    pub const fn for_len(len: usize) -> Config {
        let bytes = match len / 8 {
            0..64 => 64,
            b @ 64..1024 => b,
            _ => 1024,
        };
        let entries = if bytes < 256 { 8 } else { bytes / 32 };
        Config {
            journal_entries: entries as u16,
            journal_bytes: bytes as u32,
            seq_bits: 16,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
    }
}

/// Byte offsets of the parts of a pool. A region is in memory, so `usize` holds them all, and what a unit holds, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub entries: usize,
    pub bytes: usize,
    /// The largest sequence number; they run from 1 to it and 0 is none.
    pub seq_max: usize,
    /// Header area and payload area of each context.
    pub journals: usize,
    pub journal_stride: usize,
    /// One nibble a granule for the walk at open.
    pub scratch: usize,
    /// The first block's header; payloads are multiples of 8.
    pub heap: usize,
    /// One past the last block.
    pub end: usize,
}

/// Why a configuration or a region cannot hold a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadGeometry {
    Entries,
    SeqBits,
    TooSmall(usize),
    TooLarge(usize),
}

impl Geometry {
    /// Commit word and root word of each context.
    pub const TABLE: usize = Superblock::BYTES;

    /// The division of `len` bytes for this configuration.
    pub fn new<M: Model>(c: &Config, contexts: usize, len: usize) -> Result<Geometry, BadGeometry> {
        let params = superblock::<M>(c, contexts, len, 0).params;
        Self::divide::<M>(&mut MaybeUninit::uninit(), &params, contexts, len).copied()
    }

    /// The division of `len` bytes that a superblock's parameters tell, which may be anybody's.
    #[inline(always)]
    pub fn divide<'g, M: Model>(
        into: &'g mut MaybeUninit<Geometry>,
        params: &[u32; 8],
        contexts: usize,
        len: usize,
    ) -> Result<&'g Geometry, BadGeometry> {
        let unit = M::Unit::BYTES;
        let limit = if unit == 2 { 1 << 16 } else { 1 << 31 };
        // On a 16-bit machine no region is too long.
        if len as u64 > limit {
            return Err(BadGeometry::TooLarge(limit as usize));
        }
        // Saturating: the numbers may be an attacker's.
        let number = |i: usize| usize::try_from(params[i]).unwrap_or(usize::MAX);
        let up8 = |v: usize| v.saturating_add(GRANULE - 1) & !(GRANULE - 1);
        let entries = number(param::ENTRIES);
        if entries == 0 || entries > u16::MAX as usize || params[param::BYTES] == 0 {
            return Err(BadGeometry::Entries);
        }
        let seq_bits = number(param::SEQ_BITS);
        if !(3..=16).contains(&seq_bits) {
            return Err(BadGeometry::SeqBits);
        }
        let mut seq_max = (1 << (unit * 4)) - 1;
        if size_of::<usize>() > 2 {
            seq_max &= (1 << seq_bits) - 1;
        } else {
            // Without a shift by a variable, for which a 16-bit machine would need a function of the compiler's library.
            for _ in seq_bits..unit * 4 {
                seq_max >>= 1;
            }
        }
        let bytes = up8(number(param::BYTES));
        let journals = up8(Self::TABLE + contexts * 2 * unit);
        let journal_stride = up8(entries.saturating_mul(2 * unit)).saturating_add(bytes);
        let mut scratch = journals;
        for _ in 0..contexts {
            scratch = scratch.saturating_add(journal_stride);
        }
        // One nibble for each granule of what is left; a little more than needed, because it takes room itself.
        let scratch_len = up8((len.saturating_sub(scratch) / GRANULE).div_ceil(2));
        let heap = scratch.saturating_add(scratch_len + GRANULE - unit);
        let smallest = heap.saturating_add(contexts * 2 * GRANULE);
        if smallest > len {
            // An estimate that is enough: the scratch area grows by a byte for 16.
            let needed = up8(smallest.saturating_add(smallest / 8));
            return Err(BadGeometry::TooSmall(needed));
        }
        Ok(into.write(Geometry {
            entries,
            bytes,
            seq_max,
            journals,
            journal_stride,
            scratch,
            heap,
            end: heap + ((len - heap) & !(GRANULE - 1)),
        }))
    }

    /// Whether the transaction `seq` was since the last clearing of stale tags, when `next` is the next one.
    pub fn recent(&self, seq: usize, next: usize) -> bool {
        // How many transactions ago, 1 being the last; and how many ago the clearing one was, itself included.
        let ago = |s: usize| {
            if s < next {
                next - s
            } else {
                next + (self.seq_max - s)
            }
        };
        let cleared = ago(self.seq_max).min(ago(self.seq_max / 2));
        seq <= self.seq_max && ago(seq) <= cleared
    }

    /// The sequence number after `s`.
    pub fn next(&self, s: usize) -> usize {
        if s >= self.seq_max { 1 } else { s + 1 }
    }

    /// Whether stale headers are cleared in the transaction `s`: twice in a round, so that a header of either of the two
    /// is cleared by the other.
    pub fn sweeps(&self, s: usize) -> bool {
        if nvmem::planted!("pmem-tx/sweep-once-a-round") {
            return s == self.seq_max;
        }
        s == self.seq_max || s == self.seq_max / 2
    }

    pub fn word(&self, ctx: usize, unit: usize) -> usize {
        Self::TABLE + ctx * 2 * unit
    }
    pub fn root(&self, ctx: usize, unit: usize) -> usize {
        self.word(ctx, unit) + unit
    }
    pub fn header(&self, ctx: usize, i: usize, unit: usize) -> usize {
        self.journals + self.journal_stride * ctx + i * 2 * unit
    }
    pub fn payload(&self, ctx: usize) -> usize {
        self.journals + self.journal_stride * (ctx + 1) - self.bytes
    }
}

/// Superblock parameters, by index.
pub(crate) mod param {
    pub const CONTEXTS: usize = 0;
    pub const ENTRIES: usize = 1;
    pub const BYTES: usize = 2;
    pub const SEQ_BITS: usize = 3;
    pub const UNIT: usize = 4;
    pub const LEN: usize = 5;
    /// The sequence number of a migration that is committed but not yet entered in the commit word; 0 is none.
    pub const MIGRATED: usize = 6;
}

pub(crate) fn superblock<M: Model>(
    c: &Config,
    contexts: usize,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let mut params = [0; 8];
    params[param::CONTEXTS] = contexts as u32;
    params[param::ENTRIES] = c.journal_entries as u32;
    params[param::BYTES] = c.journal_bytes;
    params[param::SEQ_BITS] = c.seq_bits as u32;
    params[param::UNIT] = M::Unit::BYTES as u32;
    params[param::LEN] = u32::try_from(len).unwrap_or(u32::MAX);
    Superblock {
        kind: KIND,
        version: VERSION,
        fingerprint,
        params,
    }
}

/// The configuration that a superblock tells, if it can be one.
pub(crate) fn config(sb: &Superblock) -> Option<Config> {
    Some(Config {
        journal_entries: u16::try_from(sb.params[param::ENTRIES]).ok()?,
        journal_bytes: sb.params[param::BYTES],
        seq_bits: u8::try_from(sb.params[param::SEQ_BITS]).ok()?,
    })
}

/// A block's state: the low 3 bits of its header; the rest is its size in granules, header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Free = 1,
    /// An object.
    Object = 2,
    /// A two-version cell.
    Cell = 3,
}

/// A block header: its kind, and its size in bytes, header included, which is a multiple of 8. As it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block(NonZeroUsize);

impl Block {
    #[inline(always)]
    pub fn decode(w: usize) -> Option<Block> {
        let known = (1..=3).contains(&(w & 7)) && w >= GRANULE;
        NonZeroUsize::new(if known { w } else { 0 }).map(Block)
    }
    /// The header of a block of this kind and size.
    pub fn word(kind: Kind, bytes: usize) -> usize {
        bytes | kind as usize
    }
    pub fn is(self, kind: Kind) -> bool {
        self.0.get() & 7 == kind as usize
    }
    pub fn bytes(self) -> usize {
        self.0.get() & !7
    }
    /// The header of the same block when it is of this kind.
    pub fn becomes(self, kind: Kind) -> usize {
        Self::word(kind, self.bytes())
    }
    /// Bytes of a block whose payload is `size` bytes.
    pub fn bytes_for(size: usize, unit: usize) -> Option<usize> {
        Some(size.checked_add(unit + GRANULE - 1)? & !(GRANULE - 1))
    }
}

/// What a journal entry undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// `units` units at `off` held what the payload holds.
    Content { off: usize, units: usize },
    /// The block whose header is at `off` was of this kind: free, if it was allocated.
    Block { off: usize, was: Kind },
}

/// A journal header is two units. The first is an offset: of the range, or of a block's header with the operation in
/// its low 3 bits, which are the same in all headers' offsets. The second is the sequence number, and the length in
/// units in its lower half; it makes the entry valid.
impl Undo {
    pub fn first(self) -> usize {
        match self {
            Undo::Content { off, .. } => off,
            Undo::Block { off, was } => off & !7 | if was == Kind::Free { 0 } else { was as usize },
        }
    }

    pub fn second(seq: usize, units: usize, unit: usize) -> usize {
        seq << (unit * 4) | units
    }

    /// `None` when no operation is coded so.
    #[inline(always)]
    pub fn decode(first: usize, second: usize, unit: usize) -> Option<Undo> {
        let units = Self::units(second, unit);
        if units > 0 {
            return Some(Undo::Content { off: first, units });
        }
        if !matches!(first & 7, 0 | 2 | 3) {
            return None;
        }
        let (off, was) = Self::block(first, unit);
        Some(Undo::Block { off, was })
    }

    /// The block that is meant, and what it was, when no length says that it is content.
    #[inline(always)]
    pub fn block(first: usize, unit: usize) -> (usize, Kind) {
        let was = match first & 7 {
            2 => Kind::Object,
            3 => Kind::Cell,
            _ => Kind::Free,
        };
        ((first & !7) | (GRANULE - unit), was)
    }

    pub fn seq(second: usize, unit: usize) -> usize {
        second >> (unit * 4)
    }
    pub fn units(second: usize, unit: usize) -> usize {
        second & Self::max_units(unit)
    }
    /// The longest range of one entry.
    pub fn max_units(unit: usize) -> usize {
        (1 << (unit * 4)) - 1
    }
}

/// The tag of a two-version cell: the context and sequence number of the transaction that wrote the current version
/// (0: settled), and which version that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub seq: usize,
    pub ctx: usize,
    pub current: usize,
}

impl Tag {
    pub const SETTLED: Tag = Tag {
        seq: 0,
        ctx: 0,
        current: 0,
    };
    pub fn decode(w: usize, unit: usize) -> Tag {
        Tag {
            seq: w >> (unit * 4),
            ctx: w >> 1 & 0x7f,
            current: w & 1,
        }
    }
    pub fn encode(self, unit: usize) -> usize {
        self.seq << (unit * 4) | self.ctx << 1 | self.current
    }
    pub fn settled(self) -> Tag {
        Tag {
            current: self.current,
            ..Tag::SETTLED
        }
    }
    pub fn reverted(self) -> Tag {
        Tag {
            current: self.current ^ 1,
            ..Tag::SETTLED
        }
    }
}

/// The most contexts of a pool.
pub const MAX_CONTEXTS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use nvmem::{InOrder16, InOrder32};

    /// Old content is the user's bytes: where it could lie in a header's place, it could be taken for one.
    fn areas_are_apart<M: Model>() {
        let unit = M::Unit::BYTES;
        for entries in [1, 2, 7, 32, 300] {
            for bytes in [1, 8, 60, 1024] {
                for contexts in [1, 2, 8] {
                    let c = Config {
                        journal_entries: entries,
                        journal_bytes: bytes,
                        seq_bits: 16,
                    };
                    let Ok(g) = Geometry::new::<M>(&c, contexts, 60_000) else {
                        continue;
                    };
                    let mut at = Superblock::BYTES;
                    for ctx in 0..contexts {
                        assert!(g.word(ctx, unit) >= at);
                        at = g.root(ctx, unit) + unit;
                    }
                    for ctx in 0..contexts {
                        assert!(g.header(ctx, 0, unit) >= at);
                        let headers_end = g.header(ctx, g.entries - 1, unit) + 2 * unit;
                        assert!(g.payload(ctx) >= headers_end);
                        at = g.payload(ctx) + g.bytes;
                        assert!(g.bytes >= bytes as usize);
                    }
                    assert!(g.scratch >= at);
                    assert_eq!((g.heap + unit) % GRANULE, 0);
                    let granules = (g.end - g.heap) / GRANULE;
                    let scratch = g.heap + unit - GRANULE - g.scratch;
                    assert!(scratch * 2 >= granules, "a nibble each");
                    assert!(g.end <= 60_000);
                }
            }
        }
    }

    #[test]
    fn no_area_reaches_into_another() {
        areas_are_apart::<InOrder32>();
        areas_are_apart::<InOrder16>();
    }

    #[test]
    fn words_come_back() {
        for unit in [2, 4] {
            let most = Undo::max_units(unit);
            for u in [
                Undo::Content {
                    off: 1024,
                    units: 1,
                },
                Undo::Content {
                    off: 2,
                    units: most,
                },
                Undo::Block {
                    off: 8 * 77 + 8 - unit,
                    was: Kind::Free,
                },
                Undo::Block {
                    off: 8 - unit,
                    was: Kind::Cell,
                },
            ] {
                let units = match u {
                    Undo::Content { units, .. } => units,
                    _ => 0,
                };
                let (a, b) = (u.first(), Undo::second(5, units, unit));
                assert_eq!(Undo::seq(b, unit), 5);
                assert_eq!(Undo::decode(a, b, unit), Some(u));
            }
            let t = Tag {
                seq: 9,
                ctx: 7,
                current: 1,
            };
            assert_eq!(Tag::decode(t.encode(unit), unit), t);
        }
    }
}
