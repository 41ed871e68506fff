//! The closure of an input gets the environment and not the runtime.

use nv_replay::nvmem::InOrder32;
use nv_replay::{Error, Outlet, Replay};

struct Devices(u32);
impl Outlet for Devices {}

fn program(rt: &mut Replay<'_, u32, InOrder32, Devices>) -> Result<(), Error> {
    rt.input(|devices| devices.0 + rt.record(1u32).unwrap_or(0))?;
    Ok(())
}
fn main() {}
