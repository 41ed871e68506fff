//! An operation of a kernel needs a step with its token.

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

fn program(rt: &mut Rt<'_>, kernel: &Kernel) -> Result<(), Error> {
    send(kernel);
    rt.step((), |step, _, ()| {
        send(step);
        Ok(())
    })?;
    Ok(())
}
fn main() {}
