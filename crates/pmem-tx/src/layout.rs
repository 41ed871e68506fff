//! The format of a pool: its words, the offsets of its areas, and its parameters.
//! docs/spec/pmem-tx.md has every byte.
//!
//! ```text
//!  0            TABLE             journals                  scratch     heap         end
//!  +------------+-----------------+-------------------------+-----------+------------+
//!  | superblock | per context and | per context:            | a nibble  | blocks     |
//!  | (2 copies) | shared root:    | journal headers,        | for each  |            |
//!  |            | commit, root    | old content             | granule   |            |
//!  +------------+-----------------+-------------------------+-----------+------------+
//!
//!  block header   | size in bytes, a multiple of 8              | kind (3 bits) |
//!  entry, first   | offset of the range, or of a block header   | old kind (0: was free) |
//!  entry, second  | sequence number (upper half)                | length in units (lower half) |
//!  cell tag       | sequence number (upper half) | context << 1 | current version (1 bit) |
//! ```
//!
//! Why this is safe: each word is one atomic unit, so a cut leaves the old word or the new one.
//! Only the heap is ever lent to a program. So user bytes never lie where a header, a commit word
//! or a root word is read. The parameters may come from a damaged superblock: each is compared with
//! the remaining length before it is used in arithmetic.

use crate::error::{Component, OpenError};
use core::mem::MaybeUninit;
use core::num::NonZeroUsize;
use nvmem::superblock::{Difference, Superblock, View};
use nvmem::{LayoutMismatch, Model, Unit};

/// Block sizes are multiples of this, and payloads are aligned to it.
pub(crate) const GRANULE: usize = 8;

/// The kind of a block: the low 3 bits of its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Free = 1,
    /// An object.
    Object = 2,
    /// A two-version cell.
    Cell = 3,
}

/// A block header as it is stored: size in bytes with the header, a multiple of 8, and kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block(NonZeroUsize);

impl Block {
    #[inline(always)]
    pub fn decode(w: usize) -> Option<Block> {
        let known = (1..=3).contains(&(w & 7)) && w >= GRANULE;
        NonZeroUsize::new(if known { w } else { 0 }).map(Block)
    }
    /// The header of a block of this kind and size.
    pub fn word(kind: BlockKind, bytes: usize) -> usize {
        bytes | kind as usize
    }
    pub fn is(self, kind: BlockKind) -> bool {
        self.0.get() & 7 == kind as usize
    }
    pub fn bytes(self) -> usize {
        Self::bytes_in(self.0.get())
    }
    /// The size in a header that was checked before.
    pub fn bytes_in(header: usize) -> usize {
        header & !7
    }
    /// The header of the same block with another kind.
    pub fn becomes(self, kind: BlockKind) -> usize {
        Self::word(kind, self.bytes())
    }
    /// Bytes of a block for a payload of `size` bytes. The sum cannot overflow: the language or
    /// [`cell_bytes`] limits `size`.
    #[inline(always)]
    pub fn bytes_for(size: usize, unit: usize) -> usize {
        (size + unit + GRANULE - 1) & !(GRANULE - 1)
    }
}

/// Bytes of the payload of a cell for a `T`: the tag and two versions.
pub(crate) const fn cell_bytes<T>() -> usize {
    const {
        // A type is shorter than half of the address space; two versions may not be.
        assert!(
            size_of::<T>() < (usize::MAX >> 2) - 2 * GRANULE,
            "this type is too large for a cell, which keeps two versions"
        );
        GRANULE + 2 * size_of::<T>()
    }
}

/// The change that a journal entry undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// `units` units at `off` held the bytes that are in the payload.
    Content { off: usize, units: usize },
    /// The block with its header at `off` had this kind before: free, if it was allocated.
    Block { off: usize, was: BlockKind },
}

/// A journal header is two units. The first is an offset: of the range, or of a block header. All
/// block headers have the same low 3 bits in their offset, so these bits hold the block's old kind
/// instead. The second is the sequence number in its upper half and the length in units in its
/// lower half. The second makes the entry valid.
impl Undo {
    pub fn first(self) -> usize {
        match self {
            Undo::Content { off, .. } => off,
            Undo::Block { off, was } => {
                off & !7
                    | if was == BlockKind::Free {
                        0
                    } else {
                        was as usize
                    }
            }
        }
    }

    pub fn second(seq: usize, units: usize, unit: usize) -> usize {
        seq << (unit * 4) | units
    }

    /// `None` for words that encode no change.
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

    /// The offset of the block's header and its old kind, for an entry whose length is 0.
    #[inline(always)]
    pub fn block(first: usize, unit: usize) -> (usize, BlockKind) {
        let was = match first & 7 {
            2 => BlockKind::Object,
            3 => BlockKind::Cell,
            _ => BlockKind::Free,
        };
        ((first & !7) | (GRANULE - unit), was)
    }

    pub fn seq(second: usize, unit: usize) -> usize {
        second >> (unit * 4)
    }
    pub fn units(second: usize, unit: usize) -> usize {
        second & Self::max_units(unit)
    }
    /// The longest range of one entry, in units.
    pub fn max_units(unit: usize) -> usize {
        (1 << (unit * 4)) - 1
    }
}

/// The tag of a two-version cell: which version is current, and the context and sequence number of
/// the transaction that wrote it. Number 0 means settled: no transaction can revert it.
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
    /// The largest tag that is settled, for either version.
    pub const SETTLED_MAX: usize = 1;
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

// INVARIANT "Headers are never content": the table, the journals' headers, their content and the
// heap do not overlap, and only the heap is lent.
// Noticed by: the golden image of the format; `no_area_reaches_into_another`,
// `divided_at_the_extremes`, `divided_as_in_128_bits` below.

/// Byte offsets of a pool's areas. A region lies in memory, so `usize` holds every offset and every
/// unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub entries: usize,
    pub bytes: usize,
    /// The largest sequence number. Numbers run from 1 to it; 0 means none.
    pub seq_max: usize,
    /// Offset of the first context's header area; its payload area follows, then the next
    /// context's.
    pub journals: usize,
    pub journal_stride: usize,
    /// Offset of the walk's marks: one nibble for each granule of the heap.
    pub scratch: usize,
    /// Offset of the first block's header. Payloads are at multiples of 8.
    pub heap: usize,
    /// Offset behind the last block.
    pub end: usize,
}

/// How many contexts and shared roots a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count {
    pub contexts: usize,
    pub shared: usize,
}

impl Count {
    /// A pool without shared roots.
    pub const fn contexts(contexts: usize) -> Count {
        Count {
            contexts,
            shared: 0,
        }
    }
    /// Entries of the table.
    pub const fn roots(self) -> usize {
        self.contexts + self.shared
    }
}

/// Why a configuration or a region cannot hold a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadGeometry {
    Entries,
    SeqBits,
    /// The journals alone are longer than any region.
    Journals,
    TooSmall(usize),
    TooLarge(usize),
}

impl Geometry {
    /// Offset of the table: a commit word and a root word for each context, then for each shared
    /// root; the commit words of shared roots are not used.
    pub const TABLE: usize = Superblock::BYTES;

    /// Computes the areas of `len` bytes for this configuration.
    pub fn new<M: Model>(c: &Config, count: Count, len: usize) -> Result<Geometry, BadGeometry> {
        let params = superblock::<M>(c, count, len, 0).params;
        Self::compute::<M>(&mut MaybeUninit::uninit(), &params, count, len).copied()
    }

    /// Computes the areas of `len` bytes from superblock parameters, which may hold any values.
    #[inline(always)]
    pub fn compute<'g, M: Model>(
        into: &'g mut MaybeUninit<Geometry>,
        params: &[u32; 8],
        count: Count,
        len: usize,
    ) -> Result<&'g Geometry, BadGeometry> {
        let Count { contexts, .. } = count;
        let unit = M::Unit::BYTES;
        let limit = Self::limit(unit);
        // Compared in 64 bits: on a 16-bit machine the limit may not fit into `usize`.
        if len as u64 > limit {
            return Err(BadGeometry::TooLarge(limit as usize));
        }
        let number = |i: usize| usize::try_from(params[i]).unwrap_or(usize::MAX);
        let up8 = |v: usize| (v + GRANULE - 1) & !(GRANULE - 1);
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
            // A loop, because a 16-bit machine needs a library function to shift by a variable.
            for _ in seq_bits..unit * 4 {
                seq_max >>= 1;
            }
        }
        let small = || Self::too_small(params, count, unit);
        let journals = up8(Self::TABLE + count.roots() * 2 * unit);
        // The parameters may hold any values: compare each with the remaining length before using
        // it.
        let mut left = len.checked_sub(journals).ok_or_else(small)?;
        let bytes = number(param::BYTES);
        if entries > left / (2 * unit) || bytes > left - entries * (2 * unit) {
            return Err(small());
        }
        let bytes = up8(bytes);
        let journal_stride = up8(entries * (2 * unit)) + bytes;
        for _ in 0..contexts {
            left = left.checked_sub(journal_stride).ok_or_else(small)?;
        }
        let scratch = len - left;
        // One nibble for each granule of the remaining bytes. Slightly more than needed, because
        // the marks take space themselves.
        let before = up8((left / GRANULE).div_ceil(2)) + GRANULE - unit;
        if before + count.roots() * 2 * GRANULE > left {
            return Err(small());
        }
        let heap = scratch + before;
        Ok(into.write(Geometry {
            entries,
            bytes,
            seq_max,
            journals,
            journal_stride,
            scratch,
            heap,
            end: heap + ((left - before) & !(GRANULE - 1)),
        }))
    }

    /// The longest region that handles can address.
    const fn limit(unit: usize) -> u64 {
        if unit == 2 { 1 << 16 } else { 1 << 31 }
    }

    /// The error for a region that is too short, with a length that is enough, if there is one.
    #[cold]
    fn too_small(params: &[u32; 8], count: Count, unit: usize) -> BadGeometry {
        let number = |i: usize| usize::try_from(params[i]).unwrap_or(usize::MAX);
        let needed = Self::needed(number(param::ENTRIES), number(param::BYTES), count, unit);
        // The sums saturate: a length that does not fit into `usize` is nearly `usize::MAX`.
        if needed >= usize::MAX - GRANULE || needed as u64 > Self::limit(unit) {
            return BadGeometry::Journals;
        }
        BadGeometry::TooSmall(needed)
    }

    /// A length that is enough when [`Config::for_len`] chooses the journals, which grow with the
    /// region. `needed` is enough for the journals of a shorter region.
    #[cold]
    pub fn needed_by_len(mut needed: usize, count: Count, unit: usize) -> usize {
        loop {
            let c = Config::for_len(needed);
            let (entries, bytes) = (c.journal_entries.into(), c.journal_bytes as usize);
            let more = Self::needed(entries, bytes, count, unit);
            if more <= needed {
                return needed;
            }
            needed = more;
        }
    }

    /// A region length that is enough; nearly `usize::MAX` if there is none.
    fn needed(entries: usize, bytes: usize, count: Count, unit: usize) -> usize {
        let up8 = |v: usize| v.saturating_add(GRANULE - 1) & !(GRANULE - 1);
        let headers = entries.saturating_mul(2 * unit);
        let journal = up8(headers).saturating_add(up8(bytes));
        let smallest = up8(Self::TABLE + count.roots() * 2 * unit)
            .saturating_add(journal.saturating_mul(count.contexts))
            .saturating_add(count.roots() * 2 * GRANULE + 2 * GRANULE);
        // An upper estimate: the scratch area takes one byte for each 16.
        up8(smallest.saturating_add(smallest / 8))
    }

    /// The sequence number after `s`.
    pub fn next(&self, s: usize) -> usize {
        if s >= self.seq_max { 1 } else { s + 1 }
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

impl BadGeometry {
    /// The error for the caller. Stored parameters that do not fit are damage; others are the
    /// program's configuration.
    #[cold]
    pub fn into_open_error(self, stored: bool) -> OpenError {
        match self {
            _ if stored => OpenError::Damaged(Component::Superblock),
            BadGeometry::Entries => OpenError::Config("the journal has no entries or no bytes"),
            BadGeometry::SeqBits => OpenError::Config("seq_bits must be between 3 and 16"),
            BadGeometry::Journals => OpenError::Config("the journals are longer than any region"),
            BadGeometry::TooSmall(needed) => OpenError::TooSmall { needed },
            BadGeometry::TooLarge(limit) => OpenError::TooLarge { limit },
        }
    }
}

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"POOL";
/// Version of the format of a pool without shared roots.
pub(crate) const VERSION: u16 = 1;
/// Version of the format of a pool with shared roots.
pub(crate) const VERSION_SHARED: u16 = 2;
/// The most shared roots of a pool.
pub(crate) const MAX_SHARED: usize = 4;
/// The most contexts of a pool.
pub const MAX_CONTEXTS: usize = 8;

/// The sizes of a pool's journals. Fixed when the pool is formatted, and read from the medium
/// afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// Journal entries of each context: the number of ranges and blocks that one transaction may
    /// change.
    pub journal_entries: u16,
    /// Bytes of old content that one transaction may log, rounded up to 8.
    pub journal_bytes: u32,
    /// Width of the sequence number, 3 to 16 bits (8 on a medium with 16-bit units). After
    /// 2^(bits-1) transactions stale journal headers are cleared; a small width is for tests.
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

    /// The configuration that [`Pool::open`](crate::Pool::open) uses for a region of `len` bytes.
    /// Old content gets an eighth of it, between 64 bytes and 1 KiB. There is one entry for each 32
    /// bytes of old content, at least 8.
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

    /// The superblock parameters for a larger structure of `len` bytes that contains a pool with
    /// one root. Parameter 0 is left to the caller.
    #[doc(hidden)]
    #[inline(always)]
    pub fn params<M: Model>(&self, len: usize) -> [u32; 8] {
        superblock::<M>(self, Count::contexts(0), len, 0).params
    }
}

impl Default for Config {
    fn default() -> Self {
        Config::DEFAULT
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
    /// The sequence number of a committed migration that is not yet entered in the commit word; 0
    /// if none.
    pub const MIGRATED: usize = 6;
    /// The number of shared roots.
    pub const SHARED: usize = 7;

    /// For these parameters the stored value counts, not the one that the program would choose
    /// today.
    pub const STORED: u8 = 1 << ENTRIES | 1 << BYTES | 1 << SEQ_BITS | 1 << MIGRATED;
}

pub(crate) fn superblock<M: Model>(
    c: &Config,
    count: Count,
    len: usize,
    fingerprint: u64,
) -> Superblock {
    let mut params = [0; 8];
    params[param::CONTEXTS] = count.contexts as u32;
    params[param::SHARED] = count.shared as u32;
    params[param::ENTRIES] = c.journal_entries as u32;
    params[param::BYTES] = c.journal_bytes;
    params[param::SEQ_BITS] = c.seq_bits as u32;
    params[param::UNIT] = M::Unit::BYTES as u32;
    params[param::LEN] = u32::try_from(len).unwrap_or(u32::MAX);
    Superblock {
        kind: KIND,
        version: version(count.shared),
        fingerprint,
        params,
    }
}

/// The numbers of contexts and shared roots stored in a superblock, if a pool may have them.
pub(crate) fn stored_count(sb: &Superblock) -> Option<Count> {
    let number = |i: usize| usize::try_from(sb.params[i]).ok();
    let count = Count {
        contexts: number(param::CONTEXTS)?,
        shared: number(param::SHARED)?,
    };
    (count.contexts <= MAX_CONTEXTS && count.shared <= MAX_SHARED).then_some(count)
}

/// The format version of a pool with so many shared roots.
pub(crate) fn version(shared: usize) -> u16 {
    if shared == 0 { VERSION } else { VERSION_SHARED }
}

/// The configuration stored in a superblock, if its values are in range.
pub(crate) fn stored_config(sb: &Superblock) -> Option<Config> {
    Some(Config {
        journal_entries: u16::try_from(sb.params[param::ENTRIES]).ok()?,
        journal_bytes: sb.params[param::BYTES],
        seq_bits: u8::try_from(sb.params[param::SEQ_BITS]).ok()?,
    })
}

/// The error for a pool whose superblock differs from `mine`.
#[inline(always)]
pub(crate) fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Difference,
) -> OpenError {
    match other {
        Difference::Layout => OpenError::LayoutMismatch(LayoutMismatch {
            stored: stored.layout(),
            expected: mine.layout(),
        }),
        Difference::Param(param::UNIT) => {
            OpenError::Config("the pool was formatted for another atomic unit")
        }
        Difference::Param(param::LEN) => OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        },
        Difference::Param(_) => OpenError::Damaged(Component::Superblock),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
                    was: BlockKind::Free,
                },
                Undo::Block {
                    off: 8 - unit,
                    was: BlockKind::Cell,
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

    use nvmem::{InOrder16, InOrder32};

    /// Old content is user bytes: in the place of a header it could be read as a valid one.
    fn areas_do_not_overlap<M: Model>() {
        let unit = M::Unit::BYTES;
        for entries in [1, 2, 7, 32, 300] {
            for bytes in [1, 8, 60, 1024] {
                for contexts in [1, 2, 8] {
                    let c = Config {
                        journal_entries: entries,
                        journal_bytes: bytes,
                        seq_bits: 16,
                    };
                    let Ok(g) = Geometry::new::<M>(&c, Count::contexts(contexts), 60_000) else {
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
        areas_do_not_overlap::<InOrder32>();
        areas_do_not_overlap::<InOrder16>();
    }

    /// Compares the result with the same calculation in 128 bits, for any parameters.
    fn divided<M: Model>(entries: u16, bytes: u32, seq_bits: u8, contexts: usize, len: usize) {
        let c = Config {
            journal_entries: entries,
            journal_bytes: bytes,
            seq_bits,
        };
        let unit = M::Unit::BYTES as u128;
        let up8 = |v: u128| v.div_ceil(8) * 8;
        let limit = if unit == 2 { 1 << 16 } else { 1 << 31 };
        let (n, l) = (contexts as u128, len as u128);
        let headers = up8(u128::from(entries) * 2 * unit);
        let stride = headers + up8(bytes.into());
        let journals = up8(Superblock::BYTES as u128 + n * 2 * unit);
        let scratch = journals + n * stride;
        let least = |l: u128| {
            let left = l.checked_sub(scratch)?;
            let before = up8((left / 8).div_ceil(2)) + 8 - unit;
            (before + n * 16 <= left).then_some(scratch + before)
        };
        match Geometry::new::<M>(&c, Count::contexts(contexts), len) {
            Ok(g) => {
                assert!(l <= limit && entries > 0 && bytes > 0 && (3..=16).contains(&seq_bits));
                let heap = least(l).expect("there is room");
                assert_eq!(g.journals as u128, journals);
                assert_eq!(g.journal_stride as u128, stride);
                assert_eq!(
                    (g.entries as u128, g.bytes as u128),
                    (entries.into(), up8(bytes.into()))
                );
                assert_eq!((g.scratch as u128, g.heap as u128), (scratch, heap));
                assert!(g.end as u128 <= l && (g.end - g.heap).is_multiple_of(GRANULE));
                assert!(
                    g.end as u128 + 8 > l && g.end - g.heap >= contexts * 2 * GRANULE - GRANULE
                );
                let widest = (1u128 << (unit * 4)) - 1;
                assert_eq!(g.seq_max as u128, widest.min((1 << seq_bits) - 1));
                // The limit of block headers, handles and journal entries.
                assert!(g.end as u128 <= 1 << (unit * 8).min(31));
            }
            Err(BadGeometry::TooLarge(most)) => {
                assert!(l > limit && most as u128 == limit);
            }
            Err(BadGeometry::Entries) => assert!(entries == 0 || bytes == 0),
            Err(BadGeometry::SeqBits) => assert!(!(3..=16).contains(&seq_bits)),
            Err(BadGeometry::TooSmall(needed)) => {
                assert!(least(l).is_none() && needed > len && needed as u128 <= limit);
                assert!(
                    Geometry::new::<M>(&c, Count::contexts(contexts), needed).is_ok(),
                    "{c:?}, {needed}"
                );
                // Close to the minimum: a superblock and rounding.
                assert!((needed as u128) < (scratch + n * 16 + 64) * 5 / 4);
            }
            // Just below the limit the estimate may already exceed it.
            Err(BadGeometry::Journals) => assert!(least(limit * 7 / 8).is_none()),
        }
    }

    const LENGTHS: [usize; 12] = [
        0,
        8,
        127,
        512,
        1 << 12,
        (1 << 16) - 8,
        1 << 16,
        (1 << 16) + 8,
        1 << 20,
        (1 << 31) - 8,
        1 << 31,
        usize::MAX,
    ];

    #[test]
    #[cfg_attr(miri, ignore = "thousands of sums in safe code")]
    fn divided_at_the_extremes() {
        for entries in [0, 1, 2, 511, 4096, u16::MAX - 1, u16::MAX] {
            for bytes in [
                0,
                1,
                7,
                8,
                9,
                0xFFF8,
                0xFFFF,
                1 << 16,
                1 << 31,
                u32::MAX - 7,
                u32::MAX,
            ] {
                for seq_bits in [0, 2, 3, 8, 9, 16, 17, u8::MAX] {
                    for contexts in [1, 2, 8] {
                        for len in LENGTHS {
                            divided::<InOrder32>(entries, bytes, seq_bits, contexts, len);
                            divided::<InOrder16>(entries, bytes, seq_bits, contexts, len);
                        }
                    }
                }
            }
        }
    }

    /// The configuration that `Pool::open` chooses fits into the length that it asks for.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of sums in safe code")]
    fn the_needed_length_is_enough() {
        fn chosen<M: Model>(contexts: usize, len: usize) {
            let c = Config::for_len(len);
            let unit = M::Unit::BYTES;
            match Geometry::new::<M>(&c, Count::contexts(contexts), len) {
                Err(BadGeometry::TooSmall(needed)) => {
                    let needed = Geometry::needed_by_len(needed, Count::contexts(contexts), unit);
                    let r = Geometry::new::<M>(
                        &Config::for_len(needed),
                        Count::contexts(contexts),
                        needed,
                    );
                    assert!(r.is_ok() && needed > len, "{contexts} in {len}: {needed}");
                    if contexts == 1 {
                        let Err(BadGeometry::TooSmall(first)) =
                            Geometry::new::<M>(&c, Count::contexts(1), len)
                        else {
                            panic!("as before");
                        };
                        assert_eq!(needed, first, "one root needs no longer region");
                    }
                }
                other => assert!(other.is_ok() || len > 1 << 16, "{other:?}"),
            }
        }
        for contexts in 1..=crate::MAX_CONTEXTS {
            for len in (0..20_000).step_by(if cfg!(miri) { 977 } else { 8 }) {
                chosen::<InOrder32>(contexts, len);
                chosen::<InOrder16>(contexts, len);
            }
            for len in LENGTHS {
                let c = Config::for_len(len);
                assert!(c.journal_bytes <= 1024 && c.journal_entries <= 32);
                divided::<InOrder32>(c.journal_entries, c.journal_bytes, 16, contexts, len);
                divided::<InOrder16>(c.journal_entries, c.journal_bytes, 16, contexts, len);
            }
        }
    }

    proptest::proptest! {
        #[test]
        #[cfg_attr(miri, ignore = "thousands of sums in safe code")]
        fn divided_as_in_128_bits(
            entries in proptest::prelude::any::<u16>(),
            bytes in proptest::prelude::any::<u32>(),
            small in 0..6u32,
            seq_bits in 0..20u8,
            contexts in 1..=8usize,
            len in 0..1usize << 33,
            short in 0..24u32,
        ) {
            let (bytes, entries) = (bytes >> (4 * small), entries >> (2 * small));
            divided::<InOrder32>(entries, bytes, seq_bits, contexts, len >> short);
            divided::<InOrder16>(entries, bytes, seq_bits, contexts, len >> short);
        }
    }
}
