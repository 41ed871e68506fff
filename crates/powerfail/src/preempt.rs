//! Runs an interrupt at one chosen point of a program.
//!
//! ```text
//!  interrupted(handler, body)
//!    body:  . store . read . [masked ......] . fence .      "." is a point; none inside `masked`
//!                     ^ point n of this campaign: handler runs to its end, then body continues
//! ```
//!
//! The interrupt runs on the same stack, once in each boot. If a boot has fewer points, it runs
//! after the body.

use crate::observe::Recorder;
use std::cell::Cell;

thread_local! {
    /// The number of nested critical sections of this thread.
    static MASKED: Cell<u32> = const { Cell::new(0) };
    /// The recorder whose program may be interrupted now.
    static RUNNING: Cell<Option<*const Recorder>> = const { Cell::new(None) };
}

/// Counts the points of a body and runs its interrupt at one of them.
pub(crate) struct Interrupt {
    handler: Cell<Option<*mut dyn FnMut()>>,
    /// The point of the interrupt, from 0.
    at: Cell<u64>,
    passed: Cell<u64>,
    /// The number of recorded events when the interrupt came.
    began: Cell<Option<usize>>,
}

impl Interrupt {
    pub(crate) fn new() -> Self {
        Interrupt {
            handler: Cell::new(None),
            at: Cell::new(u64::MAX),
            passed: Cell::new(0),
            began: Cell::new(None),
        }
    }

    /// Prepares for a boot.
    pub(crate) fn reset(&self, at: Option<u64>) {
        self.stop();
        self.at.set(at.unwrap_or(u64::MAX));
        self.passed.set(0);
        self.began.set(None);
    }

    /// Cleans up after a boot: a run that was cut may have left any state.
    pub(crate) fn stop(&self) {
        self.handler.set(None);
        MASKED.set(0);
        RUNNING.set(None);
    }

    /// The number of points that the last boot passed.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// The number of recorded events in the last boot when the interrupt came.
    pub(crate) fn began(&self) -> Option<usize> {
        self.began.get()
    }
}

impl Recorder {
    /// The end of a critical section.
    fn unmasked(&self) {
        self.switch_if_pending();
        self.point();
    }

    /// A point where the program may be interrupted.
    #[inline]
    pub(crate) fn point(&self) {
        if MASKED.get() != 0 {
            return;
        }
        if self.2.handler.get().is_some() {
            self.count_point();
        }
        if self.3.may_preempt() {
            self.thread_point();
        }
    }

    #[cold]
    fn count_point(&self) {
        let n = self.2.passed.get();
        self.2.passed.set(n + 1);
        // A program that unwinds has already ended.
        if n == self.2.at.get() && !std::thread::panicking() {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        // Taken out, so that it runs once and is not interrupted itself.
        if let Some(handler) = self.2.handler.take() {
            self.2.began.set(Some(self.0.borrow().trace.events.len()));
            // SAFETY: set by `interrupted`, which is still running, and called at this one place.
            unsafe { (*handler)() }
        }
    }

    /// Runs `body`, and `handler` at this campaign's point of it, or after it.
    pub(crate) fn interrupted<R>(&self, handler: impl FnOnce(), body: impl FnOnce() -> R) -> R {
        struct Off<'a>(&'a Recorder, Option<*const Recorder>);
        impl Drop for Off<'_> {
            fn drop(&mut self) {
                self.0.2.handler.set(None);
                RUNNING.set(self.1);
            }
        }
        let nested = self.2.handler.get().is_some();
        let before = RUNNING.get().filter(|_| !nested);
        assert!(
            !nested && (before.is_none() || self.3.is_running()),
            "`interrupted` cannot be nested"
        );
        let mut handler = Some(handler);
        let mut once = || {
            if let Some(handler) = handler.take() {
                handler()
            }
        };
        let it: *mut (dyn FnMut() + '_) = &mut once;
        // SAFETY: only the lifetime changes. `Off` removes the pointer before `once` ends. After a
        // cut neither is used again.
        let it: *mut (dyn FnMut() + 'static) = unsafe { std::mem::transmute(it) };
        let _off = Off(self, before);
        RUNNING.set(Some(self));
        self.2.handler.set(Some(it));
        let r = body();
        self.interrupt();
        r
    }
}

/// Runs `f` as a critical section: an interrupt that
/// [`World::interrupted`](crate::World::interrupted) would run inside it runs at its end.
///
/// Call it in tests where the program masks interrupts or takes a lock. Outside of a campaign it
/// only runs `f`.
pub fn masked<R>(f: impl FnOnce() -> R) -> R {
    struct Unmask;
    impl Drop for Unmask {
        fn drop(&mut self) {
            MASKED.set(MASKED.get().saturating_sub(1));
        }
    }
    MASKED.set(MASKED.get() + 1);
    let unmask = Unmask;
    let r = f();
    drop(unmask);
    if MASKED.get() == 0
        && let Some(running) = RUNNING.get()
    {
        // SAFETY: set by `interrupted` or `threads`, which is still running.
        unsafe { (*running).unmasked() }
    }
    r
}

/// Whether this thread is in a critical section.
pub(crate) fn is_masked() -> bool {
    MASKED.get() != 0
}

/// Sets the recorder whose sections end in a point. Returns the one before.
pub(crate) fn set_running(rec: Option<*const Recorder>) -> Option<*const Recorder> {
    RUNNING.replace(rec)
}
