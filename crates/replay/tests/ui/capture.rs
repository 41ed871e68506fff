//! A body cannot capture: it would change volatile state, which a bypass does not change.

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
    let mut seen = 0;
    rt.step((), |tx, top, ()| {
        seen = top.get(tx).n;
        Ok(())
    })?;
    let _ = seen;
    Ok(())
}
fn main() {}
