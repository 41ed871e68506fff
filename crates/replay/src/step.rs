//! Steps: executed once, then bypassed in every replay.

use crate::error::{Error, StepError};
use crate::open::Replay;
use crate::outbox::{Port, Queue};
use crate::site;
use crate::table::Table;
use core::ops::Deref;
use core::panic::Location;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, Persist, Plain};
use pmem_tx::{Root, Tx, Width};

/// A running step: the token of its transaction (to which it dereferences) and access to the
/// outbox.
pub struct Step<'t, 'p, M = InOrder32> {
    pub(crate) tx: &'t Tx<'p, M>,
    pub(crate) queue: &'t Queue<'t, M>,
}

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
unsafe impl<M> Send for Step<'_, '_, M> where Self: InOneThread {}
// SAFETY: invariant "In one thread": the bound never holds.
unsafe impl<M> Sync for Step<'_, '_, M> where Self: InOneThread {}

impl<'p, M> Deref for Step<'_, 'p, M> {
    type Target = Tx<'p, M>;
    fn deref(&self) -> &Tx<'p, M> {
        self.tx
    }
}

impl<M: Model> Step<'_, '_, M> {
    /// Queues a message. It is sent after the step has committed, at least once, with a number that
    /// stays the same when it is sent again. If the step does not commit, it is never sent.
    ///
    /// **Cost**: the value and one unit. The first message of a step costs one unit each for its
    /// number (two on 16-bit units), the head and the mark that it was sent. **Errors**:
    /// [`Error::OutboxFull`]; the step can only fail then.
    pub fn send<T: Plain>(&self, port: &Port<T>, value: T) -> Result<(), Error> {
        self.queue.send(port, &value)
    }

    /// Like [`Step::send`], for bytes.
    pub fn send_bytes(&self, port: &Port<[u8]>, bytes: &[u8]) -> Result<(), Error> {
        self.queue.send_bytes(port, bytes)
    }

    /// Makes an error that aborts the step with the program's own code: `return Err(tx.abort(7))`.
    /// The abort is recorded.
    pub fn abort(&self, code: u16) -> Error {
        Error::Aborted(code)
    }
}

/// The body of a step: a function pointer. It cannot capture, so it cannot change volatile state,
/// which a bypass would not change. Data that the body needs is an argument.
pub type StepBody<R, M, A, O> = for<'p> fn(
    &Step<'_, 'p, M>,
    &mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    <A as Arg>::In<'p>,
) -> Result<O, Error>;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Runs a step, once in the life of the program. All its changes to persistent objects and its
    /// record take effect together, or none does. A replay returns the recorded result instead.
    ///
    /// A step that fails is undone, and its error is recorded, so that a replay takes the same
    /// path.
    ///
    /// **Power loss**: before the record's header is stored, nothing of the step happened; after
    /// it, all. **Cost**: one store of one unit to commit, one for each unit of the result and for
    /// each handle that is consumed (on 16-bit units one more if there are any), and the cost of
    /// the body. **Errors**: [`StepError`] with the arguments; `?` converts it to an [`Error`].
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
        self.run::<A, O>(site::site(Location::caller()), args, body)
    }

    /// Like [`Replay::step`], with a result that may hold handles. Name its type:
    /// `step_own::<_, Held<Node>>`.
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
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, StepError<A>> {
        self.run::<A, O>(site::site(Location::caller()), args, body)
    }

    /// Like [`Replay::step_own`], identified by a number instead of its call site, so the code may
    /// move.
    #[inline]
    #[allow(clippy::type_complexity)]
    pub fn step_at<A: Arg, O: Ret>(
        &mut self,
        id: u32,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, StepError<A>> {
        self.run::<A, O>(site::Hash::new().word(id).finish(), args, body)
    }

    #[inline]
    #[allow(clippy::type_complexity)]
    fn run<A: Arg, O: Ret>(
        &mut self,
        site: u32,
        args: A,
        body: for<'p> fn(
            &Step<'_, 'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    ) -> Result<O, StepError<A>> {
        let id = Table::<M>::id(site, site::args_hash(&args));
        self.call(id, args, move |tx, root, a| body(tx, root, a))
    }
}
