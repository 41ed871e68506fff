//! What threads keep in the memory: their data, and objects that they make and free.
//!
//! A freed object goes onto a list of those of its length, from which the next one of that length
//! is taken. What was never used lies behind everything else.

use super::{Model, pmem_tx};
use core::cell::Cell;
use core::marker::PhantomData;
use core::num::NonZeroUsize;
use nv_rtos::nvmem::describe::Type;
use nv_rtos::nvmem::fields::{FieldAccess, Fields};
use nv_rtos::nvmem::persist::{Invalid, Visit, ZeroNiche};
use nv_rtos::nvmem::{Persist, Plain};

/// Lengths of objects, in steps of 8 bytes.
const LENGTHS: usize = 64;

/// Where objects come from.
pub(super) struct Heap {
    free: Cell<*mut u8>,
    left: Cell<usize>,
    lists: [Cell<*mut u8>; LENGTHS],
}

impl Heap {
    pub fn new(free: *mut u8, left: usize) -> Self {
        Heap {
            free: Cell::new(free),
            left: Cell::new(left),
            lists: [const { Cell::new(core::ptr::null_mut()) }; LENGTHS],
        }
    }

    fn list(&self, bytes: usize) -> Option<&Cell<*mut u8>> {
        self.lists.get(bytes / 8)
    }

    fn take(&self, bytes: usize) -> Option<NonZeroUsize> {
        if let Some(list) = self.list(bytes)
            && !list.get().is_null()
        {
            let at = list.get();
            // SAFETY: a freed object, which holds the next one of its list.
            list.set(unsafe { at.cast::<*mut u8>().read() });
            return NonZeroUsize::new(at as usize);
        }
        let (at, left) = (self.free.get(), self.left.get());
        self.left.set(left.checked_sub(bytes)?);
        self.free.set(at.wrapping_add(bytes));
        NonZeroUsize::new(at as usize)
    }

    fn give(&self, at: *mut u8, bytes: usize) {
        if let Some(list) = self.list(bytes) {
            // SAFETY: an object that its owner has given up, of at least 8 bytes.
            unsafe { at.cast::<*mut u8>().write(list.get()) };
            list.set(at);
        }
    }
}

/// Bytes of an object.
const fn bytes<T>() -> usize {
    assert!(align_of::<T>() <= 8 && size_of::<T>() > 0);
    size_of::<T>().next_multiple_of(8)
}

/// A step, for what makes objects.
pub struct Tx<'p, M> {
    heap: *const Heap,
    _p: PhantomData<(&'p (), M)>,
}
impl<M> Clone for Tx<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<M> Copy for Tx<'_, M> {}

impl<M: Model> Tx<'_, M> {
    pub(super) fn new(heap: &Heap) -> Self {
        Tx {
            heap,
            _p: PhantomData,
        }
    }
    /// An error that ends a step.
    pub fn abort(&self, code: u16) -> pmem_tx::Error {
        pmem_tx::Error::Aborted(code)
    }
    #[inline]
    fn section<R>(&self, f: impl FnOnce(&Heap) -> R) -> R {
        // SAFETY: the kernel's, which lives as long as its threads.
        M::section(|| f(unsafe { &*self.heap }))
    }
    #[inline]
    fn object<T>(&self, v: T) -> Result<NonZeroUsize, pmem_tx::Error> {
        let bytes = const { bytes::<T>() };
        let at = self.section(|heap| heap.take(bytes));
        let at = at.ok_or(pmem_tx::Error::PoolFull { bytes })?;
        // SAFETY: an object that nothing uses, as long and as aligned as it needs.
        unsafe { (at.get() as *mut T).write(v) };
        Ok(at)
    }
}

/// The data of a thread.
pub struct Root<'p, R, W>(*mut R, PhantomData<(&'p (), W)>);

#[allow(clippy::unnecessary_wraps)]
impl<R, W> Root<'_, R, W> {
    pub(super) fn new(at: *mut R) -> Self {
        Root(at, PhantomData)
    }
    /// Borrows it to read it.
    #[inline(always)]
    pub fn get<X>(&self, _: &X) -> &R {
        // SAFETY: the thread's own part of the memory, of which nothing else is lent.
        unsafe { &*self.0 }
    }
    /// Borrows it to write it. **Errors**: none.
    #[inline(always)]
    pub fn get_mut<X>(&mut self, _: &X) -> Result<&mut R, pmem_tx::Error> {
        // SAFETY: as in `get`.
        Ok(unsafe { &mut *self.0 })
    }
    /// The same as a field slot.
    #[inline(always)]
    pub fn slot<X>(&mut self, _: &X) -> FieldSlot<'_, R> {
        FieldSlot(self.0, PhantomData)
    }
    /// Its fields.
    #[inline(always)]
    pub fn fields<'a, X>(&'a mut self, _: &X) -> R::Slots<Lender<'a>>
    where
        R: Fields,
    {
        // SAFETY: as in `get`.
        unsafe { R::project(self.0, Lender(PhantomData)) }
    }
}

/// Lends fields.
#[derive(Clone, Copy)]
pub struct Lender<'a>(PhantomData<&'a mut ()>);
// SAFETY: a slot reaches the field that it was made for.
unsafe impl<'a> FieldAccess for Lender<'a> {
    type FieldSlot<U> = FieldSlot<'a, U>;
    #[inline(always)]
    unsafe fn field_slot<U>(self, at: *mut U) -> FieldSlot<'a, U> {
        FieldSlot(at, PhantomData)
    }
}

/// A field.
pub struct FieldSlot<'a, U>(*mut U, PhantomData<&'a mut ()>);

#[allow(clippy::unnecessary_wraps)]
impl<'a, U> FieldSlot<'a, U> {
    /// Borrows it to read it.
    #[inline(always)]
    pub fn get(&self) -> &U {
        // SAFETY: the field is borrowed with its slot.
        unsafe { &*self.0 }
    }
    /// Borrows it to write it. **Errors**: none.
    #[inline(always)]
    pub fn get_mut(&mut self) -> Result<&mut U, pmem_tx::Error> {
        // SAFETY: as in `get`.
        Ok(unsafe { &mut *self.0 })
    }
    /// The same, for as long as the object is borrowed. **Errors**: none.
    #[inline(always)]
    pub fn into_mut(self) -> Result<&'a mut U, pmem_tx::Error> {
        // SAFETY: as in `get`.
        Ok(unsafe { &mut *self.0 })
    }
    /// Its own fields.
    #[inline(always)]
    pub fn fields(&mut self) -> U::Slots<Lender<'_>>
    where
        U: Fields,
    {
        // SAFETY: as in `get`.
        unsafe { U::project(self.0, Lender(PhantomData)) }
    }
    /// The same, for as long as the object is borrowed.
    #[inline(always)]
    pub fn into_fields(self) -> U::Slots<Lender<'a>>
    where
        U: Fields,
    {
        // SAFETY: as in `get`.
        unsafe { U::project(self.0, Lender(PhantomData)) }
    }
    /// Writes it. **Errors**: none.
    #[inline(always)]
    pub fn set(&mut self, v: U) -> Result<(), pmem_tx::Error> {
        // SAFETY: as in `get`.
        unsafe { *self.0 = v };
        Ok(())
    }
}

impl<'a, T, const N: usize> FieldSlot<'a, [T; N]> {
    /// The slot of an element. **Errors**: there is none of this number.
    #[inline(always)]
    pub fn into_at(self, i: usize) -> Result<FieldSlot<'a, T>, pmem_tx::Error> {
        let element = self.into_mut()?.get_mut(i);
        let none = pmem_tx::Error::Index { index: i, len: N };
        element.map(|at| FieldSlot(at, PhantomData)).ok_or(none)
    }
    /// An element, to read it. **Errors**: there is none of this number.
    #[inline(always)]
    pub fn at(&self, i: usize) -> Result<&T, pmem_tx::Error> {
        let none = pmem_tx::Error::Index { index: i, len: N };
        self.get().get(i).ok_or(none)
    }
    /// An element, to write it. **Errors**: as for [`at`](Self::at).
    #[inline(always)]
    pub fn at_mut(&mut self, i: usize) -> Result<&mut T, pmem_tx::Error> {
        let none = pmem_tx::Error::Index { index: i, len: N };
        // SAFETY: as in `get`.
        unsafe { &mut *self.0 }.get_mut(i).ok_or(none)
    }
}

impl<T, W> FieldSlot<'_, Option<Ptr<'_, T, W>>> {
    /// Writes what it leads to. **Errors**: none.
    #[inline(always)]
    pub fn write(&mut self, v: T) -> Result<(), pmem_tx::Error> {
        // SAFETY: as in `get`.
        if let Some(p) = unsafe { &*self.0 } {
            // SAFETY: the handle is the only one.
            unsafe { *(p.at.get() as *mut T) = v }
        }
        Ok(())
    }
}

impl<'a, T, W> FieldSlot<'a, Option<PBox<'_, T, W>>> {
    /// What it leads to.
    #[inline(always)]
    pub fn follow(&mut self) -> Option<FieldSlot<'_, T>> {
        let at = self.get().as_ref()?.at();
        Some(FieldSlot(at, PhantomData))
    }
    /// The same, for as long as the object is borrowed.
    #[inline(always)]
    pub fn into_follow(self) -> Option<FieldSlot<'a, T>> {
        let at = self.get().as_ref()?.at();
        Some(FieldSlot(at, PhantomData))
    }
}

/// A handle to an object.
pub struct PBox<'p, T, W = u32> {
    /// Its address.
    at: NonZeroUsize,
    _t: PhantomData<(&'p (), T, W)>,
}

// SAFETY: it is never read from a medium: `check` accepts nothing.
unsafe impl<T: Persist, W: 'static> Persist for PBox<'_, T, W> {
    type At<'p> = PBox<'p, T::At<'p>, W>;
    type HandleTargets = <u32 as Persist>::HandleTargets;
    const LAYOUT: &'static Type = u32::LAYOUT;
    unsafe fn check(_: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
        Err(Invalid::Bits("PBox"))
    }
}
// SAFETY: as above.
unsafe impl<T: Persist, W: 'static> ZeroNiche for PBox<'_, T, W> {
    type Branded<'p> = PBox<'p, T::At<'p>, W>;
}

#[allow(clippy::unnecessary_wraps)]
impl<'p, T, W> PBox<'p, T, W> {
    /// Makes an object. **Errors**: there is no room left.
    #[inline]
    pub fn new<M: Model>(tx: &Tx<'p, M>, v: T) -> Result<Self, pmem_tx::Error> {
        let at = tx.object(v)?;
        let _t = PhantomData;
        Ok(PBox { at, _t })
    }
    #[inline(always)]
    fn at(&self) -> *mut T {
        self.at.get() as *mut T
    }
    /// Borrows the object to read it.
    #[inline(always)]
    pub fn get<X>(&self, _: &X) -> &T {
        // SAFETY: the handle is the only one.
        unsafe { &*self.at() }
    }
    /// Borrows the object to write it. **Errors**: none.
    #[inline(always)]
    pub fn get_mut<X>(&mut self, _: &X) -> Result<&mut T, pmem_tx::Error> {
        // SAFETY: the handle is the only one.
        Ok(unsafe { &mut *self.at() })
    }
    /// Its fields.
    #[inline(always)]
    pub fn fields<X>(&mut self, _: &X) -> T::Slots<Lender<'_>>
    where
        T: Fields,
    {
        // SAFETY: the handle is the only one.
        unsafe { T::project(self.at(), Lender(PhantomData)) }
    }
    /// The object as a field slot.
    #[inline(always)]
    pub fn slot<X>(&mut self, _: &X) -> FieldSlot<'_, T> {
        FieldSlot(self.at(), PhantomData)
    }
    /// Frees the object, and returns its value. **Errors**: none.
    #[inline]
    pub fn into_inner<M: Model>(self, tx: &Tx<'p, M>) -> Result<T, pmem_tx::Error> {
        // SAFETY: the handle is the only one, and is given up.
        let v = unsafe { self.at().read() };
        tx.section(|heap| heap.give(self.at().cast(), const { bytes::<T>() }));
        Ok(v)
    }
    /// Frees the object. **Errors**: none.
    #[inline]
    pub fn free<M: Model>(self, tx: &Tx<'p, M>) -> Result<(), pmem_tx::Error>
    where
        T: Plain,
    {
        tx.section(|heap| heap.give(self.at().cast(), const { bytes::<T>() }));
        Ok(())
    }
}

impl<'p, T, const N: usize, W> PBox<'p, [T; N], W> {
    /// An element, to write it. **Errors**: there is none of this number.
    #[inline(always)]
    pub fn at_mut<X>(&mut self, _: &X, i: usize) -> Result<&mut T, pmem_tx::Error> {
        let none = pmem_tx::Error::Index { index: i, len: N };
        // SAFETY: the handle is the only one.
        unsafe { &mut *self.at() }.get_mut(i).ok_or(none)
    }
}

/// A handle to a value.
pub struct Ptr<'p, T, W = u32> {
    /// Its address.
    at: NonZeroUsize,
    _t: PhantomData<(&'p (), T, W)>,
}

impl<'p, T, W> Ptr<'p, T, W> {
    /// Makes a value. **Errors**: there is no room left.
    pub fn new<M: Model>(tx: &Tx<'p, M>, v: T) -> Result<Self, pmem_tx::Error> {
        let at = tx.object(v)?;
        let _t = PhantomData;
        Ok(Ptr { at, _t })
    }
    /// Borrows the value to read it.
    #[inline(always)]
    pub fn get<X>(&self, _: &X) -> &T {
        // SAFETY: the handle is the only one.
        unsafe { &*(self.at.get() as *const T) }
    }
}
