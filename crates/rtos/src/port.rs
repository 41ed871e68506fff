//! The interface between the kernel and a machine.

#[cfg(any(
    all(feature = "cortex-m", target_arch = "arm", target_os = "none"),
    all(feature = "riscv", target_arch = "riscv32", target_os = "none"),
    all(feature = "msp430", target_arch = "msp430")
))]
#[allow(unsafe_code)]
mod bare;
#[cfg(all(feature = "cortex-m", target_arch = "arm", target_os = "none"))]
#[allow(unsafe_code)]
pub mod cortex_m;
#[cfg(all(feature = "cortex-m", target_arch = "arm", target_os = "none"))]
#[allow(unsafe_code)]
mod cortex_m_switch;
#[cfg(any(
    all(feature = "cortex-m", target_arch = "arm", target_os = "none"),
    all(feature = "riscv", target_arch = "riscv32", target_os = "none"),
    all(feature = "msp430", target_arch = "msp430")
))]
#[allow(unsafe_code)]
mod guard;
#[cfg(feature = "host")]
#[allow(unsafe_code)]
pub mod host;
#[cfg(all(feature = "msp430", target_arch = "msp430"))]
#[allow(unsafe_code)]
pub mod msp430;
#[cfg(all(feature = "msp430", target_arch = "msp430"))]
#[allow(unsafe_code)]
mod msp430_switch;
#[cfg(all(feature = "riscv", target_arch = "riscv32", target_os = "none"))]
#[allow(unsafe_code)]
pub mod riscv;
#[cfg(all(feature = "riscv", target_arch = "riscv32", target_os = "none"))]
#[allow(unsafe_code)]
mod riscv_switch;

use nv_replay::nvmem::Model;

/// A machine under the kernel: its clock, its timer, and how it changes from one thread to another.
///
/// Critical sections are not here: they are those of the system's [`Model`], which is a
/// [`Preempted`](nv_replay::pmem_tx::Preempted) with the machine's `Section`.
///
/// The kernel calls these functions in its critical sections.
///
/// # Safety
/// The functions do not call the kernel, and run no other thread before they return.
#[allow(unsafe_code)]
pub unsafe trait Port {
    /// Ticks of the clock since the boot. Never less than before.
    fn now(&self) -> u64;

    /// Lets thread `to` run instead of the one that runs, when the critical section, or the
    /// interrupt's handler, ends. If there is none, no thread is ready: wait for an interrupt.
    ///
    /// A thread continues where it was, or begins with its body. Nothing is stored for it.
    fn switch(&self, to: Option<usize>);

    /// Thread `thread`, which runs, has ended: the next switch leaves it for good.
    fn ended(&self, thread: usize) {
        let _ = thread;
    }

    /// Calls [`Kernel::tick`](crate::Kernel::tick) when the clock shows `at` or later; never, if
    /// there is none. The last call counts.
    fn set_timer(&self, at: Option<u64>);

    /// The energy that is left until the power fails, in microjoules: what the capacitor holds
    /// above the voltage at which the board stops. `None` if the board cannot measure it.
    fn energy(&self) -> Option<u32> {
        None
    }

    /// Stops the machine if the thread that runs has overflowed its stack. The kernel calls it
    /// before a step commits. A port whose machine notices an overflow itself does nothing here.
    fn check_stack(&self) {}

    /// The bytes that a thread has never used of its stack, if the port knows them: see
    /// [`Kernel::unused_stack`](crate::Kernel::unused_stack).
    fn unused_stack(&self, thread: usize) -> Option<usize> {
        let _ = thread;
        None
    }

    /// What the scheduler decides, for a test kit.
    #[cfg(feature = "instrument")]
    fn observe(&self, event: Event) {
        let _ = event;
    }
}

/// A kernel that a port runs: a [`Kernel`](crate::Kernel), or one that a program compares it with.
///
/// The port calls these functions from `main` and from the timer's handler.
pub trait Runs {
    /// How many threads there are.
    const THREADS: usize;
    /// Whether two of them have one priority, so that time slices matter.
    const SLICES: bool = true;

    /// Starts the system: switches to the first thread.
    fn start(&self, port: &dyn Port);

    /// The time of the timer has come.
    fn tick(&self, port: &dyn Port);

    /// A time slice has ended.
    fn slice(&self, port: &dyn Port);

    /// Whether a thread has ended, or is parked.
    fn has_ended(&self, thread: usize) -> bool;

    /// When its timer is due next, if it is: for a port that sleeps until then.
    fn next_deadline(&self) -> Option<u64> {
        None
    }
}

/// What the scheduler decides.
#[cfg(feature = "instrument")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A thread is ready at its own priority, or it is not ready.
    Ready {
        /// Which.
        thread: usize,
        /// Its priority, if it is.
        at: Option<u8>,
    },
    /// A thread was aborted: it never runs again.
    Aborted {
        /// Which.
        thread: usize,
    },
    /// Whether a thread may be spawned in a reserved place.
    Free {
        /// Which.
        thread: usize,
        /// Whether.
        free: bool,
    },
    /// The running thread is about to commit a step, at the priority at which it runs.
    Commit {
        /// That priority: its own, or the one that it has inherited.
        priority: u8,
    },
}

/// Makes the threads of a machine. The function that [`system!`](crate::system!) generates calls it
/// once for each thread.
pub trait Spawn<'s> {
    /// Makes a thread that does not run yet: the first [`Port::switch`] to it begins `body`, on a
    /// stack of its own, with a port that lives as long as the stack.
    fn spawn(&mut self, thread: usize, name: &'static str, body: impl FnOnce(&dyn Port) + 's);
}

/// A kernel's critical sections exclude other threads.
pub const fn assert_preempted<M: Model>() {
    assert!(
        M::PREEMPTED,
        "a system's model is `Preempted<M, S>`, with the critical section `S` of the machine"
    );
}
