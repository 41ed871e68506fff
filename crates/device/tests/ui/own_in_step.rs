// A context that commits by itself does not commit with a step.
#![allow(unused)]
use nv_device::nvmem::InOrder32;
use nv_device::{CallError, Device, OwnContext, Restore};

struct Bus(u8);
impl Restore for Bus {
    type Context = u8;
    type Parts = ();
    type Error = ();
    fn restore(_: &mut (), rate: &u8) -> Result<Self, ()> {
        Ok(Bus(*rate))
    }
}

struct Sensor<'b>(&'b Bus);
impl<'b> Restore for Sensor<'b> {
    type Context = u8;
    type Parts = &'b Bus;
    type Error = ();
    fn restore(bus: &mut &'b Bus, _: &u8) -> Result<Self, ()> {
        Ok(Sensor(bus))
    }
}
impl Sensor<'_> {
    fn read(&mut self) -> u8 {
        self.0.0
    }
}

type Kept<'m> = OwnContext<'m, u8, InOrder32>;

fn main() {}

fn boot(rate: Kept<'_>) {
    let bus = nv_device::StagedDevice::<Bus, _>::new(rate, ());
}
