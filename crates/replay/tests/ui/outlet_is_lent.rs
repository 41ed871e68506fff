//! The outlet is borrowed as long as the runtime lives.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

struct Log(u32);
impl Outlet for Log {}
fn program(region: nv_replay::nvmem::Region<'_, nv_replay::nvmem::InOrder32>) {
    let mut log = Log(0);
    let options = nv_replay::Options { outlet: Some(&mut log), ..Default::default() };
    let mut rt = Rt::open(region, options, |_| Ok(0)).map_err(|e| e.error).unwrap();
    log.0 = 1;
    let _ = rt.record(1u32);
}
fn main() {}
