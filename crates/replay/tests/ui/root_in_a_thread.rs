//! The objects of a step belong to its thread.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.step((), |tx, n, ()| {
        in_another_thread(|| *n.get(tx));
        Ok(())
    })?;
    Ok(())
}
fn main() {}
