//! Iterations cannot share volatile state.

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
    let mut sum = 0;
    rt.each(0..10, |rt, i| {
        sum += rt.record(i)?;
        Ok(())
    })
}
fn main() {}
