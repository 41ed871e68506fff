//! A transaction in pieces, for a caller that owns the commit word and wants no result handed
//! through. Only the piece that runs the body depends on the body; a program contains the others
//! once.
//!
//! ```text
//! Context::start             begun
//! Context::run_started       body has returned             cut here: undone at the next open
//! Context::resume            Ok: go on; Err: undone
//! Open::prepare              frees, loans, sweep; fence    cut here: undone at the next open
//! the caller's commit word   <-- commits                   cut here: committed
//! Ready::committed           idle, next number
//! ```
//!
//! The order is that of [`Context::prepare`] and `Prepared::committed`, with less to copy in
//! between. Between the first three pieces nothing but the context knows of the transaction. If
//! `resume` does not follow, the next transaction undoes it, as after a stack that is given up.

use crate::context::{Context, Core, CtxState, Running, flag};
use crate::error::Error;
use crate::ptr::Width;
use crate::tx::{Root, Tx};
use nvmem::{Model, Persist, planted};

/// The flags of a transaction of one level that did nothing special.
const PLAIN: usize = flag::EXTERNAL | flag::OUTERMOST;

/// A transaction whose body has succeeded. It is undone when it is dropped.
#[doc(hidden)]
#[must_use = "a transaction without its commit store is undone"]
pub struct Open<'c, M: Model>(Running<'c, M>);

/// A transaction that lacks only its commit store. It is undone when it is dropped.
///
/// Its context is marked as prepared only if ending it needs the full path. Otherwise the context
/// still says that the transaction runs, so code that passes this value on uses a [`Watch`] to
/// notice whether it was forgotten.
#[doc(hidden)]
#[must_use = "a transaction without its commit store is undone"]
pub struct Ready<'c, M: Model> {
    running: Running<'c, M>,
    seq: usize,
}

/// Where a context's root is.
#[doc(hidden)]
pub struct RootPlace<M: Model<Unit: Width>>(<M::Unit as Width>::Off);
impl<M: Model<Unit: Width>> Clone for RootPlace<M> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<M: Model<Unit: Width>> Copy for RootPlace<M> {}

impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    /// Commits an empty transaction, if that takes nothing but the caller's commit word: `word`
    /// stores the number there, with a fence before and after it, or returns false and stores
    /// nothing. If `word` returns false or the commit needs more, this returns false and has done
    /// nothing: then use [`Context::start`] and [`Context::commit_empty`].
    ///
    /// **Cost**: 0 stores but those of `word`. Twice in a round of sequence numbers it takes more.
    #[doc(hidden)]
    #[inline(always)]
    pub fn pass_number(&mut self, word: impl FnOnce(u32) -> bool) -> bool {
        let s = self.s;
        let seq = s.seq.get();
        if s.flags.get() != flag::EXTERNAL || seq == s.sweep_seq.get() || !word(seq as u32) {
            return false;
        }
        // The largest number is one of those that sweep, so this is not it.
        s.seq.set(seq + 1);
        true
    }

    /// Commits the transaction that [`Context::start`] has begun, and in which nothing was done.
    /// `word` stores its number, with a fence before and after it.
    ///
    /// **Cost**: 0 stores but those of `word`; twice in a round of sequence numbers the sweep.
    #[doc(hidden)]
    #[inline(always)]
    pub fn commit_empty(&mut self, word: impl FnOnce(u32)) {
        debug_assert!(self.s.level() == flag::OUTERMOST);
        let (core, s) = (self.core, self.s);
        prepare_slow(core, s);
        word(s.seq.get() as u32);
        end_slow(Running { core, s });
    }

    /// Begins a transaction, for the caller that opened the pool with a resolver.
    ///
    /// **Cost**: 0 stores. **Errors**: a prepared transaction was forgotten.
    #[doc(hidden)]
    #[inline(always)]
    pub fn start(&mut self) -> Result<(), Error> {
        let running = self.begin(flag::EXTERNAL)?;
        core::mem::forget(running);
        Ok(())
    }

    /// [`Context::start`], for a context whose last transaction [`Ready::committed`] has ended, and
    /// which nothing has used since.
    #[doc(hidden)]
    #[inline(always)]
    pub fn start_next(&mut self) {
        debug_assert!(self.s.flags.get() == flag::EXTERNAL);
        self.s.flags.set(PLAIN);
    }

    /// Runs the body of the transaction that [`Context::start`] has begun. The body gets handles
    /// only from the pool, and returns none. If it unwinds, everything is undone.
    ///
    /// **Cost** and **Errors**: those of the body. After an error [`Context::resume`] asks.
    #[doc(hidden)]
    #[inline(always)]
    pub fn run_started<F>(&mut self, body: F) -> Result<(), Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<(), Error>,
    {
        // SAFETY: used in this transaction only.
        let (tx, at) = unsafe { (self.token(), self.root_place()) };
        let at = at.inspect_err(|_| tx.ask_before_commit())?;
        self.run_with(&tx, at, |root| body(&tx, root))
    }

    /// The token of the transactions that [`Context::start`] and [`Context::start_next`] begin, for
    /// [`Context::run_with`]. To be made while one of them runs.
    ///
    /// # Safety
    /// It is used in bodies that run with it only. If several do, one after the other, a body gets
    /// nothing that an earlier one had under the token's lifetime.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn token(&self) -> Tx<'c, M> {
        Tx::new(self.core, self.others, self.s, true)
    }

    /// Where the root is, for [`Context::run_with`]: in one place while the pool is open.
    ///
    /// **Errors**: there is none, so the medium has changed since the open. No transaction may run.
    ///
    /// # Safety
    /// It is used with this context only.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn root_place(&self) -> Result<RootPlace<M>, Error> {
        Ok(RootPlace(self.root()?))
    }

    /// [`Context::run_started`] with this context's [token](Context::token) and
    /// [root](Context::root_place).
    ///
    /// **Cost** and **Errors**: as there.
    #[doc(hidden)]
    #[inline(always)]
    pub fn run_with<F>(&mut self, tx: &Tx<'c, M>, at: RootPlace<M>, body: F) -> Result<(), Error>
    where
        F: FnOnce(&mut Root<'c, R::At<'c>, M::Unit>) -> Result<(), Error>,
    {
        debug_assert!(self.s.level() == flag::OUTERMOST && core::ptr::eq(tx.s, self.s));
        let running = Running {
            core: self.core,
            s: self.s,
        };
        let r = body(&mut Root::new(at.0));
        if r.is_err() {
            tx.ask_before_commit();
        }
        core::mem::forget(running);
        r
    }

    /// Goes on with the transaction whose body has returned. If the body has failed, or has called
    /// [`Tx::ask_before_commit`], `judge` must be asked, and if it returns an error, the
    /// transaction is undone. It may be asked in other cases, too.
    ///
    /// **Errors**: that of `judge`; that of an operation that failed in the body.
    #[doc(hidden)]
    #[inline(always)]
    pub fn resume<E: From<Error>>(
        self,
        judge: impl FnOnce() -> Result<(), E>,
    ) -> Result<Open<'c, M>, E> {
        let Context { core, s, .. } = self;
        let running = Running { core, s };
        if s.flags.get() != PLAIN && !planted!("pmem-tx/caller-not-asked") {
            judge()?;
            s.check_failed()?;
        }
        Ok(Open(running))
    }
}

/// [`Core::prepare`], once in a program. Then marks the transaction as prepared: other contexts
/// treat its changes as in doubt, and its end needs the full path. A transaction that only wrote
/// cells needs neither.
#[cold]
#[inline(never)]
fn prepare_slow<M: Model>(core: &Core<'_, M>, s: &CtxState) {
    let cells = s.flags.get() == PLAIN | flag::CELLS && s.seq.get() != s.sweep_seq.get();
    core.prepare(s);
    if cells {
        return;
    }
    if !planted!("pmem-tx/slow-end-not-marked") {
        s.set_flag(flag::PREPARED);
    }
}

/// Ends a transaction that is committed, once in a program.
#[cold]
#[inline(never)]
fn end_slow<M: Model>(running: Running<'_, M>) {
    running.committed()
}

impl<'c, M: Model> Open<'c, M> {
    /// Does all work that comes before the caller's commit store, and a fence.
    ///
    /// **Power loss**: the caller's word decides. **Cost**: frees, and twice in a round of sequence
    /// numbers the sweep.
    #[inline(always)]
    pub fn prepare(self) -> Ready<'c, M> {
        let Running { core, s } = &self.0;
        let seq = s.seq.get();
        // No cells, frees or sweep, and the next number is one more: the largest number is one of
        // those that sweep.
        if s.flags.get() == PLAIN && seq != s.sweep_seq.get() {
            core.end_loans(s);
        } else {
            prepare_slow(core, s);
        }
        if !planted!("pmem-tx/no-fence-before-commit") {
            core.fence();
        }
        Ready {
            running: self.0,
            seq,
        }
    }
}

impl<'c, M: Model> Ready<'c, M> {
    /// The number to store in the caller's commit word.
    #[inline(always)]
    pub fn seq(&self) -> u32 {
        self.seq as u32
    }

    /// To be made before other code gets this value.
    #[inline(always)]
    pub fn watch(&self) -> Watch<'c> {
        Watch(self.running.s)
    }

    /// Ends the transaction as committed: the caller's word is stored and fenced.
    #[inline(always)]
    pub fn committed(self) {
        let s = self.running.s;
        if s.is(flag::PREPARED) {
            return end_slow(self.running);
        }
        s.seq.set(s.seq.get() + 1);
        s.count.set(0);
        s.used.set(0);
        s.flags.set(flag::EXTERNAL);
        core::mem::forget(self)
    }
}

/// Watches a [`Ready`] that other code has got. If that code has forgotten it, the context refuses
/// further transactions when this is dropped, also by unwinding: it is marked as prepared.
#[doc(hidden)]
#[must_use = "watches nothing if it is dropped"]
pub struct Watch<'c>(&'c CtxState);

impl Watch<'_> {
    /// The transaction is committed.
    #[inline(always)]
    pub fn ended(self) {
        core::mem::forget(self)
    }
}

impl Drop for Watch<'_> {
    #[cold]
    fn drop(&mut self) {
        if self.0.level() > 0 {
            self.0.set_flag(flag::PREPARED);
        }
    }
}
