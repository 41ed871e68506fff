//! The pager: moves objects between the frame cache and the store.
//!
//! ```text
//!   guards ----> sections.rs: fast path ----hit----------------------------+
//!                     | miss                                               v
//!              +------v------------------------------------------+   frame cache (cache.rs)
//!              | pager: make space, write back, page in, persist |<->  frames in RAM
//!              |        Transfer: how far one object has got     |<->  store (store.rs)
//!              +-------------------------------------------------+     blocks on the medium
//!
//!  pin_step: one section (interrupts masked, at most a burst of bytes); again while it is PENDING
//!
//!    transfer under way? --yes--> move up to a burst; not done: PENDING
//!         | no
//!    resident? --no--> reserve a frame --no room--> pick a victim: Transfer{Evict}, loop
//!         |                 |                         (written back if dirty, then replaced)
//!         | yes             +--> Transfer{PageIn}, loop --> check, validate
//!    persist_bytes + request > limit? --yes--> pick a dirty victim: Transfer{Clean}, loop
//!         | no
//!    pin it, return its address
//!
//!  save:     finish_move -> write back each dirty object -> a pin record for each pinned one
//!            -> record "persisted, n pins" -> SUSPENDED
//!  restore:  clear the cache -> for each pin record: frame at its old address, page in
//!            -> record "running" if an exclusive pin came back -> unlock with a new incarnation
//! ```
//!
//! Fast case: one critical section writes the victim back if it is dirty, reads the object into its
//! frame and updates the directory. If that exceeds a burst, [`Transfer`] records how far it got,
//! and the next section continues. There are no other stages: it looks at the tables again, like
//! the first. (A shorter path without progress, for a miss within a burst, saves a quarter of the
//! instructions on a 64-bit host. On a small core it takes 500 bytes of code, and the transfer
//! takes most of the time.)
//!
//! Order of stores of a write-back: all pieces but the first, then check and first piece in one
//! write, then the frame becomes clean. So a persist between two sections finds the object still
//! dirty and writes it in full.
//!
//! Why it is safe: between two sections an interrupt may persist and restore. Each section compares
//! the incarnation and starts over if a restore came between, because the reserved frame is lost
//! with the RAM. The victim keeps its frame until the medium has its content. Until the record of a
//! persist is complete, the medium says *running*, and the next open refuses the image. A pinned
//! object returns at its address, so references that guards gave out stay valid. Objects pinned for
//! writing stay dirty: their guards may go on writing.

use crate::cache::{Cache, Frame, PIN_RECORD};
use crate::config::Config;
use crate::config::Promise;
use crate::error::{Error, Fail, Word};
use crate::handle::{HandleRange, Kind};
use crate::heap::{Audit, ROOT, Stats};
use crate::plain::copy;
use crate::policy::Policy;
use crate::sections::{Attempt, Core};
use crate::store::{
    Alloc, BLOCK_HEADER, BeginWrite, CHECK_BYTES, Check, Commit, Free, METADATA_MAX, PIECE, Pin,
    Store, check_in_header,
};
use crate::walk;
use core::hint::black_box;
use core::num::NonZeroU16;
use core::ptr::NonNull;
use nvmem::persist::{CheckFn, HandleKind, Visit};
use nvmem::superblock::Copies;
use nvmem::{Medium, planted};

/// The frame cache, the store, and what an operation needs beside them. Frequently used fields come
/// first: small cores have short loads for them.
#[repr(C)]
pub(crate) struct Pager<S: Medium, P: Promise, Pol: Policy> {
    cache: Cache<Pol>,
    hits: u32,
    page_ins: u32,
    write_backs: u32,
    /// How many restores there were. Wraps: an operation restarts far fewer times.
    incarnation: u16,
    /// Guards for writing objects whose types have padding. At [`u8::MAX`] the count stays there.
    padded: u8,
    /// Frees doomed objects. Set with the first one, so that a program that never frees does not
    /// link the code.
    reaper: Option<Reaper<S, P, Pol>>,
    store: Store<S, P>,
}

/// Frees an object that was doomed while it was pinned.
pub(crate) type Reaper<S, P, Pol> = fn(&Core<S, P, Pol>, u16, &Kind);

/// How the caller wants to access the object.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
    /// Give a new object its content, from this address.
    Fill(*const u8),
}

/// What becomes of an object whose owner is freed.
pub(crate) enum Claim {
    /// The caller frees it.
    Live,
    /// A guard pins it; its release frees it, with the objects that it owns then.
    Doomed,
    /// It is freed already.
    Freed,
}

/// Where an object's content is.
pub(crate) enum Place {
    Ram(NonNull<u8>),
    Medium { at: u32, check: u16 },
}

struct PinRequest<'k> {
    id: u16,
    kind: &'k Kind,
    access: Access,
    /// The transfer under way, if any.
    transfer: Transfer,
    /// Bytes of a new object copied into its frame so far.
    filled: usize,
    /// The object was absent and has been read.
    paged_in: bool,
    /// Snapshot: its copy-on-write block is being allocated. At the end of that it becomes dirty.
    begin: Option<BeginWrite>,
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

/// An object's number, as wide as a register.
pub(crate) struct Number(Word);

impl Number {
    pub(crate) fn id(&self) -> NonZeroU16 {
        // It is not 0.
        NonZeroU16::new(self.0 as u16).unwrap_or(NonZeroU16::MIN)
    }
}

/// Operations of several sections.
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
        self.sections(|pager| {
            if !attempt.continues(pager.incarnation)? {
                transfer.frame = None;
            }
            let mut left = pager.section_bytes();
            loop {
                let frame = match transfer.frame {
                    Some(frame) => frame,
                    None => {
                        pager.cache.finish_move();
                        let Some(dirty) = pager.first_dirty() else {
                            return Ok(());
                        };
                        transfer.set(dirty, Goal::Clean);
                        dirty
                    }
                };
                pager.transfer_step(frame, &mut transfer, &mut left)?;
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
            filled: 0,
            paged_in: false,
            begin: None,
        };
        self.sections(|pager| {
            if !attempt.continues(pager.incarnation)? && !planted!("vnv-heap/no-restart") {
                // A restore came between: the reserved frame is gone.
                request.transfer.frame = None;
                request.filled = 0;
                request.begin = None;
            }
            let r = pager.pin_step(&mut request);
            if r.is_err_and(|f| f != Fail::PENDING) {
                pager.drop_unfilled(request.id);
            }
            r
        })
    }

    /// Allocates numbers and space on the medium for a run of objects. They have no content yet.
    pub(crate) fn alloc_run(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|pager| pager.store.alloc::<true>(alloc))
    }

    /// The same for one object.
    fn alloc_id(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|pager| pager.store.alloc::<false>(alloc))
    }

    /// Just in time: undoes an allocation whose object has no content yet.
    fn undo_alloc(&self, alloc: &mut Alloc) -> Result<(), Fail> {
        self.sections(|pager| pager.store.undo_alloc(alloc))
    }

    /// Allocates an object.
    ///
    /// # Safety
    /// `value` is a value of this kind, and belongs to the object when this has succeeded.
    #[inline(never)]
    pub(crate) unsafe fn alloc(&self, kind: &Kind, value: *const u8) -> Result<Number, Fail> {
        let mut alloc = Alloc::one(kind.len);
        self.alloc_id(&mut alloc)?;
        let id = alloc.id();
        // SAFETY: invariant "A kind is its type": as the caller vouches.
        let filled = unsafe { self.fill(id, kind, value) };
        if filled.is_err() {
            // If this fails too, the next open frees the object.
            let _ = if P::SNAPSHOT {
                self.free_one(id, kind.len, &mut false)
            } else {
                self.undo_alloc(&mut alloc)
            };
        }
        filled?;
        Ok(Number(id.into()))
    }

    /// Evicts an object without writing it back. **Errors**: [`Error::Busy`] while it is pinned.
    pub(crate) fn forget(&self, id: u16) -> Result<(), Fail> {
        let mut changed = false;
        self.forget_if(id, |pager| {
            changed = P::SNAPSHOT
                && pager
                    .cache
                    .lookup(id)
                    .is_some_and(|f| pager.cache.is_dirty(f));
            Ok(())
        })?;
        if changed && !planted!("vnv-heap/forgotten-block-kept") {
            self.section(|pager| pager.store.empty(id))?;
        }
        Ok(())
    }

    /// The same, if `is_good` allows it.
    #[inline(always)]
    fn forget_if(
        &self,
        id: u16,
        is_good: impl FnOnce(&mut Pager<S, P, Pol>) -> Result<(), Fail>,
    ) -> Result<(), Fail> {
        self.section(|pager| {
            is_good(pager)?;
            if let Some(frame) = pager.cache.lookup(id) {
                if pager.cache.is_pinned(frame) {
                    return Err(Fail::BUSY);
                }
                pager.cache.remove(frame);
            }
            Ok(())
        })
    }

    /// Gives an object new content without reading the old one.
    ///
    /// **Errors**: those of a write-back. The object has no content then, and must be put again
    /// before it is read.
    ///
    /// # Safety
    /// As [`Core::fill`].
    pub(crate) unsafe fn put(&self, id: u16, kind: &Kind, value: *const u8) -> Result<(), Fail> {
        self.forget_if(id, |pager| {
            if P::SNAPSHOT || planted!("vnv-heap/put-over-damage") {
                return Ok(());
            }
            // A write-back uses the length of the kind. If the header has another one, the units
            // behind may belong to other objects.
            pager.store.expect(id, kind.len)
        })?;
        if P::SNAPSHOT && !planted!("vnv-heap/put-in-place") {
            let mut begin = BeginWrite::new(id, kind.len);
            self.sections(|pager| pager.store.begin_write(&mut begin))?;
        }
        // SAFETY: invariant "A kind is its type": as the caller vouches.
        unsafe { self.fill(id, kind, value) }
    }

    // INVARIANT "There until its entry goes": an object that is being freed keeps its frame, and
    // its owner keeps the handle, until its entry is written.
    // Noticed by: the bus that fails at each byte, in tests/suite/heap.rs of spi-fram; planted
    // `forgotten-before-freed`.
    /// Frees the number and the space of an unpinned object, and evicts it. Sets `gone` when that
    /// has begun; before that, the object is intact.
    pub(crate) fn free_one(&self, id: u16, len: u16, gone: &mut bool) -> Result<(), Fail> {
        let mut free = Free::new(id, len);
        self.sections(|pager| {
            let r = pager.store.free(&mut free);
            *gone |= free.has_begun();
            let goes = free.has_begun() || planted!("vnv-heap/forgotten-before-freed");
            if goes && let Some(frame) = pager.cache.lookup(id) {
                pager.cache.remove(frame);
            }
            r
        })
    }

    /// Opens the medium or formats it. **Errors**: [`Fail::BLANK`] when it is empty now, with
    /// object 1 allocated for the root.
    pub(crate) fn open_or_format(
        &mut self,
        config: &Config,
        fingerprint: u64,
        root: &HandleKind,
        kind: &Kind,
        anew: bool,
        copies: &mut Copies,
    ) -> Result<(), Fail> {
        let pager = self.unshared();
        let found = if anew {
            pager.store.begin(config, fingerprint)
        } else {
            pager.store.open(config, fingerprint, copies)
        };
        if found.is_ok() {
            pager.walk_and_sweep(root, true)?;
        } else if found != Err(Fail::BLANK) {
            return found;
        }
        pager.set_limits(config);
        self.publish_budget();
        if found.is_err() {
            let mut alloc = Alloc::one(kind.len);
            self.alloc_id(&mut alloc)?;
            if alloc.id() != ROOT {
                return Err(Fail::TABLE);
            }
        }
        found
    }

    /// Writes the root, and ends the format.
    ///
    /// # Safety
    /// As [`Core::fill`].
    pub(crate) unsafe fn init_root(
        &self,
        fingerprint: u64,
        kind: &Kind,
        root: *const u8,
    ) -> Result<(), Fail> {
        // SAFETY: invariant "A kind is its type": as the caller vouches.
        unsafe { self.fill(ROOT, kind, root) }?;
        self.no_padding_leaked()?;
        if P::SNAPSHOT {
            self.clean_all()?;
            self.commit_all()?;
        }
        self.section(|pager| {
            if !P::SNAPSHOT {
                pager.save()?;
            }
            pager.store.finish_format(fingerprint)
        })
    }

    /// Commits everything that was written back.
    pub(crate) fn commit_all(&self) -> Result<(), Fail> {
        let mut commit = Commit::new();
        self.sections(|pager| pager.store.commit(&mut commit))
    }
}

/// Steps: each runs in one section.
impl<S: Medium, P: Promise, Pol: Policy> Pager<S, P, Pol> {
    /// A pager whose store is neither opened nor formatted yet.
    pub(crate) fn new(cache: Cache<Pol>, store: Store<S, P>) -> Self {
        Pager {
            cache,
            hits: 0,
            page_ins: 0,
            write_backs: 0,
            // Hides the constant from the optimiser, which would call `memset` for words known to
            // be zero.
            incarnation: black_box(0),
            padded: 0,
            reaper: None,
            store,
        }
    }

    /// Sets the limits. Nothing is resident.
    fn set_limits(&mut self, config: &Config) {
        let pins = if P::SNAPSHOT {
            u16::MAX
        } else {
            self.store.max_pins()
        };
        self.cache.limit_to(config.limit(), pins);
        self.cache.clear();
    }

    #[inline(always)]
    pub(crate) fn cache(&self) -> &Cache<Pol> {
        &self.cache
    }

    #[inline(always)]
    pub(crate) fn cache_mut(&mut self) -> &mut Cache<Pol> {
        &mut self.cache
    }

    pub(crate) fn store(&self) -> &Store<S, P> {
        &self.store
    }

    pub(crate) fn store_mut(&mut self) -> &mut Store<S, P> {
        &mut self.store
    }

    pub(crate) fn stats(&self) -> Stats {
        let (bytes_written, bytes_read) = self.store.traffic();
        Stats {
            bytes_written,
            bytes_read,
            hits: self.hits,
            page_ins: self.page_ins,
            write_backs: self.write_backs,
            dirty_high_water: self.cache.high_water(),
        }
    }

    /// Whether a leaked guard may have left uninitialised padding.
    pub(crate) fn padding_leaked(&self, budget: u32) -> bool {
        match self.padded {
            // The count overflowed; but a leaked guard pins its object.
            u8::MAX => self.cache.holds_any(budget),
            n => n != 0,
        }
    }

    /// Changes the count of guards for writing types with padding.
    pub(crate) fn count_padded(&mut self, count: impl FnOnce(u8) -> u8) {
        self.padded = count(self.padded);
    }

    /// Pins a clean, unpinned object for writing, if the limit allows it and nothing must be
    /// written first.
    pub(crate) fn pin_clean(&mut self, frame: Frame) -> Option<NonNull<u8>> {
        // Snapshot: it needs a copy-on-write block. Just in time: the record must say *running*
        // first.
        if P::SNAPSHOT || !self.store.is_running() {
            return None;
        }
        let sum = self.cache.persist_bytes() + PIN_RECORD + self.cache.weight(frame);
        if self.cache.exceeds_limit(sum) || self.cache.pin(frame, true).is_err() {
            return None;
        }
        self.note_change(frame, sum);
        Some(self.count_hit(frame))
    }

    /// Fast path: the object was resident. Returns its content.
    #[inline(always)]
    pub(crate) fn count_hit(&mut self, frame: Frame) -> NonNull<u8> {
        self.hits = self.hits.wrapping_add(1);
        self.cache.content(frame)
    }

    /// Tells the policy of the access. Returns the content.
    #[inline(always)]
    pub(crate) fn update_history(&mut self, frame: Frame) -> NonNull<u8> {
        self.cache.update_history(frame);
        self.cache.content(frame)
    }

    /// Releases a pin. Returns the object and its reaper when it must be freed now.
    ///
    /// # Safety
    /// As [`Core::release`].
    pub(crate) unsafe fn unpin(
        &mut self,
        content: NonNull<u8>,
        exclusive: bool,
    ) -> Option<(Reaper<S, P, Pol>, u16)> {
        // SAFETY: invariant "What is held stays": as the caller vouches.
        let frame = unsafe { self.cache.frame_of(content) };
        if !self.cache.unpin(frame, exclusive).1 {
            return None;
        }
        // Take the number now: the frame is not valid after this section.
        self.reaper.map(|reaper| (reaper, self.cache.id(frame)))
    }

    /// What becomes of an object whose owner is freed: it is freed by the caller, or it is pinned,
    /// and `reaper` frees it at its release. `is_root`: its owner asked for it.
    pub(crate) fn claim(
        &mut self,
        id: u16,
        is_root: bool,
        reaper: Reaper<S, P, Pol>,
    ) -> Result<Claim, Fail> {
        let mut pinned = self.cache.lookup(id);
        pinned = pinned.filter(|frame| self.cache.is_pinned(*frame));
        if planted!("vnv-heap/freed-while-held") {
            pinned = None;
        }
        if let Some(frame) = pinned {
            if is_root {
                return Err(Fail::BUSY);
            }
            self.reaper = Some(reaper);
            self.cache.doom(frame);
            return Ok(Claim::Doomed);
        }
        if is_root || self.store.is_allocated(id)? {
            return Ok(Claim::Live);
        }
        Ok(Claim::Freed)
    }

    /// Shows the handles of a pinned object, and releases it.
    ///
    /// # Safety
    /// The content of a resident object that `check` belongs to, which the caller has pinned for
    /// reading.
    pub(crate) unsafe fn show_handles(
        &mut self,
        content: NonNull<u8>,
        check: CheckFn,
        to: &mut dyn Visit,
    ) -> Result<(), Fail> {
        // SAFETY: invariant "What is held stays", "A kind is its type": as the caller vouches. No
        // mutable reference to it exists.
        let shown = unsafe { check(content.as_ptr(), to) };
        // SAFETY: invariant "What is held stays": as the caller vouches.
        let frame = unsafe { self.cache.frame_of(content) };
        self.cache.unpin(frame, false);
        shown.map_err(|_| Fail::damaged(self.cache.id(frame)))
    }

    /// Where the object is in RAM, or its block on the medium, if it is not resident. **Errors**:
    /// [`Error::Busy`] when a guard pins it for writing.
    pub(crate) fn place(&mut self, id: u16, len: u16) -> Result<Place, Fail> {
        if let Some(frame) = self.cache.lookup(id) {
            return if self.cache.is_exclusive(frame) {
                Err(Fail::BUSY)
            } else {
                Ok(Place::Ram(self.cache.content(frame)))
            };
        }
        let block = self.store.image().locate(id)?;
        if block.len != len {
            return Err(Fail::damaged(id));
        }
        Ok(Place::Medium {
            at: self.store.image().address(&block),
            check: block.check,
        })
    }

    /// Counts reachable objects, after all changes were written back. Empties the cache.
    pub(crate) fn audit(&mut self, root: &HandleKind) -> Result<Audit, Fail> {
        if self.cache.any_pinned() {
            return Err(Fail::BUSY);
        }
        let (reachable, damaged) = self.walk_and_sweep(root, false)?;
        Ok(Audit {
            reachable,
            allocated: self.store.objects() - self.store.free_objects(),
            damaged,
        })
    }

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
            self.cache.remove(frame);
        }
    }

    /// One section: as much as a burst allows. Returns the content's address once the object is
    /// pinned.
    #[inline(always)]
    fn pin_step(&mut self, request: &mut PinRequest<'_>) -> Result<NonNull<u8>, Fail> {
        let mut left = self.section_bytes();
        let (id, len) = (request.id, request.kind.len.into());
        if P::SNAPSHOT {
            self.cow_step(request)?;
        }
        let mut resident = self.cache.lookup(id);
        loop {
            if let Some(frame) = request.transfer.frame {
                self.transfer_step(frame, &mut request.transfer, &mut left)?;
                request.transfer.frame = None;
                match request.transfer.goal {
                    Goal::PageIn => self.validate(request, frame)?,
                    // The requested object takes over the frame if the size matches.
                    Goal::Evict => resident = self.cache.replace(frame, id, len),
                    Goal::Clean => {}
                }
            }
            if resident.is_none() {
                resident = self.cache.reserve(id, len, left)?;
            }
            let Some(frame) = resident else {
                let victim = self.cache.victim(false).ok_or(Fail::RAM_FULL)?;
                request.transfer.set(victim, Goal::Evict);
                continue;
            };
            let pins = !matches!(request.access, Access::Fill(_));
            if pins && self.cache.in_transfer(frame) {
                // It has no content yet.
                request.transfer.set(frame, Goal::PageIn);
                continue;
            }
            let changes = request.access != Access::Read;
            let mutable = request.access == Access::Write;
            if mutable && self.cache.is_pinned(frame) {
                return Err(Fail::BUSY);
            }
            let sum = self.persist_bytes_with(frame, pins, changes);
            if self.cache.exceeds_limit(sum) {
                let victim = self.cache.victim(true).ok_or(Fail::DIRTY_LIMIT)?;
                request.transfer.set(victim, Goal::Clean);
                continue;
            }
            let must_run = !P::SNAPSHOT && changes && !self.store.is_running();
            if must_run && !planted!("vnv-heap/running-late") {
                // The record must say *running* before any change, also one in RAM only: a cut then
                // is an interruption.
                self.store.before_change()?;
                return Err(Fail::PENDING);
            }
            if let Access::Fill(from) = request.access {
                // SAFETY: invariant "A kind is its type": a value of the kind that the frame was
                // reserved for.
                unsafe { self.fill_step(request, frame, from, left) }?;
            } else {
                if P::SNAPSHOT && mutable && !self.cache.is_dirty(frame) {
                    request.begin = Some(BeginWrite::new(request.id, request.kind.len));
                    return Err(Fail::PENDING);
                }
                if !self.cache.is_pinned(frame) && self.cache.pins_exhausted() {
                    return Err(Fail::DIRTY_LIMIT);
                }
                self.cache.pin(frame, mutable)?;
                let count = if request.paged_in {
                    &mut self.page_ins
                } else {
                    &mut self.hits
                };
                *count = count.wrapping_add(1);
            }
            if changes {
                self.note_change(frame, sum);
            } else {
                self.cache.note_read(frame);
            }
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

    // INVARIANT "All bytes have a value": a write-back reads only initialised bytes of an object. A
    // new object's padding is cleared here, before it is dirty. Guards clear padding at their end,
    // because an assigned value takes the padding of its source along. A leaked guard's type is
    // forgotten, so `no_padding_leaked` in sections.rs refuses to save. (The function that clears
    // could be kept with each held object, at 4 bytes of RAM and a search, for programs that leak
    // guards.) An interrupt clears nothing: it copies all bytes as the machine has them. A
    // half-assigned enum has its new payload where its old tag says padding, and the interrupted
    // code continues after the restore.
    // Noticed by: tests/suite/soundness.rs under Miri; planted `leaked-padding`.
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
    ) -> Result<(), Fail> {
        let (at, len) = (request.filled, usize::from(request.kind.size));
        let n = piece_len(len - at, left);
        let to = self.cache.content(frame);
        // SAFETY: invariant "A kind is its type": `n` bytes of a value of this kind, into a frame
        // of its size that nothing else uses.
        unsafe { copy(from.add(at), to.as_ptr().add(at), n) };
        request.filled = at + n;
        if at + n < len {
            return Err(Fail::PENDING);
        }
        if len == 0 {
            // SAFETY: invariant "All bytes have a value": a frame has at least a byte of content.
            unsafe { to.write(0) };
        }
        // SAFETY: invariant "A kind is its type": the frame now holds that value.
        unsafe { (request.kind.clear_padding)(to.as_ptr()) };
        self.cache.set_in_transfer(frame, false);
        Ok(())
    }

    // INVARIANT "Checked before it is a value": bytes become a value after their check and
    // `Persist::check`: `transfer_piece` compares the check, this validates. In place:
    // `InPlace::read` in heap.rs.
    // Noticed by: tests/suite/others.rs; planted `check-ignored`.
    /// The bytes read have the right check. Validates that they are a value of the type.
    #[inline(never)]
    fn validate(&mut self, request: &mut PinRequest<'_>, frame: Frame) -> Result<(), Fail> {
        request.paged_in = true;
        let content = self.cache.content(frame);
        let mut known = HandleRange {
            objects: self.store.objects(),
        };
        // SAFETY: invariant "Checked before it is a value", "A kind is its type": as many bytes as
        // a value of this kind has, all of them read, aligned to 8.
        unsafe { (request.kind.check)(content.as_ptr(), &mut known) }
            .map_err(|_| Fail::damaged(request.id))?;
        self.cache.set_in_transfer(frame, false);
        Ok(())
    }

    /// Pages in or writes back a whole object in this section.
    fn transfer_all(&mut self, frame: Frame, pages_in: bool) -> Result<(), Fail> {
        let mut t = Transfer::NONE;
        t.set(frame, if pages_in { Goal::PageIn } else { Goal::Clean });
        self.transfer_piece(frame, &mut t, usize::MAX)
    }

    /// The medium now has this content.
    #[inline(always)]
    fn note_write_back(&mut self, frame: Frame) {
        self.cache.mark_clean(frame);
        self.write_backs = self.write_backs.wrapping_add(1);
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

    // INVARIANT "Written before it is clean": an object stays dirty, and keeps its frame, until its
    // content and its check are on the medium. The check is written last, together with the first
    // piece, which lies behind it; `mark_clean` comes after it, and then the frame may be given
    // away.
    // Noticed by: tests/suite/interrupt.rs; planted `clean-before-written`.
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
            // SAFETY: invariant "Frames fill the buffer": the frame was reserved or restored for
            // this object, and nothing else uses it.
            let (r, head) = unsafe {
                let all = n + before as usize;
                self.cache
                    .read_with_header(frame, at, all, |to| self.store.image().get(from, to))
            };
            r?;
            if at == 0 {
                // A check is never 0.
                t.expected = check_in_header(&head, id, len as u16).unwrap_or(0);
            }
        }
        // SAFETY: invariant "All bytes have a value": `n` bytes of the frame's content. What was
        // read is initialised, and all bytes of a dirty object are: guards clear padding at their
        // end, and a leaked guard is noticed. An interrupt sees the bytes as the machine has them.
        let bytes = unsafe { core::slice::from_raw_parts(content, n) };
        t.check.add(bytes);
        t.at = at + n;
        if !pages_in && at != 0 && at < len {
            self.store.image().put(t.address + at as u32, bytes)?;
            return Err(Fail::PENDING);
        }
        if t.at < len {
            return Err(Fail::PENDING);
        }
        let check = t.check.finish();
        if !pages_in {
            let before = t.address - CHECK_BYTES;
            self.cache.write_with_check(frame, check, t.first, |from| {
                self.store.image().put(before, from)
            })?;
            self.note_write_back(frame);
        } else if check != t.expected && !planted!("vnv-heap/check-ignored") {
            return Err(Fail::damaged(id));
        }
        Ok(())
    }

    // INVARIANT "The limit": at every instant a persist would write at most the dirty limit: this
    // is called before each pin and each change.
    // Noticed by: tests/suite/interrupt.rs, which counts bytes; planted `cleaned-still-counts`,
    // `limit-off-by-one`.
    /// Bytes that a persist would write once this object is pinned, or changes, or both.
    fn persist_bytes_with(&self, frame: Frame, pins: bool, changes: bool) -> u32 {
        let mut sum = self.cache.persist_bytes();
        if pins && !self.cache.is_pinned(frame) {
            sum += PIN_RECORD;
        }
        if changes && !self.cache.is_dirty(frame) {
            sum += self.cache.weight(frame);
        }
        sum
    }

    /// The object is about to change, or is new. `sum`: bytes that a persist then writes.
    #[inline(never)]
    fn note_change(&mut self, frame: Frame, sum: u32) {
        self.cache.mark_dirty(frame);
        self.cache.note_update(frame);
        self.cache.note_high_water(sum);
    }

    // INVARIANT "Told what happened": a program receives its driver's error, even if an interrupt's
    // persist fails in between.
    // Noticed by: `each_is_told_what_the_driver_said` in tests/suite/interrupt.rs; planted
    // `failure-not-told`.
    /// Runs `f` as an interrupt does. The interrupted operation may hold a medium error that it has
    /// not returned yet; `f` must not overwrite it.
    pub(crate) fn in_interrupt(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<(), Fail>,
    ) -> Result<(), Error<S::Error>> {
        let earlier = self.store.image().take_failure();
        let r = f(self).map_err(|fail| self.store.error(fail));
        if !planted!("vnv-heap/failure-not-told") {
            self.store.image().set_failure(earlier);
        }
        r
    }

    /// A dirty object, pinned or not.
    fn first_dirty(&self) -> Option<Frame> {
        let mut at = self.cache.first();
        while let Some(frame) = at {
            if self.cache.is_dirty(frame) {
                return Some(frame);
            }
            at = self.cache.next(frame);
        }
        None
    }

    /// Writes all dirty objects and a pin record for each pinned one.
    #[inline(never)]
    pub(crate) fn save(&mut self) -> Result<(), Fail> {
        self.cache.finish_move();
        let mut pins = 0;
        let mut at = self.cache.first();
        while let Some(frame) = at {
            if self.cache.is_dirty(frame) {
                self.write_back(frame)?;
            }
            if self.cache.is_pinned(frame) && !planted!("vnv-heap/pins-not-recorded") {
                let pin = Pin {
                    id: self.cache.id(frame),
                    at: self.cache.place(frame),
                    len: self.cache.len(frame) as u16,
                    pins: self.cache.pins(frame),
                };
                self.store.write_pin(pins, pin)?;
                pins += 1;
            }
            at = self.cache.next(frame);
        }
        if planted!("vnv-heap/not-persisted") {
            return Ok(());
        }
        self.store.set_persisted(pins)
    }

    fn write_back(&mut self, frame: Frame) -> Result<(), Fail> {
        let exclusive = self.cache.is_exclusive(frame);
        self.transfer_all(frame, false)?;
        if exclusive && !planted!("vnv-heap/held-counts-as-written") {
            // Its guard may go on writing.
            self.cache.mark_dirty(frame);
        }
        Ok(())
    }

    /// Puts pinned objects back at their addresses and forgets all others.
    pub(crate) fn restore_pins(&mut self) -> Result<(), Fail> {
        let mut changes = false;
        self.cache.clear();
        self.incarnation = self.incarnation.wrapping_add(1);
        for i in 0..self.store.pinned() {
            let pin = self.store.read_pin(i)?;
            let damaged = || Fail::damaged(pin.id);
            let len = usize::from(pin.len);
            let frame = self
                .cache
                .restore_pinned(pin.at, pin.id, len, pin.pins)
                .ok_or_else(damaged)?;
            // The frame was restored for this object, with this length. No reference into it is
            // used meanwhile: the caller of `restore` vouches for that.
            self.transfer_all(frame, true)?;
            if self.cache.is_exclusive(frame) && !planted!("vnv-heap/restored-as-clean") {
                // Its guard may go on writing.
                self.cache.mark_dirty(frame);
                changes = true;
            }
        }
        if changes && !planted!("vnv-heap/restored-not-running") {
            self.store.before_change()?;
        }
        Ok(())
    }

    /// Walks from the root, using the whole RAM buffer, in which nothing is pinned. With `sweep`,
    /// frees unreachable objects. Returns the counts of reachable and damaged objects.
    fn walk_and_sweep(&mut self, root: &HandleKind, sweep: bool) -> Result<(u16, u16), Fail> {
        // SAFETY: invariant "Frames fill the buffer": the buffer belongs to the cache, which is not
        // used before it is cleared below. Nothing is pinned, so no guard refers to an object.
        let ram = unsafe { &mut *self.cache.buffer() };
        let r = walk::walk(&mut self.store, ram, root, sweep).and_then(|found| {
            let (mut marks, count, damaged) = (found.marks, found.count, found.damaged);
            if sweep && !planted!("vnv-heap/no-sweep") {
                self.store.sweep(&mut marks, count, damaged)?;
            }
            Ok((count, damaged))
        });
        self.cache.clear();
        r
    }
}

/// Length of the next piece: whole pieces within the bytes left, but at least one piece.
fn piece_len(to_come: usize, left: usize) -> usize {
    to_come.min((left / PIECE * PIECE).max(PIECE))
}
