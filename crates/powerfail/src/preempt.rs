//! Another thread of control, at one point of a program.

use crate::observe::Recorder;
use std::cell::Cell;

thread_local! {
    /// How many critical sections the thread is in.
    static MASKED: Cell<u32> = const { Cell::new(0) };
    /// Who may be interrupted now.
    static RUNNING: Cell<Option<*const Recorder>> = const { Cell::new(None) };
}

/// Counts the points of a body and runs its interrupt at one of them.
pub(crate) struct Interrupt {
    handler: Cell<Option<*mut dyn FnMut()>>,
    /// The point at which it comes, counted from 0.
    at: Cell<u64>,
    passed: Cell<u64>,
    /// How many events the record had when it came.
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

    /// Before a boot.
    pub(crate) fn reset(&self, at: Option<u64>) {
        self.stop();
        self.at.set(at.unwrap_or(u64::MAX));
        self.passed.set(0);
        self.began.set(None);
    }

    /// After a boot. A run that was cut in the middle may have left anything.
    pub(crate) fn stop(&self) {
        self.handler.set(None);
        MASKED.set(0);
        RUNNING.set(None);
    }

    /// How many points the last boot has come by.
    pub(crate) fn passed(&self) -> u64 {
        self.passed.get()
    }

    /// How many events the record of the last boot had when the interrupt came.
    pub(crate) fn began(&self) -> Option<usize> {
        self.began.get()
    }
}

impl Recorder {
    /// The program may be interrupted here.
    #[inline]
    pub(crate) fn point(&self) {
        if self.2.handler.get().is_some() && MASKED.get() == 0 {
            self.count_point();
        }
    }

    #[cold]
    fn count_point(&self) {
        let n = self.2.passed.get();
        self.2.passed.set(n + 1);
        // What unwinds is over, as far as the program is concerned.
        if n == self.2.at.get() && !std::thread::panicking() {
            self.interrupt();
        }
    }

    fn interrupt(&self) {
        // Taken out: it comes once, and is not interrupted itself.
        if let Some(handler) = self.2.handler.take() {
            self.2.began.set(Some(self.0.borrow().trace.events.len()));
            // SAFETY: set by `interrupted`, which is still running, and called at this one place.
            unsafe { (*handler)() }
        }
    }

    /// Runs `body`, with `handler` at the point of it that is this campaign's turn, or after it.
    pub(crate) fn interrupted<R>(&self, handler: impl FnOnce(), body: impl FnOnce() -> R) -> R {
        struct Off<'a>(&'a Recorder);
        impl Drop for Off<'_> {
            fn drop(&mut self) {
                self.0.2.handler.set(None);
                RUNNING.set(None);
            }
        }
        assert!(
            self.2.handler.get().is_none() && RUNNING.get().is_none(),
            "one interrupt at a time"
        );
        let mut handler = Some(handler);
        let mut once = || {
            if let Some(handler) = handler.take() {
                handler()
            }
        };
        let it: *mut (dyn FnMut() + '_) = &mut once;
        // SAFETY: only the lifetime changes; `Off` takes it out before `once` ends. In a run that
        // was cut neither is looked at again.
        let it: *mut (dyn FnMut() + 'static) = unsafe { std::mem::transmute(it) };
        let _off = Off(self);
        RUNNING.set(Some(self));
        self.2.handler.set(Some(it));
        let r = body();
        self.interrupt();
        r
    }
}

/// Runs `f` as a critical section: an interrupt that
/// [`World::interrupted`](crate::World::interrupted) would bring in the middle comes at its end.
///
/// What a program's own section (a masked interrupt, a lock) is in a test: let it call this.
/// Outside of a campaign it only runs `f`.
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
        // SAFETY: set by `interrupted`, which is still running.
        unsafe { (*running).point() }
    }
    r
}
