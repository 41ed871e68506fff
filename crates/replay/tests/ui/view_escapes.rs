//! A reference to persistent data cannot leave `view`.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) {
    let _ = rt.view(|tx, n| n.get(tx));
}
fn main() {}
