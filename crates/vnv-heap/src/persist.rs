//! Persist and restore.
//!
//! ```text
//!  persist:  finish_move -> write back each dirty object -> write a pin record for each pinned one
//!            -> record "persisted, n pins" -> SUSPENDED
//!  restore:  clear the cache -> for each pin record: frame at its old address, page in
//!            -> record "running" if an exclusive pin came back -> unlock with a new incarnation
//! ```
//!
//! Why it is safe: until the record is complete, the medium says *running*, and the next open
//! refuses the image. A pinned object returns at its address, so references that guards gave out
//! stay valid. Objects pinned for writing stay dirty: their guards may go on writing.

use crate::Heap;
use crate::error::{Error, Fail};
use crate::policy::Policy;
use crate::promise::{JustInTime, Promise};
use crate::ram::Frame;
use crate::save::{Interruptible, Saver, Target};
use crate::state::{Core, Masked, State};
use crate::store::Pin;
use nvmem::{Medium, Persist, planted};

impl<S: Medium, P: Promise, Pol: Policy> Core<S, P, Pol> {
    fn persist(&self) -> Result<(), Error<S::Error>> {
        let _masked = Masked::begin();
        let budget = self.lock.acquire().map_err(|f| f.error(None))?;
        // SAFETY: in a critical section, and the lock was free, so no other section runs.
        let st = unsafe { &mut *self.state.get() };
        st.cache.set_budget(budget);
        let r = st.in_interrupt(State::save);
        match r {
            Ok(()) => self.lock.suspend(),
            Err(_) => self.lock.unlock(st.cache.budget()),
        }
        r
    }

    fn restore(&self) -> Result<(), Error<S::Error>> {
        let _masked = Masked::begin();
        self.lock.resume().map_err(|f| f.error(None))?;
        // SAFETY: as in `persist`: no section runs between a persist and its restore.
        let st = unsafe { &mut *self.state.get() };
        let r = st.in_interrupt(State::restore_pins);
        match r {
            Ok(()) => self.lock.unlock(st.cache.budget()),
            Err(_) => self.lock.suspend(),
        }
        r
    }
}

impl<S: Medium, P: Promise, Pol: Policy> State<S, P, Pol> {
    /// Runs `f` as an interrupt does. The interrupted operation may hold a medium error that it has
    /// not returned yet; `f` must not overwrite it.
    fn in_interrupt(
        &mut self,
        f: impl FnOnce(&mut Self) -> Result<(), Fail>,
    ) -> Result<(), Error<S::Error>> {
        let earlier = self.store.failure.take();
        let r = f(self).map_err(|fail| self.store.error(fail));
        if !planted!("vnv-heap/failure-not-told") {
            self.store.failure = earlier;
        }
        r
    }

    /// A dirty object, pinned or not.
    pub(crate) fn first_dirty(&self) -> Option<Frame> {
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
    fn restore_pins(&mut self) -> Result<(), Fail> {
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
}

impl<R: Persist, S: Medium, Pol: Policy, B> Heap<'_, R, S, JustInTime, Pol, B> {
    /// Writes back everything that has changed. Until [`Heap::restore`], operations return
    /// [`Error::Suspended`]. For use in an interrupt, see [`Heap::attach`].
    ///
    /// **Power loss**: before its end, the next open returns
    /// [`OpenError::Interrupted`](crate::OpenError::Interrupted). **Cost**: at most
    /// [`Config::worst_case`](crate::Config::worst_case). **Errors**: [`Error::Medium`], after
    /// which the heap continues as before; [`Error::Suspended`]; [`Error::Busy`] when a guard that
    /// wrote an object with padding was leaked.
    pub fn persist(&mut self) -> Result<(), Error<S::Error>> {
        self.core.with_medium_error(self.core.no_padding_leaked())?;
        self.core.persist()
    }

    /// Continues after a persist. The RAM buffer may have lost its content.
    ///
    /// **Power loss**: the persist counts. If a leaked guard pins an object for writing, it counts
    /// until this returns. **Cost**: reads the objects that leaked guards pin. **Errors**:
    /// [`Error::Suspended`] without a persist before; [`Error::Damaged`] and [`Error::Medium`],
    /// after which it may be repeated.
    pub fn restore(&mut self) -> Result<(), Error<S::Error>> {
        self.core.restore()
    }

    /// Runs `f` with the heap attached to `saver`, where an interrupt handler finds it. Detaches at
    /// the end, also when `f` unwinds.
    ///
    /// The medium is [`Interruptible`], because the handler uses it too. **Errors**:
    /// [`Error::Busy`] when a heap is attached already; `f` did not run then.
    pub fn attach<O>(&self, saver: &Saver, f: impl FnOnce() -> O) -> Result<O, Error<S::Error>>
    where
        S: Interruptible,
    {
        struct Detach<'a>(&'a Saver);
        impl Drop for Detach<'_> {
            fn drop(&mut self) {
                self.0.clear();
            }
        }
        let target = Target {
            core: (&raw const self.core).cast(),
            persist: persist_at::<S, Pol>,
            restore: restore_at::<S, Pol>,
        };
        if !saver.put(target) {
            return Err(Error::Busy);
        }
        let _detach = Detach(saver);
        Ok(f())
    }
}

/// # Safety
/// `core` points to a core of this type.
unsafe fn persist_at<S: Medium, Pol: Policy>(core: *const ()) -> Result<(), Error<()>> {
    // SAFETY: as the caller vouches.
    let core = unsafe { &*core.cast::<Core<S, JustInTime, Pol>>() };
    core.persist().map_err(Error::erase)
}

/// # Safety
/// `core` points to a core of this type.
unsafe fn restore_at<S: Medium, Pol: Policy>(core: *const ()) -> Result<(), Error<()>> {
    // SAFETY: as the caller vouches.
    let core = unsafe { &*core.cast::<Core<S, JustInTime, Pol>>() };
    core.restore().map_err(Error::erase)
}
