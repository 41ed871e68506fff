//! A handle that a step has consumed cannot be used again.

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

fn program(rt: &mut Rt<'_>, held: Held<u32>) -> Result<(), Error> {
    rt.step(held, |tx, _, h| Ok(h.into_inner(tx)?))?;
    rt.step(held, |tx, _, h| Ok(h.into_inner(tx)?))?;
    Ok(())
}
fn main() {}
