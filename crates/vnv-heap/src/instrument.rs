//! Runs a hook after each critical section of a heap, as an interrupt would. Dev feature
//! `instrument` only; needs `std`.

use core::cell::RefCell;
use std::boxed::Box;

type Hook = Box<dyn FnMut()>;

std::thread_local! {
    static HOOK: RefCell<Option<Hook>> = const { RefCell::new(None) };
}

/// Runs `f`. After each section of a heap on this thread, runs `hook` outside any section. Sections
/// of `hook` itself run no hook.
///
/// `hook` stands for an interrupt handler. It may persist a heap that `f` uses, and restore it,
/// through a [`Saver`](crate::Saver).
///
/// # Safety
/// `hook` calls no other function of a heap that `f` uses, and uses no guard and no reference into
/// an object of one: these would come between two sections of one operation.
pub unsafe fn interrupted<O>(hook: impl FnMut(), f: impl FnOnce() -> O) -> O {
    struct Off;
    impl Drop for Off {
        fn drop(&mut self) {
            HOOK.set(None);
        }
    }
    let _off = Off;
    let hook: Box<dyn FnMut() + '_> = Box::new(hook);
    // SAFETY: invariant "Attached is alive": only the lifetime changes. `Off` removes the hook
    // before that lifetime ends, also when `f` or the hook unwinds.
    HOOK.set(Some(unsafe {
        core::mem::transmute::<Box<dyn FnMut() + '_>, Hook>(hook)
    }));
    f()
}

pub(crate) fn section_ended() {
    if let Some(mut hook) = HOOK.take() {
        // Taken out while it runs.
        hook();
        HOOK.set(Some(hook));
    }
}
