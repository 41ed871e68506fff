//! A stand-in for a library's owning handle.

use core::marker::PhantomData;
use core::num::NonZeroU32;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{HandleKind, Visit};
use nvmem::{Invalid, Persist, ZeroNiche};

/// An owning handle.
#[repr(transparent)]
pub struct PBox<'p, T> {
    off: NonZeroU32,
    _t: PhantomData<T>,
    _brand: PhantomData<fn(&'p ()) -> &'p ()>,
}

impl<T> PBox<'_, T> {
    /// A handle without a target, for layout tests.
    pub fn new(off: u32) -> Self {
        PBox {
            off: NonZeroU32::new(off).unwrap(),
            _t: PhantomData,
            _brand: PhantomData,
        }
    }
}

// SAFETY: a number that is passed to the visitor.
unsafe impl<T: Persist> Persist for PBox<'_, T> {
    type At<'p> = PBox<'p, T::At<'p>>;
    type HandleTargets = HandleTo<T>;
    const LAYOUT: &'static Type = &Type::Handle("test");
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: readable by the contract.
        let value = unsafe { p.cast::<u32>().read() };
        v.handle(value, &HandleKind::of::<T>("test", 0))
    }
}
// SAFETY: transparent over `NonZeroU32`.
unsafe impl<T: Persist> ZeroNiche for PBox<'_, T> {
    type Branded<'p> = PBox<'p, T::At<'p>>;
}
