//! Transaction contexts: each runs the transactions of one thread of control.
//!
//! Each context has a journal, a root and a commit word of its own, so contexts need no lock
//! between them.
//!
//! ```text
//!             begin             body succeeds          commit word = seq
//!    idle -----------> running ---------------> prepared --------------> idle, seq + 1
//!     ^                   |   error, unwinding     |   Prepared dropped
//!     `-------------------+------------------------'
//!           roll back: undo all entries, newest first
//! ```
//!
//! `tx` goes through all states. `prepare` stops before the commit store and returns `Prepared`:
//! the caller stores the number in a commit word of its own. A stack that is given up without
//! unwinding leaves the context in `running`; the next `begin` rolls back first. A forgotten
//! `Prepared` leaves it in `prepared`, and `begin` refuses with `Unfinished`: the caller's word may
//! name its number.
//!
//! Why this is safe: until the commit word holds the transaction's number, the journal can undo all
//! of it. The word is one atomic unit, stored between two fences, so a cut leaves either number.

use crate::error::{BeginError, Error};
use crate::pbox::Width;
use crate::session;
use crate::state::{Core, CtxState, flag};
use crate::tx::{InOneThread, Root, Tx};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, Persist, planted};

/// Runs transactions on a root of type `R`. A pool has one context for each of its roots. Their
/// transactions may be open at the same time, each on its own stack.
pub struct Context<'c, R, M = InOrder32> {
    pub(crate) core: &'c Core<'c, M>,
    /// The states of all contexts if there are several, else empty. An allocation looks there for
    /// blocks in doubt.
    pub(crate) others: &'c [CtxState],
    pub(crate) s: &'c CtxState,
    pub(crate) _r: PhantomData<fn(R) -> R>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Send for Context<'_, R, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Sync for Context<'_, R, M> where Self: InOneThread {}

/// A transaction that did not commit, with the arguments it was given. Handles among them are valid
/// again.
#[derive(Debug)]
pub struct Failed<A> {
    /// Why.
    pub error: Error,
    /// The arguments that were passed in.
    pub args: A,
}
impl<A> From<Failed<A>> for Error {
    fn from(f: Failed<A>) -> Error {
        f.error
    }
}

/// Guard of a running transaction: rolls back when it is dropped, also by unwinding.
struct Running<'c, M: Model> {
    core: &'c Core<'c, M>,
    s: &'c CtxState,
}
impl<M: Model> Drop for Running<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.core.rollback(self.s)
    }
}
impl<M: Model> Running<'_, M> {
    /// Ends the transaction after its commit word was stored.
    fn committed(self) {
        self.core.committed(self.s);
        core::mem::forget(self)
    }

    /// Stores the commit word.
    fn commit(self) {
        let s = self.s;
        let seq = s.seq.get();
        // Fast path: one level, content was logged, and there are no cells, frees or sweep.
        if s.flags.get() == 1 && s.count.get() > 0 && seq != s.sweep_seq.get() {
            self.core.end_loans(s);
            self.store_word(seq);
            s.seq.set(seq + 1);
            s.count.set(0);
            s.used.set(0);
            s.flags.set(0);
            core::mem::forget(self)
        } else {
            self.commit_slow()
        }
    }

    #[inline(never)]
    fn commit_slow(self) {
        if self.s.count.get() == 0 && !self.s.is(flag::CELLS) {
            // Nothing was changed: the next transaction uses this number.
            self.core.reset(self.s);
            return core::mem::forget(self);
        }
        self.core.prepare(self.s);
        self.store_word(self.s.seq.get());
        self.committed();
    }

    #[inline(always)]
    fn store_word(&self, seq: usize) {
        let at = self.s.word.get();
        if !planted!("pmem-tx/no-fence-before-commit") {
            self.core.fence();
        }
        // SAFETY: invariant "Commit is one unit": the context's commit word, which is never lent.
        unsafe {
            if planted!("pmem-tx/commit-in-two-stores") {
                self.core.store(at, seq & 1);
            }
            if !planted!("pmem-tx/no-commit-store") {
                self.core.store(at, seq);
            }
        }
        self.core.fence();
    }
}

impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    /// Begins a transaction. `idle_flags` are the flags of an idle context.
    #[inline(always)]
    fn begin(&mut self, idle_flags: usize) -> Result<Running<'c, M>, Error> {
        if self.s.flags.get() != idle_flags {
            self.begin_slow(idle_flags)?;
        }
        self.s.flags.set(idle_flags | 1);
        Ok(Running {
            core: self.core,
            s: self.s,
        })
    }

    /// Slow path of `begin`: a flag is set. Reports misuse, rolls back an abandoned transaction,
    /// and invalidates the walk's marks.
    #[cold]
    fn begin_slow(&self, idle_flags: usize) -> Result<(), BeginError> {
        let s = self.s;
        if idle_flags == 0 && s.is(flag::EXTERNAL) {
            return Err(BeginError::CallersCommitWord);
        }
        if s.is(flag::PREPARED) {
            return Err(BeginError::Unfinished);
        }
        M::section(|| self.core.walk_valid.set(false));
        if s.level() > 0 {
            // The stack of the previous transaction was given up without unwinding.
            self.core.rollback(s);
        }
        s.clear_flag(flag::WALKED);
        Ok(())
    }

    /// The offset of the root object.
    #[inline(always)]
    fn root(&self) -> Result<<M::Unit as Width>::Off, Error> {
        // SAFETY: invariant "Headers are never content": the root word is the unit after the commit
        // word.
        let off = unsafe { self.core.load(self.s.word.get() + Core::<M>::UNIT) };
        M::Unit::off(off).ok_or(Error::WrongPool)
    }

    /// Runs a body in a new transaction. Always inlined: each body has one call site, and half of
    /// the cost is returning its result through memory.
    #[inline(always)]
    fn run_body<O>(
        &mut self,
        idle_flags: usize,
        f: impl FnOnce(&Tx<'c, M>, &mut Root<'c, R::At<'c>, M::Unit>) -> Result<O, Error>,
    ) -> Result<(Running<'c, M>, O), Error> {
        let running = self.begin(idle_flags)?;
        let tx = Tx::new(self.core, self.others, self.s, true);
        let o = f(&tx, &mut Root::new(self.root()?))?;
        // If the flags are as `begin` set them, no operation has failed.
        if self.s.flags.get() != idle_flags | 1 {
            self.s.check_failed()?;
        }
        Ok((running, o))
    }

    /// Runs a transaction: everything `body` does to persistent objects happens, or nothing.
    ///
    /// **Power loss**: before the commit store the next open undoes everything; after it, nothing.
    /// **Cost**: 0 stores to begin. One store of an atomic unit to commit, whatever the size; none
    /// if nothing was changed. The operations of the body cost what [`PBox`](crate::PBox) and
    /// [`Ptr`](crate::Ptr) state. Twice in a round of sequence numbers, stale journal headers and
    /// cell tags are cleared, with at most one store for each. **Errors**: those of the body; then
    /// everything was undone. **Panics**: never; if the body unwinds, everything is undone.
    #[inline]
    pub fn tx<O, F>(&mut self, body: F) -> Result<O, Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<O, Error>,
    {
        let (running, o) = self.run_body(0, |tx, root| body(tx, root))?;
        running.commit();
        Ok(o)
    }

    /// Like [`Context::tx`], with arguments: plain values, and [`Held`](crate::Held) handles by
    /// value or lent.
    ///
    /// **Errors**: those of [`Context::tx`], and [`Error::WrongPool`] for a handle of another
    /// session. The arguments come back.
    pub fn tx_with<A: Arg, O, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O, Error>,
    {
        if let Err(error) = self.check_session(&args) {
            return Err(Failed { error, args });
        }
        // SAFETY: invariant "Sole owner": if the body fails, everything is undone and the arguments
        // are valid again; if not, they are forgotten.
        match self.run_body(0, |tx, root| body(tx, root, unsafe { args.enter() })) {
            Ok((running, o)) => {
                core::mem::forget(args);
                running.commit();
                Ok(o)
            }
            Err(error) => Err(Failed { error, args }),
        }
    }

    /// Like [`Context::tx_with`], with a result that may hold handles. Name its type, as in
    /// `tx_own::<_, Held<Node>, _>`.
    pub fn tx_own<A: Arg, O: Ret, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let Prepared {
            running, result, ..
        } = self.run_with_args::<A, O, F>(0, args, body)?;
        running.commit();
        Ok(result)
    }

    fn check_session<A: Arg>(&self, args: &A) -> Result<(), Error> {
        if args.of_session(M::section(|| self.core.session.get())) {
            Ok(())
        } else {
            Err(Error::WrongPool)
        }
    }

    fn run_with_args<A: Arg, O: Ret, F>(
        &mut self,
        idle_flags: usize,
        args: A,
        body: F,
    ) -> Result<Prepared<'c, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        if let Err(error) = self.check_session(&args) {
            return Err(Failed { error, args });
        }
        let session = if O::HANDLES > 0 {
            match self.core.session() {
                Ok(session) => session,
                Err(error) => return Err(Failed { error, args }),
            }
        } else {
            session::NONE
        };
        let r = self.run_body(idle_flags, |tx, root| {
            // SAFETY: invariant "Sole owner": if the body fails everything is undone; `Prepared`
            // forgets the arguments when it commits.
            let args = unsafe { args.enter() };
            // SAFETY: invariant "Sole owner": the result is dropped unless the transaction commits.
            body(tx, root, args).map(|o| unsafe { O::leave(o, session) })
        });
        match r {
            Ok((running, result)) => Ok(Prepared {
                running,
                result,
                args: core::mem::ManuallyDrop::new(args),
            }),
            Err(error) => Err(Failed { error, args }),
        }
    }

    /// Runs a transaction up to its commit store, which the caller makes in a commit word of its
    /// own. At the next open the resolver reads from that word whether this sequence number is
    /// committed.
    ///
    /// Store [`Prepared::seq`] there with one store of an atomic unit, fence, and call
    /// [`Prepared::committed`]. Other contexts may run transactions in between. **Power loss**: the
    /// caller's word decides. **Cost**: that of [`Context::tx`] without the commit store.
    /// **Errors**: those of [`Context::tx_with`]; [`Error::PoolsCommitWord`] if the pool was opened
    /// without a resolver.
    pub fn prepare<A: Arg, O: Ret, F>(
        &mut self,
        args: A,
        body: F,
    ) -> Result<Prepared<'_, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        if !self.core.caller_commits {
            return Err(Failed {
                error: Error::PoolsCommitWord,
                args,
            });
        }
        self.prepare_resolved::<A, O, F>(args, body)
    }

    /// [`Context::prepare`] for the caller that opened the pool with a resolver: does not check
    /// that.
    #[doc(hidden)]
    pub fn prepare_resolved<A: Arg, O: Ret, F>(
        &mut self,
        args: A,
        body: F,
    ) -> Result<Prepared<'_, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let p = self.run_with_args::<A, O, F>(self.s.flags.get() & flag::EXTERNAL, args, body)?;
        self.core.prepare(self.s);
        if !planted!("pmem-tx/no-fence-before-commit") {
            self.core.fence();
        }
        self.s.set_flag(flag::PREPARED);
        Ok(p)
    }

    /// The sequence number of the next transaction.
    pub fn next_seq(&self) -> u32 {
        self.s.seq.get() as u32
    }
}

/// A transaction that lacks only its commit store. It is undone when it is dropped. If it is
/// forgotten, its context refuses further transactions with [`Error::Unfinished`].
#[must_use = "a prepared transaction is undone when it is dropped"]
pub struct Prepared<'c, A, O, M: Model> {
    running: Running<'c, M>,
    result: O,
    args: core::mem::ManuallyDrop<A>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<A, O, M: Model> Send for Prepared<'_, A, O, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<A, O, M: Model> Sync for Prepared<'_, A, O, M> where Self: InOneThread {}

impl<A, O, M: Model> Prepared<'_, A, O, M> {
    /// The sequence number to store in the caller's commit word.
    pub fn seq(&self) -> u32 {
        self.running.s.seq.get() as u32
    }
    /// The body's result.
    pub fn result(&self) -> &O {
        &self.result
    }
    /// Ends the transaction as committed. Call it after the caller's commit word is stored and
    /// fenced.
    pub fn committed(self) -> O {
        let Prepared {
            running, result, ..
        } = self;
        running.committed();
        result
    }
    /// Undoes the transaction and returns the arguments.
    pub fn abandon(self) -> A {
        let Prepared { running, args, .. } = self;
        drop(running);
        core::mem::ManuallyDrop::into_inner(args)
    }
}
