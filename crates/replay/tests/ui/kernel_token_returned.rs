//! The token of a step is no result.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

struct Kernel;
impl Token for Kernel {
    fn join<'c>(&self, commit: Commit<'c>) -> Result<Committed<'c>, Error> {
        Ok(commit.store())
    }
    fn undone(&self) {}
}
fn send(_: &Step<'_, '_, InOrder32, Kernel>) {}

fn program<'k>(rt: &mut Rt<'_>, kernel: &'k Kernel) {
    let _kept: Result<&Kernel, _> = rt.step_with(kernel, (), |step, _, ()| Ok(step.token()));
}
fn main() {}
