//! A join cannot return the `Committed` of another step.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(a: &mut Rt<'_>, b: &mut Rt<'_>) {
    let _ = a.step_join((), |_, _, ()| Ok(()), |(), one| {
        let mut done = Some(one.store());
        let _ = b.step_join((), |_, _, ()| Ok(()), |(), _| done.take().ok_or(Error::Other));
        Err(Error::Other)
    });
}
fn main() {}
