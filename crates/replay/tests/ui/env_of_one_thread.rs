//! A runtime stays in its thread if its environment does.

use nv_replay::nvmem::InOrder32;
use nv_replay::{Outlet, Replay};
use std::rc::Rc;

struct Devices(Rc<u32>);
impl Outlet for Devices {}

/// The bounds of `std::thread::spawn`, whose own message depends on the installed sources.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn program(rt: &mut Replay<'_, u32, InOrder32, Devices>) {
    in_another_thread(|| rt.record(1u32));
}
fn main() {}
