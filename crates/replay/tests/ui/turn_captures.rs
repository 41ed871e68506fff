//! A turn cannot share volatile state with the next one.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    let mut sum = 0;
    rt.each_step(0..10, (), |tx, total, i, ()| {
        sum += i;
        total.get_mut(tx).map(|t| *t = sum)
    })
}
fn main() {}
