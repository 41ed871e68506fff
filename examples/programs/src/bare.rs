//! Cores without an operating system: the ports of `nv-rtos`.

#[cfg(target_arch = "arm")]
use nv_rtos::cortex_m as port;
#[cfg(target_arch = "msp430")]
use nv_rtos::msp430 as port;
#[cfg(target_arch = "msp430")]
use nv_rtos::nvmem::InOrder16 as InOrder;
#[cfg(not(target_arch = "msp430"))]
use nv_rtos::nvmem::InOrder32 as InOrder;
use nv_rtos::pmem_tx::Preempted;
#[cfg(target_arch = "riscv32")]
use nv_rtos::riscv as port;

#[cfg(target_arch = "arm")]
pub use port::Cortex as Core;
#[cfg(target_arch = "riscv32")]
pub use port::Hart as Core;
#[cfg(target_arch = "msp430")]
pub use port::Msp430 as Core;
pub use port::{Masked, Stack};

/// The memory, and the critical section of the threads.
pub type Fram = Preempted<InOrder, Masked>;

/// Bytes of a thread's stack, if there is enough RAM: on a RISC-V core handlers run there, too.
pub const STACK: usize = if cfg!(target_arch = "riscv32") {
    4096
} else {
    2048
};

/// Bytes of a thread's stack, of so many threads. An MSP430 has 8 KiB of RAM for all of them, and
/// for the memory of the build that is volatile.
pub const fn stack(threads: usize) -> usize {
    let part = 5120 / threads / 16 * 16;
    if cfg!(target_arch = "msp430") && part < STACK {
        part
    } else {
        STACK
    }
}

/// How a program runs.
pub struct Machine<'a> {
    /// The period of the timer, as the port wants it. Without it the program around this one has a
    /// timer of its own, or none.
    pub period: Option<u32>,
    /// Called when the threads are made, before they run.
    pub starts: &'a dyn Fn(),
    /// Called while no thread is ready, with interrupts masked: waits for one, or is one.
    pub idle: &'a dyn Fn(),
}

/// Makes the threads, and runs them to their end.
macro_rules! run {
    ($machine:ident, $kernel:ident, $n:literal threads, |$port:ident| $spawn:expr) => {
        let mut stacks =
            [const { crate::support::Stack::<{ crate::support::stack($n) }>::UNINIT }; $n];
        let mut port = crate::support::Core::new(&mut stacks);
        let $port = &mut port;
        $spawn;
        ($machine.starts)();
        if !port.run_idle($kernel, $machine.period, |_| ($machine.idle)()) {
            return None;
        }
    };
}
pub(crate) use run;
