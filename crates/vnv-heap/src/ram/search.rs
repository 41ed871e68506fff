//! Which object is to be cleaned, or to leave.
//!
//! Candidates are the blocks that the policy keeps in mind (the best that the last search left over, and what became
//! dirty or resident since) and a few more, found by a hand that goes round over all blocks.

use super::block::{self, DIRTY, HELD, TAG_PINS};
use super::{Cache, Slot};
use crate::policy::{KEPT, NOTHING, Rules};
use nvmem::planted;

/// The best candidates so far, the best first; of equals the one that came first.
struct Best {
    slots: [u16; KEPT + 1],
    ranks: [u16; KEPT + 1],
    len: usize,
    /// How many are worth remembering.
    most: usize,
}

impl Best {
    #[inline(always)]
    fn add(&mut self, at: u16, rank: u16) {
        let mut i = self.len;
        if i < self.most {
            self.len += 1;
        } else if rank <= self.ranks[i - 1] {
            return;
        } else {
            i -= 1;
        }
        while i > 0 && self.ranks[i - 1] < rank {
            self.slots[i] = self.slots[i - 1];
            self.ranks[i] = self.ranks[i - 1];
            i -= 1;
        }
        self.slots[i] = at;
        self.ranks[i] = rank;
    }
}

impl<P: Rules> Cache<P> {
    /// The object that the policy lets go of, of those that are dirty or of all; never one that is pinned or held.
    #[inline(never)]
    pub(crate) fn victim(&mut self, dirty_only: bool) -> Option<Slot> {
        debug_assert!(self.to == block::NONE);
        let kept = self.policy.kept().len();
        let mut best = Best {
            slots: [NOTHING; KEPT + 1],
            ranks: [0; KEPT + 1],
            len: 0,
            most: kept + 1,
        };
        // What must be set, and what must not be.
        let (need, spans) = if dirty_only {
            (DIRTY, DIRTY | HELD)
        } else {
            (0, HELD)
        };
        for i in 0..kept {
            let at = self.policy.kept()[i];
            if at == NOTHING {
                continue;
            }
            let tag = self.tag(at);
            if self.span(at) & spans == need && tag & TAG_PINS == 0 {
                best.add(at, self.policy.rank(block::history(tag)));
            }
        }
        let mut found = 0;
        let mut looked = 0;
        if self.hand >= self.top {
            self.hand = 0;
        }
        let mut at = self.hand;
        while self.top > 0 {
            let (tag, span) = (self.tag(at), self.span(at));
            let here = at;
            at += block::step(span);
            looked += 1;
            if !block::is_free(span) {
                let was = block::history(tag);
                let h = self.policy.aged(was);
                if h != was {
                    self.set_tag(here, block::with_history(tag, h));
                }
                if span & spans == need
                    && (tag & TAG_PINS == 0 || planted!("vnv-heap/pinned-victim"))
                {
                    found += 1;
                    if !self.policy.kept().contains(&here) {
                        best.add(here, self.policy.rank(h));
                    }
                }
            }
            if at >= self.top {
                at = 0;
            }
            if found >= P::FRESH || looked >= P::WALK && best.len > 0 || at == self.hand {
                break;
            }
        }
        self.hand = at;
        if best.len == 0 {
            return None;
        }
        for (kept, at) in self.policy.kept().iter_mut().zip(&best.slots[1..]) {
            *kept = *at;
        }
        Some(Slot(best.slots[0]))
    }

    /// Keeps it in mind as the youngest candidate.
    #[inline(always)]
    pub(super) fn keep(&mut self, at: u16) {
        let mut last = at;
        for kept in self.policy.kept() {
            core::mem::swap(kept, &mut last);
            if last == at || last == NOTHING {
                return;
            }
        }
    }

    /// No longer a candidate.
    pub(super) fn forget(&mut self, at: u16) {
        for kept in self.policy.kept() {
            if *kept == at {
                *kept = NOTHING;
            }
        }
    }
}
