//! What a heap is behind its types: the cache, the store, and the sections in which they are used.
//!
//! Four rules make a persist possible at any point of any operation. One, state is used inside a section only, which is a critical
//! section. Two, nothing that another section will use is a pointer, unless its object is pinned and so comes back at its address. Three, a
//! piece of work on the medium and the change of state that goes with it share one section. Four, each section compares the
//! incarnation, which a restore changes; when it differs, the operation begins again.

use crate::error::Error;
use crate::own::Kind;
use crate::policy::Policy;
use crate::promise::Promise;
use crate::ram::{CHECK, Cache, PIN_RECORD, Slot};
use crate::stats::Counts;
use crate::store::Store;
use core::cell::{Cell, UnsafeCell};
use core::ptr::NonNull;
use nvmem::Medium;

/// Restarts of one operation after which it gives up.
const RESTARTS: u8 = 100;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Running,
    /// In a section: what the driver of the medium calls is refused.
    Inside,
    /// Between a persist and its restore.
    Suspended,
}

/// A heap without its brand and its root's type.
pub(crate) struct Core<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) mode: Cell<Mode>,
    /// Used inside critical sections only, and not while `mode` says that a section is on.
    pub(crate) state: UnsafeCell<State<S, P, Pol>>,
}

pub(crate) struct State<S: Medium, P: Promise, Pol: Policy> {
    pub(crate) cache: Cache<Pol>,
    pub(crate) store: Store<S, P>,
    /// How many restores there were.
    pub(crate) incarnation: u32,
    /// At most what the RAM can hold.
    pub(crate) dirty_limit: u16,
    /// How many objects more can be pinned by guards.
    pub(crate) free_pins: u16,
    pub(crate) stats: Counts,
}

/// An object that is held: where it lies.
pub(crate) type Held = (Slot, NonNull<u8>);

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
    pub(crate) fn goes_on<E>(&mut self, incarnation: u32) -> Result<bool, Error<E>> {
        if self.incarnation == Some(incarnation) {
            return Ok(true);
        }
        if self.incarnation.replace(incarnation).is_some() {
            self.restarts += 1;
            if self.restarts > RESTARTS {
                return Err(Error::NoProgress);
            }
        }
        Ok(false)
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// Runs `f` with the state. **Errors**: [`Error::Busy`] when the medium's driver asks for it, [`Error::Suspended`].
    pub(crate) fn section<R>(
        &self,
        f: impl FnOnce(&mut State<S, P, Pol>) -> Result<R, Error<S::Error>>,
    ) -> Result<R, Error<S::Error>> {
        let _masked = Masked::begin();
        match self.mode.get() {
            Mode::Running => self.mode.set(Mode::Inside),
            Mode::Inside => return Err(Error::Busy),
            Mode::Suspended => return Err(Error::Suspended),
        }
        // SAFETY: in a critical section, and `mode` was `Running`, so no other section is on.
        let r = f(unsafe { &mut *self.state.get() });
        self.mode.set(Mode::Running);
        r
    }

    /// Holds an object. **Cost**: one section when it is resident; else what [`Core::hold_slowly`] costs.
    #[inline(always)]
    pub(crate) fn hold(
        &self,
        id: u16,
        kind: &Kind,
        mutable: bool,
    ) -> Result<Held, Error<S::Error>> {
        let fast = self.hold_at_once(id, kind, mutable);
        match fast {
            Some(held) => Ok(held),
            None => self.hold_slowly(id, kind, mutable),
        }
    }

    #[inline(always)]
    fn hold_at_once(&self, id: u16, kind: &Kind, mutable: bool) -> Option<Held> {
        let _masked = Masked::begin();
        if self.mode.get() != Mode::Running {
            return None;
        }
        // SAFETY: in a critical section, and no other section is on; nothing in here calls anything outside of this crate.
        let st = unsafe { &mut *self.state.get() };
        let slot = st.cache.lookup(id)?;
        let held = if mutable {
            st.pin(slot, kind, true)
        } else {
            st.pin_first(slot) || st.pin(slot, kind, false)
        };
        if !held {
            return None;
        }
        st.stats.hits = st.stats.hits.wrapping_add(1);
        Some((slot, st.cache.content(slot)))
    }

    /// Ends a hold. The object's number, if it is doomed and nobody holds it any more: its slot means nothing after this section.
    #[inline(always)]
    pub(crate) fn release(&self, slot: Slot, mutable: bool) -> Option<u16> {
        let _masked = Masked::begin();
        if self.mode.get() != Mode::Running {
            // What a persist has recorded as held stays held.
            return None;
        }
        // SAFETY: as in `hold_at_once`.
        let st = unsafe { &mut *self.state.get() };
        st.unpin(slot, mutable).then(|| st.cache.id(slot))
    }
}

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    /// [`Core::release`] of an object of which it is not known how it is held.
    pub(crate) fn release_either(&self, slot: Slot) -> Option<u16> {
        // It is held, so nothing can change how.
        let alone = self.section(|st| Ok(st.cache.is_alone(slot)));
        self.release(slot, alone.ok()?)
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// What a persist has to write once this object is held.
    #[inline(always)]
    pub(crate) fn demand_with(&self, slot: Slot, kind: &Kind, mutable: bool) -> u32 {
        let mut sum = self.cache.demand();
        if !self.cache.is_pinned(slot) {
            sum += PIN_RECORD;
        }
        if mutable && !self.cache.is_dirty(slot) {
            sum += u32::from(kind.len) + CHECK;
        }
        sum
    }

    /// Pins a resident object, if it may be and nothing needs to be written first.
    #[inline(always)]
    fn pin(&mut self, slot: Slot, kind: &Kind, mutable: bool) -> bool {
        if P::SNAPSHOT && mutable && !self.cache.is_dirty(slot) {
            // It may need a block of its own.
            return false;
        }
        let sum = self.demand_with(slot, kind, mutable);
        sum <= u32::from(self.dirty_limit) && self.pin_within(slot, mutable, sum)
    }

    /// Pins a resident object for which the limit has room: `sum` is what a persist then has to write.
    #[inline(always)]
    pub(crate) fn pin_within(&mut self, slot: Slot, mutable: bool, sum: u32) -> bool {
        let first = !self.cache.is_pinned(slot);
        if first && self.free_pins == 0 {
            return false;
        }
        if self.cache.pin(slot, mutable).is_err() {
            return false;
        }
        self.free_pins -= u16::from(first);
        if mutable {
            self.cache.mark_dirty(slot);
            self.cache.updated(slot);
            if sum > self.stats.dirty_high_water {
                self.stats.dirty_high_water = sum;
            }
        } else {
            self.cache.used(slot);
        }
        true
    }

    /// [`State::pin`] of an object that is to be read and is not pinned yet, which most are not, in fewer steps.
    #[inline(always)]
    fn pin_first(&mut self, slot: Slot) -> bool {
        let (left, none) = self.free_pins.overflowing_sub(1);
        if none || !self.cache.pin_first(slot, u32::from(self.dirty_limit)) {
            return false;
        }
        self.free_pins = left;
        true
    }

    #[inline(always)]
    pub(crate) fn unpin(&mut self, slot: Slot, mutable: bool) -> bool {
        let (last, doomed) = self.cache.unpin(slot, mutable);
        self.free_pins += u16::from(last);
        doomed
    }
}
