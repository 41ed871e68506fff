//! Access to the links and records of an open pool without its types: loads and stores, its RAM
//! state, and the search for free nodes.
//!
//! **Links are checked**: `recover` and `walk` checked every link when the pool was opened, or an
//! operation has stored it since; the region has one owner. So a valid link stays valid, and loads
//! follow it without another check.

use crate::layout::{FREE, Geometry, HEADS, HELD, LINKS, Link, OpKind, RECORD};
use core::cell::Cell;
use core::ops::Deref;
use nvmem::{Model, NumberOwner, Region, Unit, mapped, planted};

/// Bits of a link where two links are one unit. (0 where `usize` has 16 bits: such media are not
/// supported there.)
const HALF: u32 = if usize::BITS > 16 { 16 } else { 0 };

// INVARIANT "Links are checked": a link is a position of this pool before anything is loaded
// through it, and stays one. The walk at open checks all links (walk.rs), and every store of a link
// stores a position.
// Noticed by: hostile images in tests/suite/hostile, fuzzing; `every_link_leads_everywhere`;
// `stale_pointers_after_a_crash`, `a_recovery_does_not_follow_what_it_has_not_checked` and
// `the_head_is_right` in tests/suite/others.rs.

/// A pool's region and layout.
pub(crate) struct LinkMap<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
}

impl<M: Model> LinkMap<'_, M> {
    /// Whether both links of a node are one unit.
    pub const PACKED: bool = M::Unit::BYTES == 4;
    pub const SHIFT: usize = Geometry::shift::<M>();
    /// The size of a pair of links, in units of a link.
    pub const LINKS: usize = LINKS >> Self::SHIFT;
    /// The link of the first list head; the others follow.
    pub const HEADS: Link = HEADS >> Self::SHIFT;

    /// The address that a link leads to.
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
        // SAFETY: invariant "Links are checked", by the caller's contract: inside the region; such
        // units are never lent.
        unsafe { mapped::load(at.cast::<M::Unit>()).widen() as usize }
    }

    /// # Safety
    /// As [`LinkMap::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: usize) {
        debug_assert!(off + M::Unit::BYTES <= self.region.len());
        let at = self.region.base().wrapping_add(off);
        // SAFETY: invariant "Links are checked", by the caller's contract: inside the region; such
        // units are never lent.
        unsafe { mapped::store(at.cast::<M::Unit>(), M::Unit::truncate(v as u32)) }
    }

    #[inline(always)]
    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// Loads a pair of links: the previous one and the next.
    ///
    /// # Safety
    /// `at` is a valid link of this pool, or the position of a target.
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

    /// # Safety
    /// As [`LinkMap::links`].
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
    /// As [`LinkMap::links`].
    #[inline(always)]
    pub unsafe fn prev(&self, at: Link) -> Link {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            let first = self.load(at << Self::SHIFT);
            if Self::PACKED { first & 0xffff } else { first }
        }
    }

    /// # Safety
    /// As [`LinkMap::links`].
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
    /// As [`LinkMap::links`], and `at` is a valid link.
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
    /// As [`LinkMap::set_prev`].
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

    /// Encodes a record.
    #[inline(always)]
    pub fn record_word(x: Link, kind: OpKind) -> usize {
        if Self::PACKED {
            x << HALF | kind as usize
        } else {
            x & !7 | kind as usize
        }
    }

    /// Decodes a record.
    pub fn parse_record(word: usize) -> Option<(Link, OpKind)> {
        if Self::PACKED {
            Some((word >> HALF, OpKind::decode(word & 0xffff)?))
        } else {
            Some((word & !7 | 4, OpKind::decode(word & 7)?))
        }
    }

    /// The position of a move's target: the kinds are numbered so that arithmetic gives it.
    #[inline(always)]
    pub fn target(kind: OpKind) -> Link {
        (RECORD >> Self::SHIFT) + kind as usize * Self::LINKS
    }

    /// The link of the head of list `i`.
    #[inline(always)]
    pub fn head(i: usize) -> Link {
        Self::HEADS + i * Self::LINKS
    }

    /// Whether a link leads to a node of this pool.
    #[inline]
    pub fn is_node(&self, at: Link) -> bool {
        self.geo.is_node(at)
    }

    /// Whether a link leads to a list head.
    #[inline]
    pub fn is_head(&self, at: Link) -> bool {
        let i = at
            .wrapping_sub(Self::HEADS)
            .rotate_right(Self::LINKS.trailing_zeros());
        i < self.geo.lists
    }
}

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub map: LinkMap<'m, M>,
    /// The link where the search for a free node begins.
    hint: Cell<Link>,
    /// The offset of the record of a staged operation that was neither committed nor abandoned; 0
    /// if there is none.
    pub staged: Cell<usize>,
    /// Whose numbers resolve what the first context stages. The next ones have those of the next
    /// threads.
    pub owner: NumberOwner,
}

impl<'m, M> Deref for Core<'m, M> {
    type Target = LinkMap<'m, M>;
    #[inline(always)]
    fn deref(&self) -> &LinkMap<'m, M> {
        &self.map
    }
}

impl<'m, M: Model> Core<'m, M> {
    #[inline]
    pub fn new(region: Region<'m, M>, geo: Geometry, owner: NumberOwner) -> Self {
        Core {
            owner,
            hint: Cell::new(geo.first),
            map: LinkMap { region, geo },
            staged: Cell::new(0),
        }
    }

    /// Whose numbers resolve what a context stages.
    pub fn context_owner(&self, context: usize) -> NumberOwner {
        match self.owner {
            NumberOwner::PROGRAM => NumberOwner::PROGRAM,
            first => first.thread(context),
        }
    }

    /// Marks a node that is in no list as held: its links lead nowhere, and it is not free.
    ///
    /// # Safety
    /// `x` is a node that is in no list.
    #[inline]
    pub unsafe fn mark_held(&self, x: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe { self.store(x << LinkMap::<M>::SHIFT, HELD) }
    }

    /// Marks a node as free.
    ///
    /// # Safety
    /// As [`Core::mark_held`], and it is not used after this.
    #[inline]
    pub unsafe fn release(&self, x: Link) {
        // SAFETY: invariant "One owner", by the caller's contract. Where links are two units, the
        // first alone marks it as free.
        unsafe { self.store(x << LinkMap::<M>::SHIFT, FREE) }
        self.hint.set(x);
    }

    /// Finds a free node, searching from where the last one was released. Mostly the first node is
    /// free; in the worst case this looks at all of them. A free list on the medium would cost two
    /// stores for each allocation and release, and would have to be part of the record. **Cost**:
    /// loads only.
    pub fn find_free(&self) -> Option<Link> {
        let mut at = self.hint.get();
        loop {
            // SAFETY: invariant "Links are checked": every multiple of the stride is a node.
            if unsafe { self.prev(at) } == FREE {
                self.hint.set(at);
                return Some(at);
            }
            at += self.geo.stride.places;
            if at == self.geo.end {
                at = self.geo.first;
            }
            if at == self.hint.get() {
                return None;
            }
        }
    }
}
