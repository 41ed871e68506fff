//! The check of a whole pool: every list is closed, every link is answered by a link back, every
//! content is valid. Nodes that no handle owns become free.
//!
//! ```text
//!  head -> X -> Y -> head        walk: at each step, node.prev must be the node just left
//!       <-   <-   <-
//! ```
//!
//! Why the walk ends: each node must lead back to the one before it, and a node can lead back to
//! only one. So the walk never meets a node twice. It needs no memory and at most as many steps as
//! there are nodes.

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
    /// Nodes that are neither: a handle owns them, or owned them when it was dropped.
    pub held: usize,
}

impl<M: Model> LinkMap<'_, M> {
    // INVARIANT "No step twice": the walk meets each node once, because each link must have its
    // counterpart.
    // Noticed by: planted `walk-looks-forward-only`, `ring-unseen`.

    /// Walks all lists; returns the number of nodes in them. **Errors**: a link that is not
    /// answered, or an invalid content.
    pub fn walk(&self, size: usize, check: CheckFn) -> Result<usize, OpenError> {
        let mut linked = 0;
        for i in 0..self.geo.lists {
            let head = Self::head(i);
            let mut at = head;
            // SAFETY: invariant "Links are checked": a list head is a valid link.
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
                // a node, aligned, initialised as all memory is after power-up; nothing is lent.
                unsafe { check(content, &mut NoHandles) }.map_err(OpenError::Invalid)?;
            }
            // SAFETY: invariant "Links are checked": a list head is a valid link.
            if unsafe { self.prev(head) } != at && !planted!("nvlist/walk-looks-forward-only") {
                return Err(OpenError::Damaged(Component::Links));
            }
        }
        Ok(linked)
    }

    /// Whether the node is in a list: the node or head before it leads to it.
    ///
    /// For a node in no list this is false: its predecessor was joined with another node when it
    /// left, or does not lead to it yet. In a damaged image [`LinkMap::sweep`] counts another
    /// number than [`LinkMap::walk`].
    pub fn is_linked(&self, x: Link) -> bool {
        // SAFETY: invariant "Links are checked": a node.
        self.leads_to(unsafe { self.prev(x) }, x)
    }

    #[inline]
    fn leads_to(&self, p: Link, x: Link) -> bool {
        // SAFETY: invariant "Links are checked": checked before it is followed.
        self.is_link(p) && unsafe { self.next(p) } == x
    }

    // INVARIANT "Nothing leaks": after an open each node is in a list or free.
    // Noticed by: `audit` after every cut; planted `no-reclaim`.

    /// Counts how the nodes are used. With `reclaim` it frees those that are neither free nor in a
    /// list. `linked` is the number that the walk found in lists.
    ///
    /// **Cost**: one unit for each node that is freed.
    #[inline]
    pub fn sweep(&self, linked: usize, reclaim: bool) -> Result<Audit, OpenError> {
        let mut a = Audit {
            linked: 0,
            free: 0,
            held: 0,
        };
        let mut x = self.geo.first;
        while x != self.geo.end {
            // SAFETY: invariants "Links are checked" and "One owner": a node; a node that is freed
            // is in no list, and no handle owns it.
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
        // A difference means a ring of nodes that no list leads to.
        if a.linked == linked || planted!("nvlist/ring-unseen") {
            Ok(a)
        } else {
            Err(OpenError::Damaged(Component::Links))
        }
    }

    /// Checks the whole pool, then frees the nodes that are neither free nor in a list. **Cost**:
    /// one unit each.
    #[inline]
    pub fn check_all(&self, size: usize, check: CheckFn) -> Result<(), OpenError> {
        let linked = self.walk(size, check)?;
        // Count first and free in a second pass, so that nothing is stored in a damaged image.
        let mut reclaim = false;
        while self.sweep(linked, reclaim)?.held > 0 && !reclaim {
            reclaim = true;
        }
        if reclaim {
            self.fence();
        }
        Ok(())
    }

    /// Stores an empty pool: no record, all lists empty, all nodes free.
    #[inline]
    pub fn format(&self) {
        // SAFETY: invariant "Sole region": positions from the record to the last node; nothing uses
        // them yet.
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
