//! The token of a step cannot leave the step.

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

std::thread_local!(static KEPT: Cell<Option<&'static Kernel>> = const { Cell::new(None) });
fn program(rt: &mut Rt<'_>, kernel: &Kernel) -> Result<(), Error> {
    rt.step_with(kernel, (), |step, _, ()| {
        KEPT.set(Some(step.token()));
        Ok(())
    })?;
    Ok(())
}
fn main() {}
