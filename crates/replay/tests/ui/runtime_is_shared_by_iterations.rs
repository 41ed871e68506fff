//! A loop's argument cannot be another runtime.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(a: &mut Rt<'_>, b: &mut Rt<'_>) -> Result<(), Error> {
    a.each_with(0..3, b, |_, _, _| Ok(()))
}
fn main() {}
