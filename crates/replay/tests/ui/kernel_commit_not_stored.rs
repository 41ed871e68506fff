//! A join gives back the proof that it has committed.

#![allow(unused_imports)]
use nv_replay::nvmem::InOrder32;
use nv_replay::{Commit, Committed, Error, Held, PBox, Replay, Step, Token};
use std::cell::Cell;

type Rt<'m> = Replay<'m, u32>;

struct Kernel;
impl Token for Kernel {
    fn join<'c>(&self, _: Commit<'c>) -> Result<Committed<'c>, Error> {
        Ok(())
    }
    fn undone(&self) {}
}
fn main() {}
