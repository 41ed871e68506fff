// A step of a kernel's thread that was not called with the devices cannot change one.
#![allow(unused)]
use nv_device::nv_replay::pmem_tx::Preempted;
use nv_device::nv_rtos::host::Masked;
use nv_device::nv_rtos::{Error, Thread};
use nv_device::nvmem::InOrder32;
use nv_device::{Devices, Events, Members, Set};

type Fram = Preempted<InOrder32, Masked>;
nv_device::nv_rtos::system! {
    Node on Fram;
    table { bytes: 64, outbox_bytes: 0, seq_bits: 8 }
    objects { DONE: Semaphore = (0, 1); }
    threads {
        one(u32 = 0): 1;
        two(u32 = 0): 2;
    }
}

struct Buttons<'m>(Events<'m, 8, Fram>);
impl Devices for Buttons<'_> {
    fn list(&self) -> impl Members {
        &self.0
    }
}

fn one(th: &mut Thread<Node, u32>, set: &mut Set<Buttons>) -> Result<(), Error> {
    th.step_with(set, (), |step, _, ()| {
        let kernel = step.inner();
        step.token().0.take(&kernel)?;
        Ok(())
    })?;
    Ok(())
}

fn main() {}
