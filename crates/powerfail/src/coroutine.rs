//! The stacks of threads: `corosensei`, or, under Miri, which has no stack switching, threads of
//! the host that hand each other a baton.

#[cfg(not(miri))]
pub(crate) use corosensei::{Coroutine, CoroutineResult, Yielder, stack::DefaultStack};

#[cfg(miri)]
pub(crate) use baton::{Coroutine, CoroutineResult, DefaultStack, Yielder};

/// Bytes of a stack.
pub(crate) const STACK: usize = 1 << 20;

/// A stack for a thread of a boot.
#[cfg(not(miri))]
pub(crate) fn new_stack() -> DefaultStack {
    DefaultStack::new(STACK).expect("the host has memory for a stack")
}

#[cfg(miri)]
pub(crate) fn new_stack() -> DefaultStack {
    DefaultStack
}

/// The part of `corosensei`'s interface that is used here. Exactly one of the threads runs at a
/// time, the others wait for a message, so nothing is accessed by two of them at once.
#[cfg(miri)]
mod baton {
    use std::any::Any;
    use std::marker::PhantomData;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread::JoinHandle;

    pub(crate) struct DefaultStack;

    pub(crate) enum CoroutineResult<Y, R> {
        Yield(Y),
        Return(R),
    }

    enum Report<Y> {
        Yield(Y),
        End(Result<(), Box<dyn Any + Send>>),
    }

    /// The payload that ends a thread whose stack is dropped.
    struct Dropped;

    pub(crate) struct Yielder<I, Y> {
        reports: Sender<Report<Y>>,
        turns: Receiver<I>,
    }

    impl<I, Y> Yielder<I, Y> {
        pub(crate) fn suspend(&self, why: Y) -> I {
            let told = self.reports.send(Report::Yield(why));
            match told.ok().and_then(|()| self.turns.recv().ok()) {
                Some(input) => input,
                None => resume_unwind(Box::new(Dropped)),
            }
        }
    }

    /// Moves what only one thread uses at a time to another one.
    struct Moved<T>(T);
    // SAFETY: the module's documentation: the other thread waits meanwhile.
    unsafe impl<T> Send for Moved<T> {}
    impl<T> Moved<T> {
        fn take(self) -> T {
            self.0
        }
    }

    pub(crate) struct Coroutine<I, Y, R, S> {
        turns: Option<Sender<I>>,
        reports: Receiver<Report<Y>>,
        thread: Option<JoinHandle<()>>,
        done: bool,
        _types: PhantomData<(R, S)>,
    }

    impl<Y: Send + 'static> Coroutine<(), Y, (), DefaultStack> {
        /// # Safety
        /// As in `corosensei`: what `f` borrows lives until the coroutine has ended or was reset.
        pub(crate) unsafe fn with_stack_unchecked(
            DefaultStack: DefaultStack,
            f: impl FnOnce(&Yielder<(), Y>, ()),
        ) -> Self {
            let (turns, receiver) = channel();
            let (sender, reports) = channel();
            let f: Box<dyn FnOnce(&Yielder<(), Y>, ()) + '_> = Box::new(f);
            // SAFETY: only the lifetime changes; the caller keeps what `f` borrows.
            let f: Box<dyn FnOnce(&Yielder<(), Y>, ()) + 'static> =
                unsafe { std::mem::transmute(f) };
            let f = Moved(f);
            let thread = std::thread::spawn(move || {
                let f = f.take();
                let yielder = Yielder {
                    reports: sender,
                    turns: receiver,
                };
                let ended = match yielder.turns.recv() {
                    Ok(()) => catch_unwind(AssertUnwindSafe(|| f(&yielder, ()))),
                    Err(_) => {
                        std::mem::forget(f);
                        Ok(())
                    }
                };
                // Nobody listens if the stack was dropped.
                let _ = yielder.reports.send(Report::End(ended));
            });
            Coroutine {
                turns: Some(turns),
                reports,
                thread: Some(thread),
                done: false,
                _types: PhantomData,
            }
        }

        pub(crate) fn resume(&mut self, (): ()) -> CoroutineResult<Y, ()> {
            let told = self.turns.as_ref().map(|t| t.send(()));
            assert!(matches!(told, Some(Ok(()))), "resumed after its end");
            match self.reports.recv() {
                Ok(Report::Yield(why)) => CoroutineResult::Yield(why),
                Ok(Report::End(ended)) => {
                    self.done = true;
                    self.join();
                    match ended {
                        Ok(()) => CoroutineResult::Return(()),
                        Err(payload) => resume_unwind(payload),
                    }
                }
                Err(_) => unreachable!("it reports before it ends"),
            }
        }

        pub(crate) fn done(&self) -> bool {
            self.done
        }

        fn join(&mut self) {
            self.turns = None;
            if let Some(t) = self.thread.take() {
                let _ = t.join();
            }
        }

        pub(crate) fn force_unwind(&mut self) {
            self.join();
            self.done = true;
        }

        /// Unwinds, because a thread of the host cannot be dropped. `Scheduler::drop_threads` has
        /// ended the record of the boot before, so that destructors change nothing.
        ///
        /// # Safety
        /// None is needed here.
        pub(crate) unsafe fn force_reset(&mut self) {
            self.force_unwind();
        }

        pub(crate) fn into_stack(self) -> DefaultStack {
            DefaultStack
        }
    }
}
