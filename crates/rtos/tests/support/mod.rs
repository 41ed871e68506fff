//! The host port: the threads, the clock and the interrupts of the test kit.
//!
//! ```text
//!  kernel          Port            the kit
//!  switch(a, b)    suspend, unpark exactly one of the kernel's threads is not suspended
//!  set_timer(at)   unpark          a thread "timer" of a higher priority, which waits until then
//!  slice           interrupt       at every point, if the system has threads of one priority
//! ```

#![allow(dead_code)]

use nv_rtos::nvmem::{InOrder32, Model};
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{Event, Kernel, Port, Spawn, System};
use powerfail::{Thread, Threads, masked};
use std::cell::{Cell, RefCell};

/// A 16-bit core behind a write buffer.
pub enum Buffered16 {}
// SAFETY: the fence is the kit's, and nothing else.
unsafe impl Model for Buffered16 {
    type Unit = u16;
    const BUFFERED: bool = true;
    const NAME: &'static str = "buffered-16";
}

pub enum Masked {}
// SAFETY: the kit preempts nothing inside of `masked`, and there is one thread of the host.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}
pub type On<M> = Preempted<M, Masked>;
pub type Plain = On<InOrder32>;

/// The machine of a boot.
#[derive(Default)]
pub struct Machine {
    ids: RefCell<Vec<Thread>>,
    timer: Cell<Option<u64>>,
    timer_thread: Cell<Option<Thread>>,
    ended: Cell<usize>,
    /// Threads that do not run in this boot, unless something sets them going.
    parked: Cell<usize>,
    /// A bit for each one that was aborted.
    aborted: Cell<u32>,
    /// The kit's clock at the boot.
    since: Cell<u64>,
}

/// A machine, as its threads and handlers see it.
pub struct Kit<'s, 'e> {
    t: &'s Threads<'s, 'e>,
    m: &'s Machine,
}
impl Clone for Kit<'_, '_> {
    fn clone(&self) -> Self {
        *self
    }
}
impl Copy for Kit<'_, '_> {}

impl Kit<'_, '_> {
    fn id(&self, n: usize) -> Thread {
        self.m.ids.borrow()[n]
    }
}

impl Port for Kit<'_, '_> {
    fn now(&self) -> u64 {
        self.t.now() - self.m.since.get()
    }
    fn switch(&self, from: Option<usize>, to: Option<usize>) {
        if let Some(n) = from {
            self.t.suspend(self.id(n));
        }
        if let Some(n) = to {
            assert!(self.m.aborted.get() >> n & 1 == 0, "an aborted thread runs");
            self.t.unpark(self.id(n));
        }
    }
    fn set_timer(&self, at: Option<u64>) {
        self.m.timer.set(at);
        if let Some(t) = self.m.timer_thread.get() {
            self.t.unpark(t);
        }
    }
    fn observe(&self, event: Event) {
        match event {
            Event::Ready { thread, at } => self.t.declare(self.id(thread), at),
            Event::Commit { priority } => self.t.commit(priority),
            Event::Aborted { thread } => {
                self.m.aborted.set(self.m.aborted.get() | 1 << thread);
                self.t.abandon(self.id(thread));
            }
            _ => {}
        }
    }
}

impl<'s> Spawn<'s> for Kit<'s, '_> {
    fn spawn(&mut self, thread: usize, name: &'static str, body: impl FnOnce(&dyn Port) + 's) {
        let kit = *self;
        let id = self.t.spawn(name, 0, move || {
            body(&kit);
            kit.m.ended.set(kit.m.ended.get() + 1);
            if kit.m.is_over() {
                kit.m.timer.set(None);
                kit.t
                    .unpark(kit.m.timer_thread.get().expect("it was made first"));
            }
        });
        self.t.suspend(id);
        assert_eq!(self.m.ids.borrow().len(), thread);
        self.m.ids.borrow_mut().push(id);
    }
}

impl Machine {
    fn is_over(&self) -> bool {
        let aborted = self.aborted.get().count_ones() as usize;
        self.ended.get() + self.parked.get() + aborted == self.ids.borrow().len()
    }

    /// A thread that was parked at the boot runs now.
    pub fn unparked(&self) {
        self.parked.set(self.parked.get() - 1);
    }

    /// The power is cut: no thread of the kernel runs any more, nor does the timer.
    pub fn power_off(&self, t: &Threads<'_, '_>) {
        self.ids.borrow().iter().for_each(|id| t.abandon(*id));
        t.abandon(self.timer_thread.get().expect("it was made first"));
    }

    /// Makes the machine's own thread and interrupt, and then the system's threads; they run when
    /// the closure of `World::threads` has returned.
    pub fn start<'s, 'e, 'm: 's, S: System>(
        &'s self,
        t: &'s Threads<'s, 'e>,
        kernel: &'s Kernel<'m, S>,
        spawn: impl FnOnce(&mut Kit<'s, 'e>),
    ) -> Kit<'s, 'e> {
        self.since.set(t.now());
        let parked = (0..S::THREADS.len()).filter(|t| kernel.parked(*t));
        self.parked.set(parked.count());
        let mut kit = Kit { t, m: self };
        let timer = t.spawn("timer", 1, move || {
            while self.ended.get() == 0 || !self.is_over() {
                match self.timer.get() {
                    None => t.park(),
                    Some(at) if at <= kit.now() => kernel.tick(&kit),
                    Some(at) => drop(t.park_timeout(at - kit.now())),
                }
            }
            // Those that are parked.
            self.ids.borrow().iter().for_each(|id| t.abandon(*id));
        });
        t.declare(timer, None);
        self.timer_thread.set(Some(timer));
        spawn(&mut kit);
        let priorities = || S::THREADS.iter().map(|t| t.priority);
        let equals = priorities().any(|p| priorities().filter(|q| *q == p).count() > 1);
        if equals {
            t.interrupt("slice", move || kernel.slice(&kit));
        }
        kernel.start(&kit);
        kit
    }
}

/// What the world has seen. It survives every cut.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// Results, each with the thread and the step that got it.
    pub results: Vec<(u32, u32, u32)>,
    /// Who is in a critical section, and how many sections each thread has left.
    pub inside: Option<u32>,
    pub left: [u32; 4],
    /// The latest time that each thread knows.
    pub time: [u64; 4],
    /// How many an interrupt gave.
    pub given: u32,
    /// Lives, and of those without progress how many were long, and how many of these have ended.
    pub lives: usize,
    pub long: u32,
    pub ended: u32,
    pub progress: u32,
    pub maybe: u32,
    pub parked: u32,
    pub early: bool,
}

/// Thread `me` tells the world the result of its step `i`. It must be the same in each life, and no
/// other step may have it.
pub fn result(w: &powerfail::World<'_, Seen>, me: u32, i: u32, value: u32) {
    let before = w.with(|s| s.results.iter().find(|r| (r.0, r.1) == (me, i)).copied());
    match before {
        Some(r) => assert_eq!(r.2, value, "step {i} of thread {me} has another result"),
        None => {
            let doubled = w.with(|s| s.results.iter().any(|r| r.2 == value));
            assert!(
                !doubled,
                "{value} came twice, to step {i} of thread {me}, too"
            );
            w.update(|s| s.results.push((me, i, value)));
        }
    }
}

/// All results that the world has seen, in order.
pub fn results(w: &powerfail::World<'_, Seen>) -> Vec<u32> {
    let mut all: Vec<u32> = w.with(|s| s.results.iter().map(|r| r.2).collect());
    all.sort_unstable();
    all
}

/// Thread `me` knows this time.
pub fn knows(w: &powerfail::World<'_, Seen>, me: usize, time: u64) {
    w.update(|s| s.time[me] = s.time[me].max(time));
}

/// Thread `me` reads a time that was not recorded before: it is not before one that it knew.
pub fn reads(w: &powerfail::World<'_, Seen>, me: usize, time: u64) {
    let latest = w.with(|s| s.time[me]);
    assert!(time >= latest, "the time is {time}, and was {latest}");
}
