//! A step cannot run inside a step.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Error, Held, PBox, Replay};

#[derive(Persist)]
#[repr(C)]
struct Top<'p> {
    n: u32,
    child: Option<PBox<'p, u32>>,
}
type Rt<'m> = Replay<'m, Top<'static>>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.step((), |_, _, ()| {
        let _ = rt.step((), |_, _, ()| Ok(()));
        Ok(())
    })?;
    Ok(())
}
fn main() {}
