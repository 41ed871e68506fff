//! What an interrupted operation left: its record and the links say how far it came, and it is finished from there.
//!
//! Nothing is followed that was not checked: a link is a place of this pool before anything is loaded through it, and
//! the links of the neighbours are what the operation leaves at one of its stores before anything is stored.

use crate::error::Part;
use crate::layout::{At, Kind, LINKS};
use crate::state::Core;
use nvmem::{Model, planted};

impl<M: Model> Core<'_, M> {
    /// Whether a link leads to a node of this pool.
    pub fn is_node(&self, at: At) -> bool {
        let Some(off) = (at << Self::SHIFT).checked_sub(self.geo.first) else {
            return false;
        };
        // A stride is not 0; the compiler need not know.
        off.checked_rem(self.geo.stride) == Some(0) && off < self.geo.nodes * self.geo.stride
    }

    /// Whether it leads to a list's head.
    pub fn is_head(&self, at: At) -> bool {
        let off = (at << Self::SHIFT).wrapping_sub(self.geo.heads);
        off < self.geo.lists * LINKS && off.is_multiple_of(LINKS)
    }

    fn is_place(&self, at: At) -> bool {
        self.is_node(at) || self.is_head(at)
    }

    /// Finishes or drops the operation that was cut, if there is one. Idempotent; at most 6 units, 7 of 2 bytes.
    ///
    /// **Errors**: [`Part::Record`] for what no cut leaves; then nothing was stored.
    pub fn recover(&self, committed: &dyn Fn(usize) -> u32) -> Result<(), Part> {
        let mut set = None;
        // SAFETY: the records' units.
        let word = unsafe { self.load(self.geo.record) };
        if word != 0 {
            set = Some((self.geo.record, word, true));
        }
        for ctx in 0..self.geo.contexts {
            let (number, record) = self.context(ctx);
            // SAFETY: as above.
            let (seq, word) = unsafe { (self.load(number), self.load(record)) };
            if word != 0 {
                if set.is_some() && !planted!("nvlist/two-records-accepted") {
                    return Err(Part::Record);
                }
                let happened =
                    seq as u32 == committed(ctx) && seq != 0 || planted!("nvlist/always-committed");
                set = Some((record, word, happened));
            }
        }
        let Some((record, word, happened)) = set else {
            return Ok(());
        };
        let (x, kind) = Self::parse(word).ok_or(Part::Record)?;
        if !self.is_node(x) {
            return Err(Part::Record);
        }
        if happened && !planted!("nvlist/no-recovery") {
            self.roll_forward(x, kind).ok_or(Part::Record)?;
            if !planted!("nvlist/no-fence-in-recovery") {
                self.fence();
            }
        }
        // SAFETY: a record's unit.
        unsafe { self.store(record, 0) }
        self.fence();
        Ok(())
    }

    /// `None` for links that the operation does not leave at any of its stores; then nothing was stored.
    fn roll_forward(&self, x: At, kind: Kind) -> Option<()> {
        // SAFETY: `x` is a node.
        let (p, n) = unsafe { self.links(x) };
        match kind {
            Kind::Insert => {
                self.between(x, p, n, n, p)?;
                // SAFETY: `between` has checked the places.
                unsafe { self.join_both(p, n, x) }
            }
            Kind::Replace => {
                self.places(x, p, n)?;
                // SAFETY: checked.
                let old = unsafe { self.next(p) };
                if old != x {
                    self.is_node(old).then_some(())?;
                    // SAFETY: checked.
                    (unsafe { self.links(old) } == (p, n)).then_some(())?;
                }
                // SAFETY: checked.
                let back = unsafe { self.prev(n) };
                // With the new one in front nothing names the old one any more.
                let known = if old == x {
                    self.is_node(back)
                } else {
                    back == old
                };
                (back == x || known).then_some(())?;
                // SAFETY: checked.
                unsafe { self.join_both(p, n, x) }
            }
            Kind::Remove => {
                if !self.is_place(p) {
                    // Done, and the node was returned or taken into use since.
                    return Some(());
                }
                self.between(x, p, n, n, p)?;
                // SAFETY: checked.
                unsafe { self.join(p, n) }
            }
            Kind::MoveA | Kind::MoveB => {
                // SAFETY: a target's links.
                let (p2, n2) = unsafe { self.pair(self.target(kind)) };
                self.between(x, p2, n2, n2, p2)?;
                if p == p2 {
                    // Its own links have changed, so those of the old neighbours had.
                    // SAFETY: checked.
                    unsafe {
                        self.set_next(x, n2);
                        self.join_both(p2, n2, x);
                    }
                } else {
                    self.between(x, p, n, n, p)?;
                    // SAFETY: checked.
                    unsafe { self.finish_move(x, p, n, p2, n2) }
                }
            }
        }
        Some(())
    }

    fn places(&self, x: At, p: At, n: At) -> Option<()> {
        (self.is_place(p) && self.is_place(n) && p != x && n != x).then_some(())
    }

    /// `p` and `n` are places that lead to `x`, or to `after` and `before`.
    fn between(&self, x: At, p: At, n: At, after: At, before: At) -> Option<()> {
        self.places(x, p, n)?;
        // SAFETY: places.
        let (forth, back) = unsafe { (self.next(p), self.prev(n)) };
        ((forth == x || forth == after) && (back == x || back == before)).then_some(())
    }
}
