//! What a heap is behind its types: the cache, the store, and the sections in which they are used.
//!
//! Four rules make a persist possible at any point of any operation. One, state is used inside a section only, which is a critical
//! section. Two, nothing that another section will use is a pointer, unless its object is pinned and so comes back at its address. Three, a
//! piece of work on the medium and the change of state that goes with it share one section. Four, each section compares the
//! incarnation, which a restore changes; when it differs, the operation begins again.

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

/// Restarts of one operation after which it gives up.
const RESTARTS: u8 = 100;

/// Whether the state may be used, and what only a pin changes of it.
///
/// While nothing is on, this is the cache's load, so that a pin needs one look at the gate and none at the limits.
pub(crate) struct StateLock(Cell<u32>);

impl StateLock {
    /// In a section: what the driver of the medium calls is refused.
    const LOCKED: u32 = BUDGET_CLOSED + BUDGET_CLOSED / 2;
    /// Between a persist and its restore.
    const SUSPENDED: u32 = Self::LOCKED + 1;

    pub(crate) fn new(budget: u32) -> Self {
        StateLock(Cell::new(budget))
    }

    /// The load, if the gate is open. It is inside from here on.
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

    /// A restore begins. **Errors**: [`Error::Suspended`] when nothing was persisted.
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

    /// Nothing is on any more.
    #[inline(always)]
    pub(crate) fn unlock(&self, budget: u32) {
        self.0.set(budget);
    }

    /// The pin that was taken off the load is there still. Apart, so that the load before is not kept in a register for it.
    #[cold]
    #[inline(always)]
    fn undo_unpin(&self) {
        self.0.set(self.0.get() + BUDGET_PIN);
    }

    pub(crate) fn suspend(&self) {
        self.0.set(Self::SUSPENDED);
    }
}

/// The fast path cannot pin the object: it is absent, excluded by another pin, or needs a write first.
struct SlowPath;

/// A heap without its brand and its root's type.
pub(crate) struct Core<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) lock: StateLock,
    /// Used inside critical sections only, and not while the gate says that a section is on.
    pub(crate) state: UnsafeCell<State<S, P, Pol>>,
}

/// What is used most comes first, as small cores have short loads for that.
#[repr(C)]
pub(crate) struct State<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) cache: Cache<Pol>,
    /// How many restores there were.
    pub(crate) incarnation: u32,
    pub(crate) stats: Counts,
    /// What frees a doomed object. Set with the first one, so that a program that frees nothing does not hold the code.
    pub(crate) reaper: Option<Reaper<S, P, Pol>>,
    pub(crate) store: Store<S, P>,
}

/// Frees what was doomed while it was held.
pub(crate) type Reaper<S, P, Pol> = fn(&Core<S, P, Pol>, u16, &Kind);

/// A critical section, as long as this lives: `critical_section::with` without the closure, because the fast path is shorter than a call.
pub(crate) struct Masked(critical_section::RestoreState);

impl Masked {
    #[inline(always)]
    pub(crate) fn begin() -> Self {
        // SAFETY: released by the destructor; a variable of a function that does not keep it longer, so in the opposite order.
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

/// Which incarnation an operation belongs to.
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

    /// Whether what the last section left is still so. **Errors**: [`Error::NoProgress`].
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
    /// Runs `f` with the state. **Errors**: [`Error::Busy`] when the medium's driver asks for it, [`Error::Suspended`].
    #[inline(always)]
    pub(crate) fn section<R>(
        &self,
        f: impl FnOnce(&mut State<S, P, Pol>) -> Result<R, Fail>,
    ) -> Result<R, Fail> {
        let _masked = Masked::begin();
        let budget = self.lock.acquire()?;
        // SAFETY: in a critical section, and the gate was open, so no other section is on.
        let st = unsafe { &mut *self.state.get() };
        st.cache.set_budget(budget);
        let r = f(st);
        self.lock.unlock(st.cache.budget());
        r
    }

    /// Runs `f`, which comes to its end in so many sections.
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

    /// What a caller is to be told, of what has failed just now.
    #[cold]
    #[inline(never)]
    pub(crate) fn error(&self, fail: Fail) -> Error<S::Error> {
        if fail != Fail::MEDIUM {
            return fail.error(None);
        }
        let _masked = Masked::begin();
        // SAFETY: in a critical section; the medium has failed, so a section has been on, and is not any more.
        unsafe { &mut *self.state.get() }.store.error(fail)
    }

    /// The same of a result.
    #[inline(always)]
    pub(crate) fn with_medium_error<R>(&self, r: Result<R, Fail>) -> Result<R, Error<S::Error>> {
        match r {
            Ok(r) => Ok(r),
            Err(fail) => Err(self.error(fail)),
        }
    }

    /// Before what is dirty is written, while no guard can be alive. **Errors**: [`Error::Busy`] when one was leaked that may have left
    /// padding without any value: that cannot be read, and the type that could clear it is forgotten.
    pub(crate) fn no_padding_leaked(&self) -> Result<(), Fail> {
        let leaked = self.peek(|st| match st.store.padded {
            // Too many to be counted; but what was leaked is held.
            u8::MAX => st.cache.holds_any(self.lock.0.get()),
            n => n != 0,
        });
        if leaked == Some(true) && !planted!("vnv-heap/leaked-padding") {
            return Err(Fail::BUSY);
        }
        Ok(())
    }

    /// Counts what is held to be written of types with padding: a guard is made, or is dropped.
    pub(crate) fn count_padded(&self, count: impl FnOnce(u8) -> u8) {
        let _masked = Masked::begin();
        if !self.lock.is_locked() {
            // SAFETY: in a critical section, and no section is on that would have the state.
            let n = unsafe { &mut (*self.state.get()).store.padded };
            *n = count(*n);
        }
    }

    /// What `f` makes of the state, which it does not change; nothing when a section is on.
    pub(crate) fn peek<R>(&self, f: impl FnOnce(&State<S, P, Pol>) -> R) -> Option<R> {
        let _masked = Masked::begin();
        if self.lock.is_locked() {
            return None;
        }
        // SAFETY: in a critical section, and no section is on that would have the state.
        Some(f(unsafe { &*self.state.get() }))
    }

    /// Holds an object. **Cost**: one section when it is resident; else what [`Core::pin_slow`] costs.
    pub(crate) fn pin(
        &self,
        id: u16,
        kind: &Kind,
        mutable: bool,
    ) -> Result<NonNull<u8>, Error<S::Error>> {
        let held = if mutable {
            self.pin_exclusive_fast(id, kind)
        } else {
            self.pin_shared_fast(id)
        };
        match held {
            Ok(held) => Ok(held),
            Err(SlowPath) => self.with_medium_error(self.pin_slow(id, kind, mutable)),
        }
    }

    /// Holds an object that is resident and that nobody holds, as most are, in few steps.
    fn pin_shared_fast(&self, id: u16) -> Result<NonNull<u8>, SlowPath> {
        let _masked = Masked::begin();
        if self.lock.0.get() & BUDGET_OVER != 0 {
            // No room, or the gate is closed.
            return Err(SlowPath);
        }
        // SAFETY: in a critical section, and no other section is on; nothing in here calls anything outside of this crate.
        let st = unsafe { &mut *self.state.get() };
        let Some(frame) = st.cache.lookup_fast(id) else {
            return Err(SlowPath);
        };
        if !st.cache.pin_first(frame) {
            return Err(SlowPath);
        }
        self.lock.0.set(self.lock.0.get() + BUDGET_PIN);
        st.stats.hits = st.stats.hits.wrapping_add(1);
        Ok(st.cache.content(frame))
    }

    /// The same, to be written.
    #[inline(always)]
    fn pin_exclusive_fast(&self, id: u16, kind: &Kind) -> Result<NonNull<u8>, SlowPath> {
        let _masked = Masked::begin();
        let budget = self.lock.0.get();
        if budget & BUDGET_OVER != 0 {
            return Err(SlowPath);
        }
        // SAFETY: as in `pin_shared_fast`.
        let st = unsafe { &mut *self.state.get() };
        let Some(frame) = st.cache.lookup(id) else {
            return Err(SlowPath);
        };
        st.cache.set_budget(budget);
        if !st.pin(frame, kind, true) {
            return Err(SlowPath);
        }
        self.lock.0.set(st.cache.budget());
        st.stats.hits = st.stats.hits.wrapping_add(1);
        Ok(st.cache.content(frame))
    }

    /// Ends a hold; if the object is doomed and nobody holds it any more, it is freed.
    ///
    /// # Safety
    /// `content` is that of an object of this kind that is held, mutably or not, and the caller does not use it again.
    pub(crate) unsafe fn release(&self, content: NonNull<u8>, kind: &Kind, mutable: bool) {
        {
            let _masked = Masked::begin();
            let budget = self.lock.0.get().wrapping_sub(BUDGET_PIN);
            self.lock.0.set(budget);
            if budget & BUDGET_CLOSED == 0 {
                // SAFETY: as in `pin_shared_fast`.
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

    /// [`Core::release`] of what is held more than once or doomed, or of anything while the gate is closed.
    ///
    /// # Safety
    /// As there.
    #[cold]
    #[inline(never)]
    unsafe fn release_slow(&self, content: NonNull<u8>, kind: &Kind, mutable: bool) {
        let mut doomed = None;
        // What a persist has recorded as held stays held: an error.
        let _ = self.section(|st| {
            // SAFETY: as the caller vouches.
            let frame = unsafe { st.cache.frame_of(content) };
            if st.cache.unpin(frame, mutable).1 {
                // Its slot means nothing after this section.
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
    /// [`Core::release`] of an object of which it is not known how it is held.
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn release_any(&self, content: NonNull<u8>, kind: &Kind) {
        // It is held, so nothing can change how.
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
    /// What a persist has to write once this object is held.
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

    /// Pins a resident object, if it may be and nothing needs to be written first.
    fn pin(&mut self, frame: Frame, kind: &Kind, mutable: bool) -> bool {
        // It may need a block of its own; or the medium must say first that something changes.
        let prepared = !mutable
            || if P::SNAPSHOT {
                self.cache.is_dirty(frame)
            } else {
                self.store.is_running()
            };
        if !prepared {
            return false;
        }
        let sum = self.persist_bytes_with(frame, kind, mutable);
        !self.cache.exceeds_limit(sum) && self.pin_within(frame, mutable, sum)
    }

    /// Pins a resident object for which the limit has room: `sum` is what a persist then has to write.
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
