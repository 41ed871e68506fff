//! A body cannot capture, not even to read: its data comes in as an argument.

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

fn program(rt: &mut Rt<'_>, sample: u32) -> Result<(), Error> {
    rt.step((), |tx, top, ()| {
        top.get_mut(tx)?.n = sample;
        Ok(())
    })?;
    Ok(())
}
fn main() {}
