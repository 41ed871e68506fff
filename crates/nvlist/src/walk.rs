//! A look at everything: each list closed, each link answered, each content a value; and what nobody holds is free.
//!
//! A list is walked forwards, and each node must lead back to the one before it. So no node is linked twice: it would have
//! to lead back to two. The walk needs no memory and ends after as many steps as there are nodes.

use crate::error::{Component, OpenError};
use crate::layout::{FREE, LINKS, Link, RECORD};
use crate::map::LinkMap;
use nvmem::persist::{CheckFn, NoHandles};
use nvmem::{Model, mapped, planted};

/// How the nodes of a pool are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Audit {
    /// Nodes that are in a list.
    pub linked: usize,
    /// Nodes that are free.
    pub free: usize,
    /// Nodes that are neither: held by a handle, or by one that was dropped.
    pub held: usize,
}

impl<M: Model> LinkMap<'_, M> {
    /// Walks all lists; how many nodes they hold. `None` for links that are not answered.
    pub fn walk(&self, size: usize, check: CheckFn) -> Result<usize, OpenError> {
        let mut linked = 0;
        for i in 0..self.geo.lists {
            let head = Self::head(i);
            let mut at = head;
            // SAFETY: invariant "Links are checked": a head is a place.
            let mut next = unsafe { self.next(head) };
            while next != head {
                if !self.is_node(next) {
                    return Err(OpenError::Damaged(Component::Links));
                }
                // SAFETY: invariant "Links are checked": a node.
                let (back, after) = unsafe { self.links(next) };
                if back != at && !planted!("nvlist/walk-looks-forward-only") {
                    return Err(OpenError::Damaged(Component::Links));
                }
                linked += 1;
                (at, next) = (next, after);
                let content = self.address(at).wrapping_add(LINKS);
                mapped::will_read(content, size);
                // SAFETY: invariants "Links are checked" and "Padding is not read": the content of
                // a node, aligned, initialised as all memory is after power-up, and nothing is
                // lent.
                unsafe { check(content, &mut NoHandles) }.map_err(OpenError::Invalid)?;
            }
            // SAFETY: invariant "Links are checked": a head is a place.
            if unsafe { self.prev(head) } != at && !planted!("nvlist/walk-looks-forward-only") {
                return Err(OpenError::Damaged(Component::Links));
            }
        }
        Ok(linked)
    }

    /// Whether the node is in a list: the one before it leads to it.
    ///
    /// Of a node in no list that one, if there is one, never does: it was joined with another when the node left, or
    /// will be when it comes. In other images [`LinkMap::sweep`] counts differently than [`LinkMap::walk`].
    pub fn is_linked(&self, x: Link) -> bool {
        // SAFETY: invariant "Links are checked": a node.
        self.leads_to(unsafe { self.prev(x) }, x)
    }

    #[inline]
    fn leads_to(&self, p: Link, x: Link) -> bool {
        // SAFETY: invariant "Links are checked": looked at before it is followed.
        self.is_link(p) && unsafe { self.next(p) } == x
    }

    /// Counts how the nodes are used, of which `linked` are in lists, and returns those that are neither free nor in a list if `reclaim`.
    ///
    /// **Cost**: one unit for each that is returned.
    #[inline]
    pub fn sweep(&self, linked: usize, reclaim: bool) -> Result<Audit, OpenError> {
        let mut a = Audit {
            linked: 0,
            free: 0,
            held: 0,
        };
        let mut x = self.geo.first;
        while x != self.geo.end {
            // SAFETY: invariants "Links are checked" and "One owner": a node; where it is returned
            // it is in no list, and nobody holds it.
            unsafe {
                let p = self.prev(x);
                if p == FREE {
                    a.free += 1;
                } else if self.leads_to(p, x) {
                    a.linked += 1;
                } else {
                    a.held += 1;
                    if reclaim && !planted!("nvlist/no-reclaim") {
                        self.store(x << Self::SHIFT, FREE);
                    }
                }
            }
            x += self.geo.stride.places;
        }
        // Otherwise there is a ring that no list leads to.
        if a.linked == linked || planted!("nvlist/ring-unseen") {
            Ok(a)
        } else {
            Err(OpenError::Damaged(Component::Links))
        }
    }

    /// Looks at everything, and returns what is neither free nor in a list. **Cost**: one unit each.
    #[inline]
    pub fn check_all(&self, size: usize, check: CheckFn) -> Result<(), OpenError> {
        let linked = self.walk(size, check)?;
        // First a look, so that nothing is stored in a damaged image.
        let mut reclaim = false;
        while self.sweep(linked, reclaim)?.held > 0 && !(reclaim && planted!("nvlist/no-reclaim")) {
            reclaim = true;
        }
        if reclaim {
            self.fence();
        }
        Ok(())
    }

    /// An empty content: no record, no node in a list.
    #[inline]
    pub fn format(&self) {
        // SAFETY: invariant "Sole region": places from the record to the last node, which nobody
        // uses yet.
        unsafe {
            let mut at = RECORD >> Self::SHIFT;
            while at != self.geo.first {
                let to = if self.is_head(at) { at } else { 0 };
                self.set_links(at, to, to);
                at += Self::LINKS;
            }
            while at != self.geo.end {
                self.store(at << Self::SHIFT, FREE);
                at += self.geo.stride.places;
            }
        }
    }
}
