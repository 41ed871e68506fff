//! A host: the threads, the clock and the power cuts of `powerfail`.

use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{Port, Runs, Spawn};
use powerfail::{Thread, Threads, World, masked};
use std::cell::{Cell, RefCell};

/// The critical section of the threads: the kit preempts nothing in it.
pub enum Masked {}
// SAFETY: as said, and there is one thread of the host.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}

/// The memory, and the critical section of the threads.
pub type Fram = Preempted<InOrder32, Masked>;

/// How a program runs.
pub struct Machine<'w> {
    /// The world of this boot.
    pub world: &'w World<'w, u32>,
}

/// What the kernel knows of the machine.
#[derive(Default)]
pub struct Kit {
    ids: RefCell<Vec<Thread>>,
    timer: Cell<Option<u64>>,
    timer_thread: Cell<Option<Thread>>,
    ended: Cell<usize>,
}

/// A machine, as its threads see it.
#[derive(Clone, Copy)]
pub struct Core<'s, 'e> {
    t: &'s Threads<'s, 'e>,
    kit: &'s Kit,
}

impl Port for Core<'_, '_> {
    fn now(&self) -> u64 {
        self.t.now()
    }
    fn switch(&self, from: Option<usize>, to: Option<usize>) {
        let id = |n: usize| self.kit.ids.borrow()[n];
        if let Some(n) = from {
            self.t.suspend(id(n));
        }
        if let Some(n) = to {
            self.t.unpark(id(n));
        }
    }
    fn set_timer(&self, at: Option<u64>) {
        self.kit.timer.set(at);
        if let Some(t) = self.kit.timer_thread.get() {
            self.t.unpark(t);
        }
    }
}

impl<'s> Spawn<'s> for Core<'s, '_> {
    fn spawn(&mut self, _: usize, name: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        let core = *self;
        let id = self.t.spawn(name, 0, move || {
            body(&core);
            let ended = core.kit.ended.get() + 1;
            core.kit.ended.set(ended);
            if ended == core.kit.ids.borrow().len() {
                // The timer ends, too.
                core.set_timer(None);
            }
        });
        self.t.suspend(id);
        self.kit.ids.borrow_mut().push(id);
    }
}

impl Kit {
    /// Makes the thread that is the timer, then those of the program. They run when this has
    /// returned.
    pub fn start<'s, 'e, K: Runs>(
        &'s self,
        t: &'s Threads<'s, 'e>,
        kernel: &'s K,
        spawn: impl FnOnce(&mut Core<'s, 'e>),
    ) {
        let mut core = Core { t, kit: self };
        let timer = t.spawn("timer", 1, move || {
            while self.ended.get() < K::THREADS {
                match self.timer.get() {
                    None => t.park(),
                    Some(at) if at <= t.now() => kernel.tick(&core),
                    Some(at) => drop(t.park_timeout(at - t.now())),
                }
            }
        });
        self.timer_thread.set(Some(timer));
        spawn(&mut core);
        kernel.start(&core);
    }
}

/// Makes the threads, and runs them to their end.
macro_rules! run {
    ($machine:ident, $kernel:ident, $n:literal threads, |$port:ident| $spawn:expr) => {
        let kit = crate::support::Kit::default();
        $machine.world.threads(|t| {
            kit.start(t, &$kernel, |$port| {
                $spawn;
            })
        });
    };
}
pub(crate) use run;
