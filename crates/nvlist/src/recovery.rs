//! Recovery: finishes the operation that a cut interrupted, from its record and the links.
//!
//! ```text
//!  record of the last operation, records of the contexts
//!    none set               nothing to do
//!    two set                damage
//!    a context's, and its number is not committed     clear it: the operation does not happen
//!    else (X, operation):
//!      check   X is a node; its neighbours are valid links and lead to X, or to each other
//!      repeat  the stores that follow the record (see `ops`); FENCE
//!      clear   record := 0; FENCE
//! ```
//!
//! Why this is safe: a link is checked before anything is loaded through it. All neighbours must be
//! in a state that the operation leaves after one of its stores; else nothing is stored, and the
//! image is damaged. Repeating the stores changes nothing that is already done, so a cut in the
//! recovery is harmless.

use crate::layout::{HELD, Link, OpKind, RECORD};
use crate::map::LinkMap;
use nvmem::{Model, planted};

impl<M: Model> LinkMap<'_, M> {
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
                happened =
                    seq as u32 == committed(ctx) && seq != 0 || planted!("nvlist/always-committed");
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
