//! Holding an object that is not simply there: making room, writing back, loading.
//!
//! What is common is one straight section: the object that leaves is written, the other one is read into its place, and the tables follow. Where
//! a burst does not allow that, it is the same in more sections, a burst in each; what a section leaves is a transfer under way. Between two
//! sections there may be a persist and its restore.

use crate::error::Fail;
use crate::own::{HandleRange, Kind};
use crate::plain::copy;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{Frame, Reserve};
use crate::state::{Attempt, Core, State};
use crate::store::{
    BLOCK_HEADER, BeginWrite, CHECK_BYTES, Check, METADATA_MAX, PIECE, check_in_header,
};
use core::ptr::NonNull;
use nvmem::{Medium, planted};

/// What is wanted of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// It is new: this is its content.
    Fill(*const u8),
}

struct PinRequest<'k> {
    id: u16,
    kind: &'k Kind,
    access: Access,
    /// What is under way, if anything is.
    transfer: Transfer,
    /// So much of a new object's content is there, once it has a block.
    filled: Option<usize>,
    /// It was not there.
    paged_in: bool,
    /// Snapshot: its block is being taken; then it is dirty.
    begin: Option<BeginWrite>,
}

impl PinRequest<'_> {
    /// A block is there for it.
    fn reserved(&mut self, frame: Frame) {
        if let Access::Fill(_) = self.access {
            self.filled = Some(0);
        } else {
            self.transfer.set(frame, Goal::PageIn);
        }
    }
}

/// What moves between a resident block and the medium, and what then becomes of the block.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// It is written back.
    Clean,
    /// It is written back, and leaves RAM.
    Evict,
    /// It is loaded.
    PageIn,
}

/// A load or a write-back.
struct Transfer {
    /// Of what, if anything is under way.
    frame: Option<Frame>,
    goal: Goal,
    /// What the check of a loaded one must come to.
    expected: u16,
    /// Where the content is on the medium.
    address: u32,
    /// So much of it was moved, or, to be written, is in the check.
    at: usize,
    /// The first piece.
    first: usize,
    check: Check,
}

impl Transfer {
    const NONE: Transfer = Transfer {
        frame: None,
        goal: Goal::PageIn,
        expected: 0,
        address: 0,
        at: 0,
        first: 0,
        check: Check::NONE,
    };

    /// To be begun.
    #[inline(always)]
    fn set(&mut self, frame: Frame, goal: Goal) {
        // Not a new one: all of it would be copied, of which most is written before it is read.
        (self.frame, self.goal, self.at) = (Some(frame), goal, 0);
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Gives a new object its content; it is dirty then, and nobody holds it.
    ///
    /// # Safety
    /// `content` is a value of this kind, which belongs to the object when this has succeeded.
    pub(crate) unsafe fn fill(&self, id: u16, kind: &Kind, content: *const u8) -> Result<(), Fail> {
        self.pin_in_sections(id, kind, Access::Fill(content))
            .map(drop)
    }

    /// Writes all that is dirty, in pieces. Nobody holds anything to be written, but for guards that were leaked.
    pub(crate) fn clean_all(&self) -> Result<(), Fail> {
        self.no_padding_leaked()?;
        let mut attempt = Attempt::new();
        let mut transfer = Transfer::NONE;
        self.sections(|st| {
            if !attempt.continues(st.incarnation)? {
                transfer.frame = None;
            }
            let mut left = st.section_bytes();
            loop {
                let frame = match transfer.frame {
                    Some(frame) => frame,
                    None => {
                        st.cache.finish_move();
                        let Some(dirty) = st.first_dirty() else {
                            return Ok(());
                        };
                        transfer.set(dirty, Goal::Clean);
                        dirty
                    }
                };
                st.transfer_step(frame, &mut transfer, &mut left)?;
                transfer.frame = None;
            }
        })
    }

    /// Holds an object that may not be held at once. **Cost**: what is written
    /// back to make room, and what is read, in a section for each burst.
    #[inline(always)]
    pub(crate) fn pin_slow(
        &self,
        id: u16,
        kind: &Kind,
        mutable: bool,
    ) -> Result<NonNull<u8>, Fail> {
        let access = if mutable { Access::Write } else { Access::Read };
        self.pin_in_sections(id, kind, access)
    }

    /// Holds an object in as many sections as it takes.
    #[cold]
    #[inline(never)]
    fn pin_in_sections(&self, id: u16, kind: &Kind, access: Access) -> Result<NonNull<u8>, Fail> {
        let mut attempt = Attempt::new();
        let mut request = PinRequest {
            id,
            kind,
            access,
            transfer: Transfer::NONE,
            filled: None,
            paged_in: false,
            begin: None,
        };
        self.sections(|st| {
            if !attempt.continues(st.incarnation)? && !planted!("vnv-heap/no-restart") {
                // What was reserved went with the RAM.
                request.transfer.frame = None;
                request.filled = None;
                request.begin = None;
            }
            let r = st.pin_step(&mut request);
            if r.is_err_and(|f| f != Fail::PENDING) {
                st.drop_unfilled(request.id);
            }
            r
        })
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// Bytes that a section may move: a burst, and what belongs to an object that is written and one that is read.
    fn section_bytes(&self) -> usize {
        usize::from(self.store.burst()) + 2 * METADATA_MAX
    }

    /// An operation that fails leaves no block without its content.
    #[cold]
    #[inline(always)]
    fn drop_unfilled(&mut self, id: u16) {
        if let Some(frame) = self.cache.lookup(id)
            && self.cache.in_transfer(frame)
        {
            self.cache.set_in_transfer(frame, false);
            self.cache.remove(frame);
        }
    }

    /// As much as a burst allows; where the object is, when it is held.
    #[inline(always)]
    fn pin_step(&mut self, request: &mut PinRequest<'_>) -> Result<NonNull<u8>, Fail> {
        let mut left = self.section_bytes();
        if P::SNAPSHOT {
            self.cow_step(request)?;
        }
        loop {
            if let Some(frame) = request.transfer.frame {
                self.transfer_step(frame, &mut request.transfer, &mut left)?;
                request.transfer.frame = None;
                match request.transfer.goal {
                    Goal::PageIn => self.validate(request, frame)?,
                    // The wanted one gets its place, if it is as large.
                    Goal::Evict
                        if self
                            .cache
                            .replace(frame, request.id, request.kind.len.into()) =>
                    {
                        request.reserved(frame);
                        continue;
                    }
                    Goal::Evict | Goal::Clean => {}
                }
            }
            let Some(frame) = self.cache.lookup(request.id) else {
                match self
                    .cache
                    .reserve(request.id, request.kind.len.into(), left)
                {
                    Reserve::Done(frame) => request.reserved(frame),
                    Reserve::Again => return Err(Fail::PENDING),
                    Reserve::NoRoom => {
                        let victim = self.cache.victim(false).ok_or(Fail::RAM_FULL)?;
                        request.transfer.set(victim, Goal::Evict);
                    }
                }
                continue;
            };
            let changes = request.access != Access::Read;
            let mutable = request.access == Access::Write;
            if mutable && self.cache.is_pinned(frame) {
                return Err(Fail::BUSY);
            }
            let sum = loop {
                let sum = match request.filled {
                    Some(_) => self.cache.persist_bytes() + self.cache.weight(frame),
                    None => self.persist_bytes_with(frame, request.kind, mutable),
                };
                if !self.cache.exceeds_limit(sum) {
                    break sum;
                }
                let victim = self.cache.victim(true).ok_or(Fail::DIRTY_LIMIT)?;
                request.transfer.set(victim, Goal::Clean);
                self.transfer_step(victim, &mut request.transfer, &mut left)?;
                request.transfer.frame = None;
            };
            if !P::SNAPSHOT
                && changes
                && !self.store.is_running()
                && !planted!("vnv-heap/running-late")
            {
                // Before anybody can change anything: a cut then is an interruption, even if all that has changed was in RAM.
                self.store.before_change()?;
                return Err(Fail::PENDING);
            }
            if let Access::Fill(from) = request.access {
                // SAFETY: a value of the kind that the block was reserved for.
                return unsafe { self.fill_step(request, frame, from, left) };
            }
            if P::SNAPSHOT && mutable && !self.cache.is_dirty(frame) {
                request.begin = Some(BeginWrite::new(request.id, request.kind.len));
                return Err(Fail::PENDING);
            }
            if !self.cache.is_pinned(frame) && self.cache.pins_exhausted() {
                return Err(Fail::DIRTY_LIMIT);
            }
            if !self.pin_within(frame, mutable, sum) {
                return Err(Fail::BUSY);
            }
            let count = if request.paged_in {
                &mut self.stats.loads
            } else {
                &mut self.stats.hits
            };
            *count = count.wrapping_add(1);
            return Ok(self.cache.content(frame));
        }
    }

    /// Snapshot: a step towards a block of its own, if one is on the way.
    fn cow_step(&mut self, request: &mut PinRequest<'_>) -> Result<(), Fail> {
        let Some(begin) = &mut request.begin else {
            return Ok(());
        };
        self.store.begin_write(begin)?;
        // Its current content is in RAM alone from here on.
        if let Some(frame) = self.cache.lookup(request.id) {
            self.cache.mark_dirty(frame);
        }
        request.begin = None;
        Ok(())
    }

    /// A piece of a new object's content.
    ///
    /// # Safety
    /// A value of the hold's kind is at `from`; the block is reserved for it.
    unsafe fn fill_step(
        &mut self,
        request: &mut PinRequest<'_>,
        frame: Frame,
        from: *const u8,
        left: usize,
    ) -> Result<NonNull<u8>, Fail> {
        let (at, len) = (request.filled.unwrap_or(0), usize::from(request.kind.size));
        let n = piece_len(len - at, left);
        let to = self.cache.content(frame);
        // SAFETY: `n` bytes of a value of this kind, into a block of its size that nobody else uses.
        unsafe { copy(from.add(at), to.as_ptr().add(at), n) };
        request.filled = Some(at + n);
        if at + n < len {
            return Err(Fail::PENDING);
        }
        // SAFETY: the block now holds that value.
        unsafe { (request.kind.clear_padding)(to.as_ptr()) };
        self.cache.set_in_transfer(frame, false);
        self.cache.mark_dirty(frame);
        self.cache.note_update(frame);
        self.cache.note_high_water(self.cache.persist_bytes());
        Ok(to)
    }

    /// The bytes of an object have been loaded, and are those that were written: are they a value?
    #[inline(never)]
    fn validate(&mut self, request: &mut PinRequest<'_>, frame: Frame) -> Result<(), Fail> {
        request.paged_in = true;
        let content = self.cache.content(frame);
        let mut known = HandleRange {
            objects: self.store.objects(),
        };
        // SAFETY: as many bytes as a value of this kind has, all of them read, aligned to 8.
        unsafe { (request.kind.check)(content.as_ptr(), &mut known) }
            .map_err(|_| Fail::damaged(request.id))?;
        self.cache.set_in_transfer(frame, false);
        Ok(())
    }

    /// Loads all of an object, or writes all of it back.
    #[inline(never)]
    pub(crate) fn transfer_all(&mut self, frame: Frame, pages_in: bool) -> Result<(), Fail> {
        let mut t = Transfer::NONE;
        t.set(frame, if pages_in { Goal::PageIn } else { Goal::Clean });
        self.transfer_piece(frame, &mut t, usize::MAX)
    }

    /// The medium has the content of this one.
    #[inline(always)]
    fn note_write_back(&mut self, frame: Frame) {
        self.cache.mark_clean(frame);
        self.stats.write_backs = self.stats.write_backs.wrapping_add(1);
    }

    /// What does not fit into a burst goes on by a piece, and what does is done.
    #[inline(never)]
    fn transfer_step(
        &mut self,
        frame: Frame,
        t: &mut Transfer,
        left: &mut usize,
    ) -> Result<(), Fail> {
        if t.goal == Goal::Evict && !self.cache.is_dirty(frame) {
            return Ok(());
        }
        let len = self.cache.len(frame);
        let all = len + METADATA_MAX;
        if t.at == 0 && all <= *left {
            *left -= all;
            return self.transfer_piece(frame, t, len);
        }
        if *left < self.section_bytes() {
            // In the next section.
            return Err(Fail::PENDING);
        }
        let most = (*left - METADATA_MAX) / PIECE * PIECE;
        *left = 0;
        self.transfer_piece(frame, t, most)
    }

    /// So many bytes of a load or a write-back, or what is left of it.
    ///
    /// What the medium has before the content goes with the first piece: its header, which says what the check must come to, is the
    /// first to be read; its check is the last to be written, as it is known then.
    #[inline(never)]
    fn transfer_piece(&mut self, frame: Frame, t: &mut Transfer, most: usize) -> Result<(), Fail> {
        let pages_in = t.goal == Goal::PageIn;
        let (id, len) = (self.cache.id(frame), self.cache.len(frame));
        let at = t.at;
        let n = (len - at).min(most);
        if at == 0 {
            t.address = self.store.address_of(id, len as u16, !pages_in)?;
            t.check = Check::new(id, len as u16);
            t.first = n;
        }
        let content = self.cache.content(frame).as_ptr().wrapping_add(at);
        if !pages_in && planted!("vnv-heap/clean-before-written") {
            self.cache.mark_clean(frame);
        }
        if pages_in {
            // The header comes with the first piece.
            let before = if at == 0 { BLOCK_HEADER } else { 0 };
            let from = t.address + at as u32 - before;
            // SAFETY: the block was reserved or put back for this object, and nobody else uses it.
            let (r, head) = unsafe {
                let all = n + before as usize;
                self.cache
                    .read_with_header(frame, at, all, |to| self.store.get(from, to))
            };
            r?;
            if at == 0 {
                // No check is 0.
                t.expected = check_in_header(&head, id, len as u16).unwrap_or(0);
            }
        }
        // SAFETY: as above; what was read is initialised, and all of a resident object is: padding is cleared
        // before it is released, and a leaked guard is noticed; an interrupt sees it as the machine has it.
        let bytes = unsafe { core::slice::from_raw_parts(content, n) };
        t.check.add(bytes);
        t.at = at + n;
        if !pages_in && at != 0 && at < len {
            self.store.put(t.address + at as u32, bytes)?;
            return Err(Fail::PENDING);
        }
        if t.at < len {
            return Err(Fail::PENDING);
        }
        let check = t.check.finish();
        if !pages_in {
            let before = t.address - CHECK_BYTES;
            self.cache
                .write_with_check(frame, check, t.first, |from| self.store.put(before, from))?;
            self.note_write_back(frame);
        } else if check != t.expected && !planted!("vnv-heap/check-ignored") {
            return Err(Fail::damaged(id));
        }
        Ok(())
    }
}

/// How many bytes the next piece has, of those that are to come: what is left of the burst, in whole pieces, but at least one.
fn piece_len(to_come: usize, left: usize) -> usize {
    to_come.min((left / PIECE * PIECE).max(PIECE))
}
