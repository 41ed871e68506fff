//! A lock's handle is one of its list of places.

use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::{Preempted, Section};
use nv_rtos::{Error, Thread};

enum Masked {}
// SAFETY: this program has one thread.
unsafe impl Section for Masked {
    fn with<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}
type Fram = Preempted<InOrder32, Masked>;

nv_rtos::system! {
    Plan on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
    objects {
        LOCKS: [Mutex; 2] => Lock;
        PERMITS: [Semaphore = 2; 2] => Permit;
    }
    threads { boss(u32 = 0): 1; }
}

fn boss(th: &mut Thread<Plan, u32>) -> Result<(), Error> {
    let permit = th.step((), |sys, _, ()| PERMITS.make(sys, 1))?;
    drop(th.lock(&LOCKS.at(permit))?);
    Ok(())
}

fn main() {
    let _ = boss;
}
