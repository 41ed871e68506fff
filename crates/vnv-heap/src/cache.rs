//! The frame cache: which objects are resident in the caller's buffer. It knows no medium, no types
//! and no critical section.
//!
//! ```text
//!   0        unit = 8 bytes                          top                        len
//!   +---+---------+---+-----+---+-----------+--------+------------+----+----+----+
//!   |tag|  object |tag| ... |   |  object   |  free  | free space | h2 | h1 | h0 |
//!   |   |  bytes  |   |     |   |           | (hole) |  on top    |    |    |    |
//!   +---+---------+---+-----+---+-----------+--------+------------+----+----+----+
//!   <-- frame --->                                                <- directory -->
//!
//!   directory: h[id mod buckets] -> frame -> frame -> NONE   (linked through the headers)
//!
//!   absent --reserve--> in transfer --set_in_transfer(false)--> clean <--> dirty
//!      ^                                     |                    |   mark_dirty/mark_clean
//!      +------------- remove ----------------+--------------------+   pinned: stays where it is
//! ```
//!
//! A frame is a header of 8 bytes and the object's bytes, rounded up to 8. Frames lie from the
//! start of the buffer. The heads of the hash directory lie at its end and grow down. All access
//! uses raw pointers. This module makes no reference into the buffer: guards hold references to
//! object bytes, and headers are accessed beside them.
//!
//! INVARIANT "Frames fill the buffer": only the cache uses the buffer while it lives; the heap
//! borrows it. From unit 0 to `top` it is a gapless sequence of frames and holes with valid
//! headers, except while `reserve` moves a frame. Then only its operation continues, or a persist,
//! which ends the move (`move_step` and `finish_move` in cache/space.rs). A [`Frame`] points to the
//! start of one of them. It stays valid until the next `reserve`, `remove` or `finish_move`; the
//! `Frame` of a pinned object stays valid while it is pinned.
//! Noticed by: the model test in cache/tests.rs, which compares the bytes of all frames;
//! tests/suite/soundness.rs under Miri; planted `pinned-block-moves`.
//!
//! cache/directory.rs keeps the invariants "Heads are written" and "One chain".
//!
//! Why a persist can come at any time: each call leaves these invariants true, except `reserve`
//! while a frame moves. `finish_move` ends such a move before anything else uses the frames.

mod directory;
mod header;
mod space;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use header::MAX_LEN;

use crate::error::Fail;
use crate::policy::{History, NO_FRAME, PolicyRules};
use core::ptr::NonNull;
use header::{NONE, UNIT};
use nvmem::planted;

/// The address of a frame's header. Valid until the next `reserve`, `remove` or `finish_move`, or
/// while it is pinned. In the tables a frame is a position of 13 bits; inside of a section a
/// pointer is as good, because neither outlives a step that moves frames, and reading a header is
/// one load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Frame(NonNull<u32>);

/// Bytes that a persist writes for a dirty object besides its content.
pub(crate) const CHECK: u32 = 2;
/// Bytes that a persist writes for a pinned object: its pin record.
pub(crate) const PIN_RECORD: u32 = 8;

// The budget word: bits 0 to 12 count pinned objects, bits 13 to 31 count bytes of a persist. Both
// counters are biased, so that the top bit of each is set when one more pin would exceed its limit.
// With the bytes from bit 13 on, `BUDGET_PIN` is an immediate of one instruction on Cortex-M.
const MAX_PINNED: u32 = PINS_OVER - 1;
const PINS_OVER: u32 = 1 << 12;
const BYTES_AT: u32 = 13;
const BYTES_OVER: u32 = 1 << 18;
// There are never more frames than can be counted as pinned.
const _: () = assert!(header::MOST_UNITS / header::units(1) as usize <= MAX_PINNED as usize);
/// Mask of the budget word: a set bit means that one more pin exceeds a limit. Of its two bits, the
/// upper one is clear right after a pin was released.
pub(crate) const BUDGET_OVER: u32 = BUDGET_CLOSED | PINS_OVER;
/// The upper bit of [`BUDGET_OVER`]. The cache never sets it together with the next lower bit.
pub(crate) const BUDGET_CLOSED: u32 = BYTES_OVER << BYTES_AT;
/// What one pinned object adds to the budget word.
pub(crate) const BUDGET_PIN: u32 = (PIN_RECORD << BYTES_AT) + 1;

/// The frame cache. Fields that are used most come first: small cores have short loads for them.
/// There is no padding.
#[repr(C)]
pub(crate) struct Cache<P> {
    /// The first frame. A valid [`Frame`] while there is one.
    first: NonNull<u32>,
    /// Bytes from the base to the end of the directory.
    len: u16,
    /// Units below this are frames or holes.
    top: u16,
    /// The budget word: bytes that a persist would write now, and pinned objects. See
    /// [`Cache::budget`].
    budget: u32,
    /// The budget word when nothing is dirty or pinned.
    idle_budget: u32,
    /// Minus the number of buckets in the directory.
    least: i16,
    /// Hash mask: the bits that select the bucket are clear.
    mask: i16,
    /// How many objects are resident.
    count: u16,
    /// Units in holes below `top`.
    free: u16,
    /// The hole that was made last, or NONE.
    hole: u16,
    /// Frames below this are packed as far as pins allow.
    packed: u16,
    /// Where the next search for a victim begins (clock hand).
    hand: u16,
    /// Units already moved of the frame that moves from `hole` to `packed`. 0 when no frame moves.
    arrived: u16,
    /// The most bytes that a persist would ever have written.
    high_water: u16,
    policy: P,
}

impl<P: PolicyRules> Cache<P> {
    /// A cache in this buffer. Call [`Cache::clear`] before anything else. `None` when not even an
    /// empty object would fit.
    ///
    /// # Safety
    ///
    /// Only the cache uses the buffer while the cache, or a pointer that it gave out, is in use.
    #[inline(always)]
    pub(crate) unsafe fn new_uncleared(base: *mut u8, len: usize) -> Option<Cache<P>> {
        let skip = base.align_offset(UNIT);
        let most = header::MOST_UNITS * UNIT;
        let len = len.checked_sub(skip)?.min(most) & !1;
        if len < 2 * UNIT {
            return None;
        }
        // Hides the constant from the optimiser, which would call `memset` for words known to be
        // zero.
        let zero = core::hint::black_box(0);
        Some(Cache {
            // SAFETY: invariant "Frames fill the buffer": the buffer has as many bytes.
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

    /// A cleared cache.
    ///
    /// # Safety
    ///
    /// As [`Cache::new_uncleared`].
    #[cfg(test)]
    pub(crate) unsafe fn new(base: *mut u8, len: usize) -> Option<Cache<P>> {
        // SAFETY: invariant "Frames fill the buffer": as the caller vouches.
        let mut cache = unsafe { Self::new_uncleared(base, len) }?;
        cache.clear();
        Some(cache)
    }

    /// Forgets all resident objects, pinned or not. The buffer's content does not matter.
    ///
    /// After a restore RAM may have lost its content: call this, then [`Cache::restore_pinned`] for
    /// each pin record.
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

    /// Puts the frame of a pinned object back where it was: clean, its bytes undefined. Call after
    /// [`Cache::clear`], in ascending order of addresses. `None` when the record does not describe
    /// a possible frame.
    pub(crate) fn restore_pinned(
        &mut self,
        place: u16,
        id: u16,
        len: usize,
        pins: u16,
    ) -> Option<Frame> {
        let units = header::units(len);
        if id == 0 || len > MAX_LEN || place < self.top || !header::pins_valid(pins) {
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
        // The directory stays small until all pinned frames are back. If it grew, it could cover a
        // frame that is still to come.
        self.link(frame, id, len);
        self.set_pins(frame, pins);
        if pins & header::PINS != 0 {
            self.budget += BUDGET_PIN;
        }
        Some(frame)
    }

    /// Bytes that a persist would write now, without its own record: each dirty object with its
    /// check, and the pin records.
    #[inline(always)]
    pub(crate) fn persist_bytes(&self) -> u32 {
        (self.budget - self.idle_budget) >> BYTES_AT
    }

    /// Sets the limits: bytes of a persist, at most 65,535, and pinned objects. Nothing is
    /// resident.
    pub(crate) fn limit_to(&mut self, persist_bytes: u16, pinned: u16) {
        let mut bytes = BYTES_OVER - 1 - u32::from(persist_bytes);
        if planted!("vnv-heap/limit-off-by-one") {
            bytes -= 1;
        }
        let pins = MAX_PINNED - u32::from(pinned).min(MAX_PINNED);
        self.idle_budget = (bytes << BYTES_AT) + pins + BUDGET_PIN;
        self.budget = self.idle_budget;
    }

    /// Whether a persist of so many bytes exceeds the limit.
    #[inline(always)]
    pub(crate) fn exceeds_limit(&self, persist_bytes: u32) -> bool {
        persist_bytes + (self.idle_budget >> BYTES_AT) >= BYTES_OVER + PIN_RECORD
    }

    /// Whether no further object may be pinned.
    #[inline(always)]
    pub(crate) fn pins_exhausted(&self) -> bool {
        self.budget & PINS_OVER != 0
    }

    /// The budget word: bytes of a persist and pinned objects. One test against [`BUDGET_OVER`]
    /// tells whether a further pin is allowed.
    #[inline(always)]
    pub(crate) fn budget(&self) -> u32 {
        self.budget
    }

    /// Sets the budget word, after a pin or unpin outside the cache.
    #[inline(always)]
    pub(crate) fn set_budget(&mut self, budget: u32) {
        self.budget = budget;
    }

    /// Records that a persist would write this many bytes now, which is within the limit.
    pub(crate) fn note_high_water(&mut self, persist_bytes: u32) {
        if persist_bytes > u32::from(self.high_water) {
            self.high_water = persist_bytes as u16;
        }
    }

    /// The most bytes ever recorded by [`Cache::note_high_water`].
    pub(crate) fn high_water(&self) -> u32 {
        u32::from(self.high_water)
    }

    /// The object's number.
    #[inline(always)]
    pub(crate) fn id(&self, s: Frame) -> u16 {
        header::id(self.tag(s))
    }

    /// The object's length in bytes.
    #[inline(always)]
    pub(crate) fn len(&self, s: Frame) -> usize {
        header::len(self.span(s))
    }

    /// The object's bytes: aligned to 8, [`Cache::len`] bytes long.
    #[inline(always)]
    pub(crate) fn content(&self, s: Frame) -> NonNull<u8> {
        s.content()
    }

    /// Lets `f` fill `n` bytes of the content from `at` on. When `at` is 0, `f` fills the header
    /// too: on the medium the two are adjacent, so one read gets both. The frame's own header is
    /// restored afterwards. Returns the header that was read.
    ///
    /// # Safety
    /// The frame has this many bytes, and nothing else uses its content.
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
        // SAFETY: invariant "Frames fill the buffer": a header and the content behind it. Headers
        // are only accessed through the cache, which is borrowed.
        unsafe {
            let mine = header.read();
            let to = header.cast::<u8>().add(skip);
            let r = f(core::slice::from_raw_parts_mut(to, n));
            let theirs = header.read();
            header.write(mine);
            (r, theirs)
        }
    }

    /// Gives `f` the check and the first `n` content bytes as one slice, as they lie on the medium.
    /// One write stores both.
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
        // SAFETY: invariant "Frames fill the buffer": the header's second word lies before the
        // content, and is restored below. All content of a resident object is initialised. Headers
        // are only accessed through the cache, which is borrowed.
        let r = unsafe {
            let from = self.content(s).as_ptr().sub(size_of::<u16>());
            from.cast::<[u8; 2]>().write(check.to_le_bytes());
            f(core::slice::from_raw_parts(from, size_of::<u16>() + n))
        };
        self.set_span(s, span);
        r
    }

    /// The whole buffer as scratch memory. Its use must end before [`Cache::clear`].
    pub(crate) fn buffer(&mut self) -> *mut [u8] {
        let start = Frame(self.first).header().cast::<u8>();
        core::ptr::slice_from_raw_parts_mut(start.as_ptr(), self.len as usize)
    }

    /// Whether a guard pins it exclusively.
    pub(crate) fn is_exclusive(&self, s: Frame) -> bool {
        self.tag(s) & header::TAG_PINS == header::EXCLUSIVE
    }

    /// The frame's first unit, for its pin record.
    #[inline(always)]
    pub(crate) fn place(&self, s: Frame) -> u16 {
        s.units_from(Frame(self.first))
    }

    /// The frame with this content.
    ///
    /// # Safety
    ///
    /// The pointer came from [`Cache::content`] of an object that has been pinned ever since.
    #[inline(always)]
    pub(crate) unsafe fn frame_of(&self, content: NonNull<u8>) -> Frame {
        // SAFETY: invariant "Frames fill the buffer": as the caller vouches.
        unsafe { Frame::of(content) }
    }

    /// Its pin count and doomed flag, in the form that [`Cache::restore_pinned`] takes.
    #[inline(always)]
    pub(crate) fn pins(&self, s: Frame) -> u16 {
        header::pins(self.tag(s), self.span(s))
    }

    /// Whether a guard pins it.
    #[inline(always)]
    pub(crate) fn is_pinned(&self, s: Frame) -> bool {
        self.tag(s) & header::TAG_PINS != 0
    }

    // INVARIANT "What is held stays": an object with a guard keeps its address and is not evicted:
    // the pins in its header.
    // Noticed by: planted `pinned-victim`, `pinned-block-moves`; tests/suite/others.rs.

    // INVARIANT "One writer or many readers": a guard to write excludes all others. Also kept by
    // the fast paths, which pin only what is unpinned: `lookup_unpinned` in cache/directory.rs. A
    // second guard that is excluded is an error and not a panic, because which objects are held
    // depends on data.
    // Noticed by: planted `pinned-twice`, `freed-while-held`.
    /// Pins it: shared or exclusive.
    ///
    /// # Errors
    ///
    /// [`Fail::BUSY`] when it is pinned exclusively, when the new pin is exclusive and it is
    /// pinned, or when it has 29 pins.
    #[inline(never)]
    pub(crate) fn pin(&mut self, s: Frame, exclusive: bool) -> Result<(), Fail> {
        let tag = self.tag(s);
        let pins = tag & header::TAG_PINS;
        if pins == 0 {
            self.budget += BUDGET_PIN;
            let to = if exclusive {
                header::EXCLUSIVE
            } else {
                header::ONE_PIN
            };
            self.set_tag(s, tag | to);
            return Ok(());
        }
        let taken = exclusive || pins >= header::EXCLUSIVE - 2 * header::ONE_PIN;
        if taken && !planted!("vnv-heap/pinned-twice") {
            return Err(Fail::BUSY);
        }
        self.set_tag(s, tag + header::ONE_PIN);
        Ok(())
    }

    /// Pins an unpinned object shared, unless its history must be updated: then false, and nothing
    /// is done. The caller updates the budget word.
    #[inline(always)]
    pub(crate) fn pin_unchanged(&mut self, s: Frame) -> bool {
        let tag = self.tag(s);
        debug_assert!(tag & header::TAG_PINS == 0);
        if !self.policy.is_current(header::history(tag)) && !self.is_dirty(s) {
            return false;
        }
        self.set_tag(s, tag | header::ONE_PIN);
        true
    }

    /// Pins an unpinned dirty object exclusively. The caller has added the pin to this budget word,
    /// stores it, and calls [`Cache::update_history`] when this returns true.
    #[inline(always)]
    pub(crate) fn pin_dirty(&mut self, s: Frame, budget: u32) -> bool {
        let tag = self.tag(s);
        debug_assert!(tag & header::TAG_PINS == 0 && self.is_dirty(s));
        self.set_tag(s, tag | header::EXCLUSIVE);
        self.policy.tick();
        self.note_high_water((budget - self.idle_budget) >> BYTES_AT);
        let h = header::history(tag);
        !self.policy.is_current(h) && !self.policy.is_same_use(h)
    }

    /// Releases the only pin of an object. False when there are more, or the object must be freed
    /// now. The caller updates the budget word.
    ///
    /// # Safety
    ///
    /// As [`Cache::frame_of`].
    #[inline(always)]
    pub(crate) unsafe fn unpin_last(&mut self, content: NonNull<u8>, exclusive: bool) -> bool {
        // SAFETY: invariant "Frames fill the buffer": before a content there is its header.
        let s = unsafe { self.frame_of(content) };
        let pins = if exclusive {
            header::EXCLUSIVE
        } else {
            header::ONE_PIN
        };
        let tag = self.tag(s) ^ pins;
        // A doomed object that is pinned shared has one extra pin: see `doom`.
        if tag & header::TAG_PINS != 0 || exclusive && self.span(s) & header::DOOMED != 0 {
            return false;
        }
        self.set_tag(s, tag);
        true
    }

    /// Releases one pin: the exclusive one, or one of the shared ones. Returns whether it was the
    /// last, and whether the object must be freed now.
    pub(crate) fn unpin(&mut self, s: Frame, exclusive: bool) -> (bool, bool) {
        let tag = self.tag(s);
        let pins = tag & header::TAG_PINS;
        debug_assert!(pins != 0 && (pins == header::EXCLUSIVE) == exclusive);
        let doomed = self.span(s) & header::DOOMED != 0;
        // A doomed object that is pinned shared has one extra pin: see `doom`.
        let last = if doomed {
            2 * header::ONE_PIN
        } else {
            header::ONE_PIN
        };
        if !exclusive && pins > last {
            self.set_tag(s, tag - header::ONE_PIN);
            return (false, false);
        }
        self.budget -= BUDGET_PIN;
        self.set_tag(s, tag & !header::TAG_PINS);
        (true, doomed)
    }

    /// Whether this budget word counts any pinned object.
    pub(crate) fn holds_any(&self, budget: u32) -> bool {
        !budget
            .wrapping_sub(self.idle_budget)
            .is_multiple_of(1 << BYTES_AT)
    }

    /// Whether any object is pinned.
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

    /// Whether its content is being read or written back. Such a frame is neither moved nor
    /// evicted.
    #[inline(always)]
    pub(crate) fn in_transfer(&self, s: Frame) -> bool {
        self.span(s) & header::IN_TRANSFER != 0
    }

    /// Sets or clears the in-transfer flag.
    #[inline(always)]
    pub(crate) fn set_in_transfer(&mut self, s: Frame, on: bool) {
        self.set_flag(s, header::IN_TRANSFER, on);
    }

    /// Marks it to be freed when its last pin is released.
    pub(crate) fn doom(&mut self, s: Frame) {
        if !self.is_exclusive(s) && self.span(s) & header::DOOMED == 0 {
            // An extra pin keeps `unpin_last`, which does not check this flag, from releasing the
            // last pin.
            self.set_tag(s, self.tag(s) + header::ONE_PIN);
        }
        self.set_flag(s, header::DOOMED, true);
    }

    /// Whether its content is newer than the medium's.
    #[inline(always)]
    pub(crate) fn is_dirty(&self, s: Frame) -> bool {
        self.span(s) & header::DIRTY != 0
    }

    /// Bytes that it adds to [`Cache::persist_bytes`] when dirty.
    #[inline(always)]
    pub(crate) fn weight(&self, s: Frame) -> u32 {
        self.len(s) as u32 + CHECK
    }

    /// Its content is about to change. The caller has checked the limit.
    #[inline(never)]
    pub(crate) fn mark_dirty(&mut self, s: Frame) {
        if !self.is_dirty(s) {
            self.budget += self.weight(s) << BYTES_AT;
            self.set_flag(s, header::DIRTY, true);
            self.add_candidate(s);
        }
    }

    /// The medium has its content now.
    #[inline(never)]
    pub(crate) fn mark_clean(&mut self, s: Frame) {
        if self.is_dirty(s) {
            if !planted!("vnv-heap/cleaned-still-counts") {
                self.budget -= self.weight(s) << BYTES_AT;
            }
            self.set_flag(s, header::DIRTY, false);
        }
    }

    /// Tells the policy of a read. Counts for clean objects only: evicting one costs paging it in
    /// again.
    pub(crate) fn note_read(&mut self, s: Frame) {
        if !self.policy.is_current(header::history(self.tag(s))) && !self.is_dirty(s) {
            self.update_history(s);
        }
    }

    /// Enters an access now into the object's history.
    #[inline(never)]
    pub(crate) fn update_history(&mut self, s: Frame) {
        let tag = self.tag(s);
        let h = self.policy.accessed(header::history(tag));
        self.set_tag(s, header::with_history(tag, h));
    }

    /// Tells the policy of an update.
    pub(crate) fn note_update(&mut self, s: Frame) {
        self.policy.tick();
        if !self.policy.is_current(header::history(self.tag(s))) {
            self.update_history(s);
        }
    }

    /// The first frame in use, by address. A frame in transfer that is clean may have no content
    /// yet.
    ///
    /// Frames stay valid while nothing is reserved or removed. Marking and pinning are allowed.
    pub(crate) fn first(&self) -> Option<Frame> {
        self.in_use_from(self.at(0))
    }

    /// The next frame in use.
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

/// Headers, and the order of frames in the buffer.
impl<P> Cache<P> {
    /// The frame at this unit.
    #[inline(always)]
    fn at(&self, place: u16) -> Frame {
        Frame(self.first).up(usize::from(place) * UNIT)
    }

    /// The end of all frames.
    #[inline(always)]
    fn end(&self) -> Frame {
        self.at(self.top)
    }

    #[inline(always)]
    fn tag(&self, at: Frame) -> u32 {
        // SAFETY: invariant "Frames fill the buffer": headers are initialised.
        unsafe { at.header().read() }
    }

    #[inline(always)]
    fn set_tag(&mut self, at: Frame, tag: u32) {
        // SAFETY: invariant "Frames fill the buffer": there is a header.
        unsafe { at.header().write(tag) }
    }

    #[inline(always)]
    fn span(&self, at: Frame) -> u32 {
        // SAFETY: invariant "Frames fill the buffer": headers are initialised, and two words long.
        unsafe { at.header().add(1).read() }
    }

    #[inline(always)]
    fn set_span(&mut self, at: Frame, span: u32) {
        // SAFETY: invariant "Frames fill the buffer": a header is two words long.
        unsafe { at.header().add(1).write(span) }
    }

    #[inline(always)]
    fn set_flag(&mut self, at: Frame, flag: u32, on: bool) {
        let span = self.span(at);
        self.set_span(at, if on { span | flag } else { span & !flag });
    }

    fn set_pins(&mut self, at: Frame, pins: u16) {
        self.set_tag(at, header::with_pins(self.tag(at), pins));
        self.set_flag(at, header::DOOMED, header::is_doomed(pins));
    }

    #[inline(always)]
    fn set_link(&mut self, at: Frame, link: u16) {
        self.set_span(at, header::with_link(self.span(at), link));
    }

    #[inline(always)]
    fn is_free(&self, at: Frame) -> bool {
        header::is_free(self.span(at))
    }

    /// The next frame or hole, or the end.
    #[inline(always)]
    fn after(&self, at: Frame) -> Frame {
        at.up(header::bytes(self.span(at)))
    }

    /// Makes a hole of these units.
    #[inline(never)]
    fn make_free(&mut self, at: Frame, units: u16) {
        self.set_tag(at, 0);
        self.set_span(at, header::FREE | u32::from(units));
    }

    /// Makes a clean, unpinned frame that is in no chain yet.
    fn make_used(&mut self, at: Frame, id: u16, len: usize, h: History) {
        self.set_tag(at, header::unpinned(id, h));
        self.set_span(at, header::unlinked(len));
    }
}
