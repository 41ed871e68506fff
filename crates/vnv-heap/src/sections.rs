//! The heap behind its types: frame cache, store, and the critical sections ("sections") in which
//! they are used.
//!
//! ```text
//!   StateLock (one word):   budget word         LOCKED              SUSPENDED
//!                           free: the fast      a section runs;     between a persist
//!                           path may pin        the medium's        and its restore
//!                                |   acquire()  driver gets Busy          ^
//!                                +------------->|                         |
//!                                |<-------------+      suspend()          |
//!                                   unlock()    +-------------------------+
//! ```
//!
//! Four rules let a persist come at any point of any operation:
//!
//! 1. State is used inside a section only.
//! 2. A section leaves no pointer for a later section, unless its object is pinned and so returns
//!    at its address.
//! 3. A write to the medium and the state change that belongs to it share one section.
//! 4. Each section compares the incarnation, which a restore increments. If it differs, the
//!    operation starts over.

use crate::cache::{BUDGET_CLOSED, BUDGET_OVER, BUDGET_PIN, Frame};
use crate::config::Promise;
use crate::error::{Error, Fail};
use crate::handle::Kind;
use crate::pager::Pager;
use crate::plain::copy_words;
use crate::policy::Policy;
use core::cell::{Cell, UnsafeCell};
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ptr::NonNull;
use nvmem::{Medium, planted};

/// An operation gives up after this many restarts.
const RESTARTS: u8 = 100;

/// The state's lock. While it is free it holds the cache's budget word, so that one test on the
/// fast path covers the lock and both limits.
struct StateLock(Cell<u32>);

impl StateLock {
    /// A section is running. A call from the medium's driver is refused.
    const LOCKED: u32 = BUDGET_CLOSED + BUDGET_CLOSED / 2;
    /// Between a persist and its restore.
    const SUSPENDED: u32 = Self::LOCKED + 1;

    fn new(budget: u32) -> Self {
        StateLock(Cell::new(budget))
    }

    /// Returns the budget word and locks, if the lock is free.
    fn acquire(&self) -> Result<u32, Fail> {
        let budget = self.0.get();
        if budget < Self::LOCKED {
            self.0.set(Self::LOCKED);
            return Ok(budget);
        }
        Err(if budget == Self::LOCKED {
            Fail::BUSY
        } else {
            Fail::SUSPENDED
        })
    }

    fn is_locked(&self) -> bool {
        self.0.get() == Self::LOCKED
    }

    /// Begins a restore. **Errors**: [`Error::Suspended`] when nothing was persisted.
    fn resume(&self) -> Result<(), Fail> {
        match self.0.get() {
            Self::LOCKED => Err(Fail::BUSY),
            Self::SUSPENDED => {
                self.0.set(Self::LOCKED);
                Ok(())
            }
            _ => Err(Fail::SUSPENDED),
        }
    }

    /// Frees the lock with this budget word.
    #[inline(always)]
    fn unlock(&self, budget: u32) {
        self.0.set(budget);
    }

    /// Adds the pin to the budget word again: it was not released after all. Out of line, so that
    /// the word needs no register.
    #[cold]
    #[inline(always)]
    fn undo_unpin(&self) {
        self.0.set(self.0.get() + BUDGET_PIN);
    }

    fn suspend(&self) {
        self.0.set(Self::SUSPENDED);
    }
}

// INVARIANT "State in sections": the heap's state is used inside a critical section, by one user at
// a time: `Core::section`, `Masked`. `StateLock` refuses the medium's driver, also after that
// panicked. A heap goes to another thread only with a medium, and an error of the medium, that may
// go there: the bounds of `Send` in heap.rs.
// Noticed by: tests/suite/interrupt.rs: a persist after every section.
/// A heap without its brand and its root's type: the lock, and what it protects.
pub(crate) struct Core<S: Medium, P: Promise, Pol: Policy> {
    lock: StateLock,
    /// Used inside critical sections only, and only by the holder of the lock.
    pager: UnsafeCell<Pager<S, P, Pol>>,
}

/// A critical section while this lives. Like `critical_section::with`, but without a closure: the
/// fast path is shorter than a call.
struct Masked(critical_section::RestoreState);

impl Masked {
    #[inline(always)]
    fn begin() -> Self {
        // SAFETY: invariant "State in sections": released by the destructor. It is a local
        // variable, or passed to the function called last, so sections end in reverse order.
        Masked(unsafe { critical_section::acquire() })
    }
}

impl Drop for Masked {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: invariant "State in sections": acquired by `begin`.
        unsafe { critical_section::release(self.0) }
        #[cfg(feature = "instrument")]
        crate::instrument::section_ended();
    }
}

// INVARIANT "Nothing but pins crosses a section": a frame found in one section is used in the next
// only if no restore came between, or if it is pinned: the incarnation, `Attempt`. No other
// operation comes between two sections of one, because no section lends the heap to another
// context.
// Noticed by: tests/suite/interrupt.rs; planted `no-restart`, `pins-not-recorded`.
/// The incarnation in which an operation began.
pub(crate) struct Attempt {
    incarnation: Option<u16>,
    restarts: u8,
}

impl Attempt {
    pub(crate) const fn new() -> Self {
        Attempt {
            incarnation: None,
            restarts: 0,
        }
    }

    /// Whether no restore came since the last section. **Errors**: [`Error::NoProgress`].
    pub(crate) fn continues(&mut self, incarnation: u16) -> Result<bool, Fail> {
        if self.incarnation == Some(incarnation) {
            return Ok(true);
        }
        if self.incarnation.replace(incarnation).is_some() {
            self.restarts += 1;
            if self.restarts > RESTARTS {
                return Err(Fail::NO_PROGRESS);
            }
        }
        Ok(false)
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    pub(crate) fn new(pager: Pager<S, P, Pol>) -> Self {
        Core {
            lock: StateLock::new(pager.cache().budget()),
            pager: UnsafeCell::new(pager),
        }
    }

    /// The same core, moved word by word: small cores move more than 64 bytes by a call of
    /// `memcpy`, which alone takes 900 bytes of code.
    #[inline(always)]
    pub(crate) fn moved(self) -> Self {
        let from = ManuallyDrop::new(self);
        let mut to = MaybeUninit::<Self>::uninit();
        let words = size_of::<Self>() / size_of::<usize>();
        const { assert!(size_of::<Self>().is_multiple_of(size_of::<usize>())) };
        // SAFETY: invariant "Written before it is read": a core consists of whole words, as
        // asserted above. It holds pointers, so it is aligned to them. All words are copied, and
        // only the copy is used afterwards.
        unsafe {
            copy_words((&raw const from).cast(), to.as_mut_ptr().cast(), words);
            to.assume_init()
        }
    }

    /// The pager of a core that nobody else uses, without a section: while a heap is opened, or
    /// after an operation.
    #[inline(always)]
    pub(crate) fn unshared(&mut self) -> &mut Pager<S, P, Pol> {
        self.pager.get_mut()
    }

    /// The pager's limits have changed: publishes its budget word.
    pub(crate) fn publish_budget(&mut self) {
        self.lock.unlock(self.pager.get_mut().cache().budget());
    }

    /// Locks the state. **Errors**: [`Error::Busy`] when the medium's driver asks for it,
    /// [`Error::Suspended`].
    ///
    /// # Safety
    /// In a critical section, whose end ends the use of the pager.
    #[allow(clippy::mut_from_ref)]
    #[inline(never)]
    unsafe fn acquire(&self) -> Result<&mut Pager<S, P, Pol>, Fail> {
        let budget = self.lock.acquire()?;
        // SAFETY: invariant "State in sections": in a critical section, and the lock was free, so
        // no other section runs.
        let pager = unsafe { &mut *self.pager.get() };
        pager.cache_mut().set_budget(budget);
        Ok(pager)
    }

    /// Runs `f` with the pager. **Errors**: [`Error::Busy`] when the medium's driver asks for it,
    /// [`Error::Suspended`].
    #[inline(always)]
    pub(crate) fn section<R>(
        &self,
        f: impl FnOnce(&mut Pager<S, P, Pol>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let _masked = Masked::begin();
        // SAFETY: invariant "State in sections": in this critical section.
        let pager = unsafe { self.acquire() }?;
        let r = f(pager);
        self.lock.unlock(pager.cache().budget());
        r
    }

    /// Runs `f` in sections until it returns no PENDING.
    pub(crate) fn sections<R>(
        &self,
        mut f: impl FnMut(&mut Pager<S, P, Pol>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        loop {
            match self.section(&mut f) {
                Err(Fail::PENDING) => {}
                r => return r,
            }
        }
    }

    /// Converts the failure of the last section, adding the medium's error.
    #[cold]
    pub(crate) fn error(&self, fail: Fail) -> Error<S::Error> {
        if fail != Fail::MEDIUM {
            return fail.error(None);
        }
        let _masked = Masked::begin();
        // SAFETY: invariant "State in sections": in a critical section. The medium has failed in a
        // section of this operation, which has ended. No other one runs: an operation that a driver
        // calls in a section fails with `BUSY`, and returns above.
        unsafe { &mut *self.pager.get() }.store_mut().error(fail)
    }

    /// Converts the error of a result, adding the medium's error.
    #[inline(always)]
    pub(crate) fn with_medium_error<R>(&self, r: Result<R, Fail>) -> Result<R, Error<S::Error>> {
        match r {
            Ok(r) => Ok(r),
            Err(fail) => Err(self.error(fail)),
        }
    }

    /// Required before dirty objects are written while no guard can be alive. **Errors**:
    /// [`Error::Busy`] when a leaked guard may have left uninitialised padding. It cannot be read,
    /// and the type that could clear it is unknown.
    #[inline(never)]
    pub(crate) fn no_padding_leaked(&self) -> Result<(), Fail> {
        let budget = self.lock.0.get();
        let leaked = self.peek(|pager| pager.padding_leaked(budget));
        if leaked == Some(true) && !planted!("vnv-heap/leaked-padding") {
            return Err(Fail::BUSY);
        }
        Ok(())
    }

    /// Counts guards for writing types with padding, at creation and drop.
    pub(crate) fn count_padded(&self, count: impl FnOnce(u8) -> u8) {
        let _masked = Masked::begin();
        if !self.lock.is_locked() {
            // SAFETY: invariant "State in sections": in a critical section, and no section runs
            // that would use the state.
            unsafe { &mut *self.pager.get() }.count_padded(count);
        }
    }

    /// Reads the state without changing it. `None` while a section runs.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&Pager<S, P, Pol>) -> R) -> Option<R> {
        let _masked = Masked::begin();
        if self.lock.is_locked() {
            return None;
        }
        // SAFETY: invariant "State in sections": in a critical section, and no section runs that
        // would use the state.
        Some(f(unsafe { &*self.pager.get() }))
    }

    /// Pins an object for reading. **Cost**: one section when it is resident, not pinned, and its
    /// history need not be updated; else that of [`Core::pin_slow`].
    #[inline(always)]
    pub(crate) fn pin_shared(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, Error<S::Error>> {
        self.with_medium_error(self.try_pin_shared(id, kind))
    }

    /// Pins an object for writing. **Cost**: one section when it is resident and not pinned; else
    /// that of [`Core::pin_slow`].
    #[inline(always)]
    pub(crate) fn pin_exclusive(
        &self,
        id: u16,
        kind: &Kind,
    ) -> Result<NonNull<u8>, Error<S::Error>> {
        self.with_medium_error(self.try_pin_exclusive(id, kind))
    }

    /// [`Core::pin_shared`], with its result in two registers.
    ///
    /// Here and in [`Core::try_pin_exclusive`], the rare case is another function, called last, so
    /// that this one needs few registers.
    fn try_pin_shared(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, Fail> {
        let masked = Masked::begin();
        let budget = self.lock.0.get();
        // If not, a limit is reached, or the lock is not free.
        if budget & BUDGET_OVER == 0 {
            // SAFETY: invariant "State in sections": in a critical section, and no other section
            // runs, because the lock is free. Nothing in here calls a driver.
            let pager = unsafe { &mut *self.pager.get() };
            if let Some(frame) = pager.cache().lookup_unpinned(id)
                && pager.cache_mut().pin_unchanged(frame)
            {
                self.lock.0.set(budget + BUDGET_PIN);
                return Ok(pager.count_hit(frame));
            }
        }
        drop(masked);
        self.pin_slow(id, kind, false)
    }

    /// [`Core::pin_exclusive`], with its result in two registers.
    ///
    /// A dirty object may be written as it is: just in time, the record says *running* (invariant
    /// "Running before changes"); with the snapshot promise it has its copy-on-write block. Its
    /// bytes count in the budget word already.
    fn try_pin_exclusive(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, Fail> {
        let masked = Masked::begin();
        let budget = self.lock.0.get();
        if budget & BUDGET_OVER == 0 {
            // SAFETY: invariant "State in sections": as in `try_pin_shared`.
            let pager = unsafe { &mut *self.pager.get() };
            if let Some(frame) = pager.cache().lookup_unpinned(id) {
                if !pager.cache().is_dirty(frame) {
                    return self.pin_clean(frame, kind, masked);
                }
                let budget = budget + BUDGET_PIN;
                let stale = pager.cache_mut().pin_dirty(frame, budget);
                self.lock.0.set(budget);
                let content = pager.count_hit(frame);
                if stale {
                    return self.pinned_stale(frame, masked);
                }
                return Ok(content);
            }
        }
        drop(masked);
        self.pin_slow(id, kind, true)
    }

    /// Updates the history of an object that was resident, and is pinned.
    #[inline(never)]
    fn pinned_stale(&self, frame: Frame, _masked: Masked) -> Result<NonNull<u8>, Fail> {
        // SAFETY: invariant "State in sections": as in `try_pin_shared`: the same section.
        Ok(unsafe { &mut *self.pager.get() }.update_history(frame))
    }

    /// Pins a clean, unpinned object for writing: in this section, if the limit allows it and
    /// nothing must be written first.
    #[inline(never)]
    fn pin_clean(&self, frame: Frame, kind: &Kind, masked: Masked) -> Result<NonNull<u8>, Fail> {
        // SAFETY: invariant "State in sections": as in `try_pin_shared`: the same section.
        let pager = unsafe { &mut *self.pager.get() };
        pager.cache_mut().set_budget(self.lock.0.get());
        if let Some(content) = pager.pin_clean(frame) {
            self.lock.0.set(pager.cache().budget());
            return Ok(content);
        }
        let id = pager.cache().id(frame);
        drop(masked);
        self.pin_slow(id, kind, true)
    }

    /// Releases a pin. If the object is doomed and this was the last pin, frees it.
    ///
    /// # Safety
    /// `content` is that of a pinned object of this kind, `mutable` tells how it is pinned, and the
    /// caller does not use it again.
    pub(crate) unsafe fn release(&self, content: NonNull<u8>, kind: &Kind, mutable: bool) {
        {
            let _masked = Masked::begin();
            let budget = self.lock.0.get().wrapping_sub(BUDGET_PIN);
            self.lock.0.set(budget);
            if budget & BUDGET_CLOSED == 0 {
                // SAFETY: invariant "State in sections": as in `try_pin_shared`.
                let pager = unsafe { &mut *self.pager.get() };
                // SAFETY: invariant "What is held stays": as the caller vouches.
                if unsafe { pager.cache_mut().unpin_last(content, mutable) } {
                    return;
                }
            }
            self.lock.undo_unpin();
        }
        // SAFETY: invariant "What is held stays": as the caller vouches.
        unsafe { self.release_slow(content, kind, mutable) }
    }

    /// [`Core::release`] of an object that is pinned more than once or doomed, or while the lock is
    /// not free.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn release_slow(&self, content: NonNull<u8>, kind: &Kind, mutable: bool) {
        let mut doomed = None;
        // After an error the object stays pinned. The heap is suspended, or its driver releases a
        // guard while it serves the heap.
        let _ = self.section(|pager| {
            // SAFETY: invariant "What is held stays": as the caller vouches.
            doomed = unsafe { pager.unpin(content, mutable) };
            Ok(())
        });
        if let Some((reaper, id)) = doomed {
            reaper(self, id, kind);
        }
    }

    /// Writes back everything that has changed, in one section; see [`Pager::save`].
    pub(crate) fn persist(&self) -> Result<(), Error<S::Error>> {
        let _masked = Masked::begin();
        // SAFETY: invariant "State in sections": in this critical section.
        let pager = unsafe { self.acquire() }.map_err(|f| f.error(None))?;
        let r = pager.in_interrupt(Pager::save);
        match r {
            Ok(()) => self.lock.suspend(),
            Err(_) => self.lock.unlock(pager.cache().budget()),
        }
        r
    }

    /// Continues after a persist, in one section; see [`Pager::restore_pins`].
    pub(crate) fn restore(&self) -> Result<(), Error<S::Error>> {
        let _masked = Masked::begin();
        self.lock.resume().map_err(|f| f.error(None))?;
        // SAFETY: invariant "State in sections": as in `persist`: no section runs between a persist
        // and its restore.
        let pager = unsafe { &mut *self.pager.get() };
        let r = pager.in_interrupt(Pager::restore_pins);
        match r {
            Ok(()) => self.lock.unlock(pager.cache().budget()),
            Err(_) => self.lock.suspend(),
        }
        r
    }
}
