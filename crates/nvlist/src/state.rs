//! An open pool without its types: what it keeps in RAM, and which nodes are free.

use crate::layout::{At, FREE, Geometry, HELD};
use crate::map::Map;
use core::cell::Cell;
use core::ops::Deref;
use nvmem::{Model, Region};

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub map: Map<'m, M>,
    /// Where the search for a free node begins.
    hint: Cell<At>,
    /// The offset of the record of an operation that was staged, and neither committed nor abandoned; 0 if there is none.
    pub staged: Cell<usize>,
}

impl<'m, M> Deref for Core<'m, M> {
    type Target = Map<'m, M>;
    #[inline(always)]
    fn deref(&self) -> &Map<'m, M> {
        &self.map
    }
}

impl<'m, M: Model> Core<'m, M> {
    #[inline]
    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Core {
            hint: Cell::new(geo.first),
            map: Map { region, geo },
            staged: Cell::new(0),
        }
    }

    /// Takes a node that is in no list into use: its links lead nowhere, and it is not free.
    ///
    /// # Safety
    /// `x` is a node that is in no list.
    #[inline]
    pub unsafe fn hold(&self, x: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe { self.store(x << Map::<M>::SHIFT, HELD) }
    }

    /// Returns a node.
    ///
    /// # Safety
    /// As [`Core::hold`], and nobody uses it after this.
    #[inline]
    pub unsafe fn release(&self, x: At) {
        // SAFETY: invariant "One owner", by the caller's contract. Where links are two units the
        // first alone says that it is free.
        unsafe { self.store(x << Map::<M>::SHIFT, FREE) }
        self.hint.set(x);
    }

    /// A free node. **Cost**: loads.
    pub fn find(&self) -> Option<At> {
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
