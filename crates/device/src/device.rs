//! Devices whose context commits by itself.

use crate::context::OwnContext;
use crate::error::CallError;
use crate::restore::{ByValue, Call, Keyed, Once, Restore};
use crate::slot::Slot;
use nv_replay::nvmem::{Model, planted};

/// A device whose context commits by itself: with the end of the call that changes it.
///
/// A program without steps uses it directly. In a program with steps it lives in the runtime's
/// environment, and its calls are inputs: `rt.input(|env| env.sensor.at_least_once(…))`. If a cut
/// comes between the commit of the context and the input's record, the input is read again: so its
/// call sets a value, and does not add to one. A device whose context must change together with the
/// program's data is a [`StagedDevice`](crate::StagedDevice).
///
/// ```
/// use nv_device::{Apply, Committed, Device, Own, Restore, open};
/// use nv_device::nvmem::{InOrder32, Region};
/// # use core::cell::Cell;
/// # use core::convert::Infallible;
/// # #[derive(Default)] struct Port(Cell<u8>);
/// # impl Port { fn write(&self, v: u8) { self.0.set(v) } }
///
/// /// Eight lamps at a port. Its parts are borrowed, so `release` has nothing to do.
/// struct Lamps<'p>(&'p Port);
/// impl<'p> Restore for Lamps<'p> {
///     type Context = u8;
///     type Parts = &'p Port;
///     type Error = Infallible;
///     fn restore(port: &mut &'p Port, lit: &u8) -> Result<Self, Infallible> {
///         port.write(*lit);
///         Ok(Lamps(*port))
///     }
///     fn apply(&mut self, lit: &u8) -> Result<Apply, Infallible> {
///         self.0.write(*lit);
///         Ok(Apply::Done)
///     }
/// }
///
/// fn boot(memory: Region<'_, InOrder32>, port: &Port) -> Result<(), Box<dyn std::error::Error>> {
///     let (lit,) = open::<(Own<u8>,), _>(memory, Committed::NOTHING, (0,))?;
///     let mut lamps = Device::<Lamps, _>::eager(lit, port)?;          // as they were
///     lamps.change(3, |lit, lamp| *lit ^= 1 << lamp)?;                // stored, then shown
///     Ok(())
/// }
/// # let mut fram = [const { core::mem::MaybeUninit::new(0u64) }; 32];
/// # let port = Port::default();
/// # boot(Region::new(&mut fram), &port)?;
/// # assert_eq!(port.0.get(), 8);
/// # let port = Port::default();
/// # boot(Region::new(&mut fram), &port)?;
/// # assert_eq!(port.0.get(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Device<'m, D: Restore, M> {
    pub(crate) context: OwnContext<'m, D::Context, M>,
    pub(crate) slot: Slot<D, D::Parts>,
}

impl<'m, D: Restore, M: Model> Device<'m, D, M> {
    /// A device whose driver is built when it is used for the first time.
    pub fn new(context: OwnContext<'m, D::Context, M>, parts: D::Parts) -> Self {
        let slot = Slot::new(parts);
        Device { context, slot }
    }

    /// A device whose driver is built now, and again at once after an error: for devices whose
    /// state is seen outside.
    ///
    /// **Errors**: [`CallError::Restore`].
    pub fn eager(
        context: OwnContext<'m, D::Context, M>,
        parts: D::Parts,
    ) -> Result<Self, CallError<D::Error>> {
        let mut device = Device::new(context, parts);
        device.slot.eager = true;
        device.slot.build(device.context.value())?;
        Ok(device)
    }

    /// The committed context.
    pub fn context(&self) -> &D::Context {
        self.context.value()
    }

    /// The driver, restored: to build others on it, for example those of the devices on a bus. As
    /// long as they live, no call changes this device.
    ///
    /// **Errors**: [`CallError::Restore`].
    pub fn up(&mut self) -> Result<&D, CallError<D::Error>> {
        self.slot.build(self.context.value())?;
        self.slot.driver.as_ref().ok_or(CallError::Busy)
    }

    /// Changes the context, and brings the device to it afterwards: the outside sees only what is
    /// committed. If the driver is not built and the device is not eager, the next use does that.
    ///
    /// **Power loss**: the old context or the new one. **Cost**: one store for a context of one
    /// unit; else one for each unit, and one. **Errors**: [`CallError::Restore`], if the device
    /// does not follow: then the change is committed.
    #[inline(always)]
    pub fn change<A: ByValue>(
        &mut self,
        args: A,
        change: fn(&mut D::Context, A),
    ) -> Result<(), CallError<D::Error>> {
        let mut context = *self.context.value();
        change(&mut context, args);
        if planted!("nv-device/own-output-before-commit") {
            self.slot.follow(&context)?;
        }
        self.context.save(context);
        self.slot.follow_alone(&context)
    }

    /// Makes a call, and saves its context if it has changed: once, when this outermost call
    /// returns. The device acts before the commit.
    ///
    /// **Power loss**: the call is made again as a whole, when the program comes to it again. The
    /// outside may see it twice; [`Device::once`] does not make it twice. **Cost**: as
    /// [`Device::change`], if the context has changed. **Errors**: [`CallError`]. After an error,
    /// and if `body` unwinds, the driver is taken out and built again from its committed context.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn at_least_once<A: ByValue, O>(
        &mut self,
        args: A,
        body: fn(&mut Call<'_, D, D::Context>, A) -> Result<O, D::Error>,
    ) -> Result<O, CallError<D::Error>> {
        let done = self.run(|call| body(call, args));
        self.ended(done)
    }

    /// Makes a call exactly once: asks the device first whether it has carried out the call of
    /// this key. If so, the driver follows the advanced context, because it was built from the
    /// context before the call.
    ///
    /// Once for each change of the context, which is not a record of the program. A program with
    /// steps uses [`StagedDevice::once`](crate::StagedDevice::once): an input that was cut after
    /// the commit of this context is read again, and would make the next call.
    ///
    /// **Power loss**: the device is asked again. **Cost**, **Errors**: as for
    /// [`Device::at_least_once`].
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn once<A: ByValue, O>(
        &mut self,
        args: A,
        body: fn(&mut Call<'_, D, D::Context>, D::Key, A) -> Result<O, D::Error>,
    ) -> Result<Once<O>, CallError<D::Error>>
    where
        D: Keyed,
    {
        let done = self.run(|call| keyed(call, |call, key| body(call, key, args)));
        if matches!(done, Ok(Once::DoneBefore)) && !planted!("nv-device/own-done-not-followed") {
            // If it fails, the driver is out, and the next use builds it.
            let _ = self.slot.follow_alone(self.context.value());
        }
        self.ended(done)
    }

    #[inline(always)]
    fn run<O>(
        &mut self,
        body: impl FnOnce(&mut Call<'_, D, D::Context>) -> Result<O, D::Error>,
    ) -> Result<O, CallError<D::Error>> {
        self.slot.build(self.context.value())?;
        let mut context = *self.context.value();
        let mut in_use = self.slot.enter(D::release);
        let driver = in_use.driver().ok_or(CallError::Busy)?;
        let mut call = Call::new(driver, &mut context);
        let o = body(&mut call).map_err(CallError::Driver)?;
        if call.changed() {
            self.context.save(context);
        }
        in_use.succeeded();
        Ok(o)
    }

    #[inline(always)]
    fn ended<O>(&mut self, done: Result<O, CallError<D::Error>>) -> Result<O, CallError<D::Error>> {
        if let Err(CallError::Driver(_)) = done {
            self.slot.rebuild(self.context.value());
        }
        done
    }
}

// INVARIANT "Asked first": an exact call acts only if the device does not name its key, and one
// such call is in a step.
// Noticed by: planted `device-not-asked`, `two-once-in-a-step`.

/// Makes the call of the next key, unless the device has carried it out.
pub(crate) fn keyed<D: Keyed, O>(
    call: &mut Call<'_, D, D::Context>,
    body: impl FnOnce(&mut Call<'_, D, D::Context>, D::Key) -> Result<O, D::Error>,
) -> Result<Once<O>, D::Error> {
    let key = D::next(call.context());
    let mut before = call.driver().last()? == key;
    if planted!("nv-device/device-not-asked") {
        before = false;
    }
    let done = if before {
        Once::DoneBefore
    } else {
        Once::Done(body(call, key)?)
    };
    D::advance(call.context_mut(), key);
    Ok(done)
}
