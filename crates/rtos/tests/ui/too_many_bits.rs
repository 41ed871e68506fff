//! Numbers of 16 bits do not fit into the words of objects.

use nv_rtos::nvmem::{InOrder32, Region};
use nv_rtos::pmem_tx::{Preempted, Section};

enum Masked {}
// SAFETY: never run.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

nv_rtos::system! {
    Plan on Preempted<InOrder32, Masked>;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 16 }
    objects { SEM: Semaphore = (0, 3); }
    threads { a(u32 = 0): 1; }
}

fn main() {
    let mut words = [const { std::mem::MaybeUninit::new(0u64) }; 64];
    let _ = Plan::open(Region::new(&mut words));
}
