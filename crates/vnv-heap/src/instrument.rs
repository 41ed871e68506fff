//! Runs something after each critical section of a heap, as an interrupt would. Only with the dev feature `instrument`; needs `std`.

use core::cell::RefCell;
use std::boxed::Box;

type Hook = Box<dyn FnMut()>;

std::thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs `f`; after each section that one of its heaps has on this thread runs `hook`, outside of any section. What `hook` itself does is not
/// interrupted.
pub fn interrupted<O>(hook: impl FnMut(), f: impl FnOnce() -> O) -> O {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }
    let _off = Off;
    let hook: Box<dyn FnMut() + '_> = Box::new(hook);
    // SAFETY: only the lifetime changes; `Off` takes the hook away before it ends.
    HOOK.set(Some(unsafe {
        core::mem::transmute::<Box<dyn FnMut() + '_>, Hook>(hook)
    }));
    f()
}

pub(crate) fn section_ended() {
    if let Some(mut hook) = HOOK.take() {
        // Not in place while it runs.
        hook();
        HOOK.set(Some(hook));
    }
}
