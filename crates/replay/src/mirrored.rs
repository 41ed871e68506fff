//! A runtime over a mirror: its region lies in RAM, and a saver keeps it on a medium.
//!
//! ```text
//! step: body -> prepared -> header stored (committed in RAM)
//!                              |
//!                              v   `committed`: saves if that is due (each commit, every n)
//!                           save before output, if the step has messages or some wait
//!                              |   failed: the runtime stops, nothing is sent
//!                              v
//!                           messages leave, marked as sent in RAM
//! ```
//!
//! A commit is a store to RAM, so until a save a power cut takes it back. That is sound, because
//! nobody has seen it: the save comes before anything is seen outside ("output commit"). Each save
//! holds the region as it was at one instant, as if the power had been cut there. So what the next
//! boot finds is a state that recovery knows, and it is not older than what was seen.
//!
//! | cut | the next boot finds |
//! |---|---|
//! | before the save | an earlier commit; nothing of the later ones was seen outside |
//! | in the save | the last save or this one; no message of this one has left |
//! | after the save, before the messages are sent | they are pending: saved again, then sent |
//! | after they are sent | the same: the mark lies in RAM, so they are sent again, with their numbers |
//!
//! | fault | what happens |
//! |---|---|
//! | the medium fails in a save | [`Error::Medium`]; no message leaves; the runtime stops |
//! | the medium fails at open, while messages wait | [`OpenError::Medium`]; none is sent |
//! | the saver has another region | as a failing medium; [`Replay::failure`] says which |
//! | a driver of the medium panics in a save | the runtime stops, as after a panic of an outlet |
//! | a save's future is dropped | as a power cut for the medium; what waits goes on waiting |
//!
//! A turn of a loop changes only the counter of the loop, and it is repeated from the records of
//! the iteration. So a turn is not saved by itself.
//!
//! With an async medium a commit cannot wait for its save. So messages are kept in the outbox until
//! `drain_async` has saved them.
//!
//! Choices: a type parameter, not `Option<&mut dyn Medium>`: that costs every program 90 bytes, and
//! async media are not dyn-compatible. The trait `Save` lies in `nvmem`, so that neither this crate
//! nor `nv-mirror` needs the other. The save is in the commit path, not in the outlet: an outlet
//! has no access to the region, and each program would have to remember it. With an async medium
//! messages wait, instead of an error for a commit while output waits: the outbox is a queue
//! already. Threads share a saver around any lock of the program, as for keys, so there is no trait
//! for locks. A save copies what changed to the shadow and writes from there: it is one instant,
//! also if other tasks commit while an async medium is written, and interrupts are off only while
//! it copies. The changes are 16 runs of words, of which the last spans the rest, not a bit for
//! each word.

use crate::access::{OwnsPool, PoolAccess};
use crate::error::{Error, OpenError, OpenFailure};
use crate::open::{Options, Replay};
use crate::outbox::{AnyOutlet, Outlet};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
#[cfg(feature = "async")]
use nvmem::at_rest::AsyncSave;
use nvmem::at_rest::{AtRest, RestingRegion, Save};
use nvmem::cross::Ret;
use nvmem::{InOrder32, Model, Persist, Ram, Region, planted};
use pmem_tx::{Context, Pool, Tx, Width};

/// A program over a mirror: a [`Replay`] whose region lies in RAM, and is kept on a medium by a
/// saver `S`, such as `nv_mirror::Mirror`. See [`Replay::open_mirrored`].
pub type MirroredReplay<'m, R, S, M = InOrder32, E = AnyOutlet<'m>> =
    Replay<'m, R, Ram<M>, E, Mirrored<Pool<'m, R, Ram<M>>, S>>;

/// The same, with an async medium: see [`Replay::open_mirrored_async`].
#[cfg(feature = "async")]
pub type AsyncMirroredReplay<'m, R, S, M = InOrder32, E = AnyOutlet<'m>> =
    Replay<'m, R, Ram<M>, E, AsyncMirrored<Pool<'m, R, Ram<M>>, S>>;

/// A runtime's pool in a region that a saver `S` keeps on a medium.
#[repr(transparent)]
pub struct Mirrored<P, S: Save>(Parts<P, S, S::Error>);

/// A runtime's pool in a region that a saver `S` keeps on a medium with an async driver.
#[cfg(feature = "async")]
#[repr(transparent)]
pub struct AsyncMirrored<P, S: AsyncSave>(Parts<P, S, S::Error>);

// Of one layout for all pools of one layout.
#[repr(C)]
pub(crate) struct Parts<P, S, F> {
    pool: P,
    saver: S,
    /// Why the last save failed.
    failure: Option<F>,
    /// Bytes of the region before the pool, and in all.
    before: usize,
    len: usize,
}

// INVARIANT "At rest between calls": a saver sees the region of a runtime only between two
// transactions of it, while the runtime is borrowed mutably. Journals are left out only if no
// context has an open transaction (`Context::resting` of `pmem-tx`). Threads that preempt are
// excluded meanwhile.
// Noticed by: planted `rest-without-offset`, and `rest-ignores-others`, `rest-ignores-open` of
// `pmem-tx`; tests/suite/mirrored.rs (`faults`).
/// The region of a runtime, between two transactions: what [`Replay::save_by`] lends to a saver.
pub struct Owner<'a, R, M, P> {
    pool: &'a mut P,
    before: usize,
    len: usize,
    _types: PhantomData<fn() -> (R, M)>,
}

impl<R, M, P> Owner<'_, R, M, P> {
    fn whole(before: usize, len: usize, mut region: RestingRegion) -> RestingRegion {
        // The pool's pointer was made from that of the region.
        region.base = region.base.wrapping_sub(before);
        region.len = len;
        if planted!("nv-replay/rest-without-offset") {
            return region;
        }
        if !region.scratch.is_empty() {
            region.scratch = region.scratch.start + before..region.scratch.end + before;
        }
        region
    }
}

// SAFETY: invariants "At rest between calls" and "Saved bytes have values": the owner is lent
// between two transactions, by the runtime, which is borrowed mutably. Tables and outbox are read
// and written by runtimes only, in whole units; the model of the region is `Ram`.
unsafe impl<R: Persist, M: Model, P: PoolAccess<R, Ram<M>>> AtRest for Owner<'_, R, Ram<M>, P>
where
    M::Unit: Width,
{
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        let (before, len) = (self.before, self.len);
        self.pool.resting(|r| f(Self::whole(before, len, r)))
    }
}

impl<P, S: Save> Mirrored<P, S> {
    pub(crate) fn new(pool: P, saver: S, before: usize, len: usize) -> Self {
        Mirrored(Parts::new(pool, saver, before, len))
    }
}

#[cfg(feature = "async")]
impl<P, S: AsyncSave> AsyncMirrored<P, S> {
    pub(crate) fn new(pool: P, saver: S, before: usize, len: usize) -> Self {
        AsyncMirrored(Parts::new(pool, saver, before, len))
    }
}

impl<P, S, F> Parts<P, S, F> {
    fn new(pool: P, saver: S, before: usize, len: usize) -> Self {
        Parts {
            pool,
            saver,
            failure: None,
            before,
            len,
        }
    }

    fn split<R: Persist, M: Model>(&mut self) -> (&mut S, Owner<'_, R, M, P>, &mut Option<F>)
    where
        M::Unit: Width,
        P: PoolAccess<R, M>,
    {
        let owner = Owner {
            pool: &mut self.pool,
            before: self.before,
            len: self.len,
            _types: PhantomData,
        };
        (&mut self.saver, owner, &mut self.failure)
    }
}

/// Keeps the error for [`Replay::failure`].
fn failed<F>(r: Result<(), F>, failure: &mut Option<F>) -> Result<(), Error> {
    r.map_err(|e| {
        *failure = Some(e);
        Error::Medium
    })
}

macro_rules! pool_methods {
    () => {
        const MIRRORED: bool = true;
        #[inline(always)]
        fn context(&mut self) -> Context<'_, R, Ram<M>> {
            self.0.pool.context()
        }
        #[inline(always)]
        fn session(&self) -> u32 {
            self.0.pool.session()
        }
        #[inline(always)]
        fn adopt_unspent<O: Ret>(
            &mut self,
            bytes: &[u8],
            spent: &mut dyn FnMut(u32) -> bool,
        ) -> Result<O, pmem_tx::Error> {
            self.0.pool.adopt_unspent(bytes, spent)
        }
        #[inline(always)]
        fn all_passed(&mut self) {
            self.0.pool.all_passed()
        }
        #[inline(always)]
        fn restarted(&mut self) -> Result<(), pmem_tx::OpenError> {
            self.0.pool.restarted()
        }
        fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
            self.0.pool.resting(f)
        }
    };
}

// SAFETY: the context and the numbers are those of the pool inside, and only that has a root.
unsafe impl<R: Persist, M: Model, P: PoolAccess<R, Ram<M>>, S: Save> PoolAccess<R, Ram<M>>
    for Mirrored<P, S>
where
    M::Unit: Width,
{
    type Untyped = Mirrored<P::Untyped, S>;
    type AnyRoot = P::AnyRoot;
    pool_methods!();
    fn committed(&mut self) -> Result<(), Error> {
        let (saver, mut owner, failure) = self.0.split();
        failed(saver.committed(&mut owner), failure)
    }
    // INVARIANT "Found is durable": over a blocking mirror that saves each commit, no call returns
    // what a cut may take back, also not what the open has found on flash.
    // Noticed by: `generated::each_commit_on_flash`; planted `found-is-not-saved`.
    fn save_found(&mut self) -> Result<(), OpenError> {
        if planted!("nv-replay/found-is-not-saved") {
            return Ok(());
        }
        let (saver, mut owner, failure) = self.0.split();
        failed(saver.durable_if_due(&mut owner), failure).map_err(|_| OpenError::Medium)
    }
    fn durable(&mut self) -> Result<(), Error> {
        let (saver, mut owner, failure) = self.0.split();
        failed(saver.durable(&mut owner), failure)
    }
}

// SAFETY: the context and the numbers are those of the pool inside, and only that has a root.
#[cfg(feature = "async")]
unsafe impl<R: Persist, M: Model, P: PoolAccess<R, Ram<M>>, S: AsyncSave> PoolAccess<R, Ram<M>>
    for AsyncMirrored<P, S>
where
    M::Unit: Width,
{
    type Untyped = AsyncMirrored<P::Untyped, S>;
    type AnyRoot = P::AnyRoot;
    pool_methods!();
    const OUTPUT_WAITS: bool = true;
    fn committed(&mut self) -> Result<(), Error> {
        self.0.saver.count_commit();
        Ok(())
    }
    async fn durable_async(&mut self, output: bool) -> Result<(), Error> {
        let (saver, mut owner, failure) = self.0.split();
        let saved = if output {
            saver.durable(&mut owner).await
        } else {
            saver.durable_if_due(&mut owner).await
        };
        failed(saved, failure)
    }
}

macro_rules! owns_pool {
    ($mirrored:ident, $save:ident) => {
        // SAFETY: the pool is a field of the one field, which has all others.
        unsafe impl<'m, R: Persist, M: Model, S: $save> OwnsPool<'m, R, Ram<M>>
            for $mirrored<Pool<'m, R, Ram<M>>, S>
        where
            M::Unit: Width,
        {
            type Saver = S;
            #[inline(always)]
            unsafe fn pool_in(place: *mut Self) -> *mut Pool<'m, R, Ram<M>> {
                // SAFETY: the caller's promise.
                unsafe { &raw mut (*place).0.pool }
            }
            #[inline(always)]
            unsafe fn write_rest(place: *mut Self, saver: S, before: usize, len: usize) {
                // SAFETY: the caller's promise.
                unsafe {
                    (&raw mut (*place).0.saver).write(saver);
                    (&raw mut (*place).0.failure).write(None);
                    (&raw mut (*place).0.before).write(before);
                    (&raw mut (*place).0.len).write(len);
                }
            }
            fn pool(&mut self) -> &mut Pool<'m, R, Ram<M>> {
                &mut self.0.pool
            }
        }
    };
}
owns_pool!(Mirrored, Save);
#[cfg(feature = "async")]
owns_pool!(AsyncMirrored, AsyncSave);

/// A runtime whose commits become durable at once, or by a blocking save. With an async medium use
/// [`Replay::durable_async`].
#[diagnostic::on_unimplemented(
    message = "this runtime's medium is async",
    note = "wait for it: `rt.durable_async().await`"
)]
pub trait Blocking {}
impl<R: Persist, M: Model> Blocking for Pool<'_, R, M> {}
impl<R: Persist, M: Model> Blocking for crate::Member<'_, R, M> {}
impl<P, S: Save> Blocking for Mirrored<P, S> {}

impl<'m, R: Persist, M: Model, E, S: Save> MirroredReplay<'m, R, S, M, E>
where
    M::Unit: Width,
{
    /// Opens a program in a region in RAM that `saver` keeps on a medium: for example an
    /// `nv_mirror::Mirror`, which has returned the region, or `&mut` to it. Otherwise like
    /// [`Replay::open_with`].
    ///
    /// From then on everything is saved before it is seen outside: before a message leaves, also
    /// here. The saver decides whether commits are saved before that. Before the program shows a
    /// commit or a recorded input in another way, for example through [`Replay::env`], it calls
    /// [`Replay::durable`]. The end of an iteration is not saved by itself: it is repeated from the
    /// iteration's records. Another operation that is [joined](Replay::step_join) to a step must
    /// lie in the same mirror: split the region, and wrap the mirror in
    /// [`nvmem::at_rest::Beside`].
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use nv_mirror::{Config, Mirror, nvmem::{InOrder32, ram::RamNor}};
    /// use nv_replay::Config as TableConfig;
    /// use nv_replay::{Error, Message, MirroredReplay, NotNow, Options, Outlet, Port};
    ///
    /// const RADIO: Port<u32> = Port::new(1);
    /// struct Radio(Vec<u32>);
    /// impl Outlet for Radio {
    ///     fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
    ///         self.0.extend(message.get(&RADIO).and_then(Result::ok)); // it is durable by now
    ///         Ok(())
    ///     }
    /// }
    /// type Flash = RamNor<4, 4096, 4>; // on a device: your driver, as an `nvmem::Medium`
    /// type Rt<'m> = MirroredReplay<'m, u32, Mirror<'m, &'m mut Flash>, InOrder32, Radio>;
    ///
    /// fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    ///     rt.each(0..3, |rt, i| {
    ///         rt.step(i, |tx, sum, i| {
    ///             *sum.get_mut(tx)? += i;
    ///             tx.send(&RADIO, *sum.get(tx))
    ///         })?;
    ///         Ok(())
    ///     })
    /// }
    ///
    /// let mut flash = Flash::new();
    /// let mut memory = [MaybeUninit::new(0); 2 * 128]; // the region of 1 KiB, and its shadow
    /// let all = 0..4 * 4096;
    /// let (mirror, region) =
    ///     Mirror::open_or_format::<InOrder32>(&mut flash, all, &Config::DEFAULT, &mut memory)?;
    /// let radio = Radio(Vec::new());
    /// let table = TableConfig { outbox_bytes: 32, ..TableConfig::SMALL };
    /// let options = Options { table, ..Options::default() };
    /// let mut rt = Rt::open_mirrored(region, mirror, options, radio, |_| Ok(0))
    ///     .map_err(|refused| refused.error)?;
    /// program(&mut rt)?;
    /// assert_eq!(rt.env().0, [0, 1, 3]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// **Power loss**: as for [`Replay::open`]. **Cost**: as there; a save if messages are pending.
    /// **Errors**: those of [`Replay::open`]; [`OpenError::Medium`]. An
    /// open that fails drops `saver` and `env`: pass `&mut` to keep them.
    pub fn open_mirrored<F>(
        region: Region<'m, Ram<M>>,
        saver: S,
        options: Options<'m>,
        env: E,
        init: F,
    ) -> Result<Self, OpenFailure<'m, Ram<M>>>
    where
        E: Outlet,
        F: for<'p> FnOnce(&Tx<'p, Ram<M>>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let mut place = MaybeUninit::uninit();
        Self::open_at(&mut place, region, options, env, saver, init)?;
        // SAFETY: invariant "Open in its place": `open_at` has written every field, and nothing
        // else refers to `place`.
        Ok(unsafe { place.assume_init() })
    }
}

#[cfg(feature = "async")]
impl<'m, R: Persist, M: Model, E, S: AsyncSave> AsyncMirroredReplay<'m, R, S, M, E>
where
    M::Unit: Width,
{
    /// Like [`Replay::open_mirrored`], for a medium with an async driver, such as
    /// `nv_mirror::asynch::Mirror`.
    ///
    /// A commit cannot wait for its save. So the [`Outlet`] gets no message: the outbox keeps all,
    /// and [`Replay::drain_async`] saves and sends them. A commit that is to be saved without
    /// output (each commit, every n) is saved when an async call of the runtime waits the next
    /// time, and at the end of an iteration of [`Replay::each_async`]. Call
    /// [`Replay::durable_async`] before the program shows a commit in another way.
    ///
    /// **Power loss**, **Cost**: as for [`Replay::open`]; no save. **Errors**: those of
    /// [`Replay::open`]. An open that fails drops `saver` and `env`: pass `&mut` to keep them.
    pub fn open_mirrored_async<F>(
        region: Region<'m, Ram<M>>,
        saver: S,
        options: Options<'m>,
        env: E,
        init: F,
    ) -> Result<Self, OpenFailure<'m, Ram<M>>>
    where
        E: Outlet,
        F: for<'p> FnOnce(&Tx<'p, Ram<M>>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let mut place = MaybeUninit::uninit();
        Self::open_at(&mut place, region, options, env, saver, init)?;
        // SAFETY: invariant "Open in its place": as in `open_mirrored`.
        Ok(unsafe { place.assume_init() })
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Makes durable what the program has committed: no power cut takes it back. Call it before the
    /// program shows, in another way than by messages, what it has recorded, read or committed.
    ///
    /// Without a mirror every commit is durable, and this does nothing.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use nv_mirror::{Config, Mirror, nvmem::{InOrder32, ram::RamNor}};
    /// use nv_replay::{Error, MirroredReplay, Options};
    ///
    /// type Flash = RamNor<4, 4096, 4>; // on a device: your driver, as an `nvmem::Medium`
    /// type Rt<'m> = MirroredReplay<'m, u32, Mirror<'m, &'m mut Flash>, InOrder32, ()>;
    ///
    /// fn program(rt: &mut Rt<'_>) -> Result<u32, Error> {
    ///     let sample = rt.record_with(|| 20)?;
    ///     let sum = rt.step(sample, |tx, sum, x| {
    ///         *sum.get_mut(tx)? += x;
    ///         Ok(*sum.get(tx))
    ///     })?;
    ///     rt.durable()?; // before it is shown
    ///     Ok(sum)
    /// }
    ///
    /// fn boot(flash: &mut Flash) -> Result<u32, Box<dyn std::error::Error>> {
    ///     let mut memory = [MaybeUninit::new(0); 2 * 128]; // the region of 1 KiB, and its shadow
    ///     let range = 0..4 * 4096;
    ///     let (mirror, region) =
    ///         Mirror::open_or_format::<InOrder32>(flash, range, &Config::DEFAULT, &mut memory)?;
    ///     let options = Options { table: nv_replay::Config::SMALL, ..Options::default() };
    ///     let mut rt = Rt::open_mirrored(region, mirror, options, (), |_| Ok(0))
    ///         .map_err(|refused| refused.error)?;
    ///     Ok(program(&mut rt)?)
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut flash = Flash::new();
    /// assert_eq!(boot(&mut flash)?, 20);
    /// assert_eq!(boot(&mut flash)?, 20); // nothing ran again
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// **Power loss**: the last save or this one. **Cost**: a save, if anything has changed.
    /// **Errors**: [`Error::Medium`], and the runtime stops; the error of a runtime that has
    /// stopped.
    pub fn durable(&mut self) -> Result<(), Error>
    where
        P: Blocking,
    {
        self.check_running()?;
        self.save_now()
    }

    /// Like [`Replay::durable`], for any medium.
    ///
    /// **Power loss**: the last save or this one, also if the future is dropped. **Cost** and
    /// **Errors**: as there.
    #[cfg(feature = "async")]
    pub async fn durable_async(&mut self) -> Result<(), Error> {
        self.check_running()?;
        self.saved_async(true).await
    }

    /// Saves before an output.
    #[inline(always)]
    pub(crate) fn save_now(&mut self) -> Result<(), Error> {
        if !P::MIRRORED {
            return Ok(());
        }
        self.save_guarded(P::durable)
    }

    /// Saves a commit, if that is due.
    #[inline(always)]
    pub(crate) fn save_commit(&mut self) -> Result<(), Error> {
        if !P::MIRRORED {
            return Ok(());
        }
        self.save_guarded(P::committed)
    }

    #[cold]
    #[inline(never)]
    fn save_guarded(&mut self, save: fn(&mut P) -> Result<(), Error>) -> Result<(), Error> {
        // A driver may panic.
        let saved = self.unless_unwinding(save);
        if planted!("nv-replay/failed-save-sends") {
            return Ok(());
        }
        if planted!("nv-replay/goes-on-after-a-failed-save") {
            return saved;
        }
        if let Err(e) = saved {
            self.stop(e);
        }
        saved
    }

    /// Saves, for an output or if it is due, and stops the runtime if that fails.
    #[cfg(feature = "async")]
    pub(crate) async fn saved_async(&mut self, output: bool) -> Result<(), Error> {
        if !P::MIRRORED {
            return Ok(());
        }
        let saved = self.pool.durable_async(output).await;
        if let Err(e) = saved {
            self.stop(e);
        }
        saved
    }
}

macro_rules! saver {
    ($mirrored:ident, $save:ident) => {
        impl<'m, R: Persist, M: Model, E: Outlet, P, S: $save>
            Replay<'m, R, Ram<M>, E, $mirrored<P, S>>
        where
            M::Unit: Width,
            P: PoolAccess<R, Ram<M>>,
        {
            /// Why the last save failed, after [`Error::Medium`].
            pub fn failure(&self) -> Option<&S::Error> {
                self.pool.0.failure.as_ref()
            }

            /// Lends the saver, and the region to save: for other work of a saver, such as
            /// `rt.save_by(|mirror, owner| mirror.make_room(owner))` when the program is idle. That
            /// keeps the last save, when the power fails, within `nv_mirror::Config::worst_save`.
            /// With an async saver, wait for the future that `f` returns inside of it.
            pub fn save_by<T>(
                &mut self,
                f: impl FnOnce(&mut S, &mut Owner<'_, R, Ram<M>, P>) -> T,
            ) -> T {
                let (saver, mut owner, _) = self.pool.0.split();
                f(saver, &mut owner)
            }
        }
    };
}
saver!(Mirrored, Save);
#[cfg(feature = "async")]
saver!(AsyncMirrored, AsyncSave);
