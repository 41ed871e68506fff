//! A handle that is lent to a step cannot be stored in persistent memory.

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
    rt.step(held.lend(), |tx, top, h| {
        *top.get_mut(tx)?.child.as_mut().unwrap() = h;
        Ok(())
    })?;
    Ok(())
}
fn main() {}
