//! A token cannot keep the step that it was lent to: neither for another step nor for later.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

struct Kernel<'k>(Cell<Option<&'k Step<'k, 'k, InOrder32, Kernel<'k>>>>);
impl Token for Kernel<'_> {
    fn join<'c>(&self, commit: Commit<'c>) -> Result<Committed<'c>, Error> {
        Ok(commit.store())
    }
    fn undone(&self) {}
}
fn program<'k>(rt: &mut Rt<'_>, kernel: &Kernel<'k>) -> Result<(), Error> {
    rt.each_step_with(kernel, 0..2, (), |step, _, _, ()| {
        step.token().0.set(Some(step));
        Ok(())
    })
}
fn main() {}
