//! A loop cannot consume a handle: each iteration would need it.

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
    rt.each_with(0..10, held, |_, _, _| Ok(()))
}
fn main() {}
