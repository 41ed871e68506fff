//! A host: the threads, the clock and the power cuts of `powerfail`.

pub use nv_rtos::host::{Machine as Threads, Masked};
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::Preempted;
use powerfail::World;
use std::sync::atomic::AtomicU32;

/// The most rounds that a program makes. A test sets it before anything runs.
pub static MOST_ROUNDS: AtomicU32 = AtomicU32::new(u32::MAX);

/// The memory, and the critical section of the threads.
pub type Fram = Preempted<InOrder32, Masked>;

/// How a program runs.
pub struct Machine<'w> {
    /// The world of this boot.
    pub world: &'w World<'w, u32>,
}

/// Makes the threads, and runs them to their end.
macro_rules! run {
    ($machine:ident, $kernel:ident, $n:literal threads, |$port:ident| $spawn:expr) => {
        let threads = crate::support::Threads::default();
        $machine.world.threads(|t| {
            threads.start(t, &$kernel, |$port| {
                $spawn;
            });
        });
    };
}
pub(crate) use run;
