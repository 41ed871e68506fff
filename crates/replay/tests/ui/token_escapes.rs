//! The token of a step cannot leave it.

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

use std::cell::Cell;
std::thread_local!(static KEPT: Cell<Option<&'static nv_replay::Step<'static, 'static>>> = const { Cell::new(None) });
fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.step((), |tx, _, ()| {
        KEPT.set(Some(tx));
        Ok(())
    })?;
    Ok(())
}
fn main() {}
