//! Devices whose context commits with a step.

use crate::context::StagedContext;
use crate::device::keyed;
use crate::error::CallError;
use crate::restore::{Call, Keyed, Once, Restore};
use crate::set::{Entry, Joined, Key, OfSet, Set};
use crate::slot::Slot;
use core::cell::Cell;
use nv_replay::Step;
use nv_replay::nvmem::{Exclusive, Model, planted};

/// A device whose context commits with the program's step: context, result and the program's data
/// change together, or none of them does. It belongs to a [`Set`].
///
/// In a step there are two kinds of calls. [`change`](StagedDevice::change) changes the context,
/// and the device follows after the commit. [`at_least_once`](StagedDevice::at_least_once) and
/// [`once`](StagedDevice::once) act at once, before the commit. Each output of a program chooses.
/// After an undone step, a device that has acted is built again from its committed context.
pub struct StagedDevice<'m, D: Restore, M> {
    context: StagedContext<'m, D::Context, M>,
    /// What the running step makes of the context. The same as the committed one where no step
    /// runs.
    staged: Cell<D::Context>,
    /// Its set; while a call runs, no set's.
    key: Cell<Key>,
    /// The driver that is built does not follow the committed context yet.
    behind: Cell<bool>,
    /// The marks say what the running step has done with the device, and that the driver is lent. A
    /// `RefCell` and a flag would be two loads and three stores more.
    slot: Exclusive<Slot<D, D::Parts>>,
}

/// The context waits for its commit to be applied.
const WAITS: u8 = 1;
/// The device has acted, so it may differ from what is committed.
const ACTED: u8 = 2;
/// A call was to happen exactly once.
const ONCE: u8 = 4;
/// The context is staged for a commit that has begun.
const STAGED: u8 = 8;
const LENT: u8 = Exclusive::<()>::LENT;

/// While a call runs, the device is in no set.
struct InCall<'a, T> {
    key: &'a Cell<Key>,
    before: Key,
    slot: &'a Exclusive<T>,
    succeeded: bool,
}

// INVARIANT "The step goes on": if a call fails or unwinds in a step that has used the device, its
// driver is built again from the committed context. So it follows its context after the commit.
// Noticed by: `a_call_that_unwinds` in tests/suite/generated/found.rs; planted `unwound-call-acts`.
impl<T> Drop for InCall<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        self.key.set(self.before);
        let waits = !self.succeeded && !planted!("nv-device/unwound-call-acts");
        if waits && self.slot.marks() & !LENT != 0 {
            self.slot.keep_marks(!ACTED);
            self.slot.mark(WAITS)
        }
    }
}

impl<'m, D: Restore, M: Model> StagedDevice<'m, D, M> {
    /// A device whose driver is built when it is used for the first time.
    pub fn new(context: StagedContext<'m, D::Context, M>, parts: D::Parts) -> Self {
        StagedDevice {
            staged: Cell::new(context.value()),
            context,
            key: Cell::new(Key::FREE),
            behind: Cell::new(false),
            slot: Exclusive::new(Slot::new(parts)),
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
        let committed = device.context.value();
        let slot = device.slot.get_mut();
        slot.eager = true;
        slot.build(&committed)?;
        Ok(device)
    }

    /// The committed context; `None` while a call of this device runs.
    pub fn context(&self) -> Option<D::Context> {
        (!self.key.get().is_in_call()).then(|| self.context.value())
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
        self.run(self.context.value(), |call| {
            let (driver, context) = call.parts();
            f(driver, context)
        })
        .map(|(o, _)| o)
    }

    /// The device is used by a step of this set.
    ///
    /// **Errors**: [`CallError::Forgotten`], [`CallError::Busy`].
    #[inline(always)]
    fn enter_step<T>(&self, set: &Set<T>) -> Result<(), CallError<D::Error>> {
        if !set.has(self.key.get()) {
            return Err(self.refused());
        }
        Ok(())
    }

    /// The step does this with the device.
    #[inline(always)]
    fn mark<T>(&self, set: &Set<T>, what: u8) {
        if self.slot.marks() == 0 {
            set.counts()
        }
        self.slot.mark(what)
    }

    #[cold]
    fn refused(&self) -> CallError<D::Error> {
        if self.key.get().is_in_call() {
            CallError::Busy
        } else {
            CallError::Forgotten
        }
    }

    /// Changes the context with the commit of the step. The device follows after it: the outside
    /// sees only what is committed.
    ///
    /// **Power loss**: happens with the step or not at all. **Cost**: when the step commits, one
    /// store if the context is one byte and units have 32 bits, else one for each unit and one; and
    /// one that settles it. **Errors**: [`CallError::Busy`], [`CallError::Forgotten`].
    #[inline(always)]
    pub fn change<K: OfSet>(
        &self,
        step: &Step<'_, '_, M, K>,
        change: impl FnOnce(&mut D::Context),
    ) -> Result<(), CallError<D::Error>> {
        let set = step.token().set();
        self.enter_step(set)?;
        let mut context = self.staged.get();
        change(&mut context);
        self.staged.set(context);
        self.mark(set, WAITS);
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
    pub fn at_least_once<K: OfSet, O>(
        &self,
        step: &Step<'_, '_, M, K>,
        body: impl FnOnce(&mut Call<'_, D, D::Context>) -> Result<O, D::Error>,
    ) -> Result<O, CallError<D::Error>> {
        let set = step.token().set();
        self.enter_step(set)?;
        let (o, changed) = self.run(self.staged.get(), body)?;
        if let Some(context) = changed {
            self.staged.set(context);
            self.mark(set, ACTED);
            if planted!("nv-device/nested-call-saves") {
                self.context.put_settled(context);
            }
        }
        Ok(o)
    }

    /// Makes a call in a step exactly once: asks the device first whether it has carried out the
    /// call of this key. If so, the driver follows the advanced context after the commit, because
    /// it was built from the context before the call. Once in a step: of two calls, the device
    /// could name only the second.
    ///
    /// **Power loss**: the step runs again, and asks again. **Cost**, **Errors**: as for
    /// [`StagedDevice::at_least_once`]; [`CallError::SecondOnce`].
    #[inline(always)]
    pub fn once<K: OfSet, O>(
        &self,
        step: &Step<'_, '_, M, K>,
        body: impl FnOnce(&mut Call<'_, D, D::Context>, D::Key) -> Result<O, D::Error>,
    ) -> Result<Once<O>, CallError<D::Error>>
    where
        D: Keyed,
    {
        let set = step.token().set();
        self.enter_step(set)?;
        if self.slot.marks() & ONCE != 0 && !planted!("nv-device/two-once-in-a-step") {
            return Err(CallError::SecondOnce);
        }
        self.mark(set, ONCE);
        let done = self.at_least_once(step, |call| keyed(call, body))?;
        if matches!(done, Once::DoneBefore) && !planted!("nv-device/done-before-not-followed") {
            // The driver was built from the context before the call, and the body has not run.
            self.slot.mark(WAITS);
        }
        Ok(done)
    }

    /// Runs a call. Returns the context, if it has changed.
    #[allow(clippy::type_complexity)]
    #[inline(always)]
    fn run<O>(
        &self,
        mut context: D::Context,
        body: impl FnOnce(&mut Call<'_, D, D::Context>) -> Result<O, D::Error>,
    ) -> Result<(O, Option<D::Context>), CallError<D::Error>> {
        let before = self.key.get();
        let lent = self.slot.lend(|slot| {
            self.key.set(before.in_call());
            let mut in_call = InCall {
                key: &self.key,
                before,
                slot: &self.slot,
                succeeded: false,
            };
            let committed = self.context.value();
            let mut from = committed;
            if planted!("nv-device/restored-from-staged") {
                from = self.staged.get();
            }
            if self.behind.take() {
                slot.take_out(D::release);
            }
            slot.build(&from)?;
            let mut in_use = slot.enter(D::release);
            let driver = in_use.driver().ok_or(CallError::Busy)?;
            let mut call = Call::new(driver, &mut context);
            let done = body(&mut call);
            let changed = call.changed();
            match done {
                Ok(o) => {
                    in_use.succeeded();
                    in_call.succeeded = true;
                    Ok((o, changed.then_some(context)))
                }
                Err(e) => {
                    drop(in_use);
                    if planted!("nv-device/rebuilt-from-staged") {
                        from = self.staged.get();
                    }
                    slot.rebuild(&from);
                    Err(CallError::Driver(e))
                }
            }
        });
        lent.unwrap_or(Err(CallError::Busy))
    }
}

impl<D: Restore, M: Model> Joined for StagedDevice<'_, D, M> {
    fn enter(&self, entry: &mut Entry) {
        entry.add(&self.key, self.context.address(), self.context.owner())
    }

    #[inline(always)]
    fn used(&self) -> u8 {
        self.slot.marks() & !LENT
    }

    #[inline(always)]
    fn stage(&self, number: u32) -> bool {
        let mut first = self.slot.marks() & STAGED == 0;
        if planted!("nv-device/staged-twice") {
            first = true;
        }
        if first {
            self.slot.mark(STAGED);
            self.context.stage(number, self.staged.get());
        }
        first
    }

    fn revert(&self) -> bool {
        let staged = self.slot.marks() & STAGED != 0;
        if staged {
            self.context.revert();
            self.slot.keep_marks(!STAGED);
        }
        staged
    }

    #[inline(always)]
    fn finish(&self) -> bool {
        let staged = self.staged.get();
        let follow = |slot: &mut Slot<D, D::Parts>| {
            self.context.settle(staged);
            // If it fails, the driver is out, and the next use builds it.
            drop(slot.follow(&staged))
        };
        match self.slot.lend_marked(WAITS | STAGED, follow) {
            Some(()) => true,
            None => self.finish_slowly(),
        }
    }

    fn fall_behind(&self) {
        // A device that has finished has no marks any more.
        let used = self.slot.marks();
        if used & STAGED != 0 {
            self.context.settle(self.staged.get());
            self.behind.set(self.behind.get() || used & WAITS != 0);
            self.slot.keep_marks(0)
        }
    }

    fn show(&self) {
        let staged = self.staged.get();
        self.slot.lend(|slot| drop(slot.follow(&staged)));
    }

    fn undone(&self) -> bool {
        let used = self.slot.marks() & !LENT;
        if !matches!(used, 1..STAGED) {
            return false;
        }
        let committed = self.context.value();
        self.staged.set(committed);
        self.slot.keep_marks(0);
        let has_acted = used & ACTED != 0;
        if has_acted && !planted!("nv-device/undone-step-stays") {
            let lent = self.slot.lend(|slot| slot.rebuild(&committed));
            self.behind.set(self.behind.get() || lent.is_none())
        }
        true
    }
}

impl<D: Restore, M: Model> StagedDevice<'_, D, M> {
    /// Follows a step that has made calls, too, or during one. Whether it was staged.
    #[cold]
    #[inline(never)]
    fn finish_slowly(&self) -> bool {
        let used = self.slot.marks();
        if used & STAGED == 0 {
            return false;
        }
        let staged = self.staged.get();
        self.context.settle(staged);
        self.slot.keep_marks(0);
        if used & WAITS != 0 && self.slot.lend(|slot| drop(slot.follow(&staged))).is_none() {
            self.behind.set(true)
        }
        true
    }
}
