//! A handle that a loop lends cannot be consumed in an iteration.

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

fn program(rt: &mut Rt<'_>, mut held: Held<u32>) -> Result<(), Error> {
    rt.each_with(0..10, &mut held, |rt, _, loan| {
        rt.step(loan, |tx, _, h| Ok(h.into_inner(tx)?))?;
        Ok(())
    })
}
fn main() {}
