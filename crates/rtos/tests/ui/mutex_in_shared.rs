//! The block `shared` has the types of the data: it makes a mutex for each.

#![allow(unused_imports, dead_code)]
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::Mutex;

enum Masked {}
// SAFETY: never run.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
type Fram = Preempted<InOrder32, Masked>;

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 12 }
    objects {
        SEM: Semaphore = (0, 3);
        LETTERS: Queue<[u8; 3], 2>;
        LOCK: Mutex;
    }
    shared {
        BOARD: Mutex<u32> = 0;
    }
    threads {
        a(u32 = 0): 1;
    }
}

fn main() {}
