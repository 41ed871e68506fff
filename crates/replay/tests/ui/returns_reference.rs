//! A reference to persistent data cannot leave its step.

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
    let _ = rt.step((), |tx, top, ()| Ok(&top.get(tx).n))?;
    Ok(())
}
fn main() {}
