//! A runtime cannot go to another thread: its outlet may not be `Send`.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32, nv_replay::nvmem::InOrder32, &'m mut dyn Outlet>;

/// The bounds of `std::thread::spawn`, whose own message depends on the installed sources.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn program(rt: &mut Rt<'_>) {
    in_another_thread(|| rt.record(1u32));
}
fn main() {}
