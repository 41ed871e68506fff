//! The operations: which stores, in which order. docs/DESIGN.md has the table of what a cut leaves after each.

use crate::layout::{HELD, Link, OpKind, RECORD};
use crate::map::LinkMap;
use crate::state::Core;
use nvmem::{Model, planted};

/// An operation with all that it needs to be finished: `x` goes, comes or moves.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub kind: OpKind,
    pub x: Link,
    /// The neighbours that the operation finds: between them `x` goes, or from there it leaves.
    pub p: Link,
    pub n: Link,
    /// Of a move: between them it comes.
    pub p2: Link,
    pub n2: Link,
}

impl<M: Model> Core<'_, M> {
    /// Puts `x` between `p` and `n`. **Cost**: 4 units; 5 where links are two.
    ///
    /// # Safety
    /// `p` and `n` are neighbours, and `x` is a node that is in no list and has its content.
    #[inline]
    pub unsafe fn insert(&self, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.clear_forgotten();
            self.insert_as(OpKind::Insert, x, p, n)
        }
    }

    #[inline(always)]
    unsafe fn insert_as(&self, kind: OpKind, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.set_own_links(kind, x, p, n);
            if !planted!("nvlist/no-fence-before-record") {
                self.fence();
            }
            self.store_record(LinkMap::<M>::record_word(x, kind));
            if !planted!("nvlist/no-fence-after-record") {
                self.fence();
            }
            self.link_between(p, n, x);
            if !planted!("nvlist/no-fence-at-the-end") {
                self.fence();
            }
        }
    }

    /// Puts `x` in the place of the node between `p` and `n`. **Cost**: as [`Core::insert`].
    ///
    /// # Safety
    /// As [`Core::insert`], but that there is one node between `p` and `n`; it is then in no list.
    #[inline]
    pub unsafe fn replace(&self, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.clear_forgotten();
            self.insert_as(OpKind::Replace, x, p, n)
        }
    }

    /// Takes `x` out of its list. **Cost**: 3 units.
    ///
    /// # Safety
    /// `x` is in a list, between `p` and `n`.
    #[inline]
    pub unsafe fn remove(&self, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.clear_forgotten();
            self.store_record(LinkMap::<M>::record_word(x, OpKind::Remove));
            self.fence();
            self.join(p, n);
            self.fence();
        }
    }

    /// Takes `x` out of its list and puts it between `p2` and `n2`. **Cost**: 7 units; 9 where links are two.
    ///
    /// # Safety
    /// `x` is in a list, between `p` and `n`; `p2` and `n2` are neighbours, in the same or in another list, and neither is `x`.
    #[inline]
    pub unsafe fn shift(&self, x: Link, (p, n): (Link, Link), (p2, n2): (Link, Link)) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.clear_forgotten();
            // The target that a record still names must stay.
            let kind = if self.load(RECORD) & 1 == 0 || planted!("nvlist/one-target") {
                OpKind::MoveA
            } else {
                OpKind::MoveB
            };
            self.set_links(LinkMap::<M>::target(kind), p2, n2);
            self.fence();
            self.store_record(LinkMap::<M>::record_word(x, kind));
            self.fence();
            self.finish_move(x, p, n, p2, n2);
            self.fence();
        }
    }

    /// Gives a node its links, before any other node leads to it.
    ///
    /// The record of its own removal may still stand, and its neighbours would be joined again. That changes nothing if they are
    /// neighbours, and is not done for links that lead nowhere. But links of two units pass through a pair that is neither the old
    /// nor the new one, and what is to be replaced stands between the new one.
    #[inline(always)]
    unsafe fn set_own_links(&self, kind: OpKind, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: `x` is a node.
        unsafe {
            let replaces = kind as usize == OpKind::Replace as usize;
            let mut torn = !LinkMap::<M>::PACKED;
            if planted!("nvlist/removed-and-inserted-at-once") {
                torn = false;
            }
            let mut apart = replaces;
            if planted!("nvlist/removed-and-replacing-at-once") {
                apart = false;
            }
            if (torn || apart)
                && self.load(RECORD) == LinkMap::<M>::record_word(x, OpKind::Remove)
                && (apart || self.prev(x) > HELD)
            {
                self.store(RECORD, 0);
                self.fence();
            }
            self.set_links(x, p, n);
        }
    }

    /// A staged operation that its guard forgot: it will not happen.
    #[inline(always)]
    pub fn clear_forgotten(&self) {
        let record = self.staged.get();
        if record != 0 {
            // SAFETY: invariant "One record": the unit of one.
            unsafe { self.store(record, 0) }
            self.fence();
            self.staged.set(0);
        }
    }

    /// Stores everything of an operation that takes effect with a sequence number, but none of the links of others.
    /// **Cost**: that of the operation up to its record, one unit for the number, one at most to clear the last record.
    ///
    /// # Safety
    /// As the operation that `plan` describes; `ctx` is a context.
    pub unsafe fn stage(&self, plan: &Plan, ctx: usize, seq: u32) {
        let (number, record) = self.geo.context::<M>(ctx);
        self.clear_forgotten();
        // SAFETY: invariants "Links are checked" and "One owner", by the caller's contract: units
        // of the records, and the places of `plan`.
        unsafe {
            // One record at a time: two would be finished in an order that nobody knows.
            if self.load(RECORD) != 0 {
                self.store(RECORD, 0);
                self.fence();
            }
            match plan.kind {
                OpKind::Insert | OpKind::Replace => self.set_links(plan.x, plan.p, plan.n),
                OpKind::Remove => {}
                OpKind::MoveA | OpKind::MoveB => {
                    self.set_links(LinkMap::<M>::target(plan.kind), plan.p2, plan.n2)
                }
            }
            self.store(number, seq as usize);
            if !planted!("nvlist/no-fence-before-staged-record") {
                self.fence();
            }
            self.store(record, LinkMap::<M>::record_word(plan.x, plan.kind));
            self.fence();
        }
        self.staged.set(record);
    }

    /// The number is committed: the links of the others. **Cost**: those, and one unit to clear the record.
    ///
    /// # Safety
    /// `plan` was staged, and nothing has been done since.
    pub unsafe fn finish(&self, plan: &Plan) {
        let &Plan { x, p, n, .. } = plan;
        // SAFETY: invariants "Links are checked" and "One owner", by the caller's contract: the
        // places of `plan` are what they were when it was staged.
        unsafe {
            match plan.kind {
                OpKind::Insert | OpKind::Replace => self.link_between(p, n, x),
                OpKind::Remove => self.join(p, n),
                OpKind::MoveA | OpKind::MoveB => self.finish_move(x, p, n, plan.p2, plan.n2),
            }
            if !planted!("nvlist/no-fence-before-clear") {
                self.fence();
            }
            if planted!("nvlist/staged-record-stays") {
                self.staged.set(0);
            }
        }
        self.clear_forgotten();
    }

    /// The number will not be committed.
    pub fn abandon(&self) {
        if planted!("nvlist/abandoned-record-stays") {
            self.staged.set(0);
        }
        self.clear_forgotten();
    }
}

/// The stores behind the record: an operation's own, and recovery's.
impl<M: Model> LinkMap<'_, M> {
    #[inline(always)]
    pub unsafe fn store_record(&self, word: usize) {
        if !planted!("nvlist/no-record") {
            // SAFETY: invariant "One record": the unit of the one without a context.
            unsafe { self.store(RECORD, word) }
        }
    }

    /// `x` between `p` and `n`, whose links to each other are replaced.
    #[inline(always)]
    pub unsafe fn link_between(&self, p: Link, n: Link, x: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.set_next(p, x);
            self.set_prev(n, x);
        }
    }

    /// `p` and `n` as neighbours.
    #[inline(always)]
    pub unsafe fn join(&self, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.set_next(p, n);
            self.set_prev(n, p);
        }
    }

    /// The stores of a move behind its record. The node's own links say how far they have come.
    #[inline(always)]
    pub unsafe fn finish_move(&self, x: Link, p: Link, n: Link, p2: Link, n2: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            if planted!("nvlist/old-links-lost") {
                self.relink_moved(x, p2, n2);
            }
            self.unlink_moved(p, n);
            self.link_moved(x, p2, n2);
        }
    }

    /// A node on the move is taken out from between `p` and `n`.
    #[inline(always)]
    pub unsafe fn unlink_moved(&self, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe { self.join(p, n) }
        if !planted!("nvlist/no-fence-in-move") {
            self.fence();
        }
    }

    /// And put between `p2` and `n2`.
    #[inline(always)]
    pub unsafe fn link_moved(&self, x: Link, p2: Link, n2: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.relink_moved(x, p2, n2);
            self.link_between(p2, n2, x);
        }
    }

    /// The links of a node on the move: the previous one first, by which recovery sees that the old ones are not needed.
    #[inline(always)]
    pub unsafe fn relink_moved(&self, x: Link, p2: Link, n2: Link) {
        // SAFETY: invariant "Links are checked": a node.
        unsafe {
            if Self::PACKED {
                self.set_links(x, p2, n2);
            } else {
                self.set_prev(x, p2);
                self.set_next(x, n2);
            }
        }
    }
}
