//! What is resident: the cache in the caller's buffer. Knows no medium, no types, no critical section.
//!
//! The buffer holds blocks from its start (a header of 8 bytes, then the content, rounded up to 8) and the heads of a hash
//! directory from its end. Between the two is room. All access is through raw pointers, and no reference into the buffer
//! is ever made here: guards hold references to contents, headers are reached beside them.
//!
//! **Invariant "blocks"**: from unit 0 to `top` the buffer is a gapless sequence of blocks with valid headers, except
//! while a block is being moved. A [`Slot`] is the start of one of them, and stays so until the next `reserve`, `remove` or
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

use crate::policy::{NOTHING, Rules};
use nvmem::planted;

/// A block, by its header. One in use is valid until the next `reserve`, `remove` or `settle`, or while it is pinned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(NonNull<u32>);

/// The object is pinned in a way that excludes this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// What [`Cache::reserve`] achieved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reserve {
    /// The block is there: held, not pinned, its content undefined.
    Done(Slot),
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
const MOST_PINNED: u32 = OVER_PINNED - 1;
const OVER_PINNED: u32 = 1 << 13;
const BYTES_AT: u32 = 14;
const OVER_BYTES: u32 = 1 << 17;
/// In a load: one pin is more than a limit allows. Of the two bits, the upper one is clear when a pin was just taken away.
pub(crate) const OVER: u32 = CLOSED | OVER_PINNED;
/// The upper one; with the next bit it is never set.
pub(crate) const CLOSED: u32 = OVER_BYTES << BYTES_AT;
/// What one object that is pinned adds to a load.
pub(crate) const ONE_PINNED: u32 = (PIN_RECORD << BYTES_AT) + 1;

/// What is resident. In this order, as small cores have short loads for what comes first; without room in between.
#[repr(C)]
pub(crate) struct Cache<P> {
    /// The first block: a [`Slot`] as long as there is one.
    first: NonNull<u32>,
    /// Bytes from the base to the end of the directory.
    len: u16,
    /// End of the blocks.
    top: u16,
    /// What a persist would have to write, and how many objects are pinned: see [`Cache::load`].
    load: u32,
    /// The load when there is neither.
    least_load: u32,
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

impl<P: Rules> Cache<P> {
    /// A cache in this buffer, to be [cleared](Cache::clear) before anything else. `None` when not even an empty object would fit.
    ///
    /// # Safety
    ///
    /// The buffer is the cache's alone for as long as the cache, or anything that it gave out, is used.
    #[inline(always)]
    pub(crate) unsafe fn unready(base: *mut u8, len: usize) -> Option<Cache<P>> {
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
            load: ONE_PINNED,
            least_load: ONE_PINNED,
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
    pub(crate) fn in_parts(self) -> Self {
        let policy = core::hint::black_box(self.policy);
        Cache { policy, ..self }
    }

    /// A cache that is ready.
    ///
    /// # Safety
    ///
    /// As [`Cache::unready`].
    #[cfg(test)]
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Option<Cache<P>> {
        // SAFETY: as the caller vouches.
        let mut cache = unsafe { Self::unready(base, len) }?;
        cache.clear();
        Some(cache)
    }

    /// Forgets all that is resident, pinned or not, whatever the buffer holds now.
    ///
    /// After a restore, when RAM may have lost its content: then [`Cache::put_back`] for each pin record.
    #[inline(never)]
    pub(crate) fn clear(&mut self) {
        self.load = self.least_load;
        self.top = 0;
        self.set_heads(1);
        self.count = 0;
        self.free = 0;
        self.hole = NONE;
        self.packed = 0;
        self.hand = 0;
        self.arrived = 0;
        self.set_head(-1, NONE);
        self.policy.kept().fill(NOTHING);
    }

    /// Puts a block that was pinned back to where it was, clean, its content undefined: after [`Cache::clear`], in the
    /// order of addresses. `None` when no block can have been there.
    pub(crate) fn put_back(&mut self, place: u16, id: u16, len: usize, pins: u16) -> Option<Slot> {
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
        let slot = self.at(place);
        // The directory stays small, with long chains, until all that was pinned is back: grown, it would lie where a block is still to come.
        self.enter(slot, id, len);
        self.set_pins(slot, pins);
        if pins & block::PINS != 0 {
            self.load += ONE_PINNED;
        }
        Some(slot)
    }

    /// What a persist would have to write now, but for its record: the bytes of what is dirty, each with its check, and the
    /// records of pins.
    #[inline(always)]
    pub(crate) fn demand(&self) -> u32 {
        (self.load - self.least_load) >> BYTES_AT
    }

    /// Sets how many bytes the demand may have, at most 65,535, and how many objects may be pinned. Nothing is resident.
    pub(crate) fn limit_to(&mut self, demand: u16, pinned: u16) {
        let demand = u32::from(demand) + u32::from(planted!("vnv-heap/limit-off-by-one"));
        let bytes = OVER_BYTES - 1 - demand;
        let pins = MOST_PINNED - u32::from(pinned).min(MOST_PINNED);
        self.least_load = (bytes << BYTES_AT) + pins + ONE_PINNED;
        self.load = self.least_load;
    }

    /// Whether so many bytes are more than the demand may have.
    #[inline(always)]
    pub(crate) fn is_over(&self, demand: u32) -> bool {
        demand + (self.least_load >> BYTES_AT) >= OVER_BYTES + PIN_RECORD
    }

    /// Whether as many objects are pinned as may be.
    #[inline(always)]
    pub(crate) fn is_pinned_out(&self) -> bool {
        self.load & OVER_PINNED != 0
    }

    /// The demand and the number of objects that are pinned in one word, each counted so that a bit of its own ([`OVER`]) is set
    /// when it would be beyond its limit with one pin more: one look at the word tells whether that is allowed.
    #[inline(always)]
    pub(crate) fn load(&self) -> u32 {
        self.load
    }

    /// The load, after a pin or its end outside of the cache.
    #[inline(always)]
    pub(crate) fn set_load(&mut self, load: u32) {
        self.load = load;
    }

    /// A persist would have to write so much now, which is within the limit.
    pub(crate) fn note(&mut self, demand: u32) {
        if demand > u32::from(self.high_water) {
            self.high_water = demand as u16;
        }
    }

    /// The most that was noted.
    pub(crate) fn high_water(&self) -> u32 {
        u32::from(self.high_water)
    }

    /// The object's number.
    #[inline(always)]
    pub(crate) fn id(&self, s: Slot) -> u16 {
        self.tag(s) as u16
    }

    /// Its length in bytes.
    #[inline(always)]
    pub(crate) fn len(&self, s: Slot) -> usize {
        block::len(self.span(s))
    }

    /// Its content: aligned to 8, as long as [`Cache::len`] says.
    #[inline(always)]
    pub(crate) fn content(&self, s: Slot) -> NonNull<u8> {
        s.content()
    }

    /// `f` fills `n` bytes of a block's content from `at` on, or, when that is 0, of its header and its content, as they lie one after the
    /// other on the medium too. The block then has its own header again, and what came in its place is given back.
    ///
    /// # Safety
    /// The block has as many bytes, and nobody else uses its content.
    #[inline(always)]
    pub(crate) unsafe fn read_beside<R>(
        &mut self,
        s: Slot,
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
    pub(crate) fn write_beside<R>(
        &mut self,
        s: Slot,
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
        let start = Slot(self.first).header().cast::<u8>();
        core::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.len as usize)
    }

    /// Whether a guard holds it alone.
    pub(crate) fn is_alone(&self, s: Slot) -> bool {
        self.tag(s) & block::TAG_PINS == block::ALONE
    }

    /// The place of a block, for its pin record.
    #[inline(always)]
    pub(crate) fn place(&self, s: Slot) -> u16 {
        s.units_from(Slot(self.first))
    }

    /// The block with this content.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Cache::content`] of a block that has been pinned ever since.
    #[inline(always)]
    pub(crate) unsafe fn slot_of(&self, content: NonNull<u8>) -> Slot {
        // SAFETY: as the caller vouches.
        unsafe { Slot::of(content) }
    }

    /// Its pins, with the mark of what is doomed: what [`Cache::put_back`] takes.
    #[inline(always)]
    pub(crate) fn pins(&self, s: Slot) -> u16 {
        block::pins(self.tag(s), self.span(s))
    }

    /// Whether a guard holds it.
    #[inline(always)]
    pub(crate) fn is_pinned(&self, s: Slot) -> bool {
        self.tag(s) & block::TAG_PINS != 0
    }

    /// Pins it: shared, or alone.
    ///
    /// # Errors
    ///
    /// [`Busy`] when it is pinned alone, or is to be and is pinned, or has 29 pins.
    pub(crate) fn pin(&mut self, s: Slot, alone: bool) -> Result<(), Busy> {
        let tag = self.tag(s);
        let pins = tag & block::TAG_PINS;
        if pins == 0 {
            self.load += ONE_PINNED;
            let to = if alone { block::ALONE } else { block::ONE_PIN };
            self.set_tag(s, tag | to);
            return Ok(());
        }
        let taken = alone || pins >= block::ALONE - 2 * block::ONE_PIN;
        if taken && !planted!("vnv-heap/pinned-twice") {
            return Err(Busy);
        }
        self.set_tag(s, tag + block::ONE_PIN);
        Ok(())
    }

    /// Pins it to be read, and tells the policy, if it is not pinned yet. The caller has the load.
    pub(crate) fn pin_first(&mut self, s: Slot) -> bool {
        let tag = self.tag(s);
        if tag & block::TAG_PINS != 0 {
            return false;
        }
        self.set_tag(s, tag | block::ONE_PIN);
        if !self.policy.is_current(block::history(tag)) && !self.is_dirty(s) {
            self.used_again(s);
        }
        true
    }

    /// Takes away the only pin of an object, unless there are more or it is to be freed now. The caller has the load.
    ///
    /// # Safety
    ///
    /// As [`Cache::slot_of`].
    #[inline(always)]
    pub(crate) unsafe fn unpin_last(&mut self, content: NonNull<u8>, alone: bool) -> bool {
        // SAFETY: invariant "blocks": before a content there is its header.
        let s = unsafe { self.slot_of(content) };
        let pins = if alone { block::ALONE } else { block::ONE_PIN };
        let tag = self.tag(s) ^ pins;
        // What is doomed and read has a pin more: see `doom`.
        if tag & block::TAG_PINS != 0 || alone && self.span(s) & block::DOOMED != 0 {
            return false;
        }
        self.set_tag(s, tag);
        true
    }

    /// Takes a pin away: the one that excludes all others, or one of those that share. Whether it was the last, and whether
    /// the object is to be freed now.
    pub(crate) fn unpin(&mut self, s: Slot, alone: bool) -> (bool, bool) {
        let tag = self.tag(s);
        let pins = tag & block::TAG_PINS;
        debug_assert!(pins != 0 && (pins == block::ALONE) == alone);
        let doomed = self.span(s) & block::DOOMED != 0;
        // What is doomed and read has one more: see `doom`.
        let last = if doomed {
            2 * block::ONE_PIN
        } else {
            block::ONE_PIN
        };
        if !alone && pins > last {
            self.set_tag(s, tag - block::ONE_PIN);
            return (false, false);
        }
        self.load -= ONE_PINNED;
        self.set_tag(s, tag & !block::TAG_PINS);
        (true, doomed)
    }

    /// Whether so much load says that anything is pinned.
    pub(crate) fn holds_any(&self, load: u32) -> bool {
        !load
            .wrapping_sub(self.least_load)
            .is_multiple_of(1 << BYTES_AT)
    }

    /// Whether anything is pinned.
    pub(crate) fn any_pinned(&mut self) -> bool {
        self.settle();
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
    pub(crate) fn is_held(&self, s: Slot) -> bool {
        self.span(s) & block::HELD != 0
    }

    /// Holds it, or lets it go.
    #[inline(always)]
    pub(crate) fn hold(&mut self, s: Slot, on: bool) {
        self.set_flag(s, block::HELD, on);
    }

    /// It is to be freed when its last pin goes.
    pub(crate) fn doom(&mut self, s: Slot) {
        if !self.is_alone(s) && self.span(s) & block::DOOMED == 0 {
            // So `unpin_last`, which does not look at the mark, is never the last one's.
            self.set_tag(s, self.tag(s) + block::ONE_PIN);
        }
        self.set_flag(s, block::DOOMED, true);
    }

    /// Whether its content is newer than the medium's.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, s: Slot) -> bool {
        self.span(s) & block::DIRTY != 0
    }

    /// What it adds to [`Cache::demand`] when it is dirty.
    #[inline(always)]
    pub(crate) fn weight(&self, s: Slot) -> u32 {
        self.len(s) as u32 + CHECK
    }

    /// Its content is about to be newer than the medium's. The caller has made sure that the limit allows it.
    pub(crate) fn mark_dirty(&mut self, s: Slot) {
        if !self.is_dirty(s) {
            self.load += self.weight(s) << BYTES_AT;
            self.set_flag(s, block::DIRTY, true);
            self.keep(s);
        }
    }

    /// The medium has its content.
    #[inline(never)]
    pub(crate) fn mark_clean(&mut self, s: Slot) {
        if self.is_dirty(s) {
            if !planted!("vnv-heap/cleaned-still-counts") {
                self.load -= self.weight(s) << BYTES_AT;
            }
            self.set_flag(s, block::DIRTY, false);
        }
    }

    /// It was read. Counts for what is clean: when it leaves, it must be loaded again.
    pub(crate) fn used(&mut self, s: Slot) {
        if !self.policy.is_current(block::history(self.tag(s))) && !self.is_dirty(s) {
            self.used_again(s);
        }
    }

    #[inline(always)]
    fn used_again(&mut self, s: Slot) {
        let tag = self.tag(s);
        let h = self.policy.accessed(block::history(tag));
        self.set_tag(s, block::with_history(tag, h));
    }

    /// It was updated.
    pub(crate) fn updated(&mut self, s: Slot) {
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
    pub(crate) fn first(&self) -> Option<Slot> {
        self.in_use_from(self.at(0))
    }

    /// The one after it.
    pub(crate) fn next(&self, s: Slot) -> Option<Slot> {
        self.in_use_from(self.after(s))
    }

    #[inline(always)]
    fn in_use_from(&self, mut at: Slot) -> Option<Slot> {
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
