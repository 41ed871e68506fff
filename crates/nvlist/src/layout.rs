//! The layout of a node pool and the meaning of its words. docs/spec/nvlist.md has every byte.
//!
//! ```text
//!  +------------+--------+-----------+-------------+------------------+-------+-------+----
//!  | superblock | record | targets   | list heads  | per context:     | node  | node  | ...
//!  |            |        | A, B      |             | number, record   |       |       |
//!  +------------+--------+-----------+-------------+------------------+-------+-------+----
//!                          prev,next   prev,next                        prev,next | content
//! ```
//!
//! A list is a ring through its head. A link is the position of a head or of a node, in units of 4
//! bytes or in bytes. The superblock lies at position 0, so small numbers cannot be positions: 0
//! marks a free node, 1 a held one.

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

/// A link as it is stored: the position of a node or of a list head. On a medium with 4-byte units
/// it counts units, and two links are one unit. On a medium with 2-byte units it counts bytes. At
/// most 16 bits.
pub(crate) type Link = usize;

/// The previous link of a free node: in no list, and no handle owns it.
pub(crate) const FREE: Link = 0;
/// The previous link of a node that a handle owns. It leads nowhere: position 1 lies in the
/// superblock.
pub(crate) const HELD: Link = 1;

/// Bytes of a node's links on every medium.
pub(crate) const LINKS: usize = 4;
/// The offset of the record of operations that are not staged. The two targets of moves follow it.
pub(crate) const RECORD: usize = Superblock::BYTES;
/// The offset of the first list's head. It does not depend on the number of contexts, so a list is
/// a constant.
pub(crate) const HEADS: usize = RECORD + 3 * LINKS;

/// The next multiple of 8.
const fn up8(v: usize) -> usize {
    v.saturating_add(7) & !7
}

/// From one node to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stride {
    /// In units of a link.
    pub places: usize,
    /// Its number of trailing zero bits, and the inverse of its odd factor modulo the word size.
    zeros: u32,
    inverse: usize,
}

impl Stride {
    /// The stride of nodes with a content of `size` bytes.
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

    /// `places` divided by the stride; more than any number of nodes if it is not a multiple.
    ///
    /// An exact division by an odd number is a multiplication by its inverse. A remainder ends up
    /// in the low bits, and the rotation makes them the high ones.
    #[inline(always)]
    pub fn divide(&self, places: usize) -> usize {
        places.wrapping_mul(self.inverse).rotate_right(self.zeros)
    }
}

/// The areas of a pool and its number of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The number of lists.
    pub lists: usize,
    /// The number of contexts that have a record of their own.
    pub contexts: usize,
    /// The link of the first node. Its content follows at a multiple of 8 bytes.
    pub first: Link,
    /// The link behind the last node.
    pub end: Link,
    /// The number of nodes.
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

    /// The longest region: a link has 16 bits, and the largest value is not a node.
    const fn limit<M: Model>() -> usize {
        (65_528u32 << Self::shift::<M>()) as usize
    }

    /// The length of a region for so many nodes; `usize::MAX` if it exceeds the longest region.
    pub const fn bytes_for<M: Model>(
        lists: usize,
        contexts: usize,
        nodes: usize,
        stride: Stride,
    ) -> usize {
        let bytes = nodes
            .saturating_mul(stride.places)
            .saturating_mul(1 << Self::shift::<M>());
        let len = up8(bytes.saturating_add(Self::first::<M>(lists, contexts)));
        if len > Self::limit::<M>() {
            return usize::MAX;
        }
        len
    }

    /// Computes the areas of `len` bytes.
    #[inline]
    pub fn new<M: Model>(
        len: usize,
        lists: usize,
        contexts: usize,
        stride: Stride,
    ) -> Result<Geometry, OpenError> {
        let limit = Self::limit::<M>();
        if len > limit {
            return Err(OpenError::TooLarge { limit });
        }
        let first = Self::first::<M>(lists, contexts);
        let bytes = stride.places.saturating_mul(1 << Self::shift::<M>());
        // A stride is never 0. `checked_div` avoids a panic path.
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
    pub fn is_node(&self, at: Link) -> bool {
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

/// The operation that a record names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
#[repr(usize)]
pub(crate) enum OpKind {
    /// A move with target A: the node leaves the neighbours in its own links and goes between those
    /// in the target.
    MoveA = 1,
    /// A move with target B.
    MoveB = 2,
    /// The node leaves the neighbours in its own links.
    Remove = 3,
    /// The node goes between the neighbours in its own links.
    Insert = 4,
    /// The node replaces the one between the neighbours in its own links.
    Replace = 5,
}

impl OpKind {
    #[inline(always)]
    pub fn decode(n: usize) -> Option<OpKind> {
        Some(match n {
            1 => OpKind::MoveA,
            2 => OpKind::MoveB,
            3 => OpKind::Remove,
            4 => OpKind::Insert,
            5 => OpKind::Replace,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use nvmem::{InOrder16, InOrder32};
    use std::vec;

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
            // A link before the first node.
            assert!(stride.divide(0usize.wrapping_sub(stride.places)) > most);
        }
    }

    /// `Geometry::bytes_for` in u128, to detect overflow.
    fn wide<M: Model>(lists: usize, contexts: usize, nodes: usize, size: usize) -> u128 {
        let up8 = |v: u128| v.div_ceil(8) * 8;
        let [lists, contexts, nodes, size] = [lists, contexts, nodes, size].map(|v| v as u128);
        let (links, unit) = (LINKS as u128, M::Unit::BYTES as u128);
        let heads = HEADS as u128 + lists * links + contexts * 2 * unit;
        let first = up8(heads - links) + links;
        up8(first + nodes * up8(size + links))
    }

    fn right_or_refused<M: Model>(lists: usize, contexts: usize, nodes: usize, size: usize) {
        let stride = Stride::new::<M>(size);
        let got = Geometry::bytes_for::<M>(lists, contexts, nodes, stride);
        let want = wide::<M>(lists, contexts, nodes, size);
        let limit = Geometry::limit::<M>();
        let of = (lists, contexts, nodes, size);
        if want > limit as u128 {
            assert_eq!(got, usize::MAX, "{of:?}");
        } else {
            assert_eq!(got as u128, want, "{of:?}");
        }
        // A region that is too short is refused with the length that is needed.
        for len in [got, got.saturating_sub(8), nodes & !7, 0] {
            match Geometry::new::<M>(len, lists, contexts, stride) {
                Ok(g) => {
                    assert!(len as u128 >= wide::<M>(lists, contexts, g.nodes, size) - 7);
                    assert!((len as u128) < wide::<M>(lists, contexts, g.nodes + 1, size));
                    assert!(g.end << Geometry::shift::<M>() <= len && g.end <= 65_535);
                    assert!(len != got || g.nodes >= nodes, "{of:?}");
                }
                Err(OpenError::TooLarge { limit: l }) => assert!(l == limit && len > limit),
                Err(OpenError::TooSmall { needed }) => {
                    assert!(needed > len);
                    let one = wide::<M>(lists, contexts, 1, size);
                    assert!(needed as u128 == one || one > limit as u128 && needed > limit);
                }
                Err(e) => panic!("{e}"),
            }
        }
    }

    #[test]
    fn a_size_is_right_or_refused_at_the_extremes() {
        let mut all = vec![0, 1, 2, 7, 8, 9, 0xffff, 0x1_0000, 0x4_0000];
        for shift in [15, 16, 31, 32, 61, 62, 63] {
            all.extend([(1usize << shift) - 1, 1 << shift, (1 << shift) + 1]);
        }
        all.extend([usize::MAX - 8, usize::MAX - 4, usize::MAX - 1, usize::MAX]);
        let some = [0, 1, 8, 0xffff, 1 << 31, usize::MAX / 8, usize::MAX];
        for (a, b) in all.iter().flat_map(|a| some.map(|b| (*a, b))) {
            for [lists, contexts, nodes, size] in [
                [a, b, 1, 4],
                [a, 1, b, 4],
                [1, a, b, 4],
                [1, 0, a, b],
                [1, 0, b, a],
                [a, b, b, b],
            ] {
                // A type has at most `isize::MAX` bytes.
                let size = size & usize::MAX >> 1;
                right_or_refused::<InOrder32>(lists, contexts, nodes, size);
                right_or_refused::<InOrder16>(lists, contexts, nodes, size);
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn a_size_is_right_or_refused(
            of: [usize; 4],
            shift in proptest::array::uniform4(0u32..64),
        ) {
            let [lists, contexts, nodes, size] = core::array::from_fn(|i| of[i] >> shift[i]);
            right_or_refused::<InOrder32>(lists, contexts, nodes, size >> 1);
            right_or_refused::<InOrder16>(lists, contexts, nodes, size >> 1);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "arithmetic, and a lot of it")]
    fn multiples_are_found_without_a_division() {
        divides::<InOrder32>();
        divides::<InOrder16>();
    }
}
