//! Contexts: who runs transactions. Each has a journal, a root and a commit word of its own.

use crate::error::Error;
use crate::pbox::Width;
use crate::state::{Core, CtxState};
use crate::tx::{Root, Tx};
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, Persist, planted};

/// Runs transactions on a root of type `R`. A pool has one context for each of its roots; their transactions may be open
/// at the same time, each on its own stack.
pub struct Context<'c, R, M = InOrder32> {
    pub(crate) core: &'c Core<'c, M>,
    pub(crate) all: &'c [CtxState],
    pub(crate) ctx: usize,
    pub(crate) _r: PhantomData<fn(R) -> R>,
}

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
    ctx: usize,
}
impl<M: Model> Drop for Running<'_, M> {
    fn drop(&mut self) {
        self.core.rollback(self.ctx, self.s)
    }
}
impl<M: Model> Running<'_, M> {
    /// The commit word says that the transaction is committed.
    fn committed(self) {
        self.s.seq.set(self.core.geo.next(self.s.seq.get()));
        self.ended()
    }
    fn ended(self) {
        self.core.reset(self.s);
        core::mem::forget(self)
    }
    fn untouched(&self) -> bool {
        self.s.count.get() == 0 && !self.s.cells.get()
    }
}

impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    fn begin(&mut self) -> Result<Running<'c, M>, Error> {
        let s = &self.all[self.ctx];
        if s.prepared.get() {
            return Err(Error::Unfinished);
        }
        self.core.walked.set(false);
        if s.level.get() > 0 {
            // The stack on which the last one ran was given up without unwinding.
            self.core.rollback(self.ctx, s);
        }
        s.level.set(1);
        Ok(Running {
            core: self.core,
            s,
            ctx: self.ctx,
        })
    }

    fn body<O>(
        &mut self,
        f: impl FnOnce(&Tx<'c, M>, &mut Root<'c, R::At<'c>, M::Unit>) -> Result<O, Error>,
    ) -> Result<(Running<'c, M>, O), Error> {
        let running = self.begin()?;
        // SAFETY: the root word is a unit of the table.
        let off = unsafe {
            self.core
                .load(self.core.geo.root(self.ctx, Core::<M>::UNIT))
        };
        let off = M::Unit::off(off).ok_or(Error::WrongPool)?;
        let tx = Tx::new(self.core, self.all, self.ctx, true);
        let o = f(&tx, &mut Root::new(off))?;
        match running.s.failed.get() {
            Some(e) => Err(e),
            None => Ok((running, o)),
        }
    }

    fn commit(&self, running: Running<'c, M>) {
        if running.untouched() {
            return running.ended();
        }
        self.core.prepare(self.ctx, running.s);
        let at = self.core.geo.word(self.ctx, Core::<M>::UNIT);
        let seq = running.s.seq.get();
        // SAFETY: the context's commit word.
        unsafe {
            if planted!("pmem-tx/commit-in-two-stores") {
                self.core.store(at, seq & 1);
            }
            if !planted!("pmem-tx/no-commit-store") {
                self.core.store(at, seq);
            }
        }
        self.core.fence();
        running.committed();
    }

    fn own_word(&self) -> Result<(), Error> {
        if self.core.external {
            Err(Error::CallersCommitWord)
        } else {
            Ok(())
        }
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
        self.own_word()?;
        let (running, o) = self.body(|tx, root| body(tx, root))?;
        self.commit(running);
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
        if let Err(error) = self.own_word().and_then(|()| self.session(&args)) {
            return Err(Failed { error, args });
        }
        // SAFETY: if the body fails everything is undone, and the arguments are what they were; if not they are forgotten.
        match self.body(|tx, root| body(tx, root, unsafe { args.enter() })) {
            Ok((running, o)) => {
                core::mem::forget(args);
                self.commit(running);
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
        if let Err(error) = self.own_word() {
            return Err(Failed { error, args });
        }
        let p = self.run::<A, O, F>(args, body)?;
        self.commit_prepared(p)
    }

    fn commit_prepared<A, O>(&self, p: Prepared<'c, A, O, M>) -> Result<O, Failed<A>> {
        let Prepared {
            running, result, ..
        } = p;
        self.commit(running);
        Ok(result)
    }

    fn session<A: Arg>(&self, args: &A) -> Result<(), Error> {
        if args.of_session(self.core.session) {
            Ok(())
        } else {
            Err(Error::WrongPool)
        }
    }

    fn run<A: Arg, O: Ret, F>(
        &mut self,
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
        if let Err(error) = self.session(&args) {
            return Err(Failed { error, args });
        }
        let session = self.core.session;
        // SAFETY: as in `tx_with`; `Prepared` forgets the arguments when it commits.
        let r = self
            .body(|tx, root| body(tx, root, unsafe { args.enter() }).map(|o| O::leave(o, session)));
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
        if !self.core.external {
            return Err(Failed {
                error: Error::PoolsCommitWord,
                args,
            });
        }
        self.prepared::<A, O, F>(args, body)
    }

    pub(crate) fn prepared<A: Arg, O: Ret, F>(
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
        let p = self.run::<A, O, F>(args, body)?;
        p.running.core.prepare(p.running.ctx, p.running.s);
        Ok(p)
    }

    /// The sequence number of the next transaction.
    pub fn next_seq(&self) -> u32 {
        self.all[self.ctx].seq.get()
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

impl<A, O, M: Model> Prepared<'_, A, O, M> {
    /// The sequence number to store in the caller's commit word.
    pub fn seq(&self) -> u32 {
        self.running.s.seq.get()
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
