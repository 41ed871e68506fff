//! Values that change in critical sections only.

use crate::port::assert_preempted;
use core::cell::UnsafeCell;
use nv_replay::nvmem::Model;

/// A value that is borrowed in a critical section only, by one caller at a time. Without the count
/// of a `RefCell`, which takes a sixth of a short section.
pub(crate) struct InSection<T> {
    value: UnsafeCell<T>,
    #[cfg(debug_assertions)]
    entered: core::cell::Cell<bool>,
}

impl<T> InSection<T> {
    /// Makes all but the value in `at`, and returns where the value is to be made.
    ///
    /// # Safety
    /// `at` is valid for writes.
    #[inline(always)]
    pub unsafe fn value_in(at: *mut Self) -> *mut T {
        // SAFETY: the caller's promise.
        unsafe {
            #[cfg(debug_assertions)]
            (&raw mut (*at).entered).write(core::cell::Cell::new(false));
            UnsafeCell::raw_get(&raw const (*at).value)
        }
    }

    /// The value, while nobody else can have it.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    // INVARIANT "One in the section": the kernel's state is borrowed in a critical section only,
    // and what is called there, in the kernel or in a `Port`, does not enter one of the same
    // kernel. `Port` is an unsafe trait for this reason.
    // Noticed by: an assertion in each build with debug assertions.
    /// Runs `f` in a critical section.
    ///
    /// `f` enters no section of this value. That is checked in builds with debug assertions, which
    /// all tests are.
    #[inline(always)]
    pub fn with<M: Model, R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        const { assert_preempted::<M>() }
        M::section(|| {
            #[cfg(debug_assertions)]
            assert!(!self.entered.replace(true), "a section inside of another");
            // SAFETY: invariant "One in the section": no other thread and no handler runs, and what
            // `f` calls, here or in a `Port`, does not come here again.
            let r = f(unsafe { &mut *self.value.get() });
            #[cfg(debug_assertions)]
            self.entered.set(false);
            r
        })
    }
}
