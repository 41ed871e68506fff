//! Calls: steps, inputs and views; how each is executed once, and bypassed from then on.
//!
//! # Execution
//!
//! Commits a step's changes, its result and its record with one store.
//!
//! ```text
//! Replay::run_job                                                    cut here leaves
//!  1 run the body in a transaction of the pool; its result           old state (roll back)
//!    goes to the payload area, its messages to the outbox
//!  2 pool: journal and new values are on the medium ("prepared")     old state (roll back)
//!  3 outbox head: the messages belong to number n                    old state
//!  4 clear the header behind the new one, if it carries n + 1        old state
//!  5 fence
//!  6 store the header with number n    <-- the one commit store      old or new, never both
//!  7 fence
//!  8 pool: end the transaction                                       new state
//!  9 send the messages, mark them as sent                            new state; sent again
//! ```
//!
//! The pool learns at open which number is committed last: it is the number of the table's last
//! record. So one store commits the pool's transaction, the result and the messages together
//! (invariants "One number, one transaction" and "Content before header"). With `step_join` a third
//! party stages between 3 and 4 with the same number.
//!
//! Only `run_job` depends on a call's types; a program contains the rest once. A step without
//! messages, result or frees passes what is for them with one comparison each.
//!
//! The record of an input of known length, or of a loop's start, changes nothing in the pool. Its
//! header alone commits it, without a transaction (`record_alone`). Three rare cases take the order
//! above: the first number after an open, a number at which the pool sweeps, and one that the
//! outbox's head already carries.
//!
//! # Bypass
//!
//! A call whose record is already in the table returns the recorded result.
//!
//! ```text
//! call of a step (its id: signature.rs)
//!    |
//!    v
//! fast path `bypass`: HEADER_ONLY calls only
//!    header on the medium == header computed at compile time + id?
//!    |                        |
//!    | yes                    | no, or handles, or a result of unknown length
//!    v                        v
//! decode the result      slow path `match_record`, `recorded_result`
//! advance the cursor        same id?          no -> Error::Diverged, `divergence()` says where
//!                           error recorded?   -> return that error
//!                           handles equal?    no -> Error::Diverged
//!                           decode the result, adopt its handles, advance the cursor
//! ```
//!
//! Most records belong to steps that consume no handle and return a plain value. For such a call
//! the compiler knows the whole header except the sequence number, so one comparison decides. All
//! other records take the slow path, which also finds out what differs after a divergence.
//!
//! Safe because the decoder checks every byte that it turns into a value (a `bool`, an `enum`): a
//! damaged record is an error, never an invalid value. Handles come back only through the slow
//! path, which lets the pool adopt each handle at most once (invariant "Held once").

use crate::access::PoolAccess;
use crate::each::Loop;
use crate::error::{Error, Mismatch, StepError};
use crate::join::{Commit, Committed, commit_joined};
use crate::open::{Replay, StopOnUnwind, Untyped};
use crate::outbox::{AnyOutlet, KeepAll, OutboxAction, Outlet, Port, Queue};
use crate::signature::{Name, args_hash, call_hash, kind};
use crate::table::{CallKind, CommitWord, Cursor, HeaderWords, RecordView, Table, UnitWriter};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ops::Deref;
use nvmem::cross::{Arg, Ret, UNKNOWN_LENGTH};
use nvmem::persist::NoHandles;
use nvmem::{InOrder32, Model, Persist, Plain, planted};
use pmem_tx::{Context, Pool, Root, Tx, Width};

/// A running step: the token of its transaction (to which it dereferences), access to the outbox,
/// and the caller's [`Token`](crate::Token) `K`, if the step has one.
pub struct Step<'t, 'p, M = InOrder32, K = ()> {
    pub(crate) tx: &'t Tx<'p, M>,
    pub(crate) table: &'t Table<'t, M>,
    pub(crate) queue: &'t Queue<M>,
    pub(crate) token: &'t K,
}

// INVARIANT "In one thread": a step's token and lists stay in the thread that made them; one thread
// at a time uses a runtime, and the runtime goes to another thread only if its environment may.
// `Send` and `Sync` for tokens and lists, and `Sync` for a runtime, have a bound that no type
// meets.
// Noticed by: `token_in_a_thread.rs`, `runtime_in_a_thread.rs`, `env_of_one_thread.rs` in tests/ui;
// `threads.rs` in tests/ui of `nvlist`.

/// A trait without implementations. A type with this bound stays in its thread, and the compiler
/// reports it once with this message.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` stays in the thread that runs the program",
    label = "this would send a step's token or the runtime to another thread",
    note = "send plain values instead, and open the runtime in the thread that runs its program"
)]
pub trait InOneThread {}

// SAFETY: invariant "In one thread": the bound never holds. It replaces the automatic
// implementation.
unsafe impl<M, K> Send for Step<'_, '_, M, K> where Self: InOneThread {}
// SAFETY: invariant "In one thread": the bound never holds.
unsafe impl<M, K> Sync for Step<'_, '_, M, K> where Self: InOneThread {}

impl<'p, M, K> Deref for Step<'_, 'p, M, K> {
    type Target = Tx<'p, M>;
    fn deref(&self) -> &Tx<'p, M> {
        self.tx
    }
}

impl<M: Model, K> Step<'_, '_, M, K> {
    /// Queues a message. It is sent after the step has committed, at least once, with a number that
    /// stays the same when it is sent again. If the step does not commit, it is never sent. A
    /// [`nested`](Tx::nested) transaction that is undone keeps its messages: it undoes persistent
    /// objects only. A message of a type that is only `serde` is a `nvmem::Postcard<T, N>`.
    ///
    /// **Cost**: the value and one unit. The first message of a step costs one unit each for its
    /// number (two on 16-bit units), the head and the mark that it was sent. **Errors**: if the
    /// outbox has no room for it, this returns [`pmem_tx::Error::PoolFull`], to end the body with
    /// `?`. The step fails with [`Error::OutboxFull`], whatever its body returns.
    pub fn send<T: Plain>(&self, port: &Port<T>, value: T) -> Result<(), pmem_tx::Error> {
        self.queued(self.queue.send(self.table, port, &value))
    }

    /// Like [`Step::send`], for bytes. **Errors**: as there.
    pub fn send_bytes(&self, port: &Port<[u8]>, bytes: &[u8]) -> Result<(), pmem_tx::Error> {
        self.queued(self.queue.send_bytes(self.table, port, bytes))
    }

    /// An error makes the step fail, even if its body ignores the error and returns `Ok`.
    #[inline(always)]
    fn queued(&self, r: Result<(), pmem_tx::Error>) -> Result<(), pmem_tx::Error> {
        if r.is_err() && !planted!("nv-replay/full-outbox-not-told") {
            self.tx.ask_before_commit();
        }
        r
    }

    /// Makes an error that aborts the step with the program's own code: `return Err(tx.abort(7))`.
    /// The abort is recorded.
    pub fn abort(&self, code: u16) -> pmem_tx::Error {
        pmem_tx::Error::Aborted(code)
    }
}

/// The body of a step: a function pointer. Its error is that of transactions, so `?` works on all
/// that a body calls. It cannot capture, so it cannot change volatile state: a bypass would not
/// repeat that change. Data that the body needs is an argument.
pub type StepBody<R, M, A, O, K = ()> = for<'p> fn(
    &Step<'_, 'p, M, K>,
    &mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    <A as Arg>::In<'p>,
) -> Result<O, pmem_tx::Error>;

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Runs a step, once in all boots. All its changes to persistent objects and its record take
    /// effect together, or none does. A replay returns the recorded result instead.
    ///
    /// A step that fails is undone, and its error is recorded, so that a replay takes the same
    /// path.
    ///
    /// **Power loss**: before the record's header is stored, nothing of the step happened; after
    /// it, all. **Cost**: one store of one unit to commit, one for each unit of the result and for
    /// each handle that is consumed (on 16-bit units one more if there are any), and the cost of
    /// the body. **Errors**: [`StepError`] with the arguments; `?` converts it to an [`Error`]. The
    /// body's error and [`Error::OutboxFull`] are recorded. These are not: [`Error::TableFull`];
    /// [`Error::Diverged`]; [`Error::WrongPool`] for a handle of another opening;
    /// [`Error::TooManyHandles`]; [`Error::LoopInterrupted`] if the runtime has stopped.
    /// **Panics**: never. A body that unwinds is undone, and nothing is recorded.
    #[track_caller]
    #[inline(always)]
    pub fn step<A: Arg, O>(
        &mut self,
        args: A,
        body: StepBody<R, M, A, O>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<A, O>(kind::STEP, Name::NONE));
        self.run::<A, O>(Name::NONE, args, body)
    }

    /// Like [`Replay::step`], with a result that may hold handles. Name its type:
    /// `step_own::<_, Held<Node>>`. **Errors**: those of [`Replay::step`].
    #[track_caller]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn step_own<A: Arg, O: Ret>(
        &mut self,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    ) -> Result<O, StepError<A>> {
        self.twins.note(call_hash::<A, O>(kind::STEP, Name::NONE));
        self.run::<A, O>(Name::NONE, args, body)
    }

    /// Gives the next call a name: a text or a number. `rt.named("sample").step(…)`.
    ///
    /// A replay compares the name together with the call's kind, types and arguments. Where the
    /// call is in the source does not count, so two calls of one kind, of equal types and equal
    /// arguments need names. Without them a replay does not notice when a new program swaps them.
    #[inline(always)]
    pub fn named(&mut self, name: impl Into<Name>) -> Named<'_, 'm, R, M, E, P> {
        Named {
            rt: self,
            name: name.into(),
        }
    }

    #[inline]
    #[allow(clippy::type_complexity)]
    fn run<A: Arg, O: Ret>(
        &mut self,
        name: Name,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    ) -> Result<O, StepError<A>> {
        let id = Table::<M>::id(call_hash::<A, O>(kind::STEP, name), args_hash(&args));
        self.call(id, args, move |tx, root, a| body(tx, root, a))
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Reads an input once and records it: `read` is called once, and every replay returns the
    /// recorded value.
    ///
    /// A step that reads an input itself reads it again if it is executed again after a cut. That
    /// is cheaper, and correct as long as nothing outside of the step has seen the value. `read`
    /// may capture, for example a driver; a bypass does not repeat its effects on volatile state.
    ///
    /// **Power loss**: the value is recorded, or the input is read again. **Cost**: the stores of a
    /// step with this result that changes nothing. **Errors**: [`Error::TableFull`],
    /// [`Error::Diverged`]; [`Error::LoopInterrupted`] if the runtime has stopped.
    #[track_caller]
    #[inline(always)]
    pub fn record_with<O>(&mut self, read: impl FnOnce() -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<(), O>(kind::INPUT, Name::NONE));
        self.input_named(Name::NONE, || Some(read()))
    }

    #[inline(always)]
    pub(crate) fn input_named<O>(
        &mut self,
        name: Name,
        read: impl FnOnce() -> Option<O>,
    ) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let id = Table::<M>::id(call_hash::<(), O>(kind::INPUT, name), 0);
        if !CallSignature::<(), O, M>::HEADER_ONLY {
            let read = Cell::new(Some(read));
            let body = |_: &Step<'_, '_, M>, _: &mut Root<'_, R::At<'_>, M::Unit>, ()| {
                read.take()
                    .and_then(|read| read())
                    .ok_or(pmem_tx::Error::Aborted(0))
            };
            return Ok(self.call::<(), O, _>(id, (), body)?);
        }
        if let Some(o) = self.bypass::<(), O>(id) {
            return Ok(o);
        }
        let shape = const { &CallSignature::<(), O, M>::SHAPE };
        self.untyped().before_input(id, shape)?;
        let Some(o) = read() else {
            return Err(Error::Other);
        };
        let units = CallSignature::<(), O, M>::CONTENT_UNITS;
        let words = CallSignature::<(), O, M>::header_words(id, units);
        let mut out = UnitWriter::new(&self.table, self.cursor.payload);
        if let Some(second) = words.second {
            out.word(second);
        }
        encode_sized(&o, &mut out);
        let end = out.to;
        self.untyped().record_alone(end, words.header, None)?;
        Ok(o)
    }

    /// Like [`Replay::record_with`], for an input that comes from the program's
    /// [environment](Replay::open_with): `rt.input(|devices| devices.sensor.read())`.
    ///
    /// A bypass does not call `read`, so drivers are then as they were after the boot: what the
    /// program needs of their state it sets up before it opens the runtime. If `read` panics,
    /// nothing has happened to the runtime.
    ///
    /// **Power loss**, **Cost** and **Errors**: those of [`Replay::record_with`]. The input may
    /// have been read although the table has no room for it.
    #[track_caller]
    #[inline(always)]
    pub fn input<O>(&mut self, read: impl FnOnce(&mut E) -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<(), O>(kind::INPUT, Name::NONE));
        self.input_from_env(Name::NONE, read)
    }

    #[inline(always)]
    fn input_from_env<O>(&mut self, name: Name, read: impl FnOnce(&mut E) -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        // The environment is a field of the runtime, so it is read before the transaction begins.
        let mut value = None;
        if !self.replaying() || planted!("nv-replay/input-read-in-replay") {
            self.check_running()?;
            value = Some(read(&mut self.env));
        }
        self.input_named(name, move || value)
    }

    /// Like [`Replay::record_with`], for a value that was already read. Returns the recorded value.
    /// **Errors**: as there.
    #[track_caller]
    #[inline(always)]
    pub fn record<O>(&mut self, value: O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.record_with(|| value)
    }

    /// Like [`Replay::step`], together with an operation outside of the pool: one of `nvlist`, or
    /// of a kernel. `join` is called with the body's result when the body has returned `Ok`. It
    /// stages its operation, commits the step with [`Commit::store`], and finishes the operation.
    /// It may capture. A bypass does not call it: the operation was finished when its owner was
    /// opened with the number from [`last_committed`](crate::last_committed). An error of `join`
    /// undoes the step and is recorded; that record gets the step's number, so `join` clears first
    /// what it has staged with it.
    ///
    /// **Power loss**: before the store nothing of the step and of the staged operation happened,
    /// after it all. **Cost** and **Errors**: those of [`Replay::step`] and of `join`.
    ///
    /// ```
    /// use nv_replay::nvmem::{InOrder32, Region};
    /// use nv_replay::{Error, Options, Replay, last_committed};
    /// use nvlist::NodePool;
    ///
    /// fn program(region: Region<'_, InOrder32>) -> Result<(), Box<dyn std::error::Error>> {
    ///     let (lists, region) = region.split_at(512).map_err(|(e, _)| e)?;
    ///     let number = last_committed(&region)?; // before the open
    ///     let mut queue =
    ///         NodePool::<u32, 1>::open_resolved(lists, 1, |_| number).map_err(|r| r.error)?;
    ///     let mut rt = Replay::<u32>::open(region, Options::default(), |_| Ok(0))
    ///         .map_err(|r| r.error)?;
    ///     rt.step_join(
    ///         (),
    ///         |tx, jobs, ()| {
    ///             *jobs.get_mut(tx)? += 1;
    ///             Ok(*jobs.get(tx))
    ///         },
    ///         |job, commit| {
    ///             queue.with(|mut lists, [waiting]| {
    ///                 // An error undoes the step, and is recorded.
    ///                 let node = lists.alloc(*job).map_err(|_| Error::Aborted(1))?;
    ///                 let context = lists.context(0).ok_or(Error::Aborted(2))?;
    ///                 // It refuses the commits of other regions.
    ///                 let seq = context.stage_seq(commit.number());
    ///                 let seq = seq.map_err(|_| Error::WrongOwner)?;
    ///                 let staged = lists.stage_back(seq, waiting, node);
    ///                 let done = commit.store(); // one store commits both
    ///                 staged.committed();
    ///                 Ok(done)
    ///             })
    ///         },
    ///     )
    ///     .map_err(Error::from)?;
    ///     assert_eq!(queue.with(|lists, [waiting]| lists.iter(waiting).count()), 1);
    ///     Ok(())
    /// }
    /// # let mut fram = vec![std::mem::MaybeUninit::new(0); 512];
    /// # program(Region::new(&mut fram))?;
    /// # program(Region::new(&mut fram))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    #[inline(always)]
    pub fn step_join<A: Arg, O>(
        &mut self,
        args: A,
        body: StepBody<R, M, A, O>,
        join: impl for<'c> FnMut(&O, Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins.note(call_hash::<A, O>(kind::JOINED, Name::NONE));
        self.join_named(Name::NONE, args, body, join)
    }

    #[inline(always)]
    fn join_named<A: Arg, O>(
        &mut self,
        name: Name,
        args: A,
        body: StepBody<R, M, A, O>,
        mut join: impl for<'c> FnMut(&O, Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let id = Table::<M>::id(call_hash::<A, O>(kind::JOINED, name), args_hash(&args));
        if let Some(o) = self.bypass::<A, O>(id) {
            // The recorded execution has consumed the arguments.
            core::mem::forget(args);
            return Ok(o);
        }
        self.call_slow::<A, O, _>(
            id,
            args,
            &move |tx: &Step<'_, '_, M>, root: &mut Root<'_, R::At<'_>, M::Unit>, a: A::In<'_>| {
                body(tx, root, a)
            },
            |rt, result, end, header| {
                let mut join = joins(|c| {
                    let o = result.take();
                    let r = match &o {
                        Some(o) => join(o, c),
                        None => Err(Error::Other),
                    };
                    result.set(o);
                    r
                });
                let join: &mut DynJoin<'_, M> = &mut join;
                rt.commit_joined(end, header, join)
            },
        )
    }

    /// Calls `f` with the persistent objects, for a display, a shell or a report. Returns `None`
    /// during the replay, when the objects are ahead of the program.
    ///
    /// Nothing is recorded, so the program must not take another path because of what it reads
    /// here; a step reads its data itself. **Power loss**: nothing changes. **Cost**: 0 stores.
    /// **Errors**: [`Error::Diverged`] and [`Error::LoopInterrupted`], if the runtime has stopped;
    /// that of an operation in `f` after which a transaction can only abort, such as an allocation.
    pub fn view<O>(
        &mut self,
        f: impl for<'p> FnOnce(&Tx<'p, M>, &Root<'p, R::At<'p>, M::Unit>) -> O,
    ) -> Result<Option<O>, Error> {
        self.check_running()?;
        if !self.is_live() {
            return Ok(None);
        }
        let (mut f, mut seen) = (Some(f), None);
        let mut context = self.pool.context();
        let prepared = context.prepare::<(), (), _>((), |tx, root, ()| {
            seen = f.take().map(|f| f(tx, root));
            Ok(())
        });
        // Abandon the transaction: not even an allocation of `f` remains.
        prepared.map_err(|f| Error::from(f.error))?.abandon();
        Ok(seen)
    }
}

/// A call with a name, from [`Replay::named`].
#[must_use = "a name belongs to the call that follows it"]
pub struct Named<'a, 'm, R: Persist, M: Model = InOrder32, E = AnyOutlet<'m>, P = Pool<'m, R, M>>
where
    M::Unit: Width,
{
    pub(crate) rt: &'a mut Replay<'m, R, M, E, P>,
    pub(crate) name: Name,
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Named<'_, 'm, R, M, E, P>
where
    M::Unit: Width,
{
    /// [`Replay::step`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn step<A: Arg, O>(self, args: A, body: StepBody<R, M, A, O>) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.run::<A, O>(self.name, args, body)
    }

    /// [`Replay::step_own`] with this name. **Errors**: as there.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn step_own<A: Arg, O: Ret>(
        self,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    ) -> Result<O, StepError<A>> {
        self.rt.run::<A, O>(self.name, args, body)
    }

    /// [`Replay::step_join`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn step_join<A: Arg, O>(
        self,
        args: A,
        body: StepBody<R, M, A, O>,
        join: impl for<'c> FnMut(&O, Commit<'c, M>) -> Result<Committed<'c>, Error>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.join_named(self.name, args, body, join)
    }

    /// [`Replay::record_with`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn record_with<O>(self, read: impl FnOnce() -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.input_named(self.name, || Some(read()))
    }

    /// [`Replay::record`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn record<O>(self, value: O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.input_named(self.name, || Some(value))
    }

    /// [`Replay::input`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn input<O>(self, read: impl FnOnce(&mut E) -> O) -> Result<O, Error>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.input_from_env(self.name, read)
    }
}

/// Why a step does not take these arguments: a handle of another opening, or a key that is in use.
#[inline(always)]
fn refused<A: Arg>(args: &A, session: u32) -> Option<Error> {
    if !args.of_session(session) {
        return Some(Error::WrongPool);
    }
    let in_use = args.in_use() && !planted!("nv-replay/key-in-use-entered");
    in_use.then_some(Error::KeyInUse)
}

/// Tells a step's arguments that its transaction has ended, also by unwinding. Arguments that are
/// in use stay so.
struct Entered<'a, A: Arg>(Option<&'a A>);
impl<'a, A: Arg> Entered<'a, A> {
    #[inline(always)]
    fn new(args: &'a A) -> Self {
        Entered((!args.in_use()).then_some(args))
    }
}
impl<A: Arg> Drop for Entered<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        if planted!("nv-replay/key-stays-in-use") {
            return;
        }
        if let Some(args) = self.0 {
            // SAFETY: invariant "A key for a shared root": dropped when the transaction has ended.
            unsafe { args.ended() }
        }
    }
}

/// The maximum number of handles that one step can consume.
pub(crate) const MOST_HANDLES: usize = 8;

/// The form of a call's record, known at compile time.
pub(crate) struct RecordShape {
    /// The record's header without sequence number and call id; 0 if the call has no record.
    pub header: u32,
    /// Bytes that must be free for the header and the payload, or for an error.
    pub min_bytes: usize,
    /// The header alone identifies the record, see `CallSignature::HEADER_ONLY`.
    pub header_only: bool,
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Bypasses or executes a call. After an execution the result is read back from the record by
    /// [`Replay::bypass`].
    #[inline(always)]
    pub(crate) fn call<A: Arg, O: Ret, F>(
        &mut self,
        id: u32,
        args: A,
        body: F,
    ) -> Result<O, StepError<A>>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    {
        loop {
            if let Some(o) = self.bypass::<A, O>(id) {
                // The step has consumed the arguments, in this execution or in the recorded one.
                core::mem::forget(args);
                return Ok(o);
            }
            if !CallSignature::<A, O, M>::HEADER_ONLY {
                return self
                    .call_slow(id, args, &body, |rt, _, end, header| rt.commit(end, header));
            }
            if let Err(error) = self.execute::<A, O, F>(id, &args, &body) {
                return Err(StepError { error, args });
            }
        }
    }

    /// Executes a call whose result is read back from its record, as a replay does. So a program
    /// contains the reading code once, for some 20 instructions of an execution. RAM keeps only
    /// results with handles, of open length, or that a join asks for.
    #[inline(never)]
    fn execute<A: Arg, O: Ret, F>(&mut self, id: u32, args: &A, body: &F) -> Result<(), Error>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    {
        let refused = refused(args, self.pool.session());
        if let Some(e) = refused
            && !self.replaying()
        {
            return self.check_running().and(Err(e));
        }
        let _entered = Entered::new(args);
        let job = CallJob::<A, O, _, _> {
            id,
            args,
            body,
            sink: &DropResult,
            _o: PhantomData,
        };
        self.run_job(&job, |rt, end, header| rt.commit(end, header))
    }

    /// The slow path of a call: handles, results of unknown length, joins that read the result, and
    /// everything that `bypass` did not accept.
    ///
    /// `commit` commits the step, and may read its result. It gets the end of the record's payload,
    /// and the header.
    #[inline(never)]
    pub(crate) fn call_slow<A: Arg, O: Ret, F>(
        &mut self,
        id: u32,
        args: A,
        body: &F,
        commit: impl FnOnce(
            &mut Untyped<'m, R, M, E, P>,
            &Cell<Option<O>>,
            usize,
            u32,
        ) -> Result<(), Error>,
    ) -> Result<O, StepError<A>>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    {
        let session = self.pool.session();
        let refused = if A::OWNED > MOST_HANDLES {
            Some(Error::TooManyHandles)
        } else {
            refused(&args, session)
        };
        let kept_result = KeepResult {
            session,
            result: Cell::new(None),
            end: Cell::new(0),
        };
        let job = CallJob::<A, O, _, _> {
            id,
            args: &args,
            body,
            sink: &kept_result,
            _o: PhantomData,
        };
        let r = match refused {
            // Refuse before the body runs.
            Some(e) if !self.replaying() => self.check_running().and(Err(e)),
            _ => {
                let _entered = Entered::new(&args);
                self.run_job(&job, |rt, end, header| {
                    commit(rt, &kept_result.result, end, header)
                })
            }
        };
        let r = match (r, kept_result.result.into_inner()) {
            (Ok(()), Some(o)) => {
                self.untyped().advance_outlined(kept_result.end.get());
                Ok(o)
            }
            (Ok(()), None) => self.recorded_result::<A, O>(&args),
            (Err(e), _) => Err(e),
        };
        match r {
            Ok(o) => {
                // The step has consumed the arguments, in this execution or in the recorded one.
                core::mem::forget(args);
                Ok(o)
            }
            Err(error) => Err(StepError { error, args }),
        }
    }

    /// Checks the next record against a call. If there is none, runs `job` and commits its record,
    /// or the record of its error. Afterwards the cursor is before the record.
    ///
    /// Only this depends on the call's types; what it calls is in a program once.
    ///
    /// **Errors**: the error of the job; if there is no room, [`Error::TableFull`] or the reason
    /// given to [`Replay::stop`].
    #[inline(always)]
    fn run_job<A: Arg, O: Ret, F, K: ResultSink<O>>(
        &mut self,
        job: &CallJob<'_, A, O, F, K>,
        commit: impl FnOnce(&mut Untyped<'m, R, M, E, P>, usize, u32) -> Result<(), Error>,
    ) -> Result<(), Error>
    where
        F: for<'p> Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    {
        let shape = const { &CallSignature::<A, O, M>::SHAPE };
        let header = Table::<M>::header(shape.header, job.id);
        let mut r = self.untyped().begin(shape.min_bytes);
        if r.is_ok() {
            let Cursor { at, payload, .. } = self.cursor;
            if planted!("nv-replay/header-before-result") {
                let header = header | Table::<M>::tag(self.pool.context().next_seq());
                self.table.store(at, header);
            }
            let (table, queue) = (&self.table, &self.queue);
            let mut out = UnitWriter::new(table, payload);
            let done = self.pool.context().run_started(|tx, root| {
                let step = Step {
                    tx,
                    table,
                    queue,
                    token: &(),
                };
                job.run(&step, root, &mut out, at)
            });
            let end = out.to;
            if let Err(e) = done {
                queue.body_failed(e);
            }
            if queue.judge().is_ok() && planted!("nv-replay/outbox-drained-before-commit") {
                let seq = self.pool.context().next_seq();
                queue.stage::<E>(table, seq);
                let early = queue.action();
                early.map(|a| a(table, queue, seq, Some((&mut self.env, &mut self.sent))));
            }
            r = commit(self.untyped(), end, header);
        }
        r.or_else(|e| self.untyped().not_executed(job.id, shape, e))
    }

    /// Begins the transaction of a record that takes at least `min_bytes` with its header.
    ///
    /// **Errors**: that there is no room for it, or a record in its place; the pool's.
    #[inline(never)]
    fn begin(&mut self, min_bytes: usize) -> Result<(), Error> {
        self.check_room(min_bytes)?;
        self.queue.clear::<E>();
        Ok(self.pool.context().start()?)
    }

    /// **Errors**: there is no room for a record of so many bytes, or a record in its place.
    #[inline(always)]
    fn check_room(&self, min_bytes: usize) -> Result<(), Error> {
        let Cursor { at, end, payload } = self.cursor;
        if at != end || at + Table::<M>::UNIT < payload + min_bytes {
            return Err(self.no_room_error);
        }
        Ok(())
    }

    /// Checks that an input can be recorded, before it is read. The fast path has found no record
    /// of it.
    ///
    /// **Errors**: the record in its place is that of another call, or there is no room.
    #[inline(never)]
    fn before_input(&mut self, id: u32, shape: &RecordShape) -> Result<(), Error> {
        if self.replaying() {
            self.match_record(id, shape)?;
        }
        self.check_room(shape.min_bytes)
    }

    /// Commits the record at the cursor, whose payload ends at `end`, and changes nothing in the
    /// pool: most often by its header alone, without a transaction. If the record is that of a
    /// loop, writes the loop's state first.
    ///
    /// **Errors**: the pool's; a save has failed.
    #[inline(never)]
    fn record_alone(&mut self, end: usize, header: u32, l: Option<&Loop>) -> Result<(), Error> {
        let Cursor { at, payload, .. } = self.cursor;
        let table = &self.table;
        let begin_loop = |seq| {
            if planted!("nv-replay/loop-open-before-its-start") {
                table.commit_record(at, end, seq, header);
            }
            if let Some(l) = l {
                l.write(table, payload, seq)
            }
        };
        self.queue.clear::<E>();
        let mut number = 0;
        let alone = self.pool.context().pass_number(|seq| {
            number = seq;
            let staged = !E::sends_nothing() && table.head_belongs_to(seq);
            if staged && !planted!("nv-replay/record-before-a-stale-head") {
                return false;
            }
            begin_loop(seq);
            table.commit_record(at, end, seq, header);
            true
        });
        if alone {
            self.recorded(at, number)?;
        } else {
            self.pool.context().start()?;
            begin_loop(self.pool.context().next_seq());
            self.commit(end, header)?;
        }
        self.advance(end);
        Ok(())
    }

    // INVARIANT "One number, one transaction": the table's last sequence number is the pool's last
    // committed one. Every record passes `Replay::commit` or `commit_joined`, or `record_alone`;
    // every start word `Replay::end_iteration`, `pass_number`, `commit_turn` or, with a join,
    // `commit_by`.
    // Noticed by: tests/suite/crash.rs (`wraps`).
    /// Commits the step that runs with the record at the cursor, whose payload ends at `end`:
    /// points 2 to 9 of the order above.
    ///
    /// **Errors**: that of the step, which is undone.
    #[inline(never)]
    fn commit(&mut self, end: usize, header: u32) -> Result<(), Error> {
        let at = self.cursor.at;
        let open = self.pool.context().resume(|| self.queue.judge())?;
        let ready = open.prepare();
        let seq = ready.seq();
        self.queue.stage::<E>(&self.table, seq);
        self.table.commit_record(at, end, seq, header);
        ready.committed();
        self.recorded(at, seq)
    }

    /// [`Replay::commit`] with a join. A program contains it once for each type of token, and once
    /// for all closures.
    ///
    /// **Errors**: that of the step or of the join. The step is undone.
    #[inline(never)]
    pub(crate) fn commit_joined<J: Join<M> + ?Sized>(
        &mut self,
        end: usize,
        header: u32,
        join: &mut J,
    ) -> Result<(), Error> {
        let at = self.cursor.at;
        let table = &self.table;
        let word = |seq| table.record_word(at, end, seq, header);
        let stop = (&mut self.no_room_error, &mut self.cursor);
        let context = self.pool.context();
        let join = joins(|c| join.join(c));
        let seq = Self::commit_by(context, table, &self.queue, stop, join, word)?;
        self.recorded(at, seq)
    }

    /// Commits the transaction that runs in `context` together with a join: `word` makes the commit
    /// word of the number that it gets. Returns the number. `stop` is what stops the runtime. All
    /// of these are parts of one runtime, which a loop of one step takes apart once a turn.
    ///
    /// **Errors**: that of the body or of the join. The transaction is undone.
    #[inline(always)]
    pub(crate) fn commit_by(
        context: Context<'_, R, M>,
        table: &Table<'_, M>,
        queue: &Queue<M>,
        (no_room_error, cursor): (&mut Error, &mut Cursor),
        join: impl for<'c> FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
        word: impl FnOnce(u32) -> CommitWord,
    ) -> Result<u32, Error> {
        let open = context.resume(|| queue.judge())?;
        let stored = Cell::new(false);
        let guard = StopOnUnwind {
            when: &stored,
            no_room_error,
            cursor,
            area_end: table.area_end,
        };
        let r = commit_joined::<M, E>(open, table, queue, &stored, join, word);
        guard.disarm();
        r
    }

    /// A call was not executed because of `e`. If its record is there already, compares that; if
    /// its step was undone, records the error.
    ///
    /// **Errors**: `e`, whether it could be recorded or not; that of the record.
    #[cold]
    #[inline(never)]
    fn not_executed(&mut self, id: u32, shape: &RecordShape, e: Error) -> Result<(), Error> {
        if self.replaying() {
            return self.match_record(id, shape);
        }
        // A result of unknown length that did not fit is not recorded.
        if e == Error::TableFull || planted!("nv-replay/failure-not-recorded") {
            return Err(e);
        }
        let messages = self.queue.messages();
        // `min_bytes` leaves room to record the error. If even that fails, or the runtime has
        // stopped, `begin` returns the reason instead.
        self.begin(shape.min_bytes)?;
        let mut out = UnitWriter::new(&self.table, self.cursor.payload);
        let (kind, number) = Error::encode(e);
        let words = Table::<M>::encode(kind, 1, true, id);
        if let Some(second) = words.second {
            out.word(second);
        }
        out.word(number);
        let end = out.to;
        if planted!("nv-replay/failed-step-sends") {
            self.queue.send_all(messages);
        }
        self.commit(end, words.header)?;
        self.match_record(id, shape)
    }

    /// The record at `at` is committed, with the number `seq`. Saves it if that is due, and sends
    /// its messages and those that wait.
    ///
    /// **Errors**: a save has failed.
    #[inline(always)]
    fn recorded(&mut self, at: usize, seq: u32) -> Result<(), Error> {
        self.cursor.end = at - Table::<M>::UNIT;
        self.show_committed(seq)
    }

    /// The transaction `seq` is committed: saves it if that is due, and sends its messages and
    /// those that wait, if there are any.
    ///
    /// **Errors**: a save has failed. The messages wait, and the runtime has stopped.
    #[inline(always)]
    pub(crate) fn show_committed(&mut self, seq: u32) -> Result<(), Error> {
        if E::sends_nothing() {
            if P::MIRRORED {
                self.save_commit()?;
            }
            return Ok(());
        }
        let action = self.queue.action().or(self.resend);
        if P::MIRRORED {
            self.resend = action;
            self.save_commit()?;
        }
        if let Some(action) = action {
            self.send_saved(seq, action)?;
        }
        Ok(())
    }

    // INVARIANT "Durable before seen": over a mirror, a message is offered to an outlet only after
    // a save that holds its step; after a failed save, none is. Also kept by `Table::send_pending`
    // and `Replay::drain_async`.
    // Noticed by: tests/suite/mirrored.rs (`cuts`, `tasks`); planted `saved-after-output`,
    // `open-sends-unsaved`, `drained-unsaved`, `async-sends-unsaved`, `failed-save-sends`.
    /// Saves, and sends the messages of the commit `seq`, and those that wait.
    ///
    /// **Errors**: the save has failed. Nothing was sent.
    #[inline(always)]
    pub(crate) fn send_saved(&mut self, seq: u32, action: OutboxAction<M>) -> Result<(), Error> {
        // With an async medium the messages wait until `drain_async` has saved.
        if !P::OUTPUT_WAITS && !planted!("nv-replay/saved-after-output") {
            self.save_for_output()?;
        }
        self.untyped().send_messages(seq, action);
        if planted!("nv-replay/saved-after-output") {
            self.save_for_output()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn save_for_output(&mut self) -> Result<(), Error> {
        // Nobody sees messages that the environment drops, so they need no save.
        if !P::MIRRORED || self.env.discards() {
            return Ok(());
        }
        self.save_now()
    }

    /// Sends the messages of the commit `seq`, and those that wait.
    #[inline(never)]
    pub(crate) fn send_messages(&mut self, seq: u32, action: OutboxAction<M>) {
        let guard = StopOnUnwind {
            when: &Cell::new(true),
            no_room_error: &mut self.no_room_error,
            cursor: &mut self.cursor,
            area_end: self.table.area_end,
        };
        let mut outlet: &mut dyn Outlet = &mut self.env;
        let mut keep = KeepAll;
        if P::OUTPUT_WAITS && !outlet.discards() && !planted!("nv-replay/async-sends-unsaved") {
            outlet = &mut keep;
        }
        let to = Some((outlet, &mut self.sent));
        let waits = action(&self.table, &self.queue, seq, to);
        self.resend = waits.then_some(action);
        guard.disarm()
    }

    /// Calls `f` with the pool. If `f` unwinds, the runtime stops.
    #[inline(always)]
    pub(crate) fn unless_unwinding<T>(&mut self, f: impl FnOnce(&mut P) -> T) -> T {
        let guard = StopOnUnwind {
            when: &Cell::new(true),
            no_room_error: &mut self.no_room_error,
            cursor: &mut self.cursor,
            area_end: self.table.area_end,
        };
        let r = f(&mut self.pool);
        guard.disarm();
        r
    }

    /// Records the loop `l` in its first iteration.
    ///
    /// **Errors**: there is no room.
    #[inline(always)]
    pub(crate) fn record_loop(&mut self, l: &Loop, shape: &RecordShape) -> Result<(), Error> {
        self.check_room(shape.min_bytes)?;
        // `min_bytes` includes the state. Nothing at these offsets counts yet.
        let end = self.cursor.payload + Table::<M>::STATE;
        self.record_alone(end, Table::<M>::header(shape.header, l.id), Some(l))
    }

    /// Commits an empty transaction, which uses a number up. With `l` its number begins the loop's
    /// next iteration.
    ///
    /// **Errors**: the reason given to [`Replay::stop`]; the pool's.
    #[cold]
    #[inline(never)]
    pub(crate) fn pass_number(&mut self, l: Option<&Loop>) -> Result<(), Error> {
        self.begin(0)?;
        let table = &self.table;
        self.pool.context().commit_empty(|seq| {
            if !E::sends_nothing() {
                table.retire_outbox(seq);
            }
            if let Some(l) = l {
                l.write_next(table, seq)
            }
        });
        Ok(())
    }
}

/// What takes part in the commit of a step: a token's attempt, or a closure.
pub(crate) trait Join<M: Model> {
    /// Stages, commits, finishes. **Errors**: those of [`Token::join`](crate::Token::join).
    fn join<'c>(&mut self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error>;
}

/// Any closure that joins.
type DynJoin<'a, M> = dyn for<'c> FnMut(Commit<'c, M>) -> Result<Committed<'c>, Error> + 'a;

impl<M: Model> Join<M> for DynJoin<'_, M> {
    fn join<'c>(&mut self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        self(commit)
    }
}

/// Makes the compiler infer the closure's higher-ranked lifetime.
pub(crate) fn joins<M: Model, F>(f: F) -> F
where
    F: for<'c> FnMut(Commit<'c, M>) -> Result<Committed<'c>, Error>,
{
    f
}

/// What the compiler knows about a call with arguments `A` and result `O`: the form of its record.
pub(crate) struct CallSignature<A, O, M>(PhantomData<(A, O, M)>);
impl<A: Arg, O: Ret, M: Model> CallSignature<A, O, M> {
    /// The length of the result is known only after it was encoded (`Postcard`).
    pub const UNSIZED: bool = O::BYTES == UNKNOWN_LENGTH;
    const RESULT_BYTES: usize = if Self::UNSIZED { 0 } else { O::BYTES };
    /// Units of content: handles that the call consumes, then the result.
    pub const CONTENT_UNITS: u32 =
        (Self::RESULT_BYTES.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
    const SHORT: bool = !Self::UNSIZED && Table::<M>::short(Self::CONTENT_UNITS);
    /// The header alone identifies the record: no handles, and a length that fits into the header.
    pub const HEADER_ONLY: bool = A::OWNED == 0 && O::HANDLES == 0 && Self::SHORT;
    const KIND: CallKind = if A::OWNED == 0 {
        CallKind::Done
    } else {
        CallKind::TookHandles
    };

    /// The header words of the call's record.
    #[inline(always)]
    pub const fn header_words(id: u32, units: u32) -> HeaderWords {
        Table::<M>::encode(Self::KIND, units, Self::SHORT, id)
    }

    pub const SHAPE: RecordShape = {
        let words = Self::header_words(0, Self::CONTENT_UNITS);
        let units = words.extra_units() + Self::CONTENT_UNITS as usize;
        // An error takes one unit; on 16-bit units also a unit that describes it.
        let least = if Table::<M>::NARROW { 2 } else { 1 };
        RecordShape {
            header: words.header,
            min_bytes: Table::<M>::UNIT * (1 + if units > least { units } else { least }),
            header_only: Self::HEADER_ONLY,
        }
    };
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// The fast path: the recorded result, if the next record belongs to this call and its bytes
    /// are a valid `O`. `None` sends the caller to the slow path.
    #[inline(always)]
    pub(crate) fn bypass<A: Arg, O: Ret>(&mut self, id: u32) -> Option<O> {
        let f = &self.cursor;
        if !CallSignature::<A, O, M>::HEADER_ONLY || f.at == f.end {
            return None;
        }
        let units = CallSignature::<A, O, M>::CONTENT_UNITS;
        let words = CallSignature::<A, O, M>::header_words(id, units);
        let same = Table::<M>::same_call(self.table.load(f.at), words.header);
        if !same && !planted!("nv-replay/bypass-without-header-check") {
            return None;
        }
        let payload = f.payload;
        if let Some(second) = words.second
            && self.table.load(payload) != second
        {
            return None;
        }
        let content = payload + words.extra_units() * Table::<M>::UNIT;
        let bytes = self
            .table
            .bytes(content, CallSignature::<A, O, M>::RESULT_BYTES);
        // SAFETY: invariant "Held once": `NoHandles` refuses every handle.
        let o = unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok()?;
        self.advance(content + units as usize * Table::<M>::UNIT);
        Some(o)
    }

    // INVARIANT "Same way or no way": only a call with the same kind, types, name, arguments and
    // handles bypasses a record; otherwise the runtime stops. Kept here and by `Replay::bypass`.
    // Noticed by: planted `call-not-compared`, `kind-not-compared`, `types-not-compared`,
    // `name-not-compared`, `arguments-not-compared`, `handles-not-compared`, `diverged-goes-on`.
    /// Checks the next record against a call of any kind. **Errors**: the error that the record
    /// holds, or [`Error::Diverged`].
    #[inline(never)]
    pub(crate) fn match_record(&mut self, id: u32, shape: &RecordShape) -> Result<(), Error> {
        let next = self.next_record();
        let (true, Some(h)) = (self.matches(&next, id, false), &next) else {
            return Err(Error::Diverged);
        };
        if let CallKind::Failed | CallKind::Aborted = h.kind {
            // A failed step's content is one unit. In a damaged table it may be shorter; then this
            // reads some other unit of the table, and the number gives some error value.
            let number = self.table.load(h.content);
            self.advance_outlined(h.end);
            return Err(Error::decode(h.kind, number));
        }
        if shape.header_only {
            // The id matches but `bypass` did not accept the record: its bytes are no value of the
            // type, or it consumed handles.
            return Err(self.diverged(Mismatch::Result));
        }
        Ok(())
    }

    /// The next record, if there is a valid one. For [`Replay::matches`].
    #[inline(always)]
    pub(crate) fn next_record(&self) -> Option<RecordView> {
        self.table.read_record(self.cursor.at, self.cursor.payload)
    }

    /// Whether the next record, which is this one, belongs to the call `id` and is a loop's record
    /// exactly when `looped` is true. Otherwise the program has diverged.
    // The record is lent: as a result it would be copied.
    #[inline(never)]
    pub(crate) fn matches(&mut self, next: &Option<RecordView>, id: u32, looped: bool) -> bool {
        let what = match next {
            Some(h) if (h.kind == CallKind::Loop) == looped => match h.matches_call::<M>(id) {
                (true, true) => return true,
                (false, _) => Mismatch::Call,
                (_, false) => Mismatch::Arguments,
            },
            _ => Mismatch::Kind,
        };
        self.diverged(what);
        false
    }

    // INVARIANT "Held once": of all `Held` of a session with one offset, a transaction accepts at
    // most one. Handles that a step consumed are recorded one by one; those come back with session
    // 0, which no transaction accepts. Others are adopted by the pool's walk.
    // Noticed by: tests/suite/updates.rs; hostile images.
    /// The slow path's result, after [`Replay::match_record`] accepted the record: compares the
    /// handles that the call consumed, and decodes.
    pub(crate) fn recorded_result<A: Arg, O: Ret>(&mut self, args: &A) -> Result<O, Error> {
        if CallSignature::<A, O, M>::HEADER_ONLY {
            return Err(Error::Other);
        }
        let (table, f) = (&self.table, &self.cursor);
        let Some(h) = table.read_record(f.at, f.payload) else {
            return Err(Error::Other);
        };
        let content = table.content(&h);
        let mut recorded = 0;
        if h.kind == CallKind::TookHandles {
            recorded = table.given_handles(content).count();
        }
        let mut same = recorded == A::OWNED;
        if A::OWNED > 0 {
            let mut taken = table.given_handles(content);
            args.owned(&mut |given| same &= taken.next() == Some(given));
        }
        if !same && !planted!("nv-replay/handles-not-compared") {
            return Err(self.untyped().diverged(Mismatch::Handles));
        }
        let content = content
            .get(recorded * Table::<M>::UNIT..)
            .unwrap_or_default();
        let bytes = if CallSignature::<A, O, M>::UNSIZED {
            Some(content)
        } else if content.len() == O::BYTES.next_multiple_of(Table::<M>::UNIT) {
            content.get(..O::BYTES)
        } else {
            None
        };
        let o = bytes.and_then(|bytes| {
            if O::HANDLES == 0 {
                // SAFETY: invariant "Held once": `NoHandles` refuses every handle.
                return unsafe { O::decode(bytes, 0, &mut NoHandles) }.ok();
            }
            let later = Cursor {
                at: f.at - Table::<M>::UNIT,
                payload: h.end,
                ..*f
            };
            self.pool
                .adopt_unspent::<O>(bytes, &mut |o| table.given_away_later(&later, o))
                .ok()
        });
        match o {
            Some(o) => {
                self.untyped().advance_outlined(h.end);
                Ok(o)
            }
            None => Err(self.untyped().diverged(Mismatch::Result)),
        }
    }

    /// [`Replay::advance`], not inlined.
    #[inline(never)]
    pub(crate) fn advance_outlined(&mut self, payload: usize) {
        self.advance(payload)
    }

    /// The program has passed a record whose payload ends at `payload`.
    #[inline(always)]
    pub(crate) fn advance(&mut self, payload: usize) {
        let f = &mut self.cursor;
        f.at -= Table::<M>::UNIT;
        f.payload = payload;
        let last = !self.live && f.at == f.end;
        if last || planted!("nv-replay/live-one-record-early") {
            self.untyped().check_live();
        }
    }
}

/// Receives a call's result after it was written to the record.
pub(crate) trait ResultSink<O> {
    /// The session that the result's handles get.
    fn session(&self) -> u32;
    /// Takes the result, and the end of its record's payload.
    fn put(&self, o: O, end: usize);
}

/// Drops the result: the caller reads it from the record, as a replay does.
pub(crate) struct DropResult;
impl<O> ResultSink<O> for DropResult {
    fn session(&self) -> u32 {
        0
    }
    fn put(&self, _: O, _: usize) {}
}

/// Keeps the result in RAM: its handles belong to the running transaction, or a join reads it.
pub(crate) struct KeepResult<O> {
    pub session: u32,
    pub result: Cell<Option<O>>,
    pub end: Cell<usize>,
}
impl<O> ResultSink<O> for KeepResult<O> {
    fn session(&self) -> u32 {
        self.session
    }
    fn put(&self, o: O, end: usize) {
        self.result.set(Some(o));
        self.end.set(end);
    }
}

/// Writes a result of a length that is known.
#[inline(always)]
fn encode_sized<O: Ret, M: Model>(o: &O, out: &mut UnitWriter<'_, M>) {
    if O::BYTES > 0 {
        o.encode(&mut |b| out.bytes(b));
        if !O::BYTES.is_multiple_of(Table::<M>::UNIT) {
            out.pad();
        }
    }
}

/// The job of a call.
pub(crate) struct CallJob<'a, A, O, F, K> {
    pub id: u32,
    pub args: &'a A,
    pub body: F,
    pub sink: &'a K,
    pub _o: PhantomData<fn() -> O>,
}

impl<A: Arg, O: Ret, F, K: ResultSink<O>> CallJob<'_, A, O, F, K> {
    /// Runs the body with its arguments and writes the record's payload, which must end before the
    /// header at `at`.
    #[inline(always)]
    fn run<'p, R, M: Model>(
        &self,
        step: &Step<'_, 'p, M>,
        root: &mut Root<'p, R, M::Unit>,
        out: &mut UnitWriter<'_, M>,
        at: usize,
    ) -> Result<(), pmem_tx::Error>
    where
        M::Unit: Width,
        F: Fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, pmem_tx::Error>,
    {
        // SAFETY: invariant "Sole owner": called once in a transaction. If the step commits, the
        // caller forgets the arguments. If it does not, or the body unwinds, the step is undone.
        let args = unsafe { self.args.enter() };
        let o = (self.body)(step, root, args)?;
        // SAFETY: invariant "Sole owner": the result is used only if the step commits, and the
        // session is the pool's.
        let o = unsafe { O::leave(o, self.sink.session()) };
        let mut units = CallSignature::<A, O, M>::CONTENT_UNITS;
        let mut bytes = 0;
        if CallSignature::<A, O, M>::UNSIZED {
            o.encode(&mut |b| bytes += b.len());
            units = (bytes.div_ceil(Table::<M>::UNIT) + A::OWNED) as u32;
        }
        let words = CallSignature::<A, O, M>::header_words(self.id, units);
        if CallSignature::<A, O, M>::UNSIZED {
            let total = (words.extra_units() + units as usize) * Table::<M>::UNIT;
            if total > at.saturating_sub(out.to) {
                step.queue.fail(Error::TableFull);
                return Err(pmem_tx::Error::PoolFull { bytes });
            }
        }
        if let Some(w) = words.second {
            out.word(w)
        }
        if let Some(w) = words.long {
            out.word(w)
        }
        if A::OWNED > 0 {
            let mut n = 0;
            self.args.owned(&mut |o| {
                n += 1;
                // Objects are aligned to 8 bytes: the lowest bit marks the last handle.
                out.word(o | u32::from(n == A::OWNED))
            });
        }
        if CallSignature::<A, O, M>::UNSIZED {
            // A user's `Serialize` may produce more bytes the second time than the room that was
            // checked.
            let mut same = true;
            o.encode(&mut |b| {
                same &= b.len() <= bytes || planted!("nv-replay/encoded-length-not-checked");
                if same {
                    bytes = bytes.wrapping_sub(b.len());
                    out.bytes(b);
                }
            });
            if !same || bytes != 0 && !planted!("nv-replay/encoded-length-not-checked") {
                step.queue.fail(Error::Other);
                return Err(pmem_tx::Error::PoolFull { bytes });
            }
            out.pad();
        } else {
            encode_sized(&o, out);
        }
        self.sink.put(o, out.to);
        Ok(())
    }
}
