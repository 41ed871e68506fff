//! The section of the test kit excludes no other thread of the host.

use nv_rtos::host;
use nv_rtos::nv_replay::Place;
use nv_rtos::nvmem::InOrder32;
use nv_rtos::pmem_tx::Preempted;

type Fram = Preempted<InOrder32, host::Masked>;

fn run(place: Place<'_, u32, Fram>) {
    std::thread::scope(|s| {
        s.spawn(move || place.start_over());
    });
}

fn main() {}
