//! A runtime belongs to one thread: its outlet may.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) {
    std::thread::scope(|s| {
        s.spawn(|| rt.record(1u32));
    });
}
fn main() {}
