//! Only threads of a system with `notify` have notifications.

#![allow(unused_imports, dead_code)]
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{Error, Thread, Until};

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
    objects { SEM: Semaphore = (0, 3); }
    threads {
        a(u32 = 0): 1;
        b(u32 = 0): 1;
    }
}

fn body(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    th.step((), |sys, _, ()| Plan::b().notify(sys, 1))?;
    Ok(())
}

fn main() {}
