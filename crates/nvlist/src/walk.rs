//! A look at everything: each list closed, each link answered, each content a value; and what nobody holds is free.
//!
//! A list is walked forwards, and each node must lead back to the one before it. So no node is met twice: it would have
//! to lead back to two. The walk needs no memory and ends after as many steps as there are nodes.

use crate::error::{OpenError, Part};
use crate::layout::{At, FREE, HELD, LINKS};
use crate::state::Core;
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

impl<M: Model> Core<'_, M> {
    /// The place of list `i`.
    pub fn head(&self, i: usize) -> At {
        (self.geo.heads + i * LINKS) >> Self::SHIFT
    }

    /// The place of node `i`.
    pub fn node(&self, i: usize) -> At {
        (self.geo.first + i * self.geo.stride) >> Self::SHIFT
    }

    /// Walks all lists; how many nodes they hold.
    pub fn walk(&self, size: usize, check: CheckFn) -> Result<usize, OpenError> {
        let mut met = 0;
        for i in 0..self.geo.lists {
            let head = self.head(i);
            let mut at = head;
            loop {
                // SAFETY: a place.
                let next = unsafe { self.next(at) };
                if next != head && !self.is_node(next) {
                    return Err(OpenError::Damaged(Part::Links));
                }
                // SAFETY: a place.
                if unsafe { self.prev(next) } != at && !planted!("nvlist/walk-looks-forward-only") {
                    return Err(OpenError::Damaged(Part::Links));
                }
                if next == head {
                    break;
                }
                if met == self.geo.nodes {
                    return Err(OpenError::Damaged(Part::Links));
                }
                met += 1;
                at = next;
                let content = self.address(at).wrapping_add(LINKS);
                mapped::will_read(content, size);
                // SAFETY: a node's content, aligned, initialised as all memory is after power-up, and nothing is lent.
                unsafe { check(content, &mut NoHandles) }.map_err(OpenError::Invalid)?;
            }
        }
        Ok(met)
    }

    /// Whether the node is in a list: its neighbours lead to it.
    pub fn is_linked(&self, x: At) -> bool {
        // SAFETY: a node; its links are looked at before they are followed.
        let (p, n) = unsafe { self.links(x) };
        let place = |at| self.is_node(at) || self.is_head(at);
        // SAFETY: checked.
        place(p) && place(n) && unsafe { self.next(p) == x && self.prev(n) == x }
    }

    /// How the nodes are used, of which `met` are in lists.
    pub fn count(&self, met: usize) -> Result<Audit, OpenError> {
        let mut a = Audit {
            linked: 0,
            free: 0,
            held: 0,
        };
        for x in (0..self.geo.nodes).map(|i| self.node(i)) {
            // SAFETY: a node.
            if unsafe { self.prev(x) } == FREE {
                a.free += 1;
            } else if self.is_linked(x) {
                a.linked += 1;
            } else {
                a.held += 1;
            }
        }
        // A ring that no list leads to.
        if a.linked != met && !planted!("nvlist/ring-unseen") {
            return Err(OpenError::Damaged(Part::Links));
        }
        Ok(a)
    }

    /// Returns what is neither free nor in a list. **Cost**: one unit each.
    pub fn reclaim(&self) {
        if planted!("nvlist/no-reclaim") {
            return;
        }
        for x in (0..self.geo.nodes).map(|i| self.node(i)) {
            // SAFETY: a node.
            let first = unsafe { self.prev(x) };
            if first != FREE && (first == HELD || !self.is_linked(x)) {
                // SAFETY: in no list, and nobody holds it.
                unsafe { self.release(x) }
            }
        }
        self.fence();
    }
}
