//! A transaction in three pieces, for a caller that owns the commit word and wants no result handed
//! through: run the body, prepare, store the word, end.
//!
//! ```text
//! Context::run_resolved      body has returned Ok          cut here: undone at the next open
//! Open::prepare              frees, loans, sweep; fence    cut here: undone at the next open
//! the caller's commit word   <-- commits                   cut here: committed
//! Ready::committed           idle, next number
//! ```
//!
//! The same order as [`Context::prepare`] and `Prepared::committed`; only what is copied between
//! them is less.

use crate::context::{Context, Core, CtxState, Running, flag};
use crate::error::Error;
use crate::ptr::Width;
use crate::tx::{Root, Tx};
use nvmem::{Model, Persist, planted};

/// The flags of a transaction of one level that did nothing special.
const PLAIN: usize = flag::EXTERNAL | 1;

/// A transaction whose body has returned `Ok`. It is undone when it is dropped.
#[doc(hidden)]
#[must_use = "a transaction without its commit store is undone"]
pub struct Open<'c, M: Model>(Running<'c, M>);

/// A transaction that lacks only its commit store. It is undone when it is dropped.
#[doc(hidden)]
#[must_use = "a transaction without its commit store is undone"]
pub struct Ready<'c, M: Model> {
    running: Running<'c, M>,
    /// No cells, frees or sweep, and the next number is one more.
    plain: bool,
}

impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    /// Commits an empty transaction. `word` stores its number in the caller's commit word, with a
    /// fence before and after it.
    ///
    /// **Cost**: 0 stores but those of `word`; twice in a round of sequence numbers the sweep.
    /// **Errors**: a prepared transaction was forgotten.
    #[doc(hidden)]
    #[inline(always)]
    pub fn pass_number(&mut self, word: impl FnOnce(u32)) -> Result<(), Error> {
        let s = self.s;
        let plain = s.flags.get() == flag::EXTERNAL && s.seq.get() != s.sweep_seq.get();
        if !plain {
            self.prepare_empty()?;
        }
        let seq = s.seq.get();
        word(seq as u32);
        if plain {
            // The largest number is one of those that sweep, so this is not it.
            s.seq.set(seq + 1);
        } else {
            end_slow(Running { core: self.core, s });
        }
        Ok(())
    }

    /// An empty transaction up to its commit store. Nothing unwinds before that.
    #[cold]
    #[inline(never)]
    fn prepare_empty(&mut self) -> Result<(), Error> {
        let running = self.begin(flag::EXTERNAL)?;
        prepare_slow(running.core, running.s);
        core::mem::forget(running);
        Ok(())
    }

    /// Runs a body, for the caller that opened the pool with a resolver. The body gets handles only
    /// from the pool, and returns none.
    ///
    /// **Cost** and **Errors**: those of [`Context::prepare`].
    #[doc(hidden)]
    #[inline(always)]
    pub fn run_resolved<F, E: From<Error>>(mut self, body: F) -> Result<Open<'c, M>, E>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<(), E>,
    {
        let (running, ()) = self.run_body(flag::EXTERNAL, |tx, root| body(tx, root))?;
        Ok(Open(running))
    }
}

/// [`Core::prepare`], once in a program.
#[cold]
#[inline(never)]
fn prepare_slow<M: Model>(core: &Core<'_, M>, s: &CtxState) {
    core.prepare(s)
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
        let plain = s.flags.get() == PLAIN && s.seq.get() != s.sweep_seq.get();
        if plain {
            core.end_loans(s);
        } else {
            prepare_slow(core, s);
        }
        if !planted!("pmem-tx/no-fence-before-commit") {
            core.fence();
        }
        Ready {
            running: self.0,
            plain,
        }
    }
}

impl<M: Model> Ready<'_, M> {
    /// Announces that only the commit store is missing. Call it if other code runs before that
    /// store: a transaction of another context, or code that may forget this value.
    #[inline(always)]
    pub fn announce(&self) {
        self.running.s.set_flag(flag::PREPARED);
    }

    /// Ends the transaction as committed: the caller's word is stored and fenced.
    #[inline(always)]
    pub fn committed(self) {
        if !self.plain {
            return end_slow(self.running);
        }
        let s = self.running.s;
        // The largest number is one of those that sweep, so this is not it.
        s.seq.set(s.seq.get() + 1);
        s.count.set(0);
        s.used.set(0);
        s.flags.set(flag::EXTERNAL);
        core::mem::forget(self)
    }
}
