//! What an interrupted operation left: its record and the links say how far it came, and it is finished from there.
//!
//! Nothing is followed that was not checked: a link is a place of this pool before anything is loaded through it, and
//! the links of the neighbours are what the operation leaves at one of its stores before anything is stored.

use crate::layout::{HELD, Link, OpKind, RECORD};
use crate::map::LinkMap;
use nvmem::{Model, planted};

impl<M: Model> LinkMap<'_, M> {
    /// Finishes or drops the operation that was cut, if there is one. Idempotent; at most 6 units, 7 of 2 bytes.
    ///
    /// `None` for what no cut leaves; then nothing was stored.
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

    /// `None` for links that the operation does not leave at any of its stores; then nothing was stored.
    #[inline]
    fn roll_forward(&self, x: Link, kind: OpKind) -> Option<()> {
        let moves = kind <= OpKind::MoveB;
        // SAFETY: invariant "Links are checked": `x` is a node, and a target has links; other
        // places are checked before they are used.
        unsafe {
            let own = self.links(x);
            if kind == OpKind::Remove && own.0 <= HELD {
                // Done, and the node was returned or taken into use since.
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
            // On the move its own links change when those of its old neighbours have changed.
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

    /// Whether it leads to a place of this pool.
    pub fn is_link(&self, at: Link) -> bool {
        self.is_head(at) || self.is_node(at)
    }

    /// `p` and `n` are places that lead to `x`, or to each other; or, where `x` replaces one, to that.
    #[inline]
    fn check_neighbours(&self, x: Link, (p, n): (Link, Link), replaces: bool) -> Option<()> {
        if p == x || n == x || !self.is_link(p) || !self.is_link(n) {
            return None;
        }
        // SAFETY: invariant "Links are checked": places and a node, as was looked at above.
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
