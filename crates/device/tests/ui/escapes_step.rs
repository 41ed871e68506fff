// A staged call leaks its driver into the step's body.
#![allow(unused)]
use nv_device::nv_replay::Step;
use nv_device::nvmem::InOrder32;
use nv_device::{CallError, Restore, Set, StagedDevice};

struct Lamp;
impl Restore for Lamp {
    type Context = u8;
    type Parts = ();
    type Error = ();
    fn restore(_: &mut (), _: &u8) -> Result<Self, ()> {
        Ok(Lamp)
    }
}

fn main() {}

fn body(
    step: &Step<'_, '_, InOrder32, Set<()>>,
    lamp: &StagedDevice<'_, Lamp, InOrder32>,
) -> Result<(), CallError<()>> {
    let mut kept = None;
    lamp.at_least_once(step, |call| {
        kept = Some(call.driver());
        Ok(())
    })
}
