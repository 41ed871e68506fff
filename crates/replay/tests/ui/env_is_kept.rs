//! A loop's body cannot keep what the environment lends it.

use nv_replay::nvmem::InOrder32;
use nv_replay::{Error, Outlet, Replay};

struct Devices<'a> {
    sensor: u32,
    kept: Option<&'a mut u32>,
}
impl Outlet for Devices<'_> {}
type Rt<'m, 'a> = Replay<'m, u32, InOrder32, Devices<'a>>;

fn program<'a>(rt: &mut Rt<'_, 'a>) -> Result<(), Error> {
    rt.each(0..3, |rt, _| {
        let devices = rt.env();
        devices.kept = Some(&mut devices.sensor);
        Ok(())
    })
}
fn main() {}
