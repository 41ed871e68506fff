//! A runtime belongs to one thread: its outlet may.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn program(rt: &mut Rt<'_>) {
    in_another_thread(|| rt.record(1u32));
}
fn main() {}
