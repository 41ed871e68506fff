//! The links and records of an open pool, without its types and without what changes in RAM.
//!
//! **Links are checked**: every link that is loaded here was checked by `recovery` and `walk` when the pool was opened, or
//! stored here since; the region has one owner. So a place stays a place, and loads follow it without looking twice.

use crate::layout::{Geometry, HEADS, LINKS, Link, OpKind, RECORD};
use nvmem::{Model, Region, Unit, mapped, planted};

/// Bits of a link where two are one unit. (Where `usize` has no room for both, none are.)
const HALF: u32 = if usize::BITS > 16 { 16 } else { 0 };

/// Where a pool lies and how it is divided.
pub(crate) struct LinkMap<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
}

impl<M: Model> LinkMap<'_, M> {
    /// Whether both links of a node are one unit.
    pub const PACKED: bool = M::Unit::BYTES == 4;
    pub const SHIFT: usize = Geometry::shift::<M>();
    /// Places that two links take.
    pub const LINKS: usize = LINKS >> Self::SHIFT;
    /// The place of the first list's head; the others follow.
    pub const HEADS: Link = HEADS >> Self::SHIFT;

    /// The first byte of a place.
    #[inline(always)]
    pub fn address(&self, at: Link) -> *mut u8 {
        self.region.base().wrapping_add(at << Self::SHIFT)
    }

    /// # Safety
    /// `off` is the offset of a unit of the records, or of links.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> usize {
        debug_assert!(off + M::Unit::BYTES <= self.region.len());
        let at = self.region.base().wrapping_add(off);
        // SAFETY: invariant "Links are checked", by the caller's contract: inside of the region;
        // such units are never lent.
        unsafe { mapped::load(at.cast::<M::Unit>()).widen() as usize }
    }

    /// # Safety
    /// As [`Core::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: usize) {
        debug_assert!(off + M::Unit::BYTES <= self.region.len());
        let at = self.region.base().wrapping_add(off);
        // SAFETY: invariant "Links are checked", by the caller's contract: inside of the region;
        // such units are never lent.
        unsafe { mapped::store(at.cast::<M::Unit>(), M::Unit::truncate(v as u32)) }
    }

    #[inline(always)]
    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// The links of a place: the previous one and the next.
    ///
    /// # Safety
    /// `at` is a place of this pool, or a target.
    #[inline(always)]
    pub unsafe fn links(&self, at: Link) -> (Link, Link) {
        let off = at << Self::SHIFT;
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            let first = self.load(off);
            if Self::PACKED {
                (first & 0xffff, first >> HALF)
            } else {
                (first, self.load(off + 2))
            }
        }
    }

    /// Stores links, the previous one last where that takes two stores.
    ///
    /// # Safety
    /// As [`Core::links`].
    #[inline(always)]
    pub unsafe fn set_links(&self, at: Link, prev: Link, next: Link) {
        let off = at << Self::SHIFT;
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            if Self::PACKED {
                self.store(off, prev | next << HALF);
            } else if planted!("nvlist/previous-link-first") {
                self.store(off, prev);
                self.store(off + 2, next);
            } else {
                self.store(off + 2, next);
                self.store(off, prev);
            }
        }
    }

    /// # Safety
    /// As [`Core::links`].
    #[inline(always)]
    pub unsafe fn prev(&self, at: Link) -> Link {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            let first = self.load(at << Self::SHIFT);
            if Self::PACKED { first & 0xffff } else { first }
        }
    }

    /// # Safety
    /// As [`Core::links`].
    #[inline(always)]
    pub unsafe fn next(&self, at: Link) -> Link {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            if Self::PACKED {
                self.load(at << Self::SHIFT) >> HALF
            } else {
                self.load((at << Self::SHIFT) + 2)
            }
        }
    }

    /// # Safety
    /// As [`Core::links`], and `at` is a place.
    #[inline(always)]
    pub unsafe fn set_prev(&self, at: Link, prev: Link) {
        let off = at << Self::SHIFT;
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            if Self::PACKED {
                self.store(off, self.load(off) & !0xffff | prev);
            } else {
                self.store(off, prev);
            }
        }
    }

    /// # Safety
    /// As [`Core::set_prev`].
    #[inline(always)]
    pub unsafe fn set_next(&self, at: Link, next: Link) {
        let off = at << Self::SHIFT;
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            if Self::PACKED {
                self.store(off, self.load(off) & 0xffff | next << HALF);
            } else {
                self.store(off + 2, next);
            }
        }
    }

    /// The word of a record.
    #[inline(always)]
    pub fn record_word(x: Link, kind: OpKind) -> usize {
        if Self::PACKED {
            x << HALF | kind as usize
        } else {
            x & !7 | kind as usize
        }
    }

    /// What the word of a record says.
    pub fn parse_record(word: usize) -> Option<(Link, OpKind)> {
        if Self::PACKED {
            Some((word >> HALF, OpKind::decode(word & 0xffff)?))
        } else {
            Some((word & !7 | 4, OpKind::decode(word & 7)?))
        }
    }

    /// The place of a move's target.
    #[inline(always)]
    pub fn target(kind: OpKind) -> Link {
        (RECORD >> Self::SHIFT) + kind as usize * Self::LINKS
    }

    /// The place of list `i`.
    #[inline(always)]
    pub fn head(i: usize) -> Link {
        Self::HEADS + i * Self::LINKS
    }

    /// Whether a link leads to a node of this pool.
    #[inline]
    pub fn is_node(&self, at: Link) -> bool {
        self.geo.is_node(at)
    }

    /// Whether it leads to a list's head.
    #[inline]
    pub fn is_head(&self, at: Link) -> bool {
        let i = at
            .wrapping_sub(Self::HEADS)
            .rotate_right(Self::LINKS.trailing_zeros());
        i < self.geo.lists
    }
}
