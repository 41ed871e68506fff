//! A running transaction: its token, its root, nested transactions, and field slots, which log a
//! field or an element when it is first written.

use crate::context::{Core, CtxState, flag};
use crate::error::{Error, JournalOverflow};
use crate::ptr::{PBox, Ptr, Width, write_value};
use core::marker::PhantomData;
use nvmem::fields::{FieldAccess, Fields};
use nvmem::{InOrder32, Model, Persist, Plain, mapped, planted};

/// Makes `'p` invariant: two transactions' brands never unify.
pub(crate) type Brand<'p> = PhantomData<fn(&'p ()) -> &'p ()>;

/// Proof that a transaction runs. Its brand `'p` marks every handle used in it.
///
/// The token can neither leave the transaction's body nor go to another thread.
pub struct Tx<'p, M = InOrder32> {
    pub(crate) core: &'p Core<'p, M>,
    pub(crate) others: &'p [CtxState],
    pub(crate) s: &'p CtxState,
    /// Its nesting level, as in [`CtxState::level`].
    level: usize,
    /// False only while the pool is formatted: an interrupted format starts over.
    pub(crate) logged: bool,
    _brand: Brand<'p>,
}

// INVARIANT "One thread": one thread uses a token, a field slot, a context and a prepared
// transaction, and one thread at a time uses a pool. Their `Send` and `Sync` have a bound that no
// type meets.
// Noticed by: tests/suite/markers.rs, tests/ui/threads.rs.

/// A bound that no type meets. Types with it stay in one thread, and the compiler reports that
/// once, not once per field.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is used only by the thread that runs the transaction",
    label = "another thread would use it here",
    note = "run a transaction there: a `Pool` can be moved to another thread, or kept behind a lock",
    note = "or copy the value here and send the copy"
)]
pub trait InOneThread {}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<M> Send for Tx<'_, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<M> Sync for Tx<'_, M> where Self: InOneThread {}

// INVARIANT "What lost its owner is undone": a transaction commits only if no operation that
// consumed one of its handles has failed, through any token. `mark_failed` notes the failure;
// `Savepoint::leave` keeps one of an outer level.
// Noticed by: `consumed_through_an_outer_token` in tests/suite/misuse/unwinding.rs; planted
// `outer-failure-forgotten`.

/// An error after which the transaction can only abort.
pub(crate) trait Failure: Copy + Into<Error> {
    /// Records that the transaction of this level, and all nested in it, can only abort.
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

    /// Refuses an outer transaction's token while a nested one is open.
    #[inline]
    pub(crate) fn check_innermost(&self) -> Result<(), Error> {
        if self.s.level() == self.level {
            Ok(())
        } else {
            Err(Error::OuterTransaction)
        }
    }

    /// Returns `r`. If it is an error, the transaction can only abort: the failed operation
    /// consumed a handle.
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

    /// Lets the caller decide whether the transaction commits: see
    /// [`Context::resume`](crate::Context::resume).
    #[doc(hidden)]
    pub fn ask_before_commit(&self) {
        self.s.set_flag(flag::ASK)
    }

    /// An error with a code of the program, to abort the transaction: `return Err(tx.abort(7))`.
    pub fn abort(&self, code: u16) -> Error {
        Error::Aborted(code)
    }

    /// Runs a transaction inside this one. If `body` fails, its changes are undone and the outer
    /// transaction continues. If not, they belong to the outer transaction and are durable when
    /// that commits.
    ///
    /// The body works on the same root under a brand of its own. Handles of the outer transaction
    /// cannot be used in it, and the outer token is refused with [`Error::OuterTransaction`]. The
    /// body may capture a `&mut` that the outer body has borrowed from an object other than the
    /// root. Writes through it belong to the outer transaction.
    ///
    /// **Power loss**: nothing of either remains unless the outermost has committed. **Cost**: 0
    /// stores by itself. An object that the outer transaction has logged is logged again when the
    /// nested one first writes it. **Errors**: that of `body`, or of an operation after which the
    /// transaction can only abort; [`Error::OuterTransaction`] if `self` is the token of an outer
    /// transaction.
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
        s.set_level(self.level + flag::OUTERMOST);
        let tx = Tx::new(self.core, self.others, s, self.logged);
        let r = body(&tx, &mut Root::new(root.0.offset()));
        let r = r.and_then(|o| s.check_failed().map(|()| o));
        if r.is_ok() {
            saved.release();
        }
        r
    }
}

// INVARIANT "Inner undone alone": an inner abort leaves every outer entry valid.
// Noticed by: planted `nested-clears-outer`.

/// Guard of a nested transaction: undoes it when it is dropped, also by unwinding.
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
        // A failure of the nested transaction ends with it; a failure of an outer one does not.
        if s.failed_level.get() > self.tx.level || planted!("pmem-tx/outer-failure-forgotten") {
            s.clear_flag(flag::FAILED);
        }
    }
    fn release(self) {
        self.leave();
        core::mem::forget(self);
    }
}
impl<M: Model> Drop for Savepoint<'_, '_, M> {
    fn drop(&mut self) {
        let from = if planted!("pmem-tx/nested-clears-outer") {
            0
        } else {
            self.count
        };
        self.tx.core.rollback_to(self.tx.s, from);
        self.leave();
    }
}

/// The root object. There is one value per transaction and no constructor, so it cannot be swapped
/// with another.
#[repr(transparent)]
pub struct Root<'p, R, W: Width = u32>(pub(crate) PBox<'p, R, W>);

impl<'p, R: Persist, W: Width> Root<'p, R, W> {
    pub(crate) fn new(off: W::Off) -> Self {
        Root(PBox::from_offset(off))
    }

    /// Borrows the root to read it. **Cost**: 0 stores.
    #[inline]
    pub fn get<'a, M: Model<Unit = W>>(&'a self, tx: &'a Tx<'p, M>) -> &'a R {
        self.0.get(tx)
    }

    /// Borrows the root to write it; the whole root is logged. See [`PBox::get_mut`]. **Errors**:
    /// as there.
    #[inline]
    pub fn get_mut<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> Result<&'a mut R, Error> {
        self.0.get_mut(tx)
    }

    /// The root as a field slot, to follow handles in it without logging it. See [`PBox::slot`].
    #[inline]
    pub fn slot<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> FieldSlot<'a, 'p, R, M> {
        self.0.slot(tx)
    }

    /// The root's fields, each logged when it is first written. See [`PBox::fields`].
    #[inline]
    pub fn fields<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> R::Slots<FieldLender<'a, 'p, M>>
    where
        R: nvmem::fields::Fields,
    {
        self.0.fields(tx)
    }
}

/// Creates the field slots of an object that is borrowed for `'a` in the transaction `'p`.
pub struct FieldLender<'a, 'p, M = InOrder32> {
    tx: &'a Tx<'p, M>,
}
impl<M> Clone for FieldLender<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for FieldLender<'_, '_, M> {}
impl<'a, 'p, M: Model> FieldLender<'a, 'p, M> {
    pub(crate) fn new(tx: &'a Tx<'p, M>) -> Self {
        FieldLender { tx }
    }
}

// SAFETY: invariant "Sole owner": a slot reaches the one field that it was made for.
unsafe impl<'a, 'p, M: Model> FieldAccess for FieldLender<'a, 'p, M> {
    type FieldSlot<U> = FieldSlot<'a, 'p, U, M>;
    unsafe fn field_slot<U>(self, at: *mut U) -> FieldSlot<'a, 'p, U, M> {
        FieldSlot {
            at,
            tx: self.tx,
            _m: PhantomData,
        }
    }
}

/// Access to one field of type `U`.
pub struct FieldSlot<'a, 'p, U, M = InOrder32> {
    at: *mut U,
    tx: &'a Tx<'p, M>,
    _m: PhantomData<&'a mut ()>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<U, M> Send for FieldSlot<'_, '_, U, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<U, M> Sync for FieldSlot<'_, '_, U, M> where Self: InOneThread {}

impl<'a, 'p, U: Persist, M: Model> FieldSlot<'a, 'p, U, M> {
    fn offset(&self) -> usize {
        self.at as usize - self.tx.core.region.base() as usize
    }

    /// Borrows the field to read it. **Cost**: 0 stores.
    #[inline]
    pub fn get(&self) -> &U {
        mapped::will_read(self.at.cast(), size_of::<U>());
        // SAFETY: invariant "Sole owner": the object is borrowed mutably for `'a`, and only this
        // slot reaches the field.
        unsafe { &*self.at }
    }

    /// Borrows the field to write it. Only this field is logged, once. **Power loss**, **Cost**,
    /// **Errors**: as for [`PBox::get_mut`](crate::PBox::get_mut).
    #[inline]
    pub fn get_mut(&mut self) -> Result<&mut U, Error> {
        self.tx.log_to_lend::<U>(self.offset())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": only this slot reaches the field,
        // and it is borrowed mutably.
        Ok(unsafe { &mut *self.at })
    }

    /// Like [`FieldSlot::get_mut`], for as long as the object is borrowed. **Errors**: as there.
    #[inline]
    pub fn into_mut(self) -> Result<&'a mut U, Error> {
        self.tx.log_to_lend::<U>(self.offset())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": only this slot reached the field,
        // and it is consumed.
        Ok(unsafe { &mut *self.at })
    }

    /// Writes the field, with its padding as zeros. So it takes any type in a pool over a mirror
    /// too. See [`FieldSlot::get_mut`]. **Errors**: as there.
    #[inline]
    pub fn set(&mut self, v: U) -> Result<(), Error>
    where
        U: nvmem::Plain,
    {
        self.tx.log::<U>(self.offset())?;
        if U::PADDED && !planted!("pmem-tx/set-leaves-padding") {
            // SAFETY: invariants "Sole owner", "Logged before lent": only this slot reaches the
            // field, which is borrowed mutably; a plain value has no handles to lose.
            unsafe { write_value(self.at, v) }
        } else {
            // SAFETY: as above.
            unsafe { *self.at = v }
        }
        Ok(())
    }

    /// The field slots of this field's own fields.
    #[inline]
    pub fn fields(&mut self) -> U::Slots<FieldLender<'_, 'p, M>>
    where
        U: Fields,
    {
        // SAFETY: invariant "Sole owner": only this slot reaches the field, and it is borrowed
        // mutably.
        unsafe { U::project(self.at, FieldLender::new(self.tx)) }
    }

    /// Like [`FieldSlot::fields`], for as long as the object is borrowed. With
    /// [`FieldSlot::into_follow`] it goes from node to node.
    #[inline]
    pub fn into_fields(self) -> U::Slots<FieldLender<'a, 'p, M>>
    where
        U: Fields,
    {
        // SAFETY: invariant "Sole owner": only this slot reached the field, and it is consumed.
        unsafe { U::project(self.at, FieldLender::new(self.tx)) }
    }
}

impl<'a, 'p, T: Persist, const N: usize, M: Model> FieldSlot<'a, 'p, [T; N], M> {
    /// The slot of an element, to follow handles in it without logging it. **Cost**: 0 stores.
    /// **Errors**: [`Error::Index`].
    #[inline]
    pub fn into_at(self, i: usize) -> Result<FieldSlot<'a, 'p, T, M>, Error> {
        if i >= N {
            return Err(Error::Index { index: i, len: N });
        }
        // SAFETY: invariant "Sole owner": an element of the field, whose slot is consumed; `i` is
        // less than `N`.
        Ok(unsafe { FieldSlot::new(self.at.cast::<T>().add(i), self.tx) })
    }

    /// Borrows an element to read it. **Errors**: [`Error::Index`].
    #[inline]
    pub fn at(&self, i: usize) -> Result<&T, Error> {
        self.get().get(i).ok_or(Error::Index { index: i, len: N })
    }

    /// Borrows an element to write it; only that element is logged. **Errors**: [`Error::Index`]
    /// and those of [`FieldSlot::get_mut`].
    #[inline]
    pub fn at_mut(&mut self, i: usize) -> Result<&mut T, Error> {
        if i >= N {
            return Err(Error::Index { index: i, len: N });
        }
        self.tx
            .log_to_lend::<T>(self.offset() + i * size_of::<T>())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": an element of the field, which is
        // borrowed mutably; `i` is less than `N`.
        Ok(unsafe { &mut *self.at.cast::<T>().add(i) })
    }
}

impl<'a, 'p, U: Persist, M: Model> FieldSlot<'a, 'p, U, M> {
    /// # Safety
    /// `at` is a valid `U` that the caller has borrowed mutably for `'a`.
    pub(crate) unsafe fn new(at: *mut U, tx: &'a Tx<'p, M>) -> Self {
        FieldSlot {
            at,
            tx,
            _m: PhantomData,
        }
    }
}

impl<'a, 'p, T: Persist, M: Model> FieldSlot<'a, 'p, PBox<'p, T, M::Unit>, M>
where
    M::Unit: Width,
{
    /// The object that the handle owns, without logging the handle. **Cost**: 0 stores.
    #[inline]
    pub fn follow(&mut self) -> FieldSlot<'_, 'p, T, M> {
        let at = self.get().ptr(self.tx);
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and is borrowed mutably with
        // its slot.
        unsafe { FieldSlot::new(at, self.tx) }
    }

    /// Like [`FieldSlot::follow`], for as long as the object is borrowed: from node to node.
    #[inline]
    pub fn into_follow(self) -> FieldSlot<'a, 'p, T, M> {
        let at = self.get().ptr(self.tx);
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and its slot is consumed.
        unsafe { FieldSlot::new(at, self.tx) }
    }
}

impl<'a, 'p, T: Persist, M: Model> FieldSlot<'a, 'p, Option<PBox<'p, T, M::Unit>>, M>
where
    M::Unit: Width,
{
    /// The object that the handle owns, if there is one, without logging the handle. **Cost**: 0
    /// stores.
    #[inline]
    pub fn follow(&mut self) -> Option<FieldSlot<'_, 'p, T, M>> {
        let at = self.get().as_ref()?.ptr(self.tx);
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and is borrowed mutably with
        // its slot.
        Some(unsafe { FieldSlot::new(at, self.tx) })
    }

    /// Like [`FieldSlot::follow`], for as long as the object is borrowed: from node to node.
    #[inline]
    pub fn into_follow(self) -> Option<FieldSlot<'a, 'p, T, M>> {
        let at = self.get().as_ref()?.ptr(self.tx);
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and its slot is consumed.
        Some(unsafe { FieldSlot::new(at, self.tx) })
    }
}

impl<'p, T: Persist, M: Model> FieldSlot<'_, 'p, Ptr<'p, T, M::Unit>, M>
where
    M::Unit: Width,
{
    /// See [`Ptr::replace`]; the handle is not logged. **Errors**: as there.
    pub fn replace(&mut self, v: T) -> Result<T, Error> {
        let tx = self.tx;
        self.get().replace_through(tx, v)
    }

    /// See [`Ptr::write`]; the handle is not logged. **Errors**: as there.
    pub fn write(&mut self, v: T) -> Result<(), Error>
    where
        T: Plain,
    {
        self.replace(v).map(drop)
    }
}

impl<'p, T: Persist, M: Model> FieldSlot<'_, 'p, Option<Ptr<'p, T, M::Unit>>, M>
where
    M::Unit: Width,
{
    /// See [`Ptr::replace`]; the handle is not logged. Returns `v` if the option is `None`.
    /// **Errors**: as there.
    pub fn replace(&mut self, v: T) -> Result<T, Error> {
        let tx = self.tx;
        match self.get() {
            Some(c) => c.replace_through(tx, v),
            None => Ok(v),
        }
    }

    /// See [`Ptr::write`]; the handle is not logged. Does nothing if the option is `None`.
    /// **Errors**: as there.
    pub fn write(&mut self, v: T) -> Result<(), Error>
    where
        T: Plain,
    {
        self.replace(v).map(drop)
    }
}
