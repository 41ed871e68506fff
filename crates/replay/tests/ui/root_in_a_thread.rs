//! The objects of a step belong to its thread.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.step((), |tx, n, ()| {
        std::thread::scope(|s| {
            s.spawn(|| *n.get(tx));
        });
        Ok(())
    })?;
    Ok(())
}
fn main() {}
