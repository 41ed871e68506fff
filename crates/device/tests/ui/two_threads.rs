// A set belongs to one thread: two threads of a kernel cannot have it.
#![allow(unused)]
use nv_device::nv_replay::pmem_tx::Preempted;
use nv_device::nv_rtos::host::{Kit, Masked};
use nv_device::nv_rtos::{Error, Kernel, Thread};
use nv_device::nvmem::InOrder32;
use nv_device::{Devices, Set};

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

fn uses<T: Devices>(th: &mut Thread<Node, u32>, set: &mut Set<T>) -> Result<(), Error> {
    th.step_with(set, (), |step, _, ()| DONE.try_give(&step.inner()))?;
    Ok(())
}

fn start<'s, T: Devices>(
    kernel: &'s Kernel<'_, Node>,
    places: nv_device::nv_rtos::__private::PlacesIn<'s, Node>,
    kit: &mut Kit<'s, '_>,
    set: &'s mut Set<T>,
) {
    Node::spawn(kernel, places, kit, |th| uses(th, set), |th| uses(th, set));
}

fn main() {}
