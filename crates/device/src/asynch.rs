//! Devices whose drivers wait.

use crate::context::OwnContext;
use crate::error::CallError;
use crate::restore::{ByValue, Call};
use crate::slot::Slot;
use nv_replay::nvmem::{Model, Plain, planted};

/// [`Restore`](crate::Restore) for drivers on `embedded-hal-async`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be restored after a power cut",
    label = "does not implement `nv_device::AsyncRestore`",
    note = "implement `AsyncRestore` for a type around the driver: name what the application wants of the device (`Context`), what the driver is built from (`Parts`), and build it in `restore`"
)]
#[allow(async_fn_in_trait)]
pub trait AsyncRestore: Sized {
    /// What the application wanted last.
    type Context: Plain + Copy;
    /// What the driver is built from. Its future may be dropped, so copy a part rather than move
    /// it, or put it back in every case.
    type Parts;
    /// The error of its calls.
    type Error;
    /// Builds the driver, and brings the device from any state to its context. **Errors**:
    /// those of the driver.
    async fn restore(parts: &mut Self::Parts, context: &Self::Context)
    -> Result<Self, Self::Error>;
    /// Gives back the parts that the driver owns.
    fn release(self, parts: &mut Self::Parts) {
        let _ = parts;
    }
}

/// A [`Device`](crate::Device) whose driver waits. A call whose future is dropped is like a power
/// cut of the device: its driver is taken out, and its context is not saved.
pub struct AsyncDevice<'m, D: AsyncRestore, M> {
    context: OwnContext<'m, D::Context, M>,
    slot: Slot<D, D::Parts>,
}

impl<'m, D: AsyncRestore, M: Model> AsyncDevice<'m, D, M> {
    /// A device whose driver is built when it is used for the first time.
    pub fn new(context: OwnContext<'m, D::Context, M>, parts: D::Parts) -> Self {
        let slot = Slot::new(parts);
        AsyncDevice { context, slot }
    }

    /// The committed context.
    pub fn context(&self) -> &D::Context {
        self.context.value()
    }

    /// Builds the driver, unless there is one: for devices whose state is seen outside.
    ///
    /// **Errors**: [`CallError::Restore`].
    pub async fn build(&mut self) -> Result<(), CallError<D::Error>> {
        if self.slot.driver.is_none() {
            let driver = D::restore(&mut self.slot.parts, self.context.value()).await;
            self.slot.driver = Some(driver.map_err(CallError::Restore)?);
        }
        Ok(())
    }

    /// Changes the context, and brings the device to it afterwards, if its driver is built: that is
    /// built again.
    ///
    /// **Power loss**: the old context or the new one. **Cost**: as for
    /// [`Device::change`](crate::Device::change). **Errors**: as there.
    pub async fn change<A: ByValue>(
        &mut self,
        args: A,
        change: fn(&mut D::Context, A),
    ) -> Result<(), CallError<D::Error>> {
        let mut context = *self.context.value();
        change(&mut context, args);
        self.context.save(context);
        if self.slot.driver.is_some() {
            self.slot.take_out(D::release);
            self.build().await?;
        }
        Ok(())
    }

    /// Makes a call, and saves its context if it has changed. `body` captures nothing; its data are
    /// `args`.
    ///
    /// **Power loss**, **Cost**: as for
    /// [`Device::at_least_once`](crate::Device::at_least_once). **Errors**: [`CallError`]. After
    /// an error, if `body` unwinds, and if the future is dropped, the driver is taken out.
    ///
    /// ```
    /// use nv_device::nvmem::InOrder32;
    /// use nv_device::{AsyncDevice, AsyncRestore, CallError};
    /// # use core::future::Future;
    /// # use core::task::{Context, Waker};
    /// # struct Lamp;
    /// # impl AsyncRestore for Lamp {
    /// #     type Context = u8;
    /// #     type Parts = ();
    /// #     type Error = ();
    /// #     async fn restore(_: &mut (), _: &u8) -> Result<Self, ()> { Ok(Lamp) }
    /// # }
    /// type Lamps<'m> = AsyncDevice<'m, Lamp, InOrder32>;
    ///
    /// async fn count(lamp: &mut Lamps<'_>) -> Result<u32, CallError<()>> {
    ///     lamp.at_least_once(3, async |_lamp, calls: u32| Ok(calls + 1)).await
    /// }
    /// # let _: fn(&mut Lamps<'_>) = |lamp| {
    /// #     let mut f = core::pin::pin!(count(lamp));
    /// #     let _ = f.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// # };
    /// ```
    ///
    /// A body that captures does not compile:
    ///
    /// ```compile_fail
    /// use nv_device::nvmem::InOrder32;
    /// use nv_device::{AsyncDevice, AsyncRestore, CallError};
    /// # use core::future::Future;
    /// # use core::task::{Context, Waker};
    /// # struct Lamp;
    /// # impl AsyncRestore for Lamp {
    /// #     type Context = u8;
    /// #     type Parts = ();
    /// #     type Error = ();
    /// #     async fn restore(_: &mut (), _: &u8) -> Result<Self, ()> { Ok(Lamp) }
    /// # }
    /// type Lamps<'m> = AsyncDevice<'m, Lamp, InOrder32>;
    ///
    /// async fn count(lamp: &mut Lamps<'_>) -> Result<u32, CallError<()>> {
    ///     let mut calls = 3;
    ///     lamp.at_least_once((), async |_lamp, ()| { calls += 1; Ok(()) }).await?; // captured
    ///     Ok(calls)
    /// }
    /// # let _: fn(&mut Lamps<'_>) = |lamp| {
    /// #     let mut f = core::pin::pin!(count(lamp));
    /// #     let _ = f.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// # };
    /// ```
    pub async fn at_least_once<A: ByValue, O, F>(
        &mut self,
        args: A,
        body: F,
    ) -> Result<O, CallError<D::Error>>
    where
        F: AsyncFnOnce(&mut Call<'_, D, D::Context>, A) -> Result<O, D::Error>,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "the body of a device's call captures nothing: pass what it needs by value, as an argument"
            )
        };
        self.build().await?;
        let mut context = *self.context.value();
        let mut in_use = self.slot.enter(D::release);
        if planted!("nv-device/dropped-future-keeps-driver") {
            in_use.keep_always();
        }
        let driver = in_use.driver().ok_or(CallError::Busy)?;
        let mut call = Call::new(driver, &mut context);
        let o = body(&mut call, args).await.map_err(CallError::Driver)?;
        if call.changed() {
            self.context.save(context);
        }
        in_use.succeeded();
        Ok(o)
    }
}
