//! Reports stores to mapped media to a test kit. Only with the dev feature `instrument`; needs
//! `std`.

use std::cell::Cell;

/// Receives every event of the [store module](crate::mapped) on this thread while
/// [installed](observe).
pub trait Observer {
    /// Called *before* the atomic unit `new` is stored at `at`.
    fn store(&self, at: *mut u8, new: &[u8]);
    /// A fence of all media of the model with this name.
    fn fence(&self, model: &'static str) {
        let _ = model;
    }
    /// User code may write to this range, without further events, until the loan ends.
    fn lend(&self, at: *mut u8, len: usize) {
        let _ = (at, len);
    }
    /// The loan of this range has ended.
    fn end_loan(&self, at: *mut u8, len: usize) {
        let _ = (at, len);
    }
    /// The range is about to be read.
    fn read(&self, at: *const u8, len: usize) {
        let _ = (at, len);
    }
    /// The content of the range does not matter after a cut.
    fn scratch(&self, at: *mut u8, len: usize) {
        let _ = (at, len);
    }
}

thread_local! {
    static OBSERVER: Cell<Option<*const dyn Observer>> = const { Cell::new(None) };
}

// INVARIANT "Observers are alive": with the dev feature `instrument`, an observer stays borrowed
// for as long as it is installed. `observe` removes it again, also when it unwinds; `install` is
// `unsafe`.
// Noticed by: the tests of `powerfail`, under Miri.

/// Runs `f` while `o` observes this thread. Restores the previous observer afterwards, even if `f`
/// unwinds.
pub fn observe<R>(o: &dyn Observer, f: impl FnOnce() -> R) -> R {
    struct Back(Option<*const dyn Observer>);
    impl Drop for Back {
        fn drop(&mut self) {
            OBSERVER.set(self.0)
        }
    }
    // SAFETY: invariant "Observers are alive": only the lifetime changes; `Back` takes the pointer
    // out before `o` ends.
    let o: *const (dyn Observer + 'static) =
        unsafe { core::mem::transmute(o as *const dyn Observer) };
    let _back = Back(OBSERVER.replace(Some(o)));
    f()
}

/// Installs an observer without a scope, for a run on a coroutine that may never return. Returns
/// the previous observer.
///
/// # Safety
/// `o` stays valid until it is replaced.
pub unsafe fn install(o: Option<*const dyn Observer>) -> Option<*const dyn Observer> {
    OBSERVER.replace(o)
}

/// Whether an observer is installed on this thread.
pub(crate) fn is_observed() -> bool {
    OBSERVER.get().is_some()
}

#[inline(always)]
pub(crate) fn with(f: impl FnOnce(&dyn Observer)) {
    if let Some(o) = OBSERVER.get() {
        // SAFETY: invariant "Observers are alive": `observe` and `install` keep it valid while it
        // is set.
        f(unsafe { &*o })
    }
}
