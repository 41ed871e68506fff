//! Which thread of a system a caller is.

use crate::system::System;
use core::marker::PhantomData;

/// The number of a thread of the system `S`. The compiler knows that it is one: no access to what
/// the kernel keeps of this thread is checked.
pub(crate) struct Me<S> {
    number: usize,
    _s: PhantomData<fn() -> S>,
}

impl<S> Clone for Me<S> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for Me<S> {}

impl<S: System> Me<S> {
    // INVARIANT "A thread of the system": the number in a `Me` is below the number of its system's
    // threads. Its field is private, and `new`, which alone makes one, takes the lower of the two.
    // Noticed by: an assertion in each build with debug assertions.
    /// The thread of this number; the last one, if there are fewer.
    #[inline(always)]
    pub fn new(number: usize) -> Self {
        const { assert!(!S::THREADS.is_empty(), "a system has a thread") }
        Me {
            number: number.min(S::THREADS.len() - 1),
            _s: PhantomData,
        }
    }

    #[inline(always)]
    #[allow(unsafe_code)]
    pub fn get(self) -> usize {
        debug_assert!(self.number < S::THREADS.len());
        // SAFETY: invariant "A thread of the system": nothing but `new` makes one, which has
        // checked it.
        unsafe { core::hint::assert_unchecked(self.number < S::THREADS.len()) };
        self.number
    }
}
