//! Guards: an object that is pinned in RAM.

use crate::own::Kind;
use crate::policy::{Policy, Predict};
use crate::promise::{JustInTime, Promise};
use crate::state::Core;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use nvmem::{Medium, Persist};

/// An object pinned for reading. It stays in RAM, at its address, while this lives. A leaked guard
/// pins it for good.
///
/// **Power loss**: a restore puts the object back at its address. **Cost**: 8 bytes of the dirty
/// limit.
#[must_use = "a guard that is dropped at once only pages the object in"]
pub struct Ref<'a, T: Persist, S: Medium, P: Promise = JustInTime, Pol: Policy = Predict> {
    at: NonNull<T>,
    core: &'a Core<S, P, Pol>,
    _t: PhantomData<&'a T>,
}

/// An object pinned for writing. It counts as changed from the start, whether or not it is.
///
/// **Power loss**: as [`Ref`]. **Cost**: the object's size and 10 bytes of the dirty limit.
#[must_use = "a guard that is dropped at once only pages the object in and marks it as changed"]
pub struct RefMut<'a, T: Persist, S: Medium, P: Promise = JustInTime, Pol: Policy = Predict> {
    at: NonNull<T>,
    core: &'a Core<S, P, Pol>,
    _t: PhantomData<&'a mut T>,
}

impl<'a, T: Persist, S: Medium, P: Promise, Pol: Policy> Ref<'a, T, S, P, Pol> {
    /// # Safety
    /// `at` is the content of an object that is a valid `T`, and is pinned for this guard.
    #[inline(always)]
    pub(crate) unsafe fn new(core: &'a Core<S, P, Pol>, at: NonNull<u8>) -> Self {
        Ref {
            at: at.cast(),
            core,
            _t: PhantomData,
        }
    }
}

impl<'a, T: Persist, S: Medium, P: Promise, Pol: Policy> RefMut<'a, T, S, P, Pol> {
    /// # Safety
    /// `at` is the content of an object that is a valid `T`, and is pinned exclusively for this
    /// guard.
    #[inline(always)]
    pub(crate) unsafe fn new(core: &'a Core<S, P, Pol>, at: NonNull<u8>) -> Self {
        if T::PADDED {
            core.count_padded(|n| n.saturating_add(1));
        }
        RefMut {
            at: at.cast(),
            core,
            _t: PhantomData,
        }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Deref for Ref<'_, T, S, P, Pol> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: valid, at its address, and not written to while it is pinned.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Deref for RefMut<'_, T, S, P, Pol> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: valid, at its address, and pinned by this guard alone.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> DerefMut for RefMut<'_, T, S, P, Pol> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`.
        unsafe { self.at.as_mut() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Drop for Ref<'_, T, S, P, Pol> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the object is pinned for this guard, which ends.
        unsafe { self.core.release(self.at.cast(), Kind::of::<T>(), false) }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Drop for RefMut<'_, T, S, P, Pol> {
    #[inline(always)]
    fn drop(&mut self) {
        if T::PADDED {
            // An assignment may have copied uninitialised padding, and all bytes of an object are
            // written back.
            // SAFETY: a valid value, pinned by this guard alone.
            unsafe { T::clear_padding(self.at.as_ptr().cast()) }
            // After an overflow the count stays.
            self.core.count_padded(|n| n - u8::from(n != u8::MAX));
        }
        // SAFETY: the object is pinned for this guard, which ends.
        unsafe { self.core.release(self.at.cast(), Kind::of::<T>(), true) }
    }
}

impl<T: Persist + core::fmt::Debug, S: Medium, P: Promise, Pol: Policy> core::fmt::Debug
    for Ref<'_, T, S, P, Pol>
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
impl<T: Persist + core::fmt::Debug, S: Medium, P: Promise, Pol: Policy> core::fmt::Debug
    for RefMut<'_, T, S, P, Pol>
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
