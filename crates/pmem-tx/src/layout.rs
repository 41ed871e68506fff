//! What the words in a pool mean: block headers, journal headers, tags. docs/SPEC.md shows the same as pictures.

use core::num::NonZeroUsize;

/// Blocks are multiples of this, and payloads are aligned to it.
pub(crate) const GRANULE: usize = 8;

/// A block's state: the low 3 bits of its header; the rest is its size in granules, header included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockKind {
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
    pub fn word(kind: BlockKind, bytes: usize) -> usize {
        bytes | kind as usize
    }
    pub fn is(self, kind: BlockKind) -> bool {
        self.0.get() & 7 == kind as usize
    }
    pub fn bytes(self) -> usize {
        self.0.get() & !7
    }
    /// The header of the same block when it is of this kind.
    pub fn becomes(self, kind: BlockKind) -> usize {
        Self::word(kind, self.bytes())
    }
    /// Bytes of a block whose payload is `size` bytes, which [`cell_bytes`] or the language says is not too long to be rounded.
    #[inline(always)]
    pub fn bytes_for(size: usize, unit: usize) -> usize {
        (size + unit + GRANULE - 1) & !(GRANULE - 1)
    }
}

/// Bytes of the payload of a cell for a `T`: the tag, and two versions.
pub(crate) const fn cell_bytes<T>() -> usize {
    const {
        // Objects are shorter than half of the address space, two of them need not be.
        assert!(
            size_of::<T>() < (usize::MAX >> 2) - 2 * GRANULE,
            "a cell keeps two versions: this type is too long for that"
        );
        GRANULE + 2 * size_of::<T>()
    }
}

/// What a journal entry undoes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Undo {
    /// `units` units at `off` held what the payload holds.
    Content { off: usize, units: usize },
    /// The block whose header is at `off` was of this kind: free, if it was allocated.
    Block { off: usize, was: BlockKind },
}

/// A journal header is two units. The first is an offset: of the range, or of a block's header with the operation in
/// its low 3 bits, which are the same in all headers' offsets. The second is the sequence number, and the length in
/// units in its lower half; it makes the entry valid.
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
