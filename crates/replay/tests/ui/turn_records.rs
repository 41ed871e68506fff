//! A turn has no runtime: it records nothing in the loop.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.each_step(0..10, (), |_, _, i, ()| {
        let _ = rt.record(i);
        Ok(())
    })
}
fn main() {}
