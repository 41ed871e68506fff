//! A mutex that is made at run time has no data.

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
        LOCKS: [Mutex<u32>; 2] => Lock;
    }
    threads { boss(u32 = 0): 1; }
}

fn boss(_: &mut Thread<Plan, u32>) -> Result<(), Error> {
    Ok(())
}

fn main() {
    let _ = boss;
}
