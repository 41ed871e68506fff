//! A message cannot outlive `Outlet::send`: the next step overwrites it.

#![allow(unused_imports)]
use nv_replay::nvmem::Persist;
use nv_replay::{Commit, Committed, Error, Held, Message, NotNow, Outlet, PBox, Port, Postcard, Replay};
use std::cell::RefCell;

type Rt<'m> = Replay<'m, u32>;

struct Keeps<'a>(Vec<Message<'a>>);
impl<'a> Outlet for Keeps<'a> {
    fn send(&mut self, m: &Message<'_>) -> Result<(), NotNow> {
        self.0.push(*m);
        Ok(())
    }
}
fn main() {}
