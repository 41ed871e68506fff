//! A handle leaves a step only as `Held`: `step_own::<_, Held<u32>>`.

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
    let _ = rt.step((), |tx, _, ()| Ok(PBox::new(tx, 7u32)?))?;
    Ok(())
}
fn main() {}
