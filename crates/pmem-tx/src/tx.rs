//! A running transaction: its token, its root, and transactions inside it.

use crate::error::{Error, JournalOverflow};
use crate::pbox::{PBox, Width};
use crate::state::{Core, CtxState, flag};
use core::marker::PhantomData;
use nvmem::{InOrder32, Model, Persist};

/// Makes `'p` invariant: two transactions' brands never unify.
pub(crate) type Brand<'p> = PhantomData<fn(&'p ()) -> &'p ()>;

/// Proof that a transaction runs, and the brand of every handle used in it.
///
/// It cannot leave the body of the transaction, nor go to another thread.
pub struct Tx<'p, M = InOrder32> {
    pub(crate) core: &'p Core<'p, M>,
    pub(crate) others: &'p [CtxState],
    pub(crate) s: &'p CtxState,
    level: usize,
    /// False only while the pool is formatted: an interrupted format starts again.
    pub(crate) logged: bool,
    _brand: Brand<'p>,
}

/// What no type is. With it a type that one thread uses says so once, and not for each of its fields.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is used by one thread, the one that runs the transaction",
    label = "would be used by another thread here",
    note = "run a transaction there: a `Pool` can be moved to another thread, or kept behind a lock",
    note = "or send what this one has read: a copy of the value"
)]
pub trait InOneThread {}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<M> Send for Tx<'_, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<M> Sync for Tx<'_, M> where Self: InOneThread {}

/// Why a transaction can only abort.
pub(crate) trait Failure: Copy + Into<Error> {
    /// The transaction of this level can only abort, and so can those inside it.
    fn mark_failed(self, s: &CtxState, level: usize) {
        if !s.is(flag::FAILED) || level < s.failed_level.get() {
            s.failed_level.set(level);
            s.failed.set(self.into());
        }
        s.set_flag(flag::FAILED);
    }
}
impl Failure for Error {}
impl Failure for JournalOverflow {
    #[cold]
    #[inline(never)]
    fn mark_failed(self, s: &CtxState, level: usize) {
        Error::from(self).mark_failed(s, level)
    }
}

impl<'p, M: Model> Tx<'p, M> {
    #[inline(always)]
    pub(crate) fn new(
        core: &'p Core<'p, M>,
        others: &'p [CtxState],
        s: &'p CtxState,
        logged: bool,
    ) -> Self {
        Tx {
            level: s.level(),
            core,
            others,
            s,
            logged,
            _brand: PhantomData,
        }
    }

    /// Refuses what an outer transaction's token would do while a nested one is open.
    #[inline]
    pub(crate) fn check_innermost(&self) -> Result<(), Error> {
        if self.s.level() == self.level {
            Ok(())
        } else {
            Err(Error::OuterTransaction)
        }
    }

    /// `r`, and the transaction can only abort when it is an error: a handle was consumed that nobody owns now.
    #[inline(always)]
    pub(crate) fn or_fail<T, E: Failure>(&self, r: Result<T, E>) -> Result<T, Error> {
        match r {
            Ok(v) => Ok(v),
            Err(e) => {
                e.mark_failed(self.s, self.level);
                Err(e.into())
            }
        }
    }

    /// An error that aborts the transaction with the program's own code: `return Err(tx.abort(7))`.
    pub fn abort(&self, code: u16) -> Error {
        Error::Aborted(code)
    }

    /// A transaction inside this one: if `body` fails, what it did is undone and the outer transaction goes on; if not,
    /// it is part of the outer one, and durable when that commits.
    ///
    /// The body works on the same root under a brand of its own. Handles of the outer transaction cannot be used in it, and
    /// the outer token is refused there with [`Error::OuterTransaction`]. A `&mut` that the outer body has lent from an
    /// object outside of the root may be captured: what is written through it belongs to the outer transaction.
    ///
    /// **Power loss**: nothing of either is left unless the outermost has committed. **Cost**: 0 stores by itself; an
    /// object that the outer transaction has logged is logged again when the inner one first writes it.
    pub fn nested<R, O, F>(&self, root: &mut Root<'p, R, M::Unit>, body: F) -> Result<O, Error>
    where
        M::Unit: Width,
        R: Persist,
        F: for<'q> FnOnce(&Tx<'q, M>, &mut Root<'q, R::At<'q>, M::Unit>) -> Result<O, Error>,
    {
        self.check_innermost()?;
        let s = self.s;
        let saved = Savepoint {
            tx: self,
            base: s.base.get(),
            count: s.count.get(),
        };
        s.base.set(s.count.get());
        s.set_level(self.level + 1);
        let tx = Tx::new(self.core, self.others, s, self.logged);
        let r = body(&tx, &mut Root::new(root.0.offset()));
        let r = r.and_then(|o| s.check_failed().map(|()| o));
        if r.is_ok() {
            saved.keep();
        }
        r
    }
}

/// Undoes a nested transaction when it is dropped, by unwinding too.
struct Savepoint<'a, 'p, M: Model> {
    tx: &'a Tx<'p, M>,
    base: usize,
    count: usize,
}
impl<M: Model> Savepoint<'_, '_, M> {
    fn leave(&self) {
        let s = self.tx.s;
        s.base.set(self.base);
        s.set_level(self.tx.level);
        // A failure of the nested one is over with it; one of the outer one is not.
        if s.failed_level.get() > self.tx.level
            || nvmem::planted!("pmem-tx/outer-failure-forgotten")
        {
            s.clear_flag(flag::FAILED);
        }
    }
    fn keep(self) {
        self.leave();
        core::mem::forget(self);
    }
}
impl<M: Model> Drop for Savepoint<'_, '_, M> {
    fn drop(&mut self) {
        let from = if nvmem::planted!("pmem-tx/nested-clears-outer") {
            0
        } else {
            self.count
        };
        self.tx.core.rollback_to(self.tx.s, from);
        self.leave();
    }
}

/// The root object. One value per transaction and no constructor: there is nothing that it could be swapped with.
pub struct Root<'p, R, W: Width = u32>(pub(crate) PBox<'p, R, W>);

impl<'p, R: Persist, W: Width> Root<'p, R, W> {
    pub(crate) fn new(off: W::Off) -> Self {
        Root(PBox::from_offset(off))
    }

    /// The root, to read. **Cost**: 0 stores.
    #[inline]
    pub fn get<'a, M: Model<Unit = W>>(&'a self, tx: &'a Tx<'p, M>) -> &'a R {
        self.0.get(tx)
    }

    /// The root, to write; logged whole. See [`PBox::get_mut`].
    #[inline]
    pub fn get_mut<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> Result<&'a mut R, Error> {
        self.0.get_mut(tx)
    }

    /// The root as a slot: to follow handles in it without logging it. See [`PBox::slot`].
    #[inline]
    pub fn slot<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> crate::FieldSlot<'a, 'p, R, M> {
        self.0.slot(tx)
    }

    /// The root's fields, each logged when it is first written. See [`PBox::fields`].
    #[inline]
    pub fn fields<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> R::Slots<crate::slot::FieldLender<'a, 'p, M>>
    where
        R: nvmem::fields::Fields,
    {
        self.0.fields(tx)
    }
}
