//! Contexts: who runs transactions. Each has a journal, a root and a commit word of its own.

use crate::error::{BeginError, Error};
use crate::pbox::Width;
use crate::session;
use crate::state::{Core, CtxState, flag};
use crate::tx::{InOneThread, Root, Tx};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, Persist, planted};

/// Runs transactions on a root of type `R`. A pool has one context for each of its roots; their transactions may be open
/// at the same time, each on its own stack.
pub struct Context<'c, R, M = InOrder32> {
    pub(crate) core: &'c Core<'c, M>,
    /// Those of whom one may have a transaction prepared while another runs one: all, if there are several.
    pub(crate) others: &'c [CtxState],
    pub(crate) s: &'c CtxState,
    pub(crate) _r: PhantomData<fn(R) -> R>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Send for Context<'_, R, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Sync for Context<'_, R, M> where Self: InOneThread {}

/// A transaction that did not commit, and the arguments that it was given: handles are whole again.
#[derive(Debug)]
pub struct Failed<A> {
    /// Why.
    pub error: Error,
    /// What was passed in.
    pub args: A,
}
impl<A> From<Failed<A>> for Error {
    fn from(f: Failed<A>) -> Error {
        f.error
    }
}

/// Rolls back unless it is disarmed; when a body unwinds too.
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
    /// The commit word says that the transaction is committed.
    fn committed(self) {
        self.core.committed(self.s);
        core::mem::forget(self)
    }

    /// Stores the commit word.
    fn commit(self) {
        let s = self.s;
        let seq = s.seq.get();
        // One level that has logged content, and no other thing to do.
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
            // Nothing was changed: the number is not used up.
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
    /// Begins a transaction of a context that rests, with `rest` as its flags.
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

    /// The context does not rest.
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
            // The stack on which the last one ran was given up without unwinding.
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

    /// Always inlined: each body is called from one place, and a result that stays in registers is half of the cost.
    #[inline(always)]
    fn run_body<O>(
        &mut self,
        idle_flags: usize,
        f: impl FnOnce(&Tx<'c, M>, &mut Root<'c, R::At<'c>, M::Unit>) -> Result<O, Error>,
    ) -> Result<(Running<'c, M>, O), Error> {
        let running = self.begin(idle_flags)?;
        let tx = Tx::new(self.core, self.others, self.s, true);
        let o = f(&tx, &mut Root::new(self.root()?))?;
        // One level, and nothing out of the ordinary.
        if self.s.flags.get() != idle_flags | 1 {
            self.s.check_failed()?;
        }
        Ok((running, o))
    }

    /// Runs a transaction: all that `body` does to persistent objects happens, or nothing.
    ///
    /// **Power loss**: before the commit store everything is undone at the next open; after it, nothing. **Cost**: to begin, 0
    /// stores; to commit, one store of an atomic unit whatever the size, none if nothing was changed; what [`PBox`](crate::PBox) and
    /// [`Ptr`](crate::Ptr) say for what it does. Twice in a round of sequence numbers the stale journal headers and cell tags are cleared, at
    /// most one store for each. **Errors**: what the body returns; then everything was undone. **Panics**: never; a body that
    /// unwinds is undone.
    #[inline]
    pub fn tx<O, F>(&mut self, body: F) -> Result<O, Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<O, Error>,
    {
        let (running, o) = self.run_body(0, |tx, root| body(tx, root))?;
        running.commit();
        Ok(o)
    }

    /// Like [`Context::tx`], with arguments: plain values, [`Held`](crate::Held) handles by value, or lent.
    ///
    /// **Errors**: as there, and [`Error::WrongPool`] for a handle of another session. The arguments come back.
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
        // SAFETY: invariant "Sole owner": if the body fails everything is undone, and the arguments
        // are what they were; if not they are forgotten.
        match self.run_body(0, |tx, root| body(tx, root, unsafe { args.enter() })) {
            Ok((running, o)) => {
                core::mem::forget(args);
                running.commit();
                Ok(o)
            }
            Err(error) => Err(Failed { error, args }),
        }
    }

    /// Like [`Context::tx_with`], with a result that may hold handles: name its type, as in `tx_own::<_, Held<Node>, _>`.
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
            // SAFETY: invariant "Sole owner": what leaves is dropped unless the transaction commits.
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

    /// Runs a body and does everything but the commit store, which is the caller's: a word that the caller owns and from which
    /// the resolver, at the next open, tells that this sequence number is committed.
    ///
    /// Store [`Prepared::seq`] there with one store of an atomic unit, fence, and call [`Prepared::committed`]. Other contexts may
    /// run transactions in between. **Power loss**: the caller's word decides. **Cost**: as [`Context::tx`] without the commit
    /// store. **Errors**: as [`Context::tx_with`].
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

    /// [`Context::prepare`], by whom the pool was opened with a resolver.
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

/// A transaction of which only the commit store is missing. Dropped, it is undone; forgotten, its context refuses to go on
/// with [`Error::Unfinished`].
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
    /// The caller's word is stored and fenced: the transaction is committed.
    pub fn committed(self) -> O {
        let Prepared {
            running, result, ..
        } = self;
        running.committed();
        result
    }
    /// Undoes the transaction and gives the arguments back.
    pub fn abandon(self) -> A {
        let Prepared { running, args, .. } = self;
        drop(running);
        core::mem::ManuallyDrop::into_inner(args)
    }
}
