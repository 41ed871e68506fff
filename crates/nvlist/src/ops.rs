//! The list operations, and their recovery: which stores, in which order. What a cut leaves after
//! each is below.
//!
//! Every operation rolls forward: one record names the node `X` and the operation. Links tell how
//! far it came. There is no undo log.
//!
//! ```text
//!  insert X          P <------> N        1  X.links := (P, N)          X is not reachable yet; FENCE
//!  between P and N    \        /         2  record := "insert X"       <- the operation happens; FENCE
//!                      `- X --'          3  P.next := X, N.prev := X; FENCE
//!
//!  replace O by X    as insert, where O lies between P and N
//!
//!  remove X          P <- X -> N         1  record := "remove X"       <- happens; FENCE
//!                                        2  P.next := N, N.prev := P; FENCE
//!                                           (X.links still name P and N)
//!
//!  move X from P,N   P <- X -> N         1  target A or B := (P2, N2); FENCE
//!  to P2,N2          P2 <----> N2        2  record := "move X, target A or B"   <- happens; FENCE
//!                                        3  P.next := N, N.prev := P; FENCE
//!                                        4  X.links := (P2, N2)
//!                                        5  P2.next := X, N2.prev := X; FENCE
//! ```
//!
//! The record is one atomic unit. It stays after the operation: the next one overwrites it, and
//! recovery of a finished operation stores what is already there.
//!
//! Why this is safe: before the record is stored, no link of another node has changed. After it,
//! `X.links` (or the target) name all neighbours until the last store, so recovery can repeat the
//! stores that follow the record. A move uses the target that the standing record does not name, so
//! a cut while it is written does not harm that record. In a move, `X.links` change only after the
//! old neighbours were joined. Then `X.prev` is `P2`. It cannot be before: `X` would be at its
//! destination, and the move does nothing. On a medium where two links are two units, the previous
//! link changes first; from it recovery sees that step 3 is done.
//!
//! Recovery finishes the operation that a cut interrupted, from its record and the links:
//!
//! ```text
//!  record of the last operation, records of the contexts
//!    none set               nothing to do
//!    two set                damage
//!    a context's, and its number is not committed     clear it: the operation does not happen
//!    else (X, operation):
//!      check   X is a node; its neighbours are valid links and lead to X, or to each other
//!      repeat  the stores that follow the record; FENCE
//!      clear   record := 0; FENCE
//! ```
//!
//! A link is checked before anything is loaded through it. All neighbours must be in a state that
//! the operation leaves after one of its stores; else nothing is stored, and the image is damaged.
//! Repeating the stores changes nothing that is already done, so a cut in the recovery is harmless.
//! On a buffered medium any subset of the stores between two fences may be missing. Recovery stores
//! all of them. None depends on another, except `X.links`, which a fence separates from those of P
//! and N.
//!
//! A *staged* operation has a record of its own context, and a sequence number beside it. It
//! happens if and only if that number is committed.

use crate::layout::{HELD, Link, OpKind, RECORD};
use crate::map::{Core, LinkMap};
use nvmem::{Model, planted};

/// An operation with the links that it needs. `x` is the node that enters, leaves or moves.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub kind: OpKind,
    pub x: Link,
    /// The neighbours before the operation: `x` enters between them, or leaves from there.
    pub p: Link,
    pub n: Link,
    /// The neighbours that a move puts `x` between.
    pub p2: Link,
    pub n2: Link,
}

impl<M: Model> Core<'_, M> {
    /// Puts `x` between `p` and `n`. **Cost**: 4 units; 5 where each link is a unit.
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

    // INVARIANT "Record before neighbours": while a link of P or N is changed, the record stands
    // and X's links name P and N. Also in `remove` and `shift`.
    // Noticed by: planted `no-record`, `no-fence-before-record`, `no-fence-after-record`.

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

    /// Replaces the node between `p` and `n` by `x`. **Cost**: as [`Core::insert`].
    ///
    /// # Safety
    /// As [`Core::insert`], except that one node lies between `p` and `n`. Afterwards that node is
    /// in no list.
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

    /// Takes `x` out of its list and puts it between `p2` and `n2`. **Cost**: 7 units; 9 where each
    /// link is a unit.
    ///
    /// # Safety
    /// `x` is in a list, between `p` and `n`; `p2` and `n2` are neighbours, in the same or in
    /// another list, and neither is `x`.
    #[inline]
    pub unsafe fn shift(&self, x: Link, (p, n): (Link, Link), (p2, n2): (Link, Link)) {
        // SAFETY: invariant "Links are checked", by the caller's contract.
        unsafe {
            self.clear_forgotten();
            // Recovery may still need the target that the standing record names: use the other one.
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

    // INVARIANT "A finished record is harmless": finishing the operation that a standing record
    // names changes nothing. Kept here, and by the two targets that alternate in `shift`.
    // Noticed by: planted `one-target`, `removed-and-inserted-at-once`,
    // `removed-and-replacing-at-once`, `previous-link-first`, `no-fence-at-the-end`.

    /// Stores a node's own links before any other node leads to it.
    ///
    /// The record of the node's own removal may still stand. Recovery would then join the
    /// neighbours that the new links name. That is harmless if those are neighbours, and recovery
    /// skips links that lead nowhere. It is not harmless in two cases, and then the record is
    /// cleared first: a pair of links that takes two stores passes through a mixture of old and
    /// new; and a node that replaces another has that node between its neighbours.
    #[inline(always)]
    unsafe fn set_own_links(&self, kind: OpKind, x: Link, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: `x` is a node.
        unsafe {
            let replaces = kind as usize == OpKind::Replace as usize;
            let mut two_stores = !LinkMap::<M>::PACKED;
            if planted!("nvlist/removed-and-inserted-at-once") {
                two_stores = false;
            }
            let mut replaces_removed = replaces;
            if planted!("nvlist/removed-and-replacing-at-once") {
                replaces_removed = false;
            }
            if (two_stores || replaces_removed)
                && self.load(RECORD) == LinkMap::<M>::record_word(x, OpKind::Remove)
                && (replaces_removed || self.prev(x) > HELD)
            {
                self.store(RECORD, 0);
                self.fence();
            }
            self.set_links(x, p, n);
        }
    }

    /// Clears the record of a staged operation whose guard was forgotten: it will not happen.
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

    // INVARIANT "One record": at most one of all records is set. `stage` clears the last one,
    // `finish` its own.
    // Noticed by: planted `staged-record-stays`, `abandoned-record-stays`, `two-records-accepted`.

    /// Stores an operation up to its record, for a commit with a sequence number. Links of other
    /// nodes do not change. **Cost**: that of the operation up to its record, one unit for the
    /// number, and at most one to clear the last record.
    ///
    /// # Safety
    /// As the operation that `plan` describes; `ctx` is a context.
    pub unsafe fn stage(&self, plan: &Plan, ctx: usize, seq: u32) {
        let (number, record) = self.geo.context::<M>(ctx);
        self.clear_forgotten();
        // SAFETY: invariants "Links are checked" and "One owner", by the caller's contract: units
        // of the records, and the links of `plan`.
        unsafe {
            // At most one record is set: recovery could not tell the order of two.
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

    /// Finishes a staged operation after its number was committed. **Cost**: the links of the
    /// neighbours, and one unit to clear the record.
    ///
    /// # Safety
    /// `plan` was staged, and nothing has been done since.
    pub unsafe fn finish(&self, plan: &Plan) {
        let &Plan { x, p, n, .. } = plan;
        // SAFETY: invariants "Links are checked" and "One owner", by the caller's contract: the
        // links of `plan` are unchanged since it was staged.
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

    /// Drops a staged operation whose number will not be committed.
    pub fn abandon(&self) {
        if planted!("nvlist/abandoned-record-stays") {
            self.staged.set(0);
        }
        self.clear_forgotten();
    }
}

/// The stores that follow the record. Operations and recovery both use them.
impl<M: Model> LinkMap<'_, M> {
    #[inline(always)]
    pub unsafe fn store_record(&self, word: usize) {
        if !planted!("nvlist/no-record") {
            // SAFETY: invariant "One record": the unit of the one without a context.
            unsafe { self.store(RECORD, word) }
        }
    }

    /// Links `p` and `n` to `x` instead of to each other.
    #[inline(always)]
    pub unsafe fn link_between(&self, p: Link, n: Link, x: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: valid links.
        unsafe {
            self.set_next(p, x);
            self.set_prev(n, x);
        }
    }

    /// Links `p` and `n` to each other.
    #[inline(always)]
    pub unsafe fn join(&self, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: valid links.
        unsafe {
            self.set_next(p, n);
            self.set_prev(n, p);
        }
    }

    // INVARIANT "Old links before new": a node on the move keeps its links until its neighbours are
    // joined.
    // Noticed by: planted `old-links-lost`, `no-fence-in-move`.

    /// The stores of a move that follow its record. The node's own links tell how far they came.
    #[inline(always)]
    pub unsafe fn finish_move(&self, x: Link, p: Link, n: Link, p2: Link, n2: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: valid links.
        unsafe {
            if planted!("nvlist/old-links-lost") {
                self.relink_moved(x, p2, n2);
            }
            self.unlink_moved(p, n);
            self.link_moved(x, p2, n2);
        }
    }

    /// Step 3 of a move: joins the old neighbours.
    #[inline(always)]
    pub unsafe fn unlink_moved(&self, p: Link, n: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: valid links.
        unsafe { self.join(p, n) }
        if !planted!("nvlist/no-fence-in-move") {
            self.fence();
        }
    }

    /// Steps 4 and 5 of a move: links `x` between `p2` and `n2`.
    #[inline(always)]
    pub unsafe fn link_moved(&self, x: Link, p2: Link, n2: Link) {
        // SAFETY: invariant "Links are checked", by the caller's contract: valid links.
        unsafe {
            self.relink_moved(x, p2, n2);
            self.link_between(p2, n2, x);
        }
    }

    /// Step 4 of a move: the node's own links. The previous link first: from it recovery sees that
    /// step 3 is done.
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

impl<M: Model> LinkMap<'_, M> {
    // INVARIANT "The number decides": a staged operation happens if and only if its sequence number
    // is committed.
    // Noticed by: planted `always-committed`, `no-fence-before-staged-record`.

    /// Finishes or drops the operation that was cut, if there is one. Idempotent; at most 6 units,
    /// 7 of 2 bytes.
    ///
    /// `None` for an image that no cut leaves; then nothing was stored.
    pub fn recover(&self, committed: &dyn Fn(usize) -> u32) -> Option<()> {
        let mut record = RECORD;
        let mut happened = true;
        // SAFETY: invariant "Links are checked": the records lie before the nodes, inside of the
        // region.
        let mut word = unsafe { self.load(record) };
        for ctx in 0..self.geo.contexts {
            let (number, at) = self.geo.context::<M>(ctx);
            // SAFETY: invariant "Links are checked": a context's units lie before the nodes, inside
            // of the region.
            let (seq, set) = unsafe { (self.load(number), self.load(at)) };
            if set != 0 {
                if word != 0 && !planted!("nvlist/two-records-accepted") {
                    return None;
                }
                (record, word) = (at, set);
                happened = seq as u32 == committed(ctx) && seq != 0;
                if planted!("nvlist/always-committed") {
                    happened = true;
                }
            }
        }
        if word == 0 {
            return Some(());
        }
        let (x, kind) = Self::parse_record(word)?;
        if !self.is_node(x) {
            return None;
        }
        if happened && !planted!("nvlist/no-recovery") {
            self.roll_forward(x, kind)?;
            if !planted!("nvlist/no-fence-in-recovery") {
                self.fence();
            }
        }
        // SAFETY: invariant "One record": the unit of one.
        unsafe { self.store(record, 0) }
        self.fence();
        Some(())
    }

    /// Repeats the stores that follow the record. `None` for links that the operation does not
    /// leave after any of its stores; then nothing was stored.
    #[inline]
    fn roll_forward(&self, x: Link, kind: OpKind) -> Option<()> {
        let moves = kind <= OpKind::MoveB;
        // SAFETY: invariant "Links are checked": `x` is a node, and a target has links; other links
        // are checked before they are used.
        unsafe {
            let own = self.links(x);
            if kind == OpKind::Remove && own.0 <= HELD {
                // The removal is done, and since then the node was released or taken into use.
                return Some(());
            }
            let to = if moves {
                self.links(Self::target(kind))
            } else {
                own
            };
            let mut at = to;
            loop {
                self.check_neighbours(x, at, kind == OpKind::Replace)?;
                if at.0 == own.0 {
                    break;
                }
                at = own;
            }
            // In a move the node's own links change after the old neighbours were joined: equal
            // links mean that this is done.
            if kind == OpKind::Remove || moves && own.0 != to.0 {
                self.unlink_moved(own.0, own.1);
            }
            if moves {
                self.relink_moved(x, to.0, to.1);
            }
            if kind != OpKind::Remove {
                self.link_between(to.0, to.1, x);
            }
            Some(())
        }
    }

    /// Whether it is the link of a list head or of a node of this pool.
    pub fn is_link(&self, at: Link) -> bool {
        self.is_head(at) || self.is_node(at)
    }

    /// Checks that `p` and `n` are valid links that lead to `x` or to each other. If `x` replaces a
    /// node, they may lead to that node instead.
    #[inline]
    fn check_neighbours(&self, x: Link, (p, n): (Link, Link), replaces: bool) -> Option<()> {
        if p == x || n == x || !self.is_link(p) || !self.is_link(n) {
            return None;
        }
        // SAFETY: invariant "Links are checked": checked above: valid links and a node.
        unsafe {
            let (forth, back) = (self.next(p), self.prev(n));
            let (mut after, mut before) = (n, p);
            if replaces {
                let old = if forth != x { forth } else { back };
                if old != x && !(self.is_node(old) && self.links(old) == (p, n)) {
                    return None;
                }
                (after, before) = (old, old);
            }
            ((forth == x || forth == after) && (back == x || back == before)).then_some(())
        }
    }
}
