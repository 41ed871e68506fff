//! A result of unknown length cannot be part of a tuple.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) -> Result<(), Error> {
    rt.record((Postcard([1u8; 3]), 7u32))?;
    Ok(())
}
fn main() {}
