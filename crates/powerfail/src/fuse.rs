//! Ends a run at a chosen instant, without executing anything of it afterwards.
//!
//! ```text
//!  engine's stack                        the run's own stack (coroutine)
//!  Stack::run ---- resume ------------>  program ... tick, tick, tick
//!       <--------- suspend ------------- tick: no event left
//!  force_reset: the stack is dropped like RAM at a power cut; no destructor runs
//! ```

use std::cell::Cell;

#[cfg(not(miri))]
type Yielder = corosensei::Yielder<(), ()>;

// INVARIANT "Frozen at the cut": no code of a run executes after its cut, not even a `Drop`. The
// image of a cut is made from the recorded events, not from memory (`Engine::take_trace`).
// Noticed by: `nothing_runs_after_the_cut` and
// `drop_guard_repairs_the_medium_after_the_cut` in tests/suite/planted.rs.

/// Counts events down to the cut.
pub(crate) struct Fuse {
    left: Cell<u64>,
    #[cfg(not(miri))]
    yielder: Cell<Option<*const Yielder>>,
    /// The number of recorded events at the cut, if the run was cut.
    #[cfg(miri)]
    pub(crate) blown: Cell<Option<usize>>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Returned,
    Cut,
}

impl Fuse {
    pub(crate) fn new() -> Self {
        Fuse {
            left: Cell::new(u64::MAX),
            #[cfg(not(miri))]
            yielder: Cell::new(None),
            #[cfg(miri)]
            blown: Cell::new(None),
        }
    }

    /// Called before an event. Does not return if the power is cut before it.
    #[inline]
    pub(crate) fn tick(&self, _recorded: impl Fn() -> usize) {
        match self.left.get() {
            u64::MAX => {}
            #[cfg(not(miri))]
            0 => self.cut(),
            #[cfg(miri)]
            0 => self.cut(_recorded()),
            n => self.left.set(n - 1),
        }
    }

    /// Whether the power is cut before the next event.
    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.left.get() == 0
    }

    #[cfg(not(miri))]
    #[cold]
    fn cut(&self) {
        if let Some(y) = self.yielder.get() {
            // SAFETY: set only while the coroutine runs, and this runs in it.
            unsafe { (*y).suspend(()) }
        }
        unreachable!("a run after its cut");
    }

    /// Miri has no stack switching, so the run unwinds, and stores made by its destructors are
    /// undone.
    #[cfg(miri)]
    #[cold]
    fn cut(&self, recorded: usize) {
        if self.blown.get().is_none() {
            self.blown.set(Some(recorded));
        }
        if !std::thread::panicking() {
            std::panic::resume_unwind(Box::new(()));
        }
    }
}

/// A stack for runs.
#[derive(Default)]
pub(crate) struct Stack {
    #[cfg(not(miri))]
    stack: Option<corosensei::stack::DefaultStack>,
}

impl Stack {
    /// Runs `f` and cuts it before event `after` + 1. A panic of `f` propagates.
    #[cfg(not(miri))]
    pub(crate) fn run(&mut self, fuse: &Fuse, after: u64, f: impl FnOnce()) -> RunEnd {
        use crate::coroutine::new_stack;
        use crate::overflow::{self, Extent};
        use corosensei::{Coroutine, CoroutineResult};
        let stack = self.stack.take().unwrap_or_else(new_stack);
        let extent = Extent::of(&stack);
        fuse.left.set(after);
        // SAFETY: the coroutine does not outlive this function, so neither do the borrows of `f`.
        let mut co = unsafe {
            Coroutine::with_stack_unchecked(stack, |y: &Yielder, ()| {
                fuse.yielder.set(Some(y));
                f()
            })
        };
        let ran = match overflow::on(extent, b"main".as_slice(), || co.resume(())) {
            CoroutineResult::Return(()) => RunEnd::Returned,
            CoroutineResult::Yield(()) => {
                // SAFETY: nothing outside points into that stack. Its contents are lost, like RAM.
                unsafe { co.force_reset() };
                RunEnd::Cut
            }
        };
        self.stack = Some(co.into_stack());
        fuse.left.set(u64::MAX);
        fuse.yielder.set(None);
        ran
    }

    #[cfg(miri)]
    pub(crate) fn run(&mut self, fuse: &Fuse, after: u64, f: impl FnOnce()) -> RunEnd {
        fuse.left.set(after);
        fuse.blown.set(None);
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        fuse.left.set(u64::MAX);
        match r {
            _ if fuse.blown.get().is_some() => RunEnd::Cut,
            Ok(()) => RunEnd::Returned,
            Err(p) => std::panic::resume_unwind(p),
        }
    }
}
