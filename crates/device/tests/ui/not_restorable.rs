// A driver that is not restorable.
#![allow(unused)]
use nv_device::nvmem::InOrder32;
use nv_device::{Device, OwnContext};

struct Plain;

fn main() {}

fn boot(context: OwnContext<'_, u8, InOrder32>) {
    let device = Device::<Plain, _>::new(context, ());
}
