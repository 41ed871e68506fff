//! Where everything lies in a pool. docs/SPEC.md shows the same as pictures.

use crate::config::{Config, param, superblock};
use crate::error::{OpenError, Part};
use crate::layout::GRANULE;
use core::mem::MaybeUninit;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

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
            // Without a shift by a variable, for which a 16-bit machine would need a function of the compiler's library.
            for _ in seq_bits..unit * 4 {
                seq_max >>= 1;
            }
        }
        let small = || BadGeometry::TooSmall(Self::needed(params, contexts, unit));
        let journals = up8(Self::TABLE + contexts * 2 * unit);
        // The numbers may be an attacker's: each is compared with the room before anything is calculated with it.
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
        // One nibble for each granule of what is left; a little more than needed, because it takes room itself.
        let before = up8((left / GRANULE).div_ceil(2)) + GRANULE - unit;
        if before + contexts * 2 * GRANULE > left {
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

    /// How long a region would do.
    fn needed(params: &[u32; 8], contexts: usize, unit: usize) -> usize {
        let number = |i: usize| usize::try_from(params[i]).unwrap_or(usize::MAX);
        let up8 = |v: usize| v.saturating_add(GRANULE - 1) & !(GRANULE - 1);
        let headers = number(param::ENTRIES).saturating_mul(2 * unit);
        let journal = up8(headers).saturating_add(up8(number(param::BYTES)));
        let smallest = up8(Self::TABLE + contexts * 2 * unit)
            .saturating_add(journal.saturating_mul(contexts))
            .saturating_add(contexts * 2 * GRANULE + 2 * GRANULE);
        // An estimate that is enough: the scratch area takes a byte for 16.
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
    /// Why the pool cannot be opened: its parameters are wrong, or those that the program would format it with.
    #[cold]
    pub fn refuse(self, stored: bool) -> OpenError {
        match self {
            _ if stored => OpenError::Damaged(Part::Superblock),
            BadGeometry::Entries => OpenError::Config("the journal has no room"),
            BadGeometry::SeqBits => OpenError::Config("seq_bits is between 3 and 16"),
            BadGeometry::TooSmall(needed) => OpenError::TooSmall { needed },
            BadGeometry::TooLarge(limit) => OpenError::TooLarge { limit },
        }
    }
}

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
}
