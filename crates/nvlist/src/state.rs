//! An open pool without its types: its RAM state, and the search for free nodes.

use crate::layout::{FREE, Geometry, HELD, Link};
use crate::map::LinkMap;
use core::cell::Cell;
use core::ops::Deref;
use nvmem::{Model, Region};

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub map: LinkMap<'m, M>,
    /// The link where the search for a free node begins.
    hint: Cell<Link>,
    /// The offset of the record of a staged operation that was neither committed nor abandoned; 0
    /// if there is none.
    pub staged: Cell<usize>,
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
    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Core {
            hint: Cell::new(geo.first),
            map: LinkMap { region, geo },
            staged: Cell::new(0),
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

    /// Finds a free node. **Cost**: loads only.
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
