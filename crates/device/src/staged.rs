//! Devices whose context commits with a step.

use crate::context::StagedContext;
use crate::device::keyed;
use crate::error::{CallError, Code};
use crate::restore::{Call, Keyed, Once, Restore};
use crate::set::{Attempt, Joined, Set};
use crate::slot::Slot;
use core::cell::RefCell;
use nv_replay::Step;
use nv_replay::nvmem::{Model, planted};

/// A device whose context commits with the program's step: context, result and the program's data
/// change together, or none of them does. It belongs to a [`Set`].
///
/// In a step there are two kinds of calls. [`change`](StagedDevice::change) changes the context,
/// and the device follows after the commit. [`at_least_once`](StagedDevice::at_least_once) and
/// [`once`](StagedDevice::once) act at once, before the commit. Each output of a program chooses.
/// After an undone step, a device that has acted is built again from its committed context.
pub struct StagedDevice<'m, D: Restore, M> {
    inner: RefCell<Inner<'m, D, M>>,
}

struct Inner<'m, D: Restore, M> {
    context: StagedContext<'m, D::Context, M>,
    slot: Slot<D, D::Parts>,
    /// What the running step makes of the context, if `attempt` is its attempt.
    staged: D::Context,
    /// The attempt that has changed the context.
    attempt: Attempt,
    /// The attempt in which a call was to happen exactly once.
    once: Attempt,
    /// The context of this attempt waits for its commit to be applied.
    waits: bool,
    /// The device has acted in this attempt, so it may differ from what is committed.
    acted: bool,
    /// The driver that is built does not follow the committed context yet.
    behind: bool,
}

impl<D: Restore, M: Model> Inner<'_, D, M> {
    /// The context as the attempt sees it.
    fn current(&self, attempt: Attempt) -> D::Context {
        if self.attempt == attempt && attempt != Attempt::NONE {
            self.staged
        } else {
            *self.context.value()
        }
    }

    /// The step of this attempt makes `context` of it.
    #[inline(always)]
    fn set<T>(&mut self, set: &Set<T>, context: D::Context) {
        if self.attempt != set.attempt() {
            self.attempt = set.attempt();
            (self.waits, self.acted) = (false, false);
            set.one_changed();
        }
        self.staged = context;
    }
}

impl<'m, D: Restore, M: Model> StagedDevice<'m, D, M> {
    /// A device whose driver is built when it is used for the first time.
    pub fn new(context: StagedContext<'m, D::Context, M>, parts: D::Parts) -> Self {
        StagedDevice {
            inner: RefCell::new(Inner {
                staged: *context.value(),
                context,
                slot: Slot::new(parts),
                attempt: Attempt::NONE,
                once: Attempt::NONE,
                waits: false,
                acted: false,
                behind: false,
            }),
        }
    }

    /// A device whose driver is built now, and again at once after an error: for devices whose
    /// state is seen outside.
    ///
    /// **Errors**: [`CallError::Restore`].
    pub fn eager(
        context: StagedContext<'m, D::Context, M>,
        parts: D::Parts,
    ) -> Result<Self, CallError<D::Error>> {
        let mut device = StagedDevice::new(context, parts);
        let inner = device.inner.get_mut();
        inner.slot.eager = true;
        inner.slot.build(inner.context.value())?;
        Ok(device)
    }

    /// The committed context; `None` while a call of this device runs.
    pub fn context(&self) -> Option<D::Context> {
        Some(*self.inner.try_borrow().ok()?.context.value())
    }

    /// Uses the driver without a change of its context, in a step or outside: to read a sensor, or
    /// to send what an outbox delivers. In a step it sees the committed context.
    ///
    /// **Power loss**: it happens again if the caller comes here again. **Cost**: no store.
    /// **Errors**: [`CallError`]. After an error, and if `f` unwinds, the driver is taken out and
    /// built again.
    pub fn with<O>(
        &self,
        f: impl FnOnce(&mut D, &D::Context) -> Result<O, D::Error>,
    ) -> Result<O, CallError<D::Error>> {
        self.run(Attempt::NONE, |call| {
            let (driver, context) = call.parts();
            f(driver, context)
        })
        .map(|(o, _)| o)
    }

    /// Changes the context with the commit of the step. The device follows after it: the outside
    /// sees only what is committed.
    ///
    /// **Power loss**: happens with the step or not at all. **Cost**: when the step commits, one
    /// store if the context is one byte and units have 32 bits, else one for each unit and one; and
    /// one that settles it. **Errors**: [`CallError::Busy`].
    #[inline(always)]
    pub fn change<T>(
        &self,
        step: &Step<'_, '_, M, Set<T>>,
        change: impl FnOnce(&mut D::Context),
    ) -> Result<(), CallError<D::Error>> {
        let set = step.token();
        let mut inner = self.inner.try_borrow_mut().map_err(|_| CallError::Busy)?;
        let mut context = inner.current(set.attempt());
        change(&mut context);
        inner.set(set, context);
        inner.waits = true;
        Ok(())
    }

    /// Makes a call in a step. The device acts now, before the commit; the context, if the call has
    /// changed it, is saved with the step. The body may make calls of other devices: all contexts
    /// are saved once, with the step.
    ///
    /// **Power loss**: the step runs again, and the call is made again as a whole. **Cost**: as for
    /// [`StagedDevice::change`], if the context has changed. **Errors**: [`CallError`]. After an
    /// error, and if `body` unwinds, the driver is taken out and built again from its committed
    /// context.
    #[inline(always)]
    pub fn at_least_once<T, O>(
        &self,
        step: &Step<'_, '_, M, Set<T>>,
        body: impl FnOnce(&mut Call<'_, D, D::Context>) -> Result<O, D::Error>,
    ) -> Result<O, CallError<D::Error>> {
        let set = step.token();
        let done = self.run(set.attempt(), body);
        let (o, changed) = done?;
        if let Some(context) = changed {
            let mut inner = self.inner.try_borrow_mut().map_err(|_| CallError::Busy)?;
            inner.set(set, context);
            inner.acted = true;
            if planted!("nv-device/nested-call-saves") {
                let _ = inner.context.put_settled(context);
            }
        }
        Ok(o)
    }

    /// Makes a call in a step exactly once: asks the device first whether it has carried out the
    /// call of this key. Once in a step: of two calls, the device could name only the second.
    ///
    /// **Power loss**: the step runs again, and asks again. **Cost**, **Errors**: as for
    /// [`StagedDevice::at_least_once`]; [`CallError::SecondOnce`].
    #[inline(always)]
    pub fn once<T, O>(
        &self,
        step: &Step<'_, '_, M, Set<T>>,
        body: impl FnOnce(&mut Call<'_, D, D::Context>, D::Key) -> Result<O, D::Error>,
    ) -> Result<Once<O>, CallError<D::Error>>
    where
        D: Keyed,
    {
        let attempt = step.token().attempt();
        let mut inner = self.inner.try_borrow_mut().map_err(|_| CallError::Busy)?;
        if inner.once == attempt && !planted!("nv-device/two-once-in-a-step") {
            return Err(CallError::SecondOnce);
        }
        inner.once = attempt;
        drop(inner);
        self.at_least_once(step, |call| keyed(call, body))
    }

    /// Runs a call. Returns the context, if it has changed.
    #[allow(clippy::type_complexity)]
    #[inline(always)]
    fn run<O>(
        &self,
        attempt: Attempt,
        body: impl FnOnce(&mut Call<'_, D, D::Context>) -> Result<O, D::Error>,
    ) -> Result<(O, Option<D::Context>), CallError<D::Error>> {
        let mut inner = self.inner.try_borrow_mut().map_err(|_| CallError::Busy)?;
        let inner = &mut *inner;
        let mut context = inner.current(attempt);
        let mut from = *inner.context.value();
        if planted!("nv-device/restored-from-staged") {
            from = inner.staged;
        }
        if inner.behind {
            inner.slot.take_out(D::release);
            inner.behind = false;
        }
        inner.slot.build(&from)?;
        let mut in_use = inner.slot.enter(D::release);
        let driver = in_use.driver().ok_or(CallError::Busy)?;
        let mut call = Call::new(driver, &mut context);
        let done = body(&mut call);
        let changed = call.changed();
        match done {
            Ok(o) => {
                in_use.succeeded();
                Ok((o, changed.then_some(context)))
            }
            Err(e) => {
                drop(in_use);
                if inner.attempt == attempt {
                    // If the step goes on, the device follows its context after the commit.
                    (inner.acted, inner.waits) = (false, true);
                }
                inner.slot.rebuild(inner.context.value());
                Err(CallError::Driver(e))
            }
        }
    }
}

impl<D: Restore, M: Model> Joined for StagedDevice<'_, D, M> {
    fn stage(&self, attempt: Attempt, number: u32) -> Result<bool, Code> {
        let mut inner = self.inner.try_borrow_mut().map_err(|_| Code::Busy)?;
        if inner.attempt != attempt {
            return Ok(false);
        }
        let staged = inner.staged;
        let done = inner.context.stage(number, staged);
        done.map(|()| true).map_err(|_| Code::Damaged)
    }

    fn revert(&self, attempt: Attempt, number: u32) {
        if let Ok(mut inner) = self.inner.try_borrow_mut()
            && inner.attempt == attempt
        {
            inner.context.revert(number)
        }
    }

    fn settle(&self, attempt: Attempt) {
        if let Ok(mut inner) = self.inner.try_borrow_mut()
            && inner.attempt == attempt
        {
            let staged = inner.staged;
            inner.behind = inner.waits;
            inner.context.settle(staged)
        }
    }

    fn follow(&self, attempt: Attempt) {
        let Ok(mut inner) = self.inner.try_borrow_mut() else {
            return;
        };
        let inner = &mut *inner;
        if inner.attempt == attempt && inner.waits {
            // If it fails, the driver is out, and the next use builds it.
            let _ = inner.slot.follow(&inner.staged);
            inner.behind = false;
        }
    }

    fn undone(&self, attempt: Attempt) {
        let Ok(mut inner) = self.inner.try_borrow_mut() else {
            return;
        };
        let inner = &mut *inner;
        if inner.attempt == attempt && inner.acted && !planted!("nv-device/undone-step-stays") {
            inner.attempt = Attempt::NONE;
            inner.slot.rebuild(inner.context.value())
        }
    }
}
