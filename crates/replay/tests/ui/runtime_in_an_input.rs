//! An input's closure cannot use the runtime that calls it.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.record_with(|| rt.record(1u32).unwrap_or(0))?;
    Ok(())
}
fn main() {}
