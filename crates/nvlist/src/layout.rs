//! Where everything lies in a node pool, and what its words mean. docs/SPEC.md shows the same as pictures.

use crate::error::OpenError;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"LIST";
/// Version of the format.
pub(crate) const VERSION: u16 = 2;

/// Indices of the superblock's parameters.
pub(crate) mod param {
    pub const LISTS: usize = 0;
    pub const CONTEXTS: usize = 1;
    pub const UNIT: usize = 2;
    pub const LEN: usize = 3;
    pub const STRIDE: usize = 4;
}

/// A link: the place of a node's links, or of a list's head, as it is stored. Where the unit has 4 bytes it counts units,
/// and two links are one unit; where it has 2 it counts bytes. At most 16 bits.
pub(crate) type At = usize;

/// The links of a node that is in no list and that nobody holds.
pub(crate) const FREE: At = 0;
/// The first link of a node that somebody holds: leads nowhere, for it would lie in the superblock.
pub(crate) const HELD: At = 1;

/// Bytes of a node's links on every medium.
pub(crate) const LINKS: usize = 4;
/// The offset of the record of operations that run alone. Behind it are the two targets of moves.
pub(crate) const RECORD: usize = Superblock::BYTES;
/// The offset of the first list's head.
pub(crate) const HEADS: usize = RECORD + 3 * LINKS;

/// The next multiple of 8.
const fn up8(v: usize) -> usize {
    v.saturating_add(7) & !7
}

/// From one node to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    /// In places.
    pub places: usize,
    /// How many powers of two are in it, and what the rest of it gives 1 with.
    zeros: u32,
    inverse: usize,
}

impl Stride {
    /// For contents of so many bytes.
    pub const fn new<M: Model>(size: usize) -> Stride {
        let places = up8(size.saturating_add(LINKS)) >> Geometry::shift::<M>();
        let zeros = places.trailing_zeros();
        let odd = places >> zeros;
        // Newton's iteration: `odd` is right in 3 bits, and each step doubles them.
        let mut inverse = odd;
        while inverse.wrapping_mul(odd) != 1 {
            inverse = inverse.wrapping_mul(2usize.wrapping_sub(inverse.wrapping_mul(odd)));
        }
        Stride {
            places,
            zeros,
            inverse,
        }
    }

    /// How many strides `places` are; more than any number of nodes when they are no multiple.
    ///
    /// An exact division is a multiplication, and what is left over is in the low bits, which become the high ones.
    #[inline(always)]
    pub fn divide(&self, places: usize) -> usize {
        places.wrapping_mul(self.inverse).rotate_right(self.zeros)
    }
}

/// Where the parts lie, and how many nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// How many lists.
    pub lists: usize,
    /// How many contexts have a record of their own.
    pub contexts: usize,
    /// The place of the first node; its content follows at a multiple of 8 bytes.
    pub first: At,
    /// The place behind the last node.
    pub end: At,
    /// How many nodes.
    pub nodes: usize,
    /// From one node to the next.
    pub stride: Stride,
}

impl Geometry {
    /// How many bits a byte offset is shifted to become a link.
    pub const fn shift<M: Model>() -> usize {
        if M::Unit::BYTES == 4 { 2 } else { 0 }
    }

    /// The offset of the first node.
    pub const fn first<M: Model>(lists: usize, contexts: usize) -> usize {
        let staged = lists.saturating_mul(LINKS).saturating_add(HEADS);
        let nodes = contexts
            .saturating_mul(2 * M::Unit::BYTES)
            .saturating_add(staged);
        up8(nodes.saturating_sub(LINKS)).saturating_add(LINKS)
    }

    /// The division of `len` bytes.
    #[inline]
    pub fn new<M: Model>(
        len: usize,
        lists: usize,
        contexts: usize,
        stride: Stride,
    ) -> Result<Geometry, OpenError> {
        // A link has 16 bits, and the last one is no node.
        let limit = (65_528u32 << Self::shift::<M>()) as usize;
        if len > limit {
            return Err(OpenError::TooLarge { limit });
        }
        let first = Self::first::<M>(lists, contexts);
        let bytes = stride.places << Self::shift::<M>();
        // A stride is not 0; the compiler need not know.
        let nodes = len.saturating_sub(first).checked_div(bytes).unwrap_or(0);
        if nodes == 0 {
            let needed = up8(first.saturating_add(bytes));
            return Err(OpenError::TooSmall { needed });
        }
        let first = first >> Self::shift::<M>();
        Ok(Geometry {
            lists,
            contexts,
            first,
            end: first + nodes * stride.places,
            nodes,
            stride,
        })
    }

    /// The offsets of a context's sequence number and of its record.
    pub fn context<M: Model>(&self, ctx: usize) -> (usize, usize) {
        let at = HEADS + self.lists * LINKS + ctx * 2 * M::Unit::BYTES;
        (at, at + M::Unit::BYTES)
    }

    /// Whether a link leads to a node.
    #[inline(always)]
    pub fn is_node(&self, at: At) -> bool {
        self.stride.divide(at.wrapping_sub(self.first)) < self.nodes
    }

    /// The superblock's parameters.
    pub fn params<M: Model>(&self, len: usize) -> [u32; 8] {
        let mut p = [0; 8];
        p[param::LISTS] = self.lists as u32;
        p[param::CONTEXTS] = self.contexts as u32;
        p[param::UNIT] = M::Unit::BYTES as u32;
        p[param::LEN] = len as u32;
        p[param::STRIDE] = (self.stride.places << Self::shift::<M>()) as u32;
        p
    }
}

/// What an operation record says is under way with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(usize)]
pub(crate) enum Kind {
    /// It leaves from between the two that its own links name, and then it goes between the two that the first target names.
    MoveA = 1,
    /// The same with the second target.
    MoveB = 2,
    /// It leaves from between the two that its own links name.
    Remove = 3,
    /// It goes between the two that its own links name.
    Insert = 4,
    /// It takes the place of the one between the two that its own links name.
    Replace = 5,
}

impl Kind {
    #[inline(always)]
    pub fn decode(n: usize) -> Option<Kind> {
        Some(match n {
            1 => Kind::MoveA,
            2 => Kind::MoveB,
            3 => Kind::Remove,
            4 => Kind::Insert,
            5 => Kind::Replace,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvmem::{InOrder16, InOrder32};

    fn divides<M: Model>() {
        for size in (0..300).chain([1000, 4095, 40_000]) {
            let stride = Stride::new::<M>(size);
            assert!(stride.places << Geometry::shift::<M>() >= size + LINKS);
            let most = 65_536 / stride.places;
            for d in 0..65_536usize {
                let (q, rest) = (d / stride.places, d % stride.places);
                let got = stride.divide(d);
                assert_eq!(rest == 0, got <= most, "{d} by {}", stride.places);
                assert!(rest != 0 || got == q);
            }
            // A place before the first node.
            assert!(stride.divide(0usize.wrapping_sub(stride.places)) > most);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    fn a_multiple_is_told_without_a_division() {
        divides::<InOrder32>();
        divides::<InOrder16>();
    }
}
