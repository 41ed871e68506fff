//! What is resident: the cache in the caller's buffer. Knows no medium, no types, no critical section.
//!
//! The buffer holds blocks from its start (a header of 8 bytes, then the content, rounded up to 8) and the heads of a hash
//! directory from its end. Between the two is room. All access is through raw pointers, and no reference into the buffer
//! is ever made here: guards hold references to contents, headers are reached beside them.
//!
//! **Invariant "blocks"**: from unit 0 to `top` the buffer is a gapless sequence of blocks with valid headers, except
//! while a block is being moved. A [`Frame`] is the start of one of them, and stays so until the next `reserve`, `remove` or
//! `settle`; the slot of a pinned block stays as long as it is pinned. **Invariant "directory"**: each block in use is in
//! exactly one chain, the one that its number belongs to.

mod block;
mod directory;
mod room;
mod search;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use block::MAX_LEN;
use block::{NONE, UNIT};
use core::ptr::NonNull;

use crate::policy::{NO_FRAME, PolicyRules};
use nvmem::planted;

/// A block, by its header. One in use is valid until the next `reserve`, `remove` or `settle`, or while it is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame(NonNull<u32>);

/// The object is pinned in a way that excludes this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// What [`Cache::reserve`] achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The block is there: held, not pinned, its content undefined.
    Done(Frame),
    /// A step was done; call again with the same arguments.
    Again,
    /// Something must leave first.
    NoRoom,
}

/// What persist writes for a dirty object besides its bytes.
pub(crate) const CHECK: u32 = 2;
/// What persist writes for a pinned object: its pin record.
pub(crate) const PIN_RECORD: u32 = 8;

// A load: 14 bits that count what is pinned, then 18 of bytes.
const MAX_PINNED: u32 = PINS_OVER - 1;
const PINS_OVER: u32 = 1 << 13;
const BYTES_AT: u32 = 14;
const BYTES_OVER: u32 = 1 << 17;
/// In a load: one pin is more than a limit allows. Of the two bits, the upper one is clear when a pin was just taken away.
pub(crate) const BUDGET_OVER: u32 = BUDGET_CLOSED | PINS_OVER;
/// The upper one; with the next bit it is never set.
pub(crate) const BUDGET_CLOSED: u32 = BYTES_OVER << BYTES_AT;
/// What one object that is pinned adds to a load.
pub(crate) const BUDGET_PIN: u32 = (PIN_RECORD << BYTES_AT) + 1;

/// What is resident. In this order, as small cores have short loads for what comes first; without room in between.
#[repr(C)]
pub(crate) struct Cache<P> {
    /// The first block: a [`Frame`] as long as there is one.
    first: NonNull<u32>,
    /// Bytes from the base to the end of the directory.
    len: u16,
    /// End of the blocks.
    top: u16,
    /// What a persist would have to write, and how many objects are pinned: see [`Cache::budget`].
    budget: u32,
    /// The load when there is neither.
    idle_budget: u32,
    /// Minus the number of buckets in the directory.
    least: i16,
    /// For the hash: the bits that count are clear.
    mask: i16,
    /// Objects that are resident.
    count: u16,
    /// Units in free blocks below `top`.
    free: u16,
    /// The free block that was made last, or NONE.
    hole: u16,
    /// Blocks below are packed as well as they can be.
    packed: u16,
    /// Where the search for candidates goes on.
    hand: u16,
    /// Units that have arrived of a block that is being moved, from `hole` to `packed`; 0 when none is.
    arrived: u16,
    /// The most that a persist would ever have had to write.
    high_water: u16,
    policy: P,
}

impl<P: PolicyRules> Cache<P> {
    /// A cache in this buffer, to be [cleared](Cache::clear) before anything else. `None` when not even an empty object would fit.
    ///
    /// # Safety
    ///
    /// The buffer is the cache's alone for as long as the cache, or anything that it gave out, is used.
    #[inline(always)]
    pub(crate) unsafe fn new_uncleared(base: *mut u8, len: usize) -> Option<Cache<P>> {
        let skip = base.align_offset(UNIT);
        let most = block::MOST_UNITS * UNIT;
        let len = len.checked_sub(skip)?.min(most) & !1;
        if len < 2 * UNIT {
            return None;
        }
        // Nobody is to know it: words that are known to be zero become a call of `memset`.
        let zero = core::hint::black_box(0);
        Some(Cache {
            // SAFETY: the buffer has as many bytes.
            first: NonNull::new(unsafe { base.add(skip) })?.cast(),
            len: len as u16,
            budget: BUDGET_PIN,
            idle_budget: BUDGET_PIN,
            top: zero,
            least: -1,
            mask: -1,
            count: zero,
            free: zero,
            hole: NONE,
            packed: zero,
            hand: zero,
            arrived: zero,
            high_water: zero,
            policy: P::new(),
        })
    }

    /// The same cache, moved in two parts that are small enough to be copied without a call.
    #[inline(always)]
    pub(crate) fn moved_in_parts(self) -> Self {
        let policy = core::hint::black_box(self.policy);
        Cache { policy, ..self }
    }

    /// A cache that is ready.
    ///
    /// # Safety
    ///
    /// As [`Cache::new_uncleared`].
    #[cfg(test)]
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Option<Cache<P>> {
        // SAFETY: as the caller vouches.
        let mut cache = unsafe { Self::new_uncleared(base, len) }?;
        cache.clear();
        Some(cache)
    }

    /// Forgets all that is resident, pinned or not, whatever the buffer holds now.
    ///
    /// After a restore, when RAM may have lost its content: then [`Cache::restore_pinned`] for each pin record.
    #[inline(never)]
    pub(crate) fn clear(&mut self) {
        self.budget = self.idle_budget;
        self.top = 0;
        self.set_heads(1);
        self.count = 0;
        self.free = 0;
        self.hole = NONE;
        self.packed = 0;
        self.hand = 0;
        self.arrived = 0;
        self.set_head(-1, NONE);
        self.policy.candidates().fill(NO_FRAME);
    }

    /// Puts a block that was pinned back to where it was, clean, its content undefined: after [`Cache::clear`], in the
    /// order of addresses. `None` when no block can have been there.
    pub(crate) fn restore_pinned(
        &mut self,
        place: u16,
        id: u16,
        len: usize,
        pins: u16,
    ) -> Option<Frame> {
        let units = block::units(len);
        if id == 0 || len > MAX_LEN || place < self.top || !block::pins_valid(pins) {
            return None;
        }
        if usize::from(place) + usize::from(units) > self.limit() || self.lookup(id).is_some() {
            return None;
        }
        if place > self.top {
            self.make_free(self.end(), place - self.top);
            self.free += place - self.top;
        }
        self.top = place + units;
        let frame = self.at(place);
        // The directory stays small, with long chains, until all that was pinned is back: grown, it would lie where a block is still to come.
        self.link(frame, id, len);
        self.set_pins(frame, pins);
        if pins & block::PINS != 0 {
            self.budget += BUDGET_PIN;
        }
        Some(frame)
    }

    /// What a persist would have to write now, but for its record: the bytes of what is dirty, each with its check, and the
    /// records of pins.
    #[inline(always)]
    pub(crate) fn persist_bytes(&self) -> u32 {
        (self.budget - self.idle_budget) >> BYTES_AT
    }

    /// Sets how many bytes the demand may have, at most 65,535, and how many objects may be pinned. Nothing is resident.
    pub(crate) fn limit_to(&mut self, persist_bytes: u16, pinned: u16) {
        let persist_bytes =
            u32::from(persist_bytes) + u32::from(planted!("vnv-heap/limit-off-by-one"));
        let bytes = BYTES_OVER - 1 - persist_bytes;
        let pins = MAX_PINNED - u32::from(pinned).min(MAX_PINNED);
        self.idle_budget = (bytes << BYTES_AT) + pins + BUDGET_PIN;
        self.budget = self.idle_budget;
    }

    /// Whether so many bytes are more than the demand may have.
    #[inline(always)]
    pub(crate) fn exceeds_limit(&self, persist_bytes: u32) -> bool {
        persist_bytes + (self.idle_budget >> BYTES_AT) >= BYTES_OVER + PIN_RECORD
    }

    /// Whether as many objects are pinned as may be.
    #[inline(always)]
    pub(crate) fn pins_exhausted(&self) -> bool {
        self.budget & PINS_OVER != 0
    }

    /// The demand and the number of objects that are pinned in one word, each counted so that a bit of its own ([`BUDGET_OVER`]) is set
    /// when it would be beyond its limit with one pin more: one look at the word tells whether that is allowed.
    #[inline(always)]
    pub(crate) fn budget(&self) -> u32 {
        self.budget
    }

    /// The load, after a pin or its end outside of the cache.
    #[inline(always)]
    pub(crate) fn set_budget(&mut self, budget: u32) {
        self.budget = budget;
    }

    /// A persist would have to write so much now, which is within the limit.
    pub(crate) fn note_high_water(&mut self, persist_bytes: u32) {
        if persist_bytes > u32::from(self.high_water) {
            self.high_water = persist_bytes as u16;
        }
    }

    /// The most that was noted.
    pub(crate) fn high_water(&self) -> u32 {
        u32::from(self.high_water)
    }

    /// The object's number.
    #[inline(always)]
    pub(crate) fn id(&self, s: Frame) -> u16 {
        self.tag(s) as u16
    }

    /// Its length in bytes.
    #[inline(always)]
    pub(crate) fn len(&self, s: Frame) -> usize {
        block::len(self.span(s))
    }

    /// Its content: aligned to 8, as long as [`Cache::len`] says.
    #[inline(always)]
    pub(crate) fn content(&self, s: Frame) -> NonNull<u8> {
        s.content()
    }

    /// `f` fills `n` bytes of a block's content from `at` on, or, when that is 0, of its header and its content, as they lie one after the
    /// other on the medium too. The block then has its own header again, and what came in its place is given back.
    ///
    /// # Safety
    /// The block has as many bytes, and nobody else uses its content.
    #[inline(always)]
    pub(crate) unsafe fn read_with_header<R>(
        &mut self,
        s: Frame,
        at: usize,
        n: usize,
        f: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, [u8; UNIT]) {
        let header = s.header().cast::<[u8; UNIT]>().as_ptr();
        let skip = if at == 0 { 0 } else { UNIT + at };
        // SAFETY: invariant "blocks": a header and the content behind it. Nobody looks at a header while its owner, the cache, is borrowed.
        unsafe {
            let mine = header.read();
            let to = header.cast::<u8>().add(skip);
            let r = f(core::slice::from_raw_parts_mut(to, n));
            let theirs = header.read();
            header.write(mine);
            (r, theirs)
        }
    }

    /// `f` has a check and the first `n` bytes of the content behind it in one piece, as they lie on the medium too.
    #[inline(always)]
    pub(crate) fn write_with_check<R>(
        &mut self,
        s: Frame,
        check: u16,
        n: usize,
        f: impl FnOnce(&[u8]) -> R,
    ) -> R {
        debug_assert!(n <= self.len(s));
        let span = self.span(s);
        // SAFETY: invariant "blocks": before the content there is the header's second word, which is put back; all of a resident content is
        // initialised. Nobody looks at a header while its owner, the cache, is borrowed.
        let r = unsafe {
            let from = self.content(s).as_ptr().sub(size_of::<u16>());
            from.cast::<[u8; 2]>().write(check.to_le_bytes());
            f(core::slice::from_raw_parts(from, size_of::<u16>() + n))
        };
        self.set_span(s, span);
        r
    }

    /// The whole buffer, for a use that comes to its end before [`Cache::clear`].
    pub(crate) fn buffer(&mut self) -> *mut [u8] {
        let start = Frame(self.first).header().cast::<u8>();
        core::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.len as usize)
    }

    /// Whether a guard holds it alone.
    pub(crate) fn is_exclusive(&self, s: Frame) -> bool {
        self.tag(s) & block::TAG_PINS == block::EXCLUSIVE
    }

    /// The place of a block, for its pin record.
    #[inline(always)]
    pub(crate) fn place(&self, s: Frame) -> u16 {
        s.units_from(Frame(self.first))
    }

    /// The block with this content.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Cache::content`] of a block that has been pinned ever since.
    #[inline(always)]
    pub(crate) unsafe fn frame_of(&self, content: NonNull<u8>) -> Frame {
        // SAFETY: as the caller vouches.
        unsafe { Frame::of(content) }
    }

    /// Its pins, with the mark of what is doomed: what [`Cache::restore_pinned`] takes.
    #[inline(always)]
    pub(crate) fn pins(&self, s: Frame) -> u16 {
        block::pins(self.tag(s), self.span(s))
    }

    /// Whether a guard holds it.
    #[inline(always)]
    pub(crate) fn is_pinned(&self, s: Frame) -> bool {
        self.tag(s) & block::TAG_PINS != 0
    }

    /// Pins it: shared, or alone.
    ///
    /// # Errors
    ///
    /// [`Busy`] when it is pinned alone, or is to be and is pinned, or has 29 pins.
    pub(crate) fn pin(&mut self, s: Frame, exclusive: bool) -> Result<(), Busy> {
        let tag = self.tag(s);
        let pins = tag & block::TAG_PINS;
        if pins == 0 {
            self.budget += BUDGET_PIN;
            let to = if exclusive {
                block::EXCLUSIVE
            } else {
                block::ONE_PIN
            };
            self.set_tag(s, tag | to);
            return Ok(());
        }
        let taken = exclusive || pins >= block::EXCLUSIVE - 2 * block::ONE_PIN;
        if taken && !planted!("vnv-heap/pinned-twice") {
            return Err(Busy);
        }
        self.set_tag(s, tag + block::ONE_PIN);
        Ok(())
    }

    /// Pins it to be read, and tells the policy, if it is not pinned yet. The caller has the load.
    pub(crate) fn pin_first(&mut self, s: Frame) -> bool {
        let tag = self.tag(s);
        if tag & block::TAG_PINS != 0 {
            return false;
        }
        self.set_tag(s, tag | block::ONE_PIN);
        if !self.policy.is_current(block::history(tag)) && !self.is_dirty(s) {
            self.update_history(s);
        }
        true
    }

    /// Takes away the only pin of an object, unless there are more or it is to be freed now. The caller has the load.
    ///
    /// # Safety
    ///
    /// As [`Cache::frame_of`].
    #[inline(always)]
    pub(crate) unsafe fn unpin_last(&mut self, content: NonNull<u8>, exclusive: bool) -> bool {
        // SAFETY: invariant "blocks": before a content there is its header.
        let s = unsafe { self.frame_of(content) };
        let pins = if exclusive {
            block::EXCLUSIVE
        } else {
            block::ONE_PIN
        };
        let tag = self.tag(s) ^ pins;
        // What is doomed and read has a pin more: see `doom`.
        if tag & block::TAG_PINS != 0 || exclusive && self.span(s) & block::DOOMED != 0 {
            return false;
        }
        self.set_tag(s, tag);
        true
    }

    /// Takes a pin away: the one that excludes all others, or one of those that share. Whether it was the last, and whether
    /// the object is to be freed now.
    pub(crate) fn unpin(&mut self, s: Frame, exclusive: bool) -> (bool, bool) {
        let tag = self.tag(s);
        let pins = tag & block::TAG_PINS;
        debug_assert!(pins != 0 && (pins == block::EXCLUSIVE) == exclusive);
        let doomed = self.span(s) & block::DOOMED != 0;
        // What is doomed and read has one more: see `doom`.
        let last = if doomed {
            2 * block::ONE_PIN
        } else {
            block::ONE_PIN
        };
        if !exclusive && pins > last {
            self.set_tag(s, tag - block::ONE_PIN);
            return (false, false);
        }
        self.budget -= BUDGET_PIN;
        self.set_tag(s, tag & !block::TAG_PINS);
        (true, doomed)
    }

    /// Whether so much load says that anything is pinned.
    pub(crate) fn holds_any(&self, budget: u32) -> bool {
        !budget
            .wrapping_sub(self.idle_budget)
            .is_multiple_of(1 << BYTES_AT)
    }

    /// Whether anything is pinned.
    pub(crate) fn any_pinned(&mut self) -> bool {
        self.finish_move();
        let mut at = self.first();
        while let Some(s) = at {
            if self.is_pinned(s) {
                return true;
            }
            at = self.next(s);
        }
        false
    }

    /// Whether the heap itself holds it: while its content is loaded or written back. It neither moves nor leaves.
    #[inline(always)]
    pub(crate) fn in_transfer(&self, s: Frame) -> bool {
        self.span(s) & block::IN_TRANSFER != 0
    }

    /// Holds it, or lets it go.
    #[inline(always)]
    pub(crate) fn set_in_transfer(&mut self, s: Frame, on: bool) {
        self.set_flag(s, block::IN_TRANSFER, on);
    }

    /// It is to be freed when its last pin goes.
    pub(crate) fn doom(&mut self, s: Frame) {
        if !self.is_exclusive(s) && self.span(s) & block::DOOMED == 0 {
            // So `unpin_last`, which does not look at the mark, is never the last one's.
            self.set_tag(s, self.tag(s) + block::ONE_PIN);
        }
        self.set_flag(s, block::DOOMED, true);
    }

    /// Whether its content is newer than the medium's.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, s: Frame) -> bool {
        self.span(s) & block::DIRTY != 0
    }

    /// What it adds to [`Cache::persist_bytes`] when it is dirty.
    #[inline(always)]
    pub(crate) fn weight(&self, s: Frame) -> u32 {
        self.len(s) as u32 + CHECK
    }

    /// Its content is about to be newer than the medium's. The caller has made sure that the limit allows it.
    pub(crate) fn mark_dirty(&mut self, s: Frame) {
        if !self.is_dirty(s) {
            self.budget += self.weight(s) << BYTES_AT;
            self.set_flag(s, block::DIRTY, true);
            self.add_candidate(s);
        }
    }

    /// The medium has its content.
    #[inline(never)]
    pub(crate) fn mark_clean(&mut self, s: Frame) {
        if self.is_dirty(s) {
            if !planted!("vnv-heap/cleaned-still-counts") {
                self.budget -= self.weight(s) << BYTES_AT;
            }
            self.set_flag(s, block::DIRTY, false);
        }
    }

    /// It was read. Counts for what is clean: when it leaves, it must be loaded again.
    pub(crate) fn note_read(&mut self, s: Frame) {
        if !self.policy.is_current(block::history(self.tag(s))) && !self.is_dirty(s) {
            self.update_history(s);
        }
    }

    #[inline(always)]
    fn update_history(&mut self, s: Frame) {
        let tag = self.tag(s);
        let h = self.policy.accessed(block::history(tag));
        self.set_tag(s, block::with_history(tag, h));
    }

    /// It was updated.
    pub(crate) fn note_update(&mut self, s: Frame) {
        self.policy.tick();
        let tag = self.tag(s);
        let h = block::history(tag);
        if !self.policy.is_current(h) {
            let h = self.policy.accessed(h);
            self.set_tag(s, block::with_history(tag, h));
        }
    }

    /// All that is resident, by address. What is held and clean may have no content yet.
    ///
    /// The slots stay valid as long as nothing is reserved or removed; marking and pinning is allowed meanwhile.
    pub(crate) fn first(&self) -> Option<Frame> {
        self.in_use_from(self.at(0))
    }

    /// The one after it.
    pub(crate) fn next(&self, s: Frame) -> Option<Frame> {
        self.in_use_from(self.after(s))
    }

    #[inline(always)]
    fn in_use_from(&self, mut at: Frame) -> Option<Frame> {
        debug_assert!(self.arrived == 0);
        while at < self.end() {
            if !self.is_free(at) {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }
}
