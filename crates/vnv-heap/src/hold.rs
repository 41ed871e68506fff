//! Pinning an object that the fast path cannot pin: making space, writing back, paging in.
//!
//! ```text
//!  one section (interrupts masked, at most a burst of bytes); repeated while it returns PENDING:
//!
//!    transfer under way? --yes--> move up to a burst; not done: PENDING
//!         | no
//!    resident? --no--> reserve a frame --no room--> pick a victim: Transfer{Evict}, loop
//!         |                 |                         (written back if dirty, then replaced)
//!         | yes             +--> Transfer{PageIn}, loop --> check, validate
//!    persist_bytes + request > limit? --yes--> pick a dirty victim: Transfer{Clean}, loop
//!         | no
//!    pin it, return its address
//! ```
//!
//! Fast case: one critical section writes the victim back if it is dirty, reads the object into its
//! frame and updates the directory. If that exceeds a burst, [`Transfer`] records how far it got,
//! and the next section continues.
//!
//! Order of stores of a write-back: all pieces but the first, then check and first piece in one
//! write, then the frame becomes clean. So a persist between two sections finds the object still
//! dirty and writes it in full.
//!
//! Why it is safe: between two sections an interrupt may persist and restore. Each section compares
//! the incarnation number and starts over if a restore came between, because the reserved frame is
//! lost with the RAM. The victim keeps its frame until the medium has its content.

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

/// How the caller wants to access the object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    /// Give a new object its content, from this address.
    Fill(*const u8),
}

struct PinRequest<'k> {
    id: u16,
    kind: &'k Kind,
    access: Access,
    /// The transfer under way, if any.
    transfer: Transfer,
    /// Bytes of a new object copied into its frame so far; `None` until it has a frame.
    filled: Option<usize>,
    /// The object was absent and has been read.
    paged_in: bool,
    /// Snapshot: its copy-on-write block is being allocated. At the end of that it becomes dirty.
    begin: Option<BeginWrite>,
}

impl PinRequest<'_> {
    /// A frame is reserved for the object.
    fn reserved(&mut self, frame: Frame) {
        if let Access::Fill(_) = self.access {
            self.filled = Some(0);
        } else {
            self.transfer.set(frame, Goal::PageIn);
        }
    }
}

/// What a transfer between a frame and the medium is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Write back; the object stays resident.
    Clean,
    /// Write back, then evict.
    Evict,
    /// Page in.
    PageIn,
}

/// Progress of paging in or of a write-back.
struct Transfer {
    /// The frame, if a transfer is under way.
    frame: Option<Frame>,
    goal: Goal,
    /// The check that a paged-in object must have.
    expected: u16,
    /// Address of the content on the medium.
    address: u32,
    /// Bytes moved so far, or, for a write-back, bytes already in the check.
    at: usize,
    /// Bytes of the first piece.
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

    /// Starts a transfer.
    #[inline(always)]
    fn set(&mut self, frame: Frame, goal: Goal) {
        // Sets three fields instead of building a new value: most others are written before they
        // are read.
        (self.frame, self.goal, self.at) = (Some(frame), goal, 0);
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Gives a new object its content. The object is dirty and unpinned afterwards.
    ///
    /// # Safety
    /// `content` is a value of this kind. It belongs to the object when this has succeeded.
    pub(crate) unsafe fn fill(&self, id: u16, kind: &Kind, content: *const u8) -> Result<(), Fail> {
        self.pin_in_sections(id, kind, Access::Fill(content))
            .map(drop)
    }

    /// Writes back all dirty objects, in pieces. No guard may pin an object for writing, except
    /// leaked guards.
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

    /// Pins an object that the fast path could not pin. **Cost**: what is written back to make
    /// space, and what is read, in one section for each burst.
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

    /// Pins an object in as many sections as needed.
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
                // A restore came between: the reserved frame is gone.
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
    /// Bytes that a section may move: a burst, and the metadata of one object written and one read.
    fn section_bytes(&self) -> usize {
        usize::from(self.store.burst()) + 2 * METADATA_MAX
    }

    /// After an error: removes a frame that has no content yet.
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

    /// One section: as much as a burst allows. Returns the content's address once the object is
    /// pinned.
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
                    // The requested object takes over the frame if the size matches.
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
                // The record must say *running* before any change, also one in RAM only: a cut then
                // is an interruption.
                self.store.before_change()?;
                return Err(Fail::PENDING);
            }
            if let Access::Fill(from) = request.access {
                // SAFETY: a value of the kind that the frame was reserved for.
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

    /// Snapshot: one step towards a copy-on-write block, if one is being allocated.
    fn cow_step(&mut self, request: &mut PinRequest<'_>) -> Result<(), Fail> {
        let Some(begin) = &mut request.begin else {
            return Ok(());
        };
        self.store.begin_write(begin)?;
        // From here on only RAM holds its current content.
        if let Some(frame) = self.cache.lookup(request.id) {
            self.cache.mark_dirty(frame);
        }
        request.begin = None;
        Ok(())
    }

    /// Copies one piece of a new object's content.
    ///
    /// # Safety
    /// A value of the request's kind is at `from`; the frame is reserved for it.
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
        // SAFETY: `n` bytes of a value of this kind, into a frame of its size that nothing else
        // uses.
        unsafe { copy(from.add(at), to.as_ptr().add(at), n) };
        request.filled = Some(at + n);
        if at + n < len {
            return Err(Fail::PENDING);
        }
        // SAFETY: the frame now holds that value.
        unsafe { (request.kind.clear_padding)(to.as_ptr()) };
        self.cache.set_in_transfer(frame, false);
        self.cache.mark_dirty(frame);
        self.cache.note_update(frame);
        self.cache.note_high_water(self.cache.persist_bytes());
        Ok(to)
    }

    /// The bytes read have the right check. Validates that they are a value of the type.
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

    /// Pages in or writes back a whole object in this section.
    #[inline(never)]
    pub(crate) fn transfer_all(&mut self, frame: Frame, pages_in: bool) -> Result<(), Fail> {
        let mut t = Transfer::NONE;
        t.set(frame, if pages_in { Goal::PageIn } else { Goal::Clean });
        self.transfer_piece(frame, &mut t, usize::MAX)
    }

    /// The medium now has this content.
    #[inline(always)]
    fn note_write_back(&mut self, frame: Frame) {
        self.cache.mark_clean(frame);
        self.stats.write_backs = self.stats.write_backs.wrapping_add(1);
    }

    /// One transfer within the bytes left in this section: all of it if it fits, else one piece.
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
            // Continues in the next section.
            return Err(Fail::PENDING);
        }
        let most = (*left - METADATA_MAX) / PIECE * PIECE;
        *left = 0;
        self.transfer_piece(frame, t, most)
    }

    /// Moves up to `most` bytes of a transfer.
    ///
    /// The block header on the medium is read together with the first piece: it holds the expected
    /// check. A write-back writes the check last, together with the first piece, because it is
    /// known only then.
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
            // SAFETY: the frame was reserved or restored for this object, and nothing else uses it.
            let (r, head) = unsafe {
                let all = n + before as usize;
                self.cache
                    .read_with_header(frame, at, all, |to| self.store.get(from, to))
            };
            r?;
            if at == 0 {
                // A check is never 0.
                t.expected = check_in_header(&head, id, len as u16).unwrap_or(0);
            }
        }
        // SAFETY: as above. What was read is initialised. All bytes of a resident object are
        // initialised: guards clear padding at their end, and a leaked guard is noticed. An
        // interrupt sees the bytes as the machine has them.
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

/// Length of the next piece: whole pieces within the bytes left, but at least one piece.
fn piece_len(to_come: usize, left: usize) -> usize {
    to_come.min((left / PIECE * PIECE).max(PIECE))
}
