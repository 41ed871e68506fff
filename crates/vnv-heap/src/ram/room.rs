//! Room: the space above all blocks, else the last hole, else blocks are slid together, one at a time.

use super::block::{self, NONE, UNIT};
use super::{Cache, Frame, Reserve};
use crate::policy::PolicyRules;
use nvmem::planted;

/// Units of an object for which the directory gives way: a small one would not be worth longer chains.
const LARGE: u16 = 16;

/// What one step of packing found.
enum Packed {
    /// A hole that is large enough.
    Hole(Frame),
    /// All blocks are together: the room is above them.
    OnTop,
    /// A block is on its way.
    Moving,
    /// Pinned blocks keep the holes apart.
    Stuck,
}

/// Moves so many units down.
///
/// # Safety
/// Both are valid for that, aligned to 4, and `to` lies below `from`.
unsafe fn slide(from: *mut u32, to: *mut u32, units: usize) {
    let words = units * (UNIT / size_of::<u32>());
    // SAFETY: as the caller vouches.
    unsafe {
        // Small cores: their `memmove` alone is larger than a policy. Volatile, or else this becomes a call of it.
        for i in 0..words {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}

impl<P: PolicyRules> Cache<P> {
    /// Makes room for an object that is not resident, and a block for it: held, not pinned, its content undefined. Moves at
    /// most `burst` bytes, but at least a unit.
    #[inline(always)]
    pub(crate) fn reserve(&mut self, id: u16, len: usize, burst: usize) -> Reserve {
        debug_assert!(id != 0 && self.lookup(id).is_none());
        if self.arrived != 0 {
            self.move_step(burst);
            return Reserve::Again;
        }
        if len > block::MAX_LEN {
            return Reserve::NoRoom;
        }
        let need = block::units(len);
        // First, as it is so whenever all is in use: nothing below would find a place.
        if self.max_free_units(need) < need as usize {
            return Reserve::NoRoom;
        }
        if self.is_crowded() && !self.grow() && self.is_overcrowded() && self.free > 0 {
            // Chains would grow: rather pack, so that the directory can.
            if let Packed::Moving = self.pack(NONE, burst) {
                return Reserve::Again;
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
                Packed::Moving => return Reserve::Again,
                Packed::Stuck => return Reserve::NoRoom,
            }
        };
        self.alloc_frame(at, id, len);
        Reserve::Done(at)
    }

    /// Takes an object out, which is clean and neither pinned nor held, and gives its block to another one that is not resident: held, not
    /// pinned, its content undefined. False when the block is not exactly as large as that one needs; it is free then.
    #[inline(never)]
    pub(crate) fn replace(&mut self, s: Frame, id: u16, len: usize) -> bool {
        if block::step(self.span(s)) != block::units(len) {
            self.remove(s);
            return false;
        }
        debug_assert!(self.arrived == 0 && !self.is_pinned(s) && !self.is_dirty(s));
        self.unlink(s);
        self.alloc_frame(s, id, len);
        true
    }

    /// A block for an object that is not resident.
    #[inline(never)]
    fn alloc_frame(&mut self, at: Frame, id: u16, len: usize) {
        self.policy.tick();
        self.link(at, id, len);
        self.set_flag(at, block::IN_TRANSFER, true);
        self.add_candidate(at);
    }

    /// Takes an object out. It is neither pinned nor held.
    pub(crate) fn remove(&mut self, s: Frame) {
        debug_assert!(self.arrived == 0 && !self.is_pinned(s));
        self.mark_clean(s);
        self.unlink(s);
        self.remove_candidate(s);
        let units = block::step(self.span(s));
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

    /// Ends a move that is under way: before anything but [`Cache::reserve`].
    pub(crate) fn finish_move(&mut self) {
        while self.arrived != 0 {
            self.move_step(usize::MAX);
        }
    }

    pub(super) fn fits_on_top(&self, need: u16) -> bool {
        self.top as usize + need as usize <= self.limit()
    }

    /// Whether it fits above all blocks, after the directory has given way if need be.
    fn make_fit_on_top(&mut self, need: u16) -> bool {
        self.fits_on_top(need) || need >= LARGE && self.shrink_for(need)
    }

    /// Units that can be brought together for an object of these units.
    fn max_free_units(&self, need: u16) -> usize {
        // A directory that has grown may give way.
        let limit = if self.heads() > 1 && need >= LARGE {
            self.limit_of(self.least_heads())
        } else {
            self.limit()
        };
        limit.saturating_sub(self.top as usize) + self.free as usize
    }

    /// The units above all blocks are a block now, of which the header is still to be made.
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
        (block::step(self.span(at)) >= need).then_some(at)
    }

    /// Joins a free block with the free ones after it.
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

    /// No block begins any more between here and there.
    fn inside(&mut self, from: u16, to: u16) {
        for mark in [&mut self.hand, &mut self.packed, &mut self.hole] {
            if *mark > from && *mark < to {
                *mark = from;
            }
        }
    }

    /// If this free block is the last one, it becomes room above.
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

    /// Takes these units from a free block's start.
    fn carve(&mut self, at: Frame, need: u16) -> Frame {
        let rest = block::step(self.span(at)) - need;
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

    /// One step: finds a hole of these units, or begins to move one block down into the first hole.
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
                // What is unpinned since may move.
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
            // A pinned block stays; one from further up may fill the hole before it.
            let mut from = end;
            while from < top {
                let step = block::bytes(self.span(from));
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
        self.tag(at) & block::TAG_PINS == 0 && self.span(at) & block::IN_TRANSFER == 0
            || planted!("vnv-heap/pinned-block-moves")
    }

    /// Begins to move a block into a hole below it: one that it touches, or one that is large enough.
    fn move_from(&mut self, from: Frame, to: Frame, burst: usize) {
        let (units, hole) = (block::step(self.span(from)), block::step(self.span(to)));
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

    /// Moves up to so many bytes of the block that is on its way.
    fn move_step(&mut self, burst: usize) {
        let (from, to) = (self.at(self.hole), self.at(self.packed));
        // The header is what arrives first, and tells the size from then on.
        let units = block::step(self.span(if self.arrived == 0 { from } else { to }));
        let left = units - self.arrived;
        let now = left.min((burst / UNIT).clamp(1, NONE as usize) as u16);
        let arrived = usize::from(self.arrived) * UNIT;
        // SAFETY: invariant "blocks": both lie within the buffer, and nothing refers to the content, which is not pinned.
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
            // It slid less than its length: the hole is above it now.
            self.make_free(self.at(end), from - to);
            self.hole = end;
            if self.hand == from {
                self.hand = to;
            }
        }
        self.packed = end;
    }
}
