//! Stacks of threads that overflow in a boot. Each has a page at its low end that nothing may
//! touch, so an overflow is a fault of the host. Its handler tells the watchdog whose stack it was;
//! the watchdog reports that, and ends the process.
//!
//! Under Miri, and where the host is no Unix, an overflow ends the process without a report.

use crate::coroutine::DefaultStack;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

/// Where the handler tells that a stack has overflowed: the name of its thread, and the name's
/// length with one more.
#[derive(Default)]
pub(crate) struct Overflow {
    name: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Overflow {
    /// The name of the thread whose stack has overflowed.
    pub(crate) fn thread(&self) -> Option<String> {
        let len = self.len.load(Acquire).checked_sub(1)?;
        // SAFETY: invariant "A fault is the end": the name lives as long as its boot, which does
        // not end: the thread of the host waits.
        let name = unsafe { std::slice::from_raw_parts(self.name.load(Relaxed), len) };
        Some(String::from_utf8_lossy(name).into_owned())
    }
}

#[cfg(any(miri, not(unix)))]
mod handler {
    use super::{DefaultStack, Overflow};

    #[derive(Clone, Copy)]
    pub(crate) struct Extent;

    impl Extent {
        pub(crate) fn of(_: &DefaultStack) -> Self {
            Extent
        }
    }

    pub(crate) fn tell(_: Option<&Overflow>) {}

    pub(crate) fn on<R>(_: Extent, _: *const [u8], f: impl FnOnce() -> R) -> R {
        f()
    }
}

#[cfg(all(unix, not(miri)))]
mod handler {
    use super::*;
    use corosensei::stack::Stack;
    use libc::{SA_ONSTACK, SA_SIGINFO, SIGBUS, SIGSEGV, c_int, c_void, sigaction, siginfo_t};
    use std::cell::Cell;
    use std::ptr::null;
    use std::sync::OnceLock;

    /// The addresses of a stack.
    #[derive(Clone, Copy)]
    pub(crate) struct Extent {
        low: usize,
        high: usize,
    }

    impl Extent {
        pub(crate) fn of(stack: &DefaultStack) -> Self {
            Extent {
                low: stack.limit().get(),
                high: stack.base().get(),
            }
        }
    }

    /// The stack that runs.
    #[derive(Clone, Copy)]
    struct Runs {
        stack: Extent,
        name: *const [u8],
    }

    thread_local! {
        static RUNS: Cell<Option<Runs>> = const { Cell::new(None) };
        static TOLD: Cell<*const Overflow> = const { Cell::new(null()) };
    }

    /// What handled faults before.
    static BEFORE: OnceLock<[sigaction; 2]> = OnceLock::new();
    const FAULTS: [c_int; 2] = [SIGSEGV, SIGBUS];

    /// This thread of the host runs a boot; its overflows are told there. `None`: its boot has
    /// ended.
    pub(crate) fn tell(to: Option<&Overflow>) {
        TOLD.set(to.map_or(null(), |to| to));
        BEFORE.get_or_init(|| {
            FAULTS.map(|signal| {
                // SAFETY: the handler only reads and stores cells and atomics, and waits or
                // returns. Rust's runtime has given each of its threads a stack for handlers.
                unsafe {
                    let (mut ours, mut before) =
                        (std::mem::zeroed::<sigaction>(), std::mem::zeroed());
                    ours.sa_sigaction = fault as *const () as usize;
                    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
                    sigaction(signal, &ours, &mut before);
                    before
                }
            })
        });
    }

    /// Runs `f`, which goes on on this stack. The name of its thread lives as long as the boot.
    pub(crate) fn on<R>(stack: Extent, name: *const [u8], f: impl FnOnce() -> R) -> R {
        struct Before(Option<Runs>);
        impl Drop for Before {
            fn drop(&mut self) {
                RUNS.set(self.0)
            }
        }
        let _before = Before(RUNS.replace(Some(Runs { stack, name })));
        f()
    }

    // INVARIANT "A fault is the end": a thread that has overflowed its stack runs nothing more; the
    // watchdog ends the process.
    // Noticed by: `a_stack_that_overflows_is_named` in tests/suite/process.rs.
    extern "C" fn fault(signal: c_int, info: *const siginfo_t, _: *const c_void) {
        // SAFETY: the kernel passes it.
        let at = unsafe { (*info).si_addr() } as usize;
        let is_of = |r: &Runs| (r.stack.low..r.stack.high).contains(&at);
        // SAFETY: null, or that of the engine whose boot runs on this thread: `tell` takes it back
        // when that boot ends.
        let told = unsafe { TOLD.get().as_ref() };
        if let (Some(runs), Some(told)) = (RUNS.get().filter(is_of), told) {
            told.name.store(runs.name as *mut u8, Relaxed);
            told.len.store(runs.name.len() + 1, Release);
            loop {
                // SAFETY: waits.
                unsafe { libc::pause() };
            }
        }
        // Another fault: comes again when this has returned, and is handled as before.
        let before = FAULTS.iter().position(|f| *f == signal);
        if let (Some(all), Some(i)) = (BEFORE.get(), before) {
            // SAFETY: as it was.
            unsafe { sigaction(signal, &all[i], std::ptr::null_mut()) };
        }
    }
}

pub(crate) use handler::{Extent, on, tell};
