//! Ends a run at an instant, without anything of it running afterwards.

use std::cell::Cell;

#[cfg(not(miri))]
type Yielder = corosensei::Yielder<(), ()>;

/// Counts events down to the cut.
pub(crate) struct Fuse {
    left: Cell<u64>,
    #[cfg(not(miri))]
    yielder: Cell<Option<*const Yielder>>,
    /// Whether the run was cut, and after how many events of its record.
    #[cfg(miri)]
    pub(crate) blown: Cell<Option<usize>>,
}

/// What a run on a stack of its own came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ran {
    ToItsEnd,
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

    /// An event is about to happen. Does not return when the power goes before it.
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

    #[cfg(not(miri))]
    #[cold]
    fn cut(&self) {
        if let Some(y) = self.yielder.get() {
            // SAFETY: set while the coroutine runs, which is where this is called.
            unsafe { (*y).suspend(()) }
        }
        unreachable!("a run after its cut");
    }

    /// Miri has no stack switching: the run unwinds, and what its drop glue stores is taken back.
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

/// A stack to run on.
#[derive(Default)]
pub(crate) struct Stack {
    #[cfg(not(miri))]
    stack: Option<corosensei::stack::DefaultStack>,
}

impl Stack {
    /// Runs `f` and cuts it before event `after` + 1. A panic of `f` comes through.
    #[cfg(not(miri))]
    pub(crate) fn run(&mut self, fuse: &Fuse, after: u64, f: impl FnOnce()) -> Ran {
        use corosensei::{Coroutine, CoroutineResult};
        let stack = self.stack.take().unwrap_or_default();
        fuse.left.set(after);
        // SAFETY: the coroutine does not outlive this function, so neither do the borrows of `f`.
        let mut co = unsafe {
            Coroutine::with_stack_unchecked(stack, |y: &Yielder, ()| {
                fuse.yielder.set(Some(y));
                f()
            })
        };
        let ran = match co.resume(()) {
            CoroutineResult::Return(()) => Ran::ToItsEnd,
            CoroutineResult::Yield(()) => {
                // SAFETY: nothing outside points into that stack; what lies there is lost, as RAM is.
                unsafe { co.force_reset() };
                Ran::Cut
            }
        };
        self.stack = Some(co.into_stack());
        fuse.left.set(u64::MAX);
        fuse.yielder.set(None);
        ran
    }

    #[cfg(miri)]
    pub(crate) fn run(&mut self, fuse: &Fuse, after: u64, f: impl FnOnce()) -> Ran {
        fuse.left.set(after);
        fuse.blown.set(None);
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        fuse.left.set(u64::MAX);
        match r {
            _ if fuse.blown.get().is_some() => Ran::Cut,
            Ok(()) => Ran::ToItsEnd,
            Err(p) => std::panic::resume_unwind(p),
        }
    }
}
