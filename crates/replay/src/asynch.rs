//! Durable async: tasks whose `await`s survive a power cut.
//!
//! A task is an `async fn` that has the runtime as its argument. After a boot it runs again from
//! its top. Calls that are in the table return at once, so the task soon waits at the `await` that
//! the cut had interrupted:
//!
//! ```text
//!              record_async(adc)        step            sleep(.., 60)      record_async(reply)
//! before cut   waits | recorded         committed       deadline pinned, waits ... cut
//! after cut    recorded: returns        bypassed        waits for what is left      waits
//! ```
//!
//! The rules are those of the blocking calls, and nothing more is stored. What a future does
//! between two polls is volatile: a cut, or dropping the future, takes the task back to its last
//! record.
//!
//! | the future is dropped, or the power is cut | then |
//! |---|---|
//! | while an input waits | it is not recorded, and read again |
//! | while a sleep waits | a surviving clock: the rest is waited for; another: the whole sleep |
//! | while a message is sent | it is sent again after a cut, with the same number |
//! | in an iteration of a loop | the runtime stops ([`Error::Cancelled`]); the next open goes on here |
//!
//! Safe because no `await` lies inside of a transaction: an input is read before its transaction
//! begins, and a message is sent after its commit. The runtime is mutably borrowed while a call
//! waits, so nobody else moves its cursor. The state of a loop is borrowed across the `await` of
//! its body, so it has one address as long as the loop runs (invariant "A loop's own runtime").

use crate::access::PoolAccess;
use crate::call::Named;
use crate::each::{ENDLESS, Loop, LoopGuard};
use crate::error::{Error, Mismatch};
use crate::open::Replay;
use crate::outbox::{Message, NotNow, Outlet};
use crate::signature::{Name, call_hash, kind, loop_args_hash, loop_hash};
use crate::table::Table;
use core::convert::Infallible;
use core::ops::Range;
use nvmem::cross::Ret;
use nvmem::{Model, Persist, planted};
use pmem_tx::Width;

/// The clock by which a task sleeps. Ticks are of any length; `u64`, so that they do not wrap.
///
/// ```
/// use nv_replay::nvmem::{InOrder32, Region};
/// use nv_replay::{Clock, Error, Options, Replay};
///
/// struct Rtc; // a clock with a battery
/// impl Clock for Rtc {
///     const SURVIVES: bool = true;
/// #   fn now(&mut self) -> u64 { 7 }
/// #   async fn until(&mut self, _: u64) {}
/// # }
/// # #[cfg(any())]
/// # impl Clock for Rtc {
///     fn now(&mut self) -> u64 { /* read its counter */ }
///     async fn until(&mut self, at: u64) { /* set its alarm, and wait */ }
/// }
/// async fn adc() -> u32 {
///     20 // waits for a conversion
/// }
///
/// async fn node(rt: &mut Replay<'_, u32>) -> Result<u32, Error> {
///     rt.each_async(0..24, async |rt, _hour| {
///         rt.sleep(Rtc, 3600).await?; // after a cut, only the rest
///         let x = rt.record_async(adc).await?; // read once
///         rt.step(x, |tx, sum, x| {
///             *sum.get_mut(tx)? += x;
///             Ok(())
///         })?;
///         Ok(())
///     })
///     .await?;
///     Ok(rt.step((), |tx, sum, ()| Ok(*sum.get(tx)))?)
/// }
/// # let mut fram = vec![std::mem::MaybeUninit::new(0); 512];
/// # let region = Region::<InOrder32>::new(&mut fram);
/// # let mut rt = Replay::<u32>::open(region, Options::default(), |_| Ok(0)).map_err(|r| r.error)?;
/// # let mut task = std::pin::pin!(node(&mut rt));
/// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// # assert_eq!(task.as_mut().poll(&mut context), std::task::Poll::Ready(Ok(480)));
/// # Ok::<(), nv_replay::OpenError>(())
/// ```
pub trait Clock {
    /// Whether [`now`](Clock::now) goes on while the power is off, as that of a clock with a
    /// battery does. If not, a sleep that a cut interrupts begins again: it lasts *at least* as
    /// long as asked for.
    const SURVIVES: bool;
    /// The present instant, in ticks. Must not run backwards; if the clock survives, not over a
    /// power cut either.
    fn now(&mut self) -> u64;
    /// Waits until [`now`](Clock::now) has reached `at`. May be dropped while it waits.
    #[allow(async_fn_in_trait)] // The caller knows the clock's type, and so whether it is `Send`.
    async fn until(&mut self, at: u64);
}

impl<C: Clock> Clock for &mut C {
    const SURVIVES: bool = C::SURVIVES;
    fn now(&mut self) -> u64 {
        (**self).now()
    }
    async fn until(&mut self, at: u64) {
        (**self).until(at).await
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Like [`Replay::record_with`], for an input that must be waited for: `rt.record_async(adc)`
    /// with an `async fn adc() -> u16`. A replay returns the recorded value without a wait.
    ///
    /// The first of several inputs is one input: put the whole `select` into `read`.
    ///
    /// **Power loss**: the value is recorded, or the input is read again. Dropping the future has
    /// the same effect. **Cost** and **Errors**: those of [`Replay::record_with`].
    #[track_caller]
    pub fn record_async<O>(
        &mut self,
        read: impl AsyncFnOnce() -> O,
    ) -> impl Future<Output = Result<O, Error>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<(), O>(kind::INPUT, Name::NONE));
        self.input_async_named(Name::NONE, async |_| read().await)
    }

    /// Like [`Replay::input`], for an input of a driver in the environment that must be waited
    /// for: `rt.input_async(async |drivers| drivers.radio.receive().await)`.
    ///
    /// **Power loss**, **Cost** and **Errors**: those of [`Replay::record_async`].
    #[track_caller]
    pub fn input_async<O>(
        &mut self,
        read: impl AsyncFnOnce(&mut E) -> O,
    ) -> impl Future<Output = Result<O, Error>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<(), O>(kind::INPUT, Name::NONE));
        self.input_async_named(Name::NONE, read)
    }

    pub(crate) async fn input_async_named<O>(
        &mut self,
        name: Name,
        read: impl AsyncFnOnce(&mut E) -> O,
    ) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        // The transaction of the record begins only when the value is there.
        let mut value = None;
        if !self.replaying() || planted!("nv-replay/async-input-read-in-replay") {
            self.check_running()?;
            if !planted!("nv-replay/async-input-before-its-step") {
                self.saved_async(false).await?;
            }
            value = Some(read(&mut self.env).await);
        }
        self.input_named(name, move || value)
    }

    /// Waits for `ticks` of the clock.
    ///
    /// With a clock that [survives](Clock::SURVIVES) the deadline is recorded: after a power cut
    /// only the rest is waited for. With another one the end of the sleep is recorded: after a cut
    /// it lasts as long again. A sleep that is over is not waited for in a replay.
    ///
    /// **Power loss**: as above. **Cost**: one record, of 8 bytes or of none. **Errors**: those of
    /// [`Replay::record_with`].
    #[track_caller]
    pub fn sleep<C: Clock>(
        &mut self,
        clock: C,
        ticks: u64,
    ) -> impl Future<Output = Result<(), Error>> {
        let id = if C::SURVIVES {
            call_hash::<(), u64>(kind::INPUT, Name::NONE)
        } else {
            call_hash::<(), ()>(kind::INPUT, Name::NONE)
        };
        self.twins.note(id);
        self.sleep_named(Name::NONE, clock, ticks)
    }

    async fn sleep_named<C: Clock>(
        &mut self,
        name: Name,
        mut clock: C,
        ticks: u64,
    ) -> Result<(), Error> {
        if C::SURVIVES && !planted!("nv-replay/deadline-not-pinned") {
            let at = clock.now().saturating_add(ticks);
            let at = self.input_named(name, || Some(at))?;
            self.saved_async(false).await?;
            clock.until(at).await;
            return Ok(());
        }
        self.input_async_named(name, async |_| {
            let at = clock.now().saturating_add(ticks);
            clock.until(at).await
        })
        .await
    }

    /// Sends the messages that wait by an outlet that must be waited for, oldest first. An
    /// [`Outlet`] whose `send` always says [`NotNow`] leaves all messages to this call:
    ///
    /// `rt.drain_async(async |drivers, message| drivers.radio.send(message.bytes).await).await?`
    ///
    /// Until it has been called, messages stay in the outbox, which must have room for them: call
    /// it at the end of each iteration, and once before the first.
    ///
    /// **Power loss**: a message that was sent may be sent again, with the same number, until all
    /// are sent. If the future is dropped, those that were sent are not sent again in this boot.
    /// **Cost**: one or two stores when all are sent; before that a save, if there is a mirror.
    /// **Errors**: `send` has refused a message: it and those after it are kept; the save has
    /// failed; or the runtime has stopped while messages wait.
    pub async fn drain_async(
        &mut self,
        mut send: impl AsyncFnMut(&mut E, &Message<'_>) -> Result<(), NotNow>,
    ) -> Result<(), NotNow> {
        if self.resend.is_none() {
            return Ok(());
        }
        if self.check_running().is_err() {
            return Err(NotNow);
        }
        if !planted!("nv-replay/drained-unsaved") {
            self.saved_async(true).await.map_err(|_| NotNow)?;
        }
        if planted!("nv-replay/async-marked-before-sent") {
            self.table.kept_are_sent();
        }
        while let Some(message) = self.table.kept_message(self.sent) {
            send(&mut self.env, &message).await?;
            self.sent += 1;
        }
        self.table.kept_are_sent();
        (self.sent, self.resend) = (0, None);
        Ok(())
    }

    /// Like [`Replay::each`], with an `async` body: an `async fn`, or an `async` closure that
    /// captures nothing. A body that captures is refused when the program is built: drivers come
    /// from the [environment](Replay::env), and data from persistent objects.
    ///
    /// ```compile_fail
    /// # use nv_replay::{Error, Replay};
    /// async fn node(rt: &mut Replay<'_, u32>) -> Result<(), Error> {
    ///     let seen = core::cell::Cell::new(0);
    ///     rt.each_async(0..9, async |_, i| Ok(seen.set(i))).await // captures `seen`
    /// }
    /// # let mut fram = [core::mem::MaybeUninit::new(0); 64];
    /// # let region = nv_replay::nvmem::Region::new(&mut fram);
    /// # let mut rt = Replay::<u32>::open(region, Default::default(), |_| Ok(0)).unwrap();
    /// # let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    /// # let _ = core::pin::pin!(node(&mut rt)).poll(&mut context);
    /// ```
    ///
    /// **Power loss**: an iteration is complete, or continues after its last record. If the future
    /// is dropped inside of an iteration, the runtime stops until the next open. **Cost**: that of
    /// [`Replay::each`]. **Errors**: those of [`Replay::each`]; [`Error::Cancelled`] for each call
    /// after a future was dropped, or a panic has left it.
    #[track_caller]
    pub fn each_async<F>(
        &mut self,
        range: Range<u32>,
        body: F,
    ) -> impl Future<Output = Result<(), Error>>
    where
        F: AsyncFn(&mut Self, u32) -> Result<(), Error>,
    {
        self.twins.note(loop_hash::<()>(kind::LOOP, Name::NONE));
        self.each_async_named(Name::NONE, range, body)
    }

    /// Like [`Replay::forever`], with an `async` body as in [`Replay::each_async`].
    ///
    /// **Power loss**, **Cost**, **Errors**: as there and for [`Replay::forever`].
    #[track_caller]
    pub fn forever_async<F>(&mut self, body: F) -> impl Future<Output = Result<Infallible, Error>>
    where
        F: AsyncFn(&mut Self, u32) -> Result<(), Error>,
    {
        self.twins.note(loop_hash::<()>(kind::ENDLESS, Name::NONE));
        self.forever_async_named(Name::NONE, body)
    }

    pub(crate) async fn each_async_named<F>(
        &mut self,
        name: Name,
        range: Range<u32>,
        body: F,
    ) -> Result<(), Error>
    where
        F: AsyncFn(&mut Self, u32) -> Result<(), Error>,
    {
        if range.is_empty() {
            return self.check_running();
        }
        let id = Table::<M>::id(
            loop_hash::<()>(kind::LOOP, name),
            loop_args_hash(&(), range.start, range.end),
        );
        let mut l = Loop::new(id, range.end - range.start);
        self.iterate(&mut l, range.start, body).await
    }

    pub(crate) async fn forever_async_named<F>(
        &mut self,
        name: Name,
        body: F,
    ) -> Result<Infallible, Error>
    where
        F: AsyncFn(&mut Self, u32) -> Result<(), Error>,
    {
        let id = Table::<M>::id(
            loop_hash::<()>(kind::ENDLESS, name),
            loop_args_hash(&(), 0, 0),
        );
        let mut l = Loop::new(id, ENDLESS);
        self.iterate(&mut l, 0, body).await?;
        // The record says that an endless loop has ended: it belongs to another loop.
        Err(self.untyped().diverged(Mismatch::Kind))
    }

    async fn iterate<F>(&mut self, l: &mut Loop, first: u32, body: F) -> Result<(), Error>
    where
        F: AsyncFn(&mut Self, u32) -> Result<(), Error>,
    {
        const {
            assert!(
                size_of::<F>() == 0,
                "the body of a durable loop captures a value. A power cut would lose it: take \
                 drivers from `rt.env()` or `rt.input_async`, and keep data in persistent objects"
            )
        }
        self.untyped().enter_loop(l)?;
        while l.running {
            let mut inside = LoopGuard {
                rt: self,
                reason: Error::Cancelled,
            };
            let r = body(inside.rt, first.wrapping_add(l.iteration)).await;
            if r.is_err() {
                inside.reason = Error::LoopInterrupted;
                return r;
            }
            let ended = inside.rt.untyped().end_iteration(l);
            if let Some(Err(e)) = ended {
                core::mem::forget(inside);
                return Err(e);
            }
            // Dropped here, the runtime stops too: it stands in the next iteration.
            if planted!("nv-replay/dropped-save-goes-on") {
                core::mem::forget(inside);
                self.saved_async(false).await?;
                continue;
            }
            let saved = inside.rt.saved_async(false).await;
            core::mem::forget(inside);
            saved?;
            if ended.is_some() {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Named<'_, 'm, R, M, E, P>
where
    M::Unit: Width,
{
    /// [`Replay::record_async`] with this name. **Errors**: as there.
    pub async fn record_async<O>(self, read: impl AsyncFnOnce() -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let read = async |_: &mut E| read().await;
        self.rt.input_async_named(self.name, read).await
    }

    /// [`Replay::input_async`] with this name. **Errors**: as there.
    pub async fn input_async<O>(self, read: impl AsyncFnOnce(&mut E) -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.input_async_named(self.name, read).await
    }

    /// [`Replay::sleep`] with this name. **Errors**: as there.
    pub async fn sleep<C: Clock>(self, clock: C, ticks: u64) -> Result<(), Error> {
        self.rt.sleep_named(self.name, clock, ticks).await
    }

    /// [`Replay::each_async`] with this name. **Errors**: as there.
    pub async fn each_async<F>(self, range: Range<u32>, body: F) -> Result<(), Error>
    where
        F: AsyncFn(&mut Replay<'m, R, M, E, P>, u32) -> Result<(), Error>,
    {
        self.rt.each_async_named(self.name, range, body).await
    }

    /// [`Replay::forever_async`] with this name. **Errors**: as there.
    pub async fn forever_async<F>(self, body: F) -> Result<Infallible, Error>
    where
        F: AsyncFn(&mut Replay<'m, R, M, E, P>, u32) -> Result<(), Error>,
    {
        self.rt.forever_async_named(self.name, body).await
    }
}
