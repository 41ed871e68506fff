//! The root of one step cannot be swapped with that of another.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

fn program(a: &mut Rt<'_>, b: &mut Rt<'_>) {
    let _ = a.view(|_, one| {
        let _ = b.view(|_, two| {
            let mut both = (one, two);
            std::mem::swap(&mut both.0, &mut both.1);
        });
    });
}
fn main() {}
