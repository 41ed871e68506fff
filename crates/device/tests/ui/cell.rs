// A call gets a reference to a cell.
#![allow(unused)]
use core::cell::Cell;
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

fn call(sensor: &mut Device<'_, Sensor<'_>, InOrder32>) -> Result<(), CallError<()>> {
    let result: &'static Cell<u8> = Box::leak(Box::new(Cell::new(0)));
    sensor.at_least_once(result, |call, result| {
        result.set(call.driver().read());
        Ok(())
    })
}
