//! Victim search: which object is cleaned or evicted.
//!
//! ```text
//!  policy.candidates()  [ best | 2nd | ... ]  up to 6 frames remembered from the last search,
//!          |                                  and frames that became dirty or resident since
//!          +---> rank each ---+
//!                             +--> highest rank is the victim; the next best become candidates()
//!  clock hand over all frames +
//!          (a few new ones, then the search stops)
//! ```
//!
//! Pinned frames and frames in transfer are never chosen.

use super::block::{self, DIRTY, FREE, IN_TRANSFER, TAG_PINS};
use super::{Cache, Frame};
use crate::policy::{MAX_CANDIDATES, NO_FRAME, PolicyRules};
use nvmem::planted;

/// The remembered candidates and one more. Each is one number: 16 bits of rank (never 0), 3 bits
/// that prefer earlier entries among equals, then the frame's unit.
struct Candidates {
    all: [u32; MAX_CANDIDATES + 1],
    len: usize,
    best: u32,
    /// Index of the worst entry, valid unless `is_stale`.
    worst: usize,
    is_stale: bool,
}

/// Less than any candidate.
const ABSENT: u32 = NO_FRAME as u32;

#[inline(always)]
fn candidate(rank: u16, i: usize, at: u16) -> u32 {
    ((u32::from(rank) + 1) << 16) | ((MAX_CANDIDATES - i) as u32 * (ABSENT + 1)) | u32::from(at)
}

#[inline(always)]
fn place(candidate: u32) -> u16 {
    candidate as u16 & NO_FRAME
}

impl Candidates {
    fn put(&mut self, i: usize, rank: u16, at: u16) {
        let c = candidate(rank, i, at);
        if let Some(to) = self.all.get_mut(i) {
            *to = c;
        }
        self.best = self.best.max(c);
    }

    /// Replaces the worst candidate if this one is better.
    fn offer(&mut self, rank: u16, at: u16) {
        if self.is_stale {
            (self.worst, self.is_stale) = (0, false);
            for i in 1..self.len.min(MAX_CANDIDATES + 1) {
                if self.all[i] < self.all[self.worst % (MAX_CANDIDATES + 1)] {
                    self.worst = i;
                }
            }
        }
        let i = self.worst % (MAX_CANDIDATES + 1);
        if candidate(rank, i, at) > self.all[i] {
            self.put(i, rank, at);
            self.is_stale = true;
        }
    }
}

impl<P: PolicyRules> Cache<P> {
    /// The object that the policy evicts or cleans next, among the dirty ones or all. Never one
    /// that is pinned or in transfer.
    #[inline(never)]
    pub(crate) fn victim(&mut self, dirty_only: bool) -> Option<Frame> {
        debug_assert!(self.arrived == 0);
        // Flags that must be set; of `spans`, all others must be clear.
        let need = if dirty_only { DIRTY } else { 0 };
        let spans = need | IN_TRANSFER | FREE;
        let may_go = |tag: u32| tag & TAG_PINS == 0 || planted!("vnv-heap/pinned-victim");
        let ages = self.policy.begin_search();
        // A local copy: writes to headers cannot alias it.
        let mut policy = self.policy;
        let mut c = Candidates {
            all: [ABSENT; MAX_CANDIDATES + 1],
            len: P::CANDIDATES + 1,
            best: ABSENT,
            // No candidate yet.
            worst: P::CANDIDATES,
            is_stale: false,
        };
        let mut known = 0;
        for i in 0..P::CANDIDATES {
            let at = policy.candidates()[i];
            if at != NO_FRAME && self.span(self.at(at)) & spans == need {
                known += 1;
                let tag = self.tag(self.at(at));
                if may_go(tag) {
                    c.put(i, policy.rank(block::history(tag)), at);
                }
            }
        }
        let start = if self.hand < self.top { self.hand } else { 0 };
        // If all resident objects are candidates already, the walk over all frames finds nothing
        // new.
        let all_known = known == self.count && !ages;
        let (mut at, mut end) = (start, if all_known { start } else { self.top });
        // Whether the search may stop before it has seen all frames.
        let ends = P::SEARCH_MAX != isize::MAX;
        let (mut fresh, mut looks) = (P::SEARCH_NEW, P::SEARCH_MAX);
        // Frames to skip without a closer look; none when histories must be aged.
        let (mask, wanted) = if ages { (0, 0) } else { (spans, need) };
        'search: loop {
            let (here, span) = loop {
                if at >= end {
                    if end == start || start == 0 {
                        // The hand has gone round.
                        at = start;
                        break 'search;
                    }
                    (at, end) = (0, start);
                }
                let (here, span) = (at, self.span(self.at(at)));
                at += block::step(span);
                if span & mask == wanted {
                    break (here, span);
                }
                looks -= 1;
                if ends && looks < 0 && c.best != ABSENT {
                    break 'search;
                }
            };
            if mask == 0 && span & FREE == 0 {
                self.age(self.at(here), &policy);
            }
            if span & spans == need {
                let tag = self.tag(self.at(here));
                if may_go(tag) {
                    if P::CANDIDATES == 0 {
                        // Only the best is needed.
                        c.best = c
                            .best
                            .max(candidate(policy.rank(block::history(tag)), 0, here));
                    } else if !policy.candidates().contains(&here) {
                        c.offer(policy.rank(block::history(tag)), here);
                    }
                    fresh -= 1;
                    if ends && fresh == 0 {
                        looks = 0;
                    }
                }
            }
            looks -= 1;
            if ends && looks < 0 && c.best != ABSENT {
                break;
            }
        }
        self.hand = at;
        if c.best == ABSENT {
            return None;
        }
        // Candidates after the victim move up by one.
        let best =
            MAX_CANDIDATES - (c.best as u16 / (NO_FRAME + 1)) as usize % (MAX_CANDIDATES + 2);
        for (i, candidates) in self.policy.candidates().iter_mut().enumerate() {
            *candidates = place(c.all[i + usize::from(i >= best)]);
        }
        Some(self.at(place(c.best)))
    }

    /// Clamps its history, so that an old time stamp does not wrap to a recent one.
    fn age(&mut self, at: Frame, policy: &P) {
        let tag = self.tag(at);
        let was = block::history(tag);
        let h = policy.aged(was);
        if h != was {
            self.set_tag(at, block::with_history(tag, h));
        }
    }

    /// Makes it the youngest candidate.
    #[inline(never)]
    pub(crate) fn add_candidate(&mut self, at: Frame) {
        let at = self.place(at);
        let mut last = at;
        for candidates in self.policy.candidates() {
            core::mem::swap(candidates, &mut last);
            if last == at || last == NO_FRAME {
                return;
            }
        }
    }

    /// It is no longer a candidate.
    pub(super) fn remove_candidate(&mut self, at: Frame) {
        let at = self.place(at);
        for candidates in self.policy.candidates() {
            if *candidates == at {
                *candidates = NO_FRAME;
            }
        }
    }
}
