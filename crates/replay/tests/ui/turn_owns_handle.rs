//! A turn cannot take a handle that the next turn needs; it is lent.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    let held = rt.step_own::<_, Held<u32>>((), |tx, _, ()| PBox::new(tx, 5))?;
    rt.each_step(0..10, (held, 1), |tx, total, _, (held, _)| {
        *total.get_mut(tx)? += held.into_inner(tx)?;
        Ok(())
    })
}
fn main() {}
