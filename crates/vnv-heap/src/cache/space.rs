//! Space for a frame: on top of all frames, else the last hole, else compaction; and if all that
//! does not suffice, the object to evict.
//!
//! ```text
//!  [A][hole][B][C][hole][D]|  free on top |dir      1. fits on top:   take it
//!                                                   2. fits last hole: carve it
//!  [A][B ->      ][C][hole][D]                      3. compact: slide one frame down per call,
//!      packed^    ^hole                                at most `burst` bytes; Again until done
//!
//!  victim:
//!  policy.candidates()  [ best | 2nd | ... ]  up to 6 frames remembered from the last search,
//!          |                                  and frames that became dirty or resident since
//!          +---> rank each ---+
//!                             +--> highest rank is the victim; the next best become candidates()
//!  clock hand over all frames +
//!          (a few new ones, then the search stops)
//! ```
//!
//! Why it is safe: a pinned frame or one in transfer never moves, and is never chosen. While a
//! frame moves (`arrived` is not 0), only `lookup`, `reserve` and `finish_move` may be called. The
//! header is copied first, and the directory names the lower place. So a look-up finds every frame,
//! and the lower place tells how much is still to come. The content of the frame that moves is not
//! complete: the operation that moves it looks for another object, and goes on until it arrived.

use super::header::{self, DIRTY, FREE, IN_TRANSFER, NONE, TAG_PINS, UNIT};
use super::{Cache, Frame};
use crate::error::Fail;
use crate::policy::{MAX_CANDIDATES, NO_FRAME, PolicyRules};
use core::mem::MaybeUninit;
use nvmem::planted;

/// An object of so many units makes the directory shrink. For a smaller one longer chains would not
/// pay.
const LARGE: u16 = 16;

/// The result of one compaction step.
enum Packed {
    /// A hole that is large enough.
    Hole(Frame),
    /// All frames are packed: the space is on top.
    OnTop,
    /// A frame is being moved.
    Moving,
    /// Pinned frames keep the holes apart.
    Stuck,
}

/// Copies so many units to a lower address; the ranges may overlap.
///
/// # Safety
/// Both are valid for that, aligned to 4, and `to` is below `from`.
unsafe fn slide(from: *mut u32, to: *mut u32, units: usize) {
    let words = units * (UNIT / size_of::<u32>());
    // Behind the content, up to a whole unit, bytes need not be initialised.
    let (from, to) = (
        from.cast::<MaybeUninit<u32>>(),
        to.cast::<MaybeUninit<u32>>(),
    );
    // SAFETY: invariant "Frames fill the buffer": the caller vouches for both. Each word is read
    // before a word is written to its place, because `to` is lower.
    unsafe {
        // Volatile, so that the compiler does not turn this into a call of `memmove`, which alone
        // is larger than a policy.
        for i in 0..words {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}

impl<P: PolicyRules> Cache<P> {
    /// One step towards a frame for an object that is not resident. The new frame is in transfer,
    /// not pinned, its bytes undefined. Moves at most `burst` bytes, but at least a unit. `None`
    /// when an object must be evicted first. **Errors**: [`Fail::PENDING`] after progress: call
    /// again with the same arguments.
    #[inline(always)]
    pub(crate) fn reserve(
        &mut self,
        id: u16,
        len: usize,
        burst: usize,
    ) -> Result<Option<Frame>, Fail> {
        debug_assert!(id != 0 && self.lookup(id).is_none());
        if self.arrived != 0 {
            self.move_step(burst);
            return Err(Fail::PENDING);
        }
        if len > header::MAX_LEN {
            return Ok(None);
        }
        let need = header::units(len);
        // The common case when the buffer is full: nothing below would find space.
        if self.max_free_units(need) < need as usize {
            return Ok(None);
        }
        if self.is_crowded() && !self.grow() && self.is_overcrowded() && self.free > 0 {
            // Chains would grow long: compact first, so that the directory can grow.
            if let Packed::Moving = self.pack(NONE, burst) {
                return Err(Fail::PENDING);
            }
            self.grow();
        }
        let at = if self.make_fit_on_top(need) {
            self.take_from_top(need)
        } else if let Some(at) = self.last_hole(need) {
            self.carve(at, need)
        } else {
            match self.pack(need, burst) {
                Packed::Hole(at) => self.carve(at, need),
                Packed::OnTop => self.take_from_top(need),
                Packed::Moving => return Err(Fail::PENDING),
                Packed::Stuck => return Ok(None),
            }
        };
        self.alloc_frame(at, id, len);
        Ok(Some(at))
    }

    /// Evicts a clean, unpinned object. If its frame has exactly the size that another object
    /// needs, gives it to that one, as [`Cache::reserve`] does; else it becomes a hole.
    pub(crate) fn replace(&mut self, s: Frame, id: u16, len: usize) -> Option<Frame> {
        if header::step(self.span(s)) != header::units(len) {
            self.remove(s);
            return None;
        }
        debug_assert!(self.arrived == 0 && !self.is_pinned(s) && !self.is_dirty(s));
        self.unlink(s);
        self.alloc_frame(s, id, len);
        Some(s)
    }

    /// Makes this space the frame of an object that is not resident.
    #[inline(never)]
    fn alloc_frame(&mut self, at: Frame, id: u16, len: usize) {
        self.policy.tick();
        self.link(at, id, len);
        self.set_flag(at, header::IN_TRANSFER, true);
        self.add_candidate(at);
    }

    /// Evicts an object that is neither pinned nor in transfer.
    pub(crate) fn remove(&mut self, s: Frame) {
        debug_assert!(self.arrived == 0 && !self.is_pinned(s));
        self.mark_clean(s);
        self.unlink(s);
        self.remove_candidate(s);
        let units = header::step(self.span(s));
        self.make_free(s, units);
        self.free += units;
        self.merge(s);
        let place = self.place(s);
        self.packed = self.packed.min(place);
        if !self.lower_top(s) {
            self.hole = place;
        }
        self.shrink();
    }

    /// Ends a move that is under way. Required before any call but [`Cache::lookup`] and
    /// [`Cache::reserve`].
    pub(crate) fn finish_move(&mut self) {
        while self.arrived != 0 {
            self.move_step(usize::MAX);
        }
    }

    pub(super) fn fits_on_top(&self, need: u16) -> bool {
        self.top as usize + need as usize <= self.limit()
    }

    /// Whether it fits on top of all frames, after the directory has shrunk if necessary.
    fn make_fit_on_top(&mut self, need: u16) -> bool {
        self.fits_on_top(need) || need >= LARGE && self.shrink_for(need)
    }

    /// Units that compaction could bring together for a frame of `need` units.
    fn max_free_units(&self, need: u16) -> usize {
        // A directory that has grown can shrink.
        let limit = if self.heads() > 1 && need >= LARGE {
            self.limit_of(self.least_heads())
        } else {
            self.limit()
        };
        limit.saturating_sub(self.top as usize) + self.free as usize
    }

    /// Takes the units on top of all frames. The caller writes the header.
    fn take_from_top(&mut self, need: u16) -> Frame {
        let at = self.end();
        self.top += need;
        at
    }

    #[inline(never)]
    fn last_hole(&mut self, need: u16) -> Option<Frame> {
        if self.hole == NONE {
            return None;
        }
        let at = self.at(self.hole);
        self.merge(at);
        (header::step(self.span(at)) >= need).then_some(at)
    }

    /// Joins a hole with the holes right after it.
    fn merge(&mut self, at: Frame) {
        let (first, top) = (self.after(at), self.end());
        let mut end = first;
        while end < top && self.is_free(end) {
            end = self.after(end);
        }
        if end != first {
            self.make_free(at, end.units_from(at));
            self.inside(self.place(at), self.place(end));
        }
    }

    /// No frame begins between the two units any more: moves marks there down to `from`.
    fn inside(&mut self, from: u16, to: u16) {
        for mark in [&mut self.hand, &mut self.packed, &mut self.hole] {
            if *mark > from && *mark < to {
                *mark = from;
            }
        }
    }

    /// If this hole is last, makes it free space on top.
    fn lower_top(&mut self, at: Frame) -> bool {
        if self.after(at) != self.end() {
            return false;
        }
        let place = self.place(at);
        self.free -= self.top - place;
        self.top = place;
        self.packed = self.packed.min(place);
        if self.hand >= place {
            self.hand = 0;
        }
        if self.hole >= place {
            self.hole = NONE;
        }
        true
    }

    /// Takes these units from the start of a hole.
    fn carve(&mut self, at: Frame, need: u16) -> Frame {
        let rest = header::step(self.span(at)) - need;
        let place = self.place(at);
        self.free -= need;
        if rest > 0 {
            self.make_free(self.at(place + need), rest);
        }
        if self.hole == place {
            self.hole = if rest > 0 { place + need } else { NONE };
        }
        at
    }

    /// One compaction step: finds a hole of `need` units, or begins to move one frame down into the
    /// first hole.
    fn pack(&mut self, need: u16, burst: usize) -> Packed {
        let mut at = self.at(self.packed);
        let mut again = self.packed != 0;
        loop {
            let top = self.end();
            // The next hole.
            while at < top && !self.is_free(at) {
                at = self.after(at);
            }
            if at >= top {
                if need != NONE && self.make_fit_on_top(need) {
                    return Packed::OnTop;
                }
                // Start over once: frames that were unpinned since may move now.
                self.packed = 0;
                at = self.at(0);
                if !again || self.free == 0 {
                    return Packed::Stuck;
                }
                again = false;
                continue;
            }
            self.merge(at);
            if self.lower_top(at) {
                continue;
            }
            let end = self.after(at);
            let hole = end.units_from(at);
            if hole >= need {
                return Packed::Hole(at);
            }
            self.packed = self.place(at);
            if self.may_move(end) {
                self.move_from(end, at, burst);
                return Packed::Moving;
            }
            // The next frame is pinned. A higher one may fill the hole.
            let mut from = end;
            while from < top {
                let step = header::bytes(self.span(from));
                if step <= usize::from(hole) * UNIT && !self.is_free(from) && self.may_move(from) {
                    self.move_from(from, at, burst);
                    return Packed::Moving;
                }
                from = from.up(step);
            }
            at = end;
        }
    }

    fn may_move(&self, at: Frame) -> bool {
        let stays = self.is_pinned(at) || self.in_transfer(at);
        !stays || planted!("vnv-heap/pinned-block-moves")
    }

    /// Begins to move a frame into a hole below it: the adjacent one, or one that is large enough.
    fn move_from(&mut self, from: Frame, to: Frame, burst: usize) {
        let (units, hole) = (header::step(self.span(from)), header::step(self.span(to)));
        let (old, new) = (self.place(from), self.place(to));
        self.relink(from, new);
        for k in self.policy.candidates() {
            if *k == old {
                *k = new;
            }
        }
        if old - new >= units && hole > units {
            self.make_free(self.at(new + units), hole - units);
        }
        (self.hole, self.packed) = (old, new);
        self.move_step(burst);
    }

    /// Moves up to so many bytes of the frame under way.
    fn move_step(&mut self, burst: usize) {
        let (from, to) = (self.at(self.hole), self.at(self.packed));
        // The header is copied first. From then on its new position tells the size.
        let units = header::step(self.span(if self.arrived == 0 { from } else { to }));
        let left = units - self.arrived;
        let now = left.min((burst / UNIT).clamp(1, NONE as usize) as u16);
        let arrived = usize::from(self.arrived) * UNIT;
        // SAFETY: invariant "Frames fill the buffer": `now` units of a frame and of the hole below
        // it. No guard refers to the content, which is not pinned ("What is held stays").
        unsafe {
            slide(
                from.up(arrived).header().as_ptr(),
                to.up(arrived).header().as_ptr(),
                now as usize,
            );
        }
        self.arrived += now;
        if now == left {
            self.arrive(units);
        }
    }

    fn arrive(&mut self, units: u16) {
        let (from, to) = (self.hole, self.packed);
        self.arrived = 0;
        let end = to + units;
        if from >= end {
            self.make_free(self.at(from), units);
        } else {
            // It moved by less than its length: the hole is above it now.
            self.make_free(self.at(end), from - to);
            self.hole = end;
            if self.hand == from {
                self.hand = to;
            }
        }
        self.packed = end;
    }
}

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
                    c.put(i, policy.rank(header::history(tag)), at);
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
                at += header::step(span);
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
                            .max(candidate(policy.rank(header::history(tag)), 0, here));
                    } else if !policy.candidates().contains(&here) {
                        c.offer(policy.rank(header::history(tag)), here);
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
        let was = header::history(tag);
        let h = policy.aged(was);
        if h != was {
            self.set_tag(at, header::with_history(tag, h));
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
