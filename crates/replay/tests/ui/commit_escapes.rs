//! A step's commit cannot be stored after its join has returned.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(rt: &mut Rt<'_>) {
    let mut kept = None;
    let _ = rt.step_join((), |_, _, ()| Ok(()), |(), commit| {
        kept = Some(commit);
        Err(Error::Other)
    });
}
fn main() {}
