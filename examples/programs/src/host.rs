//! A host: the threads, the clock and the power cuts of `powerfail`.

pub use nv_rtos::host::{Machine as Threads, Masked};
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::Preempted;
use powerfail::World;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// How many rounds programs make instead of their own number; 0: their own. A test sets it before
/// anything runs.
pub static ROUNDS: AtomicU32 = AtomicU32::new(0);
/// What the sensors of `etl` read instead of the inputs: one after the other, again and again.
pub static RECORDED: OnceLock<Vec<u32>> = OnceLock::new();
/// Gets the thread and the turn, when a thread of `etl` has done its work.
pub static DONE: OnceLock<fn(usize, u32)> = OnceLock::new();

pub(super) fn asked(all: u32) -> u32 {
    match ROUNDS.load(Relaxed) {
        0 => all,
        n => n,
    }
}

pub(super) fn recorded(i: u32) -> Option<u32> {
    let all = RECORDED.get()?;
    all.get(i as usize % all.len()).copied()
}

pub(super) fn tell(thread: usize, turn: u32) {
    if let Some(f) = DONE.get() {
        f(thread, turn);
    }
}

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
            threads.start(t, $kernel, |$port| {
                $spawn;
            });
        });
    };
}
pub(crate) use run;
