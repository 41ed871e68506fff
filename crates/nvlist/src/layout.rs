//! Where everything lies in a node pool, and what its words mean. docs/SPEC.md shows the same as pictures.

use crate::error::OpenError;
use nvmem::superblock::Superblock;
use nvmem::{Model, Unit};

/// The kind of superblock.
pub(crate) const KIND: [u8; 4] = *b"LIST";
/// Version of the format.
pub(crate) const VERSION: u16 = 1;

/// Indices of the superblock's parameters.
pub(crate) mod param {
    pub const LISTS: usize = 0;
    pub const CONTEXTS: usize = 1;
    pub const UNIT: usize = 2;
    pub const LEN: usize = 3;
    pub const STRIDE: usize = 4;
    pub const NODES: usize = 5;
}

/// A link: the place of a node's links, or of a list's head, as it is stored. Where the unit has 4 bytes it counts units,
/// and two links are one unit; where it has 2 it counts bytes. At most 16 bits.
pub(crate) type At = usize;

/// The links of a node that is in no list and that nobody holds.
pub(crate) const FREE: At = 0;
/// The first link of a node that somebody holds: leads nowhere, for it would lie in the superblock.
pub(crate) const HELD: At = 1;

/// Byte offsets of the parts, and how many nodes there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// How many lists.
    pub lists: usize,
    /// How many contexts have a record of their own.
    pub contexts: usize,
    /// The record of operations that run alone.
    pub record: usize,
    /// The contexts' sequence numbers and records.
    pub staged: usize,
    /// The lists' heads.
    pub heads: usize,
    /// The first node's links; its content follows at a multiple of 8.
    pub first: usize,
    /// From one node to the next.
    pub stride: usize,
    /// How many nodes.
    pub nodes: usize,
}

/// Bytes of a node's links on every medium.
pub(crate) const LINKS: usize = 4;

impl Geometry {
    /// How many bits a byte offset is shifted to become a link.
    pub const fn shift<M: Model>() -> usize {
        if M::Unit::BYTES == 4 { 2 } else { 0 }
    }

    /// The division of `len` bytes.
    pub fn new<M: Model>(
        len: usize,
        lists: usize,
        contexts: usize,
        size: usize,
    ) -> Result<Geometry, OpenError> {
        // A link has 16 bits, and the last one is no node.
        let limit = (65_528u32 << Self::shift::<M>()) as usize;
        if len > limit {
            return Err(OpenError::TooLarge { limit });
        }
        let up8 = |v: usize| v.saturating_add(7) & !7;
        let record = Superblock::BYTES;
        let staged = record + 16;
        let heads = up8(contexts
            .saturating_mul(2 * M::Unit::BYTES)
            .saturating_add(staged));
        let first = up8(lists.saturating_mul(LINKS).saturating_add(heads)).saturating_add(LINKS);
        let stride = up8(size.saturating_add(LINKS));
        let nodes = len.saturating_sub(first).checked_div(stride).unwrap_or(0);
        if nodes == 0 {
            let needed = up8(first.saturating_add(stride));
            return Err(OpenError::TooSmall { needed });
        }
        Ok(Geometry {
            lists,
            contexts,
            record,
            staged,
            heads,
            first,
            stride,
            nodes,
        })
    }

    /// The superblock's parameters.
    pub fn params<M: Model>(&self, len: usize) -> [u32; 8] {
        let mut p = [0; 8];
        p[param::LISTS] = self.lists as u32;
        p[param::CONTEXTS] = self.contexts as u32;
        p[param::UNIT] = M::Unit::BYTES as u32;
        p[param::LEN] = len as u32;
        p[param::STRIDE] = self.stride as u32;
        p[param::NODES] = self.nodes as u32;
        p
    }
}

/// What an operation record says is under way with its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It goes between the two that its own links name.
    Insert = 1,
    /// It leaves from between the two that its own links name.
    Remove = 2,
    /// As `Remove`, and then it goes between the two that the first target names.
    MoveA = 3,
    /// The same with the second target.
    MoveB = 4,
    /// It takes the place of the one between the two that its own links name.
    Replace = 5,
}

impl Kind {
    pub fn decode(n: usize) -> Option<Kind> {
        Some(match n {
            1 => Kind::Insert,
            2 => Kind::Remove,
            3 => Kind::MoveA,
            4 => Kind::MoveB,
            5 => Kind::Replace,
            _ => return None,
        })
    }
}
