//! A step's body does not get the environment: a bypass would not repeat what it does there.

use nv_replay::nvmem::InOrder32;
use nv_replay::{Error, Outlet, Replay};

struct Devices {
    sensor: u32,
}
impl Outlet for Devices {}

fn program(rt: &mut Replay<'_, u32, InOrder32, Devices>) -> Result<(), Error> {
    let devices = rt.env();
    rt.step((), |tx, n, ()| {
        *n.get_mut(tx)? = devices.sensor;
        Ok(())
    })?;
    Ok(())
}
fn main() {}
