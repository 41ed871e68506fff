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

use crate::error::{Error, Fail};
use crate::own::Kind;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{BUDGET_CLOSED, BUDGET_OVER, BUDGET_PIN, CHECK, Cache, Frame, PIN_RECORD};
use crate::stats::Counts;
use crate::store::Store;
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
use nvmem::{Medium, planted};

/// Restarts after which an operation gives up.
const RESTARTS: u8 = 100;

/// The state's lock. While it is free it holds the cache's budget word, so that one test on the
/// fast path covers the lock and both limits.
pub(crate) struct StateLock(Cell<u32>);

impl StateLock {
    /// A section is running. A call from the medium's driver is refused.
    const LOCKED: u32 = BUDGET_CLOSED + BUDGET_CLOSED / 2;
    /// Between a persist and its restore.
    const SUSPENDED: u32 = Self::LOCKED + 1;

    pub(crate) fn new(budget: u32) -> Self {
        StateLock(Cell::new(budget))
    }

    /// Returns the budget word and locks, if the lock is free.
    #[inline(never)]
    pub(crate) fn acquire(&self) -> Result<u32, Fail> {
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

    pub(crate) fn is_locked(&self) -> bool {
        self.0.get() == Self::LOCKED
    }

    /// Begins a restore. **Errors**: [`Error::Suspended`] when nothing was persisted.
    pub(crate) fn resume(&self) -> Result<(), Fail> {
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
    pub(crate) fn unlock(&self, budget: u32) {
        self.0.set(budget);
    }

    /// Adds the pin to the budget word again: it was not released after all. Out of line, so that
    /// the word needs no register.
    #[cold]
    #[inline(always)]
    fn undo_unpin(&self) {
        self.0.set(self.0.get() + BUDGET_PIN);
    }

    pub(crate) fn suspend(&self) {
        self.0.set(Self::SUSPENDED);
    }
}

/// A heap without its brand and its root's type.
pub(crate) struct Core<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) lock: StateLock,
    /// Used inside critical sections only, and only by the holder of the lock.
    pub(crate) state: UnsafeCell<State<S, P, Pol>>,
}

/// Frequently used fields come first: small cores have short loads for them.
#[repr(C)]
pub(crate) struct State<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) cache: Cache<Pol>,
    /// How many restores there were.
    pub(crate) incarnation: u32,
    pub(crate) stats: Counts,
    /// Frees doomed objects. Set with the first one, so that a program that never frees does not
    /// link the code.
    pub(crate) reaper: Option<Reaper<S, P, Pol>>,
    pub(crate) store: Store<S, P>,
}

/// Frees an object that was doomed while it was pinned.
pub(crate) type Reaper<S, P, Pol> = fn(&Core<S, P, Pol>, u16, &Kind);

/// A critical section while this lives. Like `critical_section::with`, but without a closure: the
/// fast path is shorter than a call.
pub(crate) struct Masked(critical_section::RestoreState);

impl Masked {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        // SAFETY: released by the destructor. It is a local variable of a function, so sections end
        // in reverse order.
        Masked(unsafe { critical_section::acquire() })
    }
}

impl Drop for Masked {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: acquired by `begin`.
        unsafe { critical_section::release(self.0) }
        #[cfg(feature = "instrument")]
        crate::instrument::section_ended();
    }
}

/// The incarnation in which an operation began.
pub(crate) struct Attempt {
    incarnation: Option<u32>,
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
    pub(crate) fn continues(&mut self, incarnation: u32) -> Result<bool, Fail> {
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
    /// Runs `f` with the state. **Errors**: [`Error::Busy`] when the medium's driver asks for it,
    /// [`Error::Suspended`].
    #[inline(always)]
    pub(crate) fn section<R>(
        &self,
        f: impl FnOnce(&mut State<S, P, Pol>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let _masked = Masked::begin();
        let budget = self.lock.acquire()?;
        // SAFETY: in a critical section, and the lock was free, so no other section runs.
        let st = unsafe { &mut *self.state.get() };
        st.cache.set_budget(budget);
        let r = f(st);
        self.lock.unlock(st.cache.budget());
        r
    }

    /// Runs `f` in sections until it returns no PENDING.
    pub(crate) fn sections<R>(
        &self,
        mut f: impl FnMut(&mut State<S, P, Pol>) -> Result<R, Fail>,
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
    #[inline(never)]
    pub(crate) fn error(&self, fail: Fail) -> Error<S::Error> {
        if fail != Fail::MEDIUM {
            return fail.error(None);
        }
        let _masked = Masked::begin();
        // SAFETY: in a critical section. The medium has failed in a section, which has ended.
        unsafe { &mut *self.state.get() }.store.error(fail)
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
    pub(crate) fn no_padding_leaked(&self) -> Result<(), Fail> {
        let leaked = self.peek(|st| match st.store.padded {
            // The count overflowed; but a leaked guard pins its object.
            u8::MAX => st.cache.holds_any(self.lock.0.get()),
            n => n != 0,
        });
        if leaked == Some(true) && !planted!("vnv-heap/leaked-padding") {
            return Err(Fail::BUSY);
        }
        Ok(())
    }

    /// Counts guards for writing types with padding, at creation and drop.
    pub(crate) fn count_padded(&self, count: impl FnOnce(u8) -> u8) {
        let _masked = Masked::begin();
        if !self.lock.is_locked() {
            // SAFETY: in a critical section, and no section runs that would use the state.
            let n = unsafe { &mut (*self.state.get()).store.padded };
            *n = count(*n);
        }
    }

    /// Reads the state without changing it. `None` while a section runs.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&State<S, P, Pol>) -> R) -> Option<R> {
        let _masked = Masked::begin();
        if self.lock.is_locked() {
            return None;
        }
        // SAFETY: in a critical section, and no section runs that would use the state.
        Some(f(unsafe { &*self.state.get() }))
    }

    /// Pins an object for reading. **Cost**: one section when it is resident and not pinned; else
    /// that of [`Core::pin_slow`].
    #[inline(always)]
    pub(crate) fn pin_shared(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, Error<S::Error>> {
        self.with_medium_error(self.try_pin_shared(id, kind))
    }

    /// Pins an object for writing. **Cost**: as [`Core::pin_shared`].
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
    /// Here and in [`Core::try_pin_exclusive`], what is rare is another function, called last: so
    /// this one needs few registers.
    fn try_pin_shared(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, Fail> {
        let masked = Masked::begin();
        let budget = self.lock.0.get();
        // If not, a limit is reached, or the lock is not free.
        if budget & BUDGET_OVER == 0 {
            // SAFETY: in a critical section, and no other section runs; nothing in here calls code
            // outside this crate.
            let st = unsafe { &mut *self.state.get() };
            if let Some(frame) = st.cache.lookup_unpinned(id) {
                let stale = st.cache.pin_first(frame);
                self.lock.0.set(budget + BUDGET_PIN);
                return self.pinned(frame, stale, masked);
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
            // SAFETY: as in `try_pin_shared`.
            let st = unsafe { &mut *self.state.get() };
            if let Some(frame) = st.cache.lookup_unpinned(id) {
                if !st.cache.is_dirty(frame) {
                    return self.pin_clean(frame, kind, masked);
                }
                let budget = budget + BUDGET_PIN;
                let stale = st.cache.pin_dirty(frame, budget);
                self.lock.0.set(budget);
                return self.pinned(frame, stale, masked);
            }
        }
        drop(masked);
        self.pin_slow(id, kind, true)
    }

    /// Ends the fast path: the object was resident, and is pinned.
    #[inline(always)]
    fn pinned(&self, frame: Frame, stale: bool, masked: Masked) -> Result<NonNull<u8>, Fail> {
        // SAFETY: as in `try_pin_shared`: the same section.
        let st = unsafe { &mut *self.state.get() };
        st.stats.hits = st.stats.hits.wrapping_add(1);
        if stale {
            return self.pinned_stale(frame, masked);
        }
        Ok(st.cache.content(frame))
    }

    /// [`Core::pinned`], when the object's history must be updated.
    #[inline(never)]
    fn pinned_stale(&self, frame: Frame, _masked: Masked) -> Result<NonNull<u8>, Fail> {
        // SAFETY: as in `try_pin_shared`: the same section.
        let st = unsafe { &mut *self.state.get() };
        st.cache.update_history(frame);
        Ok(st.cache.content(frame))
    }

    /// Pins a clean, unpinned object for writing: in this section, if the limit allows it and
    /// nothing must be written first.
    #[inline(never)]
    fn pin_clean(&self, frame: Frame, kind: &Kind, masked: Masked) -> Result<NonNull<u8>, Fail> {
        // SAFETY: as in `try_pin_shared`: the same section.
        let st = unsafe { &mut *self.state.get() };
        // Snapshot: it needs a copy-on-write block. Just in time: the record must say *running*
        // first.
        if !P::SNAPSHOT && st.store.is_running() {
            st.cache.set_budget(self.lock.0.get());
            let sum = st.cache.persist_bytes() + PIN_RECORD + st.cache.weight(frame);
            if !st.cache.exceeds_limit(sum) && st.pin_within(frame, true, sum) {
                self.lock.0.set(st.cache.budget());
                st.stats.hits = st.stats.hits.wrapping_add(1);
                return Ok(st.cache.content(frame));
            }
        }
        let id = st.cache.id(frame);
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
                // SAFETY: as in `try_pin_shared`.
                let st = unsafe { &mut *self.state.get() };
                // SAFETY: as the caller vouches.
                if unsafe { st.cache.unpin_last(content, mutable) } {
                    return;
                }
            }
            self.lock.undo_unpin();
        }
        // SAFETY: as the caller vouches.
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
        // An error means that the heap is suspended: the pin record keeps it pinned.
        let _ = self.section(|st| {
            // SAFETY: as the caller vouches.
            let frame = unsafe { st.cache.frame_of(content) };
            if st.cache.unpin(frame, mutable).1 {
                // Take the number now: the frame is not valid after this section.
                doomed = st.reaper.map(|reaper| (reaper, st.cache.id(frame)));
            }
            Ok(())
        });
        if let Some((reaper, id)) = doomed {
            reaper(self, id, kind);
        }
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// [`Core::release`] of an object whose kind of pin the caller does not know.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn release_any(&self, content: NonNull<u8>, kind: &Kind) {
        // It stays pinned meanwhile, so the kind of pin cannot change.
        let exclusive = self.section(|st| {
            // SAFETY: as the caller vouches.
            let frame = unsafe { st.cache.frame_of(content) };
            Ok(st.cache.is_exclusive(frame))
        });
        if let Ok(exclusive) = exclusive {
            // SAFETY: as the caller vouches.
            unsafe { self.release(content, kind, exclusive) }
        }
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// Bytes that a persist would write once this object is pinned.
    pub(crate) fn persist_bytes_with(&self, frame: Frame, kind: &Kind, mutable: bool) -> u32 {
        let mut sum = self.cache.persist_bytes();
        if !self.cache.is_pinned(frame) {
            sum += PIN_RECORD;
        }
        if mutable && !self.cache.is_dirty(frame) {
            sum += u32::from(kind.len) + CHECK;
        }
        sum
    }

    /// Pins a resident object when the limit allows it. `sum`: bytes that a persist then writes.
    pub(crate) fn pin_within(&mut self, frame: Frame, mutable: bool, sum: u32) -> bool {
        if !self.cache.is_pinned(frame) && self.cache.pins_exhausted() {
            return false;
        }
        if self.cache.pin(frame, mutable).is_err() {
            return false;
        }
        if mutable {
            self.cache.mark_dirty(frame);
            self.cache.note_update(frame);
            self.cache.note_high_water(sum);
        } else {
            self.cache.note_read(frame);
        }
        true
    }
}
