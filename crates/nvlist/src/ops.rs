//! The operations: which stores, in which order. docs/DESIGN.md has the table of what a cut leaves after each.

use crate::layout::{At, HELD, Kind, RECORD};
use crate::map::Map;
use crate::state::Core;
use nvmem::{Model, planted};

/// An operation with all that it needs to be finished: `x` goes, comes or moves.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub kind: Kind,
    pub x: At,
    /// The neighbours that the operation finds: between them `x` goes, or from there it leaves.
    pub p: At,
    pub n: At,
    /// Of a move: between them it comes.
    pub p2: At,
    pub n2: At,
}

impl<M: Model> Core<'_, M> {
    /// Puts `x` between `p` and `n`. **Cost**: 4 units; 5 where links are two.
    ///
    /// # Safety
    /// `p` and `n` are neighbours, and `x` is a node that is in no list and has its content.
    #[inline]
    pub unsafe fn insert(&self, x: At, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.settle();
            self.insert_as(Kind::Insert, x, p, n)
        }
    }

    #[inline(always)]
    unsafe fn insert_as(&self, kind: Kind, x: At, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.aim(kind, x, p, n);
            if !planted!("nvlist/no-fence-before-record") {
                self.fence();
            }
            self.record(Map::<M>::word(x, kind));
            if !planted!("nvlist/no-fence-after-record") {
                self.fence();
            }
            self.join_both(p, n, x);
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
    pub unsafe fn replace(&self, x: At, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.settle();
            self.insert_as(Kind::Replace, x, p, n)
        }
    }

    /// Takes `x` out of its list. **Cost**: 3 units.
    ///
    /// # Safety
    /// `x` is in a list, between `p` and `n`.
    #[inline]
    pub unsafe fn remove(&self, x: At, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.settle();
            self.record(Map::<M>::word(x, Kind::Remove));
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
    pub unsafe fn shift(&self, x: At, (p, n): (At, At), (p2, n2): (At, At)) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.settle();
            // The target that a record still names must stay.
            let kind = if self.load(RECORD) & 1 == 0 || planted!("nvlist/one-target") {
                Kind::MoveA
            } else {
                Kind::MoveB
            };
            self.set_links(Map::<M>::target(kind), p2, n2);
            self.fence();
            self.record(Map::<M>::word(x, kind));
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
    unsafe fn aim(&self, kind: Kind, x: At, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: `x` is a node.
        unsafe {
            let replaces = kind as usize == Kind::Replace as usize;
            let mut torn = !Map::<M>::PACKED;
            if planted!("nvlist/removed-and-inserted-at-once") {
                torn = false;
            }
            let mut apart = replaces;
            if planted!("nvlist/removed-and-replacing-at-once") {
                apart = false;
            }
            if (torn || apart)
                && self.load(RECORD) == Map::<M>::word(x, Kind::Remove)
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
    pub fn settle(&self) {
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
        self.settle();
        // SAFETY: invariants "Links are checked" and "One owner", by the caller's contract: units
        // of the records, and the places of `plan`.
        unsafe {
            // One record at a time: two would be finished in an order that nobody knows.
            if self.load(RECORD) != 0 {
                self.store(RECORD, 0);
                self.fence();
            }
            match plan.kind {
                Kind::Insert | Kind::Replace => self.set_links(plan.x, plan.p, plan.n),
                Kind::Remove => {}
                Kind::MoveA | Kind::MoveB => {
                    self.set_links(Map::<M>::target(plan.kind), plan.p2, plan.n2)
                }
            }
            self.store(number, seq as usize);
            if !planted!("nvlist/no-fence-before-staged-record") {
                self.fence();
            }
            self.store(record, Map::<M>::word(plan.x, plan.kind));
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
                Kind::Insert | Kind::Replace => self.join_both(p, n, x),
                Kind::Remove => self.join(p, n),
                Kind::MoveA | Kind::MoveB => self.finish_move(x, p, n, plan.p2, plan.n2),
            }
            if !planted!("nvlist/no-fence-before-clear") {
                self.fence();
            }
            if planted!("nvlist/staged-record-stays") {
                self.staged.set(0);
            }
        }
        self.settle();
    }

    /// The number will not be committed.
    pub fn abandon(&self) {
        if planted!("nvlist/abandoned-record-stays") {
            self.staged.set(0);
        }
        self.settle();
    }
}

/// The stores behind the record: an operation's own, and recovery's.
impl<M: Model> Map<'_, M> {
    #[inline(always)]
    pub unsafe fn record(&self, word: usize) {
        if !planted!("nvlist/no-record") {
            // SAFETY: invariant "One record": the unit of the one without a context.
            unsafe { self.store(RECORD, word) }
        }
    }

    /// `x` between `p` and `n`, whose links to each other are replaced.
    #[inline(always)]
    pub unsafe fn join_both(&self, p: At, n: At, x: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.set_next(p, x);
            self.set_prev(n, x);
        }
    }

    /// `p` and `n` as neighbours.
    #[inline(always)]
    pub unsafe fn join(&self, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.set_next(p, n);
            self.set_prev(n, p);
        }
    }

    /// The stores of a move behind its record. The node's own links say how far they have come.
    #[inline(always)]
    pub unsafe fn finish_move(&self, x: At, p: At, n: At, p2: At, n2: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            if planted!("nvlist/old-links-lost") {
                self.turn(x, p2, n2);
            }
            self.leave(p, n);
            self.arrive(x, p2, n2);
        }
    }

    /// A node on the move is taken out from between `p` and `n`.
    #[inline(always)]
    pub unsafe fn leave(&self, p: At, n: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe { self.join(p, n) }
        if !planted!("nvlist/no-fence-in-move") {
            self.fence();
        }
    }

    /// And put between `p2` and `n2`.
    #[inline(always)]
    pub unsafe fn arrive(&self, x: At, p2: At, n2: At) {
        // SAFETY: invariant "Links are checked", by the caller's contract: places.
        unsafe {
            self.turn(x, p2, n2);
            self.join_both(p2, n2, x);
        }
    }

    /// The links of a node on the move: the previous one first, by which recovery sees that the old ones are not needed.
    #[inline(always)]
    pub unsafe fn turn(&self, x: At, p2: At, n2: At) {
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
