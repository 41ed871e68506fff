//! `view` cannot write.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) {
    let _ = rt.view(|tx, n| *n.get_mut(tx).unwrap() = 1);
}
fn main() {}
