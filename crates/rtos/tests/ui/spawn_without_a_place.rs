//! Only threads of reserved places are spawned at run time.

#![allow(unused_imports, dead_code)]
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{Error, Thread, Until};
use std::cell::Cell;

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
        REPLIES: [Queue<u32, 2>; 2] => Reply;
        PERMITS: [Semaphore = 3; 2] => Permit;
        ALWAYS: Queue<u32, 2>;
    }
    threads {
        boss(u32 = 0): 1;
    }
    reserve {
        worker(u32 = 0, [u8; 3]): 1;
    }
}

fn body(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| Plan::boss().spawn(sys, [1, 2, 3]))?;
    Ok(())
}

fn main() {}
