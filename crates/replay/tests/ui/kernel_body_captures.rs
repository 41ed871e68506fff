//! The body of a step with a token cannot capture: the token is what it gets.

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
    let mut sent = 0;
    rt.step_with(kernel, (), |step, _, ()| {
        send(step);
        sent += 1;
        Ok(())
    })?;
    Ok(())
}
fn main() {}
