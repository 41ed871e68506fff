//! A chunk of places, each empty or with an element.

use core::mem::MaybeUninit;
use nvmem::describe::Type;
use nvmem::persist::{HandleKind, Visit};
use nvmem::{Invalid, Persist, planted};

/// All bytes are initialised. A place is all zero, and then owns nothing; or it holds a `T` with
/// its padding cleared.
#[repr(transparent)]
pub(super) struct Places<T, const PER: usize>([MaybeUninit<T>; PER]);

/// Accepts every handle that is not 0.
struct NotNull;
impl Visit for NotNull {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        match value {
            0 => Err(Invalid::Handle(found.family)),
            _ => Ok(()),
        }
    }
}

fn all_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| *b == 0)
}

// SAFETY: as an array of `T`, but for places of zero bytes, which hold no handle; there is no
// padding, as it is always cleared.
unsafe impl<T: Persist, const PER: usize> Persist for Places<T, PER> {
    type At<'p> = Places<T::At<'p>, PER>;
    const HANDLES: bool = PER > 0 && T::HANDLES;
    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = <[T; PER]>::LAYOUT;
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        for i in 0..PER {
            // SAFETY: place `i` of the chunk that the caller vouches for; all its bytes are
            // initialised.
            let (place, bytes) = unsafe {
                let p = p.add(i * size_of::<T>());
                (p, core::slice::from_raw_parts(p, size_of::<T>()))
            };
            // The first handle of an empty place is refused before it is counted anywhere.
            // SAFETY: as above.
            match unsafe { T::check(place, v) } {
                Err(e) if !all_zero(bytes) => return Err(e),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<T: Persist, const PER: usize> Places<T, PER> {
    /// Empty places, written in the given memory and not moved: a move need not preserve padding.
    pub(super) fn empty_in(place: &mut MaybeUninit<Self>) -> &mut Self {
        // SAFETY: zeros are empty places.
        unsafe {
            place.as_mut_ptr().write_bytes(0, 1);
            place.assume_init_mut()
        }
    }

    /// The element of a place, if it has one.
    pub(super) fn get(&self, at: usize) -> Option<&T> {
        let place = self.0.get(at)?.as_ptr();
        // SAFETY: inside of the chunk, whose bytes are initialised; what the check accepts is a
        // `T`.
        unsafe {
            T::check(place.cast(), &mut NotNull).ok()?;
            Some(&*place)
        }
    }

    /// Calls `f` with the element of a place, which it may change; `None` when it has none.
    pub(super) fn update<O>(&mut self, at: usize, f: impl FnOnce(&mut T) -> O) -> Option<O> {
        struct Cleared<'a, T: Persist>(&'a mut T);
        impl<T: Persist> Drop for Cleared<'_, T> {
            fn drop(&mut self) {
                // SAFETY: a value that is borrowed.
                unsafe { T::clear_padding(core::ptr::from_mut::<T>(self.0).cast()) }
            }
        }
        let place = self.0.get_mut(at)?.as_mut_ptr();
        // SAFETY: as in `get`.
        let element = unsafe {
            T::check(place.cast(), &mut NotNull).ok()?;
            Cleared(&mut *place)
        };
        Some(f(element.0))
    }

    /// Stores an element in a place. False when the index is out of range.
    pub(super) fn put(&mut self, at: usize, value: T) -> bool {
        let Some(place) = self.0.get_mut(at) else {
            return false;
        };
        // SAFETY: a value that has just been written; afterwards all its bytes are initialised.
        unsafe { T::clear_padding(core::ptr::from_mut(place.write(value)).cast()) }
        true
    }

    /// Takes the element out of a place.
    pub(super) fn take(&mut self, at: usize) -> Option<T> {
        // SAFETY: a value; its place is emptied below, so no second one remains.
        let value = unsafe { core::ptr::from_ref(self.get(at)?).read() };
        if !planted!("vnv-heap/popped-is-kept")
            && let Some(place) = self.0.get_mut(at)
        {
            // SAFETY: zeros are an empty place.
            unsafe { place.as_mut_ptr().write_bytes(0, 1) }
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::num::NonZeroU16;

    /// A place without an element has no value, for any image.
    #[test]
    fn an_empty_place_has_no_element() {
        let mut place = MaybeUninit::uninit();
        let places = Places::<NonZeroU16, 2>::empty_in(&mut place);
        let seven = NonZeroU16::MIN.saturating_add(6);
        assert!(places.put(1, seven) && !places.put(2, seven));
        assert_eq!((places.get(0), places.get(1)), (None, Some(&seven)));
        assert_eq!(places.update(0, |_| ()), None);
        let doubled = places.update(1, |n| core::mem::replace(n, n.saturating_mul(*n)));
        assert_eq!(doubled, Some(seven));
        assert_eq!(places.take(1).map(u16::from), Some(49));
        assert_eq!(places.get(1), None);
        assert_eq!(places.take(1), None);
    }
}
