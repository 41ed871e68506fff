//! Values that enter and leave a transaction: plain values, and handles as [`Held`] or [`HeldRef`].

use crate::error::Error;
use crate::ptr::{PBox, Width, handle_kind};
use crate::tx::Tx;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Repeat, Ret, RetPart, Share, type_hash};
use nvmem::persist::Visit;
use nvmem::{Invalid, Model, Persist};

/// An owning handle outside of any transaction, in volatile memory. It stores its session and
/// cannot be dereferenced.
///
/// It enters a transaction by value, or is lent. If no root leads to its object when the pool is
/// opened again, the object is reclaimed. A handle of an earlier opening is refused with
/// [`Error::WrongPool`].
#[must_use = "a dropped handle leaves its object unreachable until the next open: give it to a transaction"]
pub struct Held<T, W: Width = u32> {
    off: W::Off,
    session: u32,
    _t: PhantomData<fn(T) -> T>,
}

impl<T, W: Width> core::fmt::Debug for Held<T, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "Held({:#x} of session {})",
            W::value(self.off),
            self.session
        )
    }
}

impl<T: Persist, W: Width> Held<T, W> {
    /// Lends the handle to one transaction. Inside it is a [`HeldBox`], which cannot be stored,
    /// freed or returned.
    pub fn lend(&mut self) -> HeldRef<'_, T, W> {
        HeldRef(self)
    }

    /// The handle's offset on the medium, for a replay table.
    #[doc(hidden)]
    pub fn offset(&self) -> u32 {
        W::value(self.off) as u32
    }

    /// # Safety
    /// The offset came from [`Held::offset`] of a handle of this type that no longer exists.
    /// `session` is that of the pool that owns the object.
    #[doc(hidden)]
    pub unsafe fn restore(off: u32, session: u32) -> Option<Self> {
        Some(Held {
            off: W::off(usize::try_from(off).ok()?)?,
            session,
            _t: PhantomData,
        })
    }
}

/// A bound that no type meets. It makes the compiler explain what to do instead of calling `get` on
/// a [`Held`].
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `Held` handle gives no access to its object",
    label = "is outside of any transaction, even if a body captures it",
    note = "lend it to the transaction: `pool.tx_with(held.lend(), |tx, root, mut h| {{ h.get_mut(tx)?.n = 1; Ok(()) }})`",
    note = "or give it away, to store or free the object: `pool.tx_with(held, |tx, root, h| …)`"
)]
pub trait DirectAccess {}

/// A bound that no type meets. It makes the compiler explain how to consume a lent handle.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a lent handle cannot be consumed",
    label = "is only lent to this transaction; its owner is outside",
    note = "pass the handle itself: `pool.tx_with(held, |tx, root, h| h.into_inner(tx))`, not `held.lend()`"
)]
pub trait Consumable {}

#[doc(hidden)]
impl<T: Persist, W: Width> Held<T, W> {
    pub fn get<X>(&self, _: X) -> &T
    where
        Self: DirectAccess,
    {
        unreachable!("no type implements `DirectAccess`")
    }
    pub fn get_mut<X>(&mut self, _: X) -> Result<&mut T, Error>
    where
        Self: DirectAccess,
    {
        unreachable!("no type implements `DirectAccess`")
    }
}

#[doc(hidden)]
impl<T: Persist, W: Width> HeldBox<'_, T, W> {
    pub fn into_inner<X>(self, _: X) -> Result<T, Error>
    where
        Self: Consumable,
    {
        unreachable!("no type implements `Consumable`")
    }
    pub fn free<X>(self, _: X) -> Result<(), Error>
    where
        Self: Consumable,
    {
        unreachable!("no type implements `Consumable`")
    }
}

/// A [`Held`] handle, lent for one transaction.
pub struct HeldRef<'h, T, W: Width = u32>(&'h mut Held<T, W>);

impl<T, W: Width> core::fmt::Debug for HeldRef<'_, T, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// A [`Held`] handle, lent to one iteration of a loop. It can only be lent on to a transaction.
pub struct HeldLoan<'a, T, W: Width = u32> {
    /// A copy. The original is borrowed for `'a` and not used.
    held: Held<T, W>,
    _a: PhantomData<&'a mut ()>,
}

impl<T: Persist, W: Width> HeldLoan<'_, T, W> {
    /// Lends the handle to one transaction.
    pub fn lend(&mut self) -> HeldRef<'_, T, W> {
        HeldRef(&mut self.held)
    }
}

impl<T, W: Width> Held<T, W> {
    fn loan<'a>(&mut self) -> HeldLoan<'a, T, W> {
        HeldLoan {
            held: Held {
                off: self.off,
                session: self.session,
                _t: PhantomData,
            },
            _a: PhantomData,
        }
    }
}

// SAFETY: invariant "Sole owner": a `HeldLoan` gives no access to the `Held`, which is borrowed
// mutably as long as the loan lives.
unsafe impl<T: Persist, W: Width> Share for &mut Held<T, W> {
    type In<'a> = HeldLoan<'a, T, W>;
    const TYPE: u64 = type_hash::<T>("lent");
    unsafe fn share<'a>(&mut self) -> Self::In<'a> {
        self.loan()
    }
    fn handles(&self, f: &mut dyn FnMut(u32)) {
        f(self.offset())
    }
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
}

// SAFETY: invariant "Sole owner": a `HeldLoan` gives no access to its lender, which is borrowed
// mutably meanwhile.
unsafe impl<T: Persist, W: Width> Share for &mut HeldLoan<'_, T, W> {
    type In<'a> = HeldLoan<'a, T, W>;
    const TYPE: u64 = type_hash::<T>("lent");
    unsafe fn share<'a>(&mut self) -> Self::In<'a> {
        self.held.loan()
    }
    fn handles(&self, f: &mut dyn FnMut(u32)) {
        f(self.held.offset())
    }
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
}

/// A lent handle inside a transaction. It is not a `PBox`, so it cannot be stored, freed, returned
/// or swapped with one.
pub struct HeldBox<'p, T, W: Width = u32>(PBox<'p, T, W>);

impl<'p, T: Persist, W: Width> HeldBox<'p, T, W> {
    /// See [`PBox::get`].
    pub fn get<'a, M: Model<Unit = W>>(&'a self, tx: &'a Tx<'p, M>) -> &'a T {
        self.0.get(tx)
    }
    /// See [`PBox::get_mut`]. **Errors**: as there.
    pub fn get_mut<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> Result<&'a mut T, Error> {
        self.0.get_mut(tx)
    }
    /// See [`PBox::fields`].
    pub fn fields<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> T::Slots<crate::FieldLender<'a, 'p, M>>
    where
        T: nvmem::fields::Fields,
    {
        self.0.fields(tx)
    }
}

// SAFETY: invariant "Sole owner": one handle, entered once.
unsafe impl<T: Persist, W: Width> Arg for Held<T, W> {
    type In<'p> = PBox<'p, T::At<'p>, W>;
    const TYPE: u64 = type_hash::<T>("owned");
    const OWNED: usize = 1;
    fn of_session(&self, session: u32) -> bool {
        if nvmem::planted!("pmem-tx/session-not-compared") {
            return true;
        }
        self.session == session
    }
    fn handles(&self, f: &mut dyn FnMut(u32)) {
        f(self.offset())
    }
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        PBox::from_offset(self.off)
    }
}
// SAFETY: invariant "Sole owner": one handle; `encode` writes its offset; `v` accepts or refuses
// it.
unsafe impl<T: Persist, W: Width> Ret for Held<T, W> {
    type In<'p> = PBox<'p, T::At<'p>, W>;
    const TYPE: u64 = type_hash::<T>("owned");
    const BYTES: usize = W::BYTES;
    const HANDLES: usize = 1;
    unsafe fn leave(inside: Self::In<'_>, session: u32) -> Self {
        Held {
            off: inside.offset(),
            session,
            _t: PhantomData,
        }
    }
    fn encode(&self, f: &mut dyn FnMut(&[u8])) {
        f(&self.offset().to_le_bytes()[..W::BYTES])
    }
    unsafe fn decode(bytes: &[u8], session: u32, v: &mut dyn Visit) -> Result<Self, Invalid> {
        let bad = Invalid::Handle("Held");
        let mut le = [0; 4];
        le.get_mut(..bytes.len()).ok_or(bad)?.copy_from_slice(bytes);
        let value = u32::from_le_bytes(le);
        v.handle(value, handle_kind::<T, W, false>())?;
        let session = v.session(session);
        // SAFETY: invariant "Sole owner": `v` has accepted the handle, or the caller guarantees it.
        unsafe { Held::restore(value, session).ok_or(bad) }
    }
}
// SAFETY: invariant "Sole owner": a handle is recorded as its offset, which is one unit long.
unsafe impl<T: Persist, W: Width> RetPart for Held<T, W> {}
// SAFETY: invariant "Sole owner": a `HeldBox` cannot be consumed inside, and its owner is borrowed
// mutably.
unsafe impl<T: Persist, W: Width> Arg for HeldRef<'_, T, W> {
    type In<'p> = HeldBox<'p, T::At<'p>, W>;
    const TYPE: u64 = type_hash::<T>("lent");
    const OWNED: usize = 0;
    fn of_session(&self, session: u32) -> bool {
        self.0.of_session(session)
    }
    fn handles(&self, f: &mut dyn FnMut(u32)) {
        self.0.handles(f)
    }
    fn owned(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, _: &mut dyn FnMut(&[u8])) {}
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        HeldBox(PBox::from_offset(self.0.off))
    }
}
// SAFETY: invariant "Sole owner": the owner is borrowed mutably as long as this lives, and the
// `HeldBox` of each transaction ends with it.
unsafe impl<T: Persist, W: Width> Repeat for HeldRef<'_, T, W> {}
