//! A critical section for tests: each thread has heaps of its own, and may run something after each section, as an interrupt would.

use critical_section::RawRestoreState;
use std::cell::{Cell, RefCell};

struct Hooked;
critical_section::set_impl!(Hooked);

type Hook = Box<dyn FnMut()>;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

// SAFETY: nothing that a critical section guards is shared between threads of these tests.
unsafe impl critical_section::Impl for Hooked {
    unsafe fn acquire() -> RawRestoreState {
        DEPTH.set(DEPTH.get() + 1);
        RawRestoreState::default()
    }

    unsafe fn release(_: RawRestoreState) {
        DEPTH.set(DEPTH.get() - 1);
        if DEPTH.get() == 0
            && let Some(mut hook) = HOOK.take()
        {
            // Not in place while it runs: an interrupt does not interrupt itself.
            hook();
            HOOK.set(Some(hook));
        }
    }
}

/// Runs `f`; after each of its critical sections runs `hook`.
#[allow(dead_code)]
pub fn interrupted<O>(hook: impl FnMut(), f: impl FnOnce() -> O) -> O {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }
    let _off = Off;
    // SAFETY: only the lifetime changes; `Off` takes the hook away before it ends.
    let hook: Hook = unsafe { std::mem::transmute::<Box<dyn FnMut() + '_>, Hook>(Box::new(hook)) };
    HOOK.set(Some(hook));
    f()
}
