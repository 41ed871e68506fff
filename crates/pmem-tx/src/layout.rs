//! Encodings of a pool's words: block headers, journal headers, tags. docs/SPEC.md has the same as
//! pictures.
//!
//! ```text
//!  block header   | size in bytes, a multiple of 8              | kind (3 bits) |
//!  entry, first   | offset of the range, or of a block header   | old kind (0: was free) |
//!  entry, second  | sequence number (upper half)                | length in units (lower half) |
//!  cell tag       | sequence number (upper half) | context << 1 | current version (1 bit) |
//! ```
//!
//! Each is one atomic unit, so a cut leaves the old word or the new one.

use core::num::NonZeroUsize;

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
        self.0.get() & !7
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
}
