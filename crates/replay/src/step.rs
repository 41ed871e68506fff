//! Steps: executed once, bypassed ever after.

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

/// A running step: the token of its transaction, to which it dereferences, and the way to the outbox.
pub struct Step<'t, 'p, M = InOrder32> {
    pub(crate) tx: &'t Tx<'p, M>,
    pub(crate) queue: &'t Queue<'t, M>,
}

/// What nothing is: whatever has it as a bound stays in its thread, and the compiler says so once and in these words.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` stays in the thread that runs the program",
    label = "a step's token, or the runtime, would go to another thread",
    note = "send the values that are needed there instead; a runtime is opened in the thread that runs its program"
)]
pub trait InOneThread {}

// SAFETY: invariant "In one thread": the bound never holds. It takes the place of what the compiler would find out field by field.
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
    /// Queues an output. It leaves the device after the step has committed, at least once, with a number that stays the
    /// same when it is sent again; never, if the step does not commit.
    ///
    /// **Cost**: the value and one unit; one unit each for the first message of a step, its number (two on 16-bit units) and
    /// to mark it. **Errors**: [`Error::OutboxFull`], and the step can only abort.
    pub fn send<T: Plain>(&self, port: &Port<T>, value: T) -> Result<(), Error> {
        self.queue.send(port, &value)
    }

    /// Like [`Step::send`], for bytes.
    pub fn send_bytes(&self, port: &Port<[u8]>, bytes: &[u8]) -> Result<(), Error> {
        self.queue.send_bytes(port, bytes)
    }

    /// An error that aborts the step with the program's own code: `return Err(tx.abort(7))`. The abort is recorded.
    pub fn abort(&self, code: u16) -> Error {
        Error::Aborted(code)
    }
}

/// The body of a step: a function pointer. A closure that captures anything is none, so that nothing volatile is changed
/// which a bypass would not change; what the body needs comes in as an argument.
pub type StepBody<R, M, A, O> = for<'p> fn(
    &Step<'_, 'p, M>,
    &mut Root<'p, <R as Persist>::At<'p>, <M as Model>::Unit>,
    <A as Arg>::In<'p>,
) -> Result<O, Error>;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Runs a step, once in the life of the program: all that `body` does to persistent objects happens with the record of
    /// the step, or nothing. When the program runs again, the recorded result is returned instead.
    ///
    /// A step that fails is undone, and its error is recorded, so that a replay takes the same way.
    ///
    /// **Power loss**: before the record's header is stored, nothing of the step; after it, all. **Cost**: one store of one
    /// unit to commit, and one for each unit of the result and of each handle that is given away (on 16-bit units one more
    /// if there are any); what the body does. **Errors**: [`StepError`] with the arguments, by `?` an [`Error`].
    /// **Panics**: never; a body that unwinds is undone, and nothing is recorded.
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

    /// Like [`Replay::step`], with a result that may hold handles: name its type, as in `step_own::<_, Held<Node>>`.
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

    /// Like [`Replay::step_own`], told apart from other steps by a number instead of its place in the source: it may move.
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
