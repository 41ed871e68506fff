//! Field slots: access to one field or element of an object, which is logged when it is first
//! written.

use crate::error::Error;
use crate::pbox::{PBox, Width};
use crate::ptr::Ptr;
use crate::tx::{InOneThread, Tx};
use core::marker::PhantomData;
use nvmem::fields::{FieldAccess, Fields};
use nvmem::{InOrder32, Model, Persist, Plain, mapped};

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

    /// Borrows the field to write it. Only this field is logged, once. Costs and errors as for
    /// [`PBox::get_mut`](crate::PBox::get_mut).
    #[inline]
    pub fn get_mut(&mut self) -> Result<&mut U, Error> {
        self.tx.log::<U>(self.offset())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": only this slot reaches the field,
        // and it is borrowed mutably.
        Ok(unsafe { &mut *self.at })
    }

    /// Like [`FieldSlot::get_mut`], for as long as the object is borrowed.
    #[inline]
    pub fn into_mut(self) -> Result<&'a mut U, Error> {
        self.tx.log::<U>(self.offset())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": only this slot reached the field,
        // and it is consumed.
        Ok(unsafe { &mut *self.at })
    }

    /// Writes the field. See [`FieldSlot::get_mut`].
    #[inline]
    pub fn set(&mut self, v: U) -> Result<(), Error>
    where
        U: nvmem::Plain,
    {
        *self.get_mut()? = v;
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

impl<'p, T: Persist, const N: usize, M: Model> FieldSlot<'_, 'p, [T; N], M> {
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
        self.tx.log::<T>(self.offset() + i * size_of::<T>())?;
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
    /// See [`Ptr::replace`]; the handle is not logged.
    pub fn replace(&mut self, v: T) -> Result<T, Error> {
        let tx = self.tx;
        self.get().replace_through(tx, v)
    }

    /// See [`Ptr::write`]; the handle is not logged.
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
    pub fn replace(&mut self, v: T) -> Result<T, Error> {
        let tx = self.tx;
        match self.get() {
            Some(c) => c.replace_through(tx, v),
            None => Ok(v),
        }
    }

    /// See [`Ptr::write`]; the handle is not logged. Does nothing if the option is `None`.
    pub fn write(&mut self, v: T) -> Result<(), Error>
    where
        T: Plain,
    {
        self.replace(v).map(drop)
    }
}
