//! The port of a host, on [`powerfail`]: a test runs the threads of a system through every power
//! cut, and through preemptions anywhere.
//!
//! ```text
//!  kernel          Port            the kit
//!  switch(a, b)    suspend, unpark exactly one of the kernel's threads is not suspended
//!  set_timer(at)   unpark          a thread "timer" of a higher priority, which waits until then
//!  slice           interrupt       at every point, if the system has threads of one priority
//! ```
//!
//! Time is the kit's virtual time: it advances while all threads wait.

use crate::port::Event;
use crate::{Port, Runs, Spawn};
use nv_replay::pmem_tx::Section;
use powerfail::{Thread, Threads, masked};
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::vec::Vec;

/// The critical section of a system's threads: the kit preempts nothing in it. It excludes no other
/// thread of the host, so it is not `Send`, and no part of a system is that uses it.
pub struct Masked(PhantomData<*mut ()>);
// SAFETY: the kit preempts nothing inside of `masked`. What is protected by this section stays in
// one thread of the host: it is `Send` only if the section is.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        masked(f)
    }
}

/// The machine of one boot.
///
/// ```
/// # use core::mem::MaybeUninit;
/// use nv_rtos::host::{Machine, Masked};
/// use nv_rtos::nvmem::{InOrder32, Region};
/// use nv_rtos::pmem_tx::Preempted;
/// use nv_rtos::{Error, Thread};
/// use powerfail::{Mapped, World, explore};
///
/// type Fram = Preempted<InOrder32, Masked>;
/// nv_rtos::system! {
///     Plan on Fram;
///     table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
///     objects { LETTERS: Queue<u32, 2>; }
///     threads {
///         writer(u32 = 0): 1;
///         reader(u32 = 0): 1;
///     }
/// }
/// fn writer(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
///     th.each_step(0..3, (), |sys, _, i, ()| LETTERS.send(sys, i))
/// }
/// fn reader(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
///     th.each_step(0..3, (), |sys, sum, _, ()| {
///         *sum.get_mut(sys)? += LETTERS.receive(sys)?;
///         Ok(())
///     })?;
///     let sum = th.step((), |sys, sum, ()| Ok(*sum.get(sys)))?;
///     assert_eq!(sum, 0 + 1 + 2);
///     Ok(())
/// }
///
/// let life = |fram: Region<'_, Fram>, world: &World<'_, ()>| {
///     let (kernel, mut threads) = Plan::open(fram).unwrap();
///     let (places, _) = threads.share().unwrap();
///     let machine = Machine::default();
///     world.threads(|t| {
///         machine.start(t, &kernel, |to| Plan::spawn(&kernel, places, to, writer, reader));
///     });
///     assert!((0..2).all(|t| kernel.ended(t) == Some(Ok(()))));
/// };
/// let done = explore(Mapped::<Fram>::new(2048), life).preemptions(1).run();
/// assert!(done.cuts > 1000);
/// ```
#[derive(Default)]
pub struct Machine {
    ids: RefCell<Vec<Thread>>,
    /// The thread that runs, if it has not ended.
    runs: Cell<Option<usize>>,
    timer: Cell<Option<u64>>,
    timer_thread: Cell<Option<Thread>>,
    ended: Cell<usize>,
    /// A bit for each thread that does not run to its end: it is parked, or was aborted, or its
    /// reserved place is free.
    stopped: Cell<u32>,
    /// A bit for each reserved place that is free.
    free: Cell<u32>,
    /// The kit's clock at the boot.
    since: Cell<u64>,
    energy: Cell<Option<u32>>,
}

/// The `Port` that threads and handlers are given.
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

// SAFETY: the kit changes threads when the section has ended.
unsafe impl Port for Kit<'_, '_> {
    fn now(&self) -> u64 {
        self.t.now() - self.m.since.get()
    }
    fn switch(&self, to: Option<usize>) {
        if let Some(n) = self.m.runs.replace(to) {
            self.t.suspend(self.id(n));
        }
        if let Some(n) = to {
            assert!(
                self.m.stopped.get() >> n & 1 == 0,
                "it has stopped, and runs"
            );
            self.t.unpark(self.id(n));
        }
    }
    fn ended(&self, _: usize) {
        self.m.runs.set(None);
    }
    fn set_timer(&self, at: Option<u64>) {
        self.m.timer.set(at);
        if let Some(t) = self.m.timer_thread.get() {
            self.t.unpark(t);
        }
    }
    fn energy(&self) -> Option<u32> {
        self.m.energy.get()
    }
    fn observe(&self, event: Event) {
        match event {
            Event::Ready { thread, at } => self.t.declare(self.id(thread), at),
            Event::Commit { priority } => self.t.commit(priority),
            Event::Free { thread, free } => {
                let bit = 1 << thread;
                let (was, stopped) = (self.m.free.get(), self.m.stopped.get());
                if free {
                    self.m.free.set(was | bit);
                    self.m.stopped.set(stopped | bit);
                    if self.m.is_over() {
                        self.m.end_timer(self.t);
                    }
                } else if was & bit != 0 {
                    // Otherwise it has stopped for another reason: a parked thread is there.
                    self.m.free.set(was & !bit);
                    self.m.stopped.set(stopped & !bit);
                }
            }
            Event::Aborted { thread } => {
                self.m.stopped.set(self.m.stopped.get() | 1 << thread);
                self.t.abandon(self.id(thread));
            }
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
                kit.m.end_timer(kit.t);
            }
        });
        self.t.suspend(id);
        assert_eq!(self.m.ids.borrow().len(), thread);
        self.m.ids.borrow_mut().push(id);
    }
}

impl Machine {
    fn is_over(&self) -> bool {
        let stopped = self.stopped.get().count_ones() as usize;
        self.ended.get() + stopped == self.ids.borrow().len()
    }

    /// What the board knows of its energy from now on, in microjoules.
    pub fn set_energy(&self, energy: Option<u32>) {
        self.energy.set(energy);
    }

    fn end_timer(&self, t: &Threads<'_, '_>) {
        self.timer.set(None);
        t.unpark(self.timer_thread.get().expect("it was made first"));
    }

    /// A thread that was parked at the boot runs now.
    pub fn unparked(&self, thread: usize) {
        self.stopped.set(self.stopped.get() & !(1 << thread));
    }

    /// The power fails for this machine only: none of its threads runs any more, nor does its
    /// timer. For a test that boots several times in one boot of the kit.
    pub fn power_off(&self, t: &Threads<'_, '_>) {
        self.ids.borrow().iter().for_each(|id| t.abandon(*id));
        t.abandon(self.timer_thread.get().expect("it was made first"));
    }

    /// Makes the machine's timer, and with `spawn` the system's threads. They run when the closure
    /// of [`World::threads`](powerfail::World::threads) has returned, and until each of them has
    /// ended or is parked. If two have one priority, a time slice may end at every point.
    pub fn start<'s, 'e, K: Runs>(
        &'s self,
        t: &'s Threads<'s, 'e>,
        kernel: &'s K,
        spawn: impl FnOnce(&mut Kit<'s, 'e>),
    ) -> Kit<'s, 'e> {
        self.since.set(t.now());
        let stopped = (0..K::THREADS).filter(|t| kernel.has_ended(*t));
        self.stopped.set(stopped.fold(0, |all, t| all | 1 << t));
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
        if K::SLICES {
            t.interrupt("slice", move || kernel.slice(&kit));
        }
        kernel.start(&kit);
        kit
    }
}
