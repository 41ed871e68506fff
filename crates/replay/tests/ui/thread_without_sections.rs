//! A thread of a pool whose model has no critical sections goes to another thread of the machine.
use nv_replay::Thread;

/// The bounds of `std::thread::spawn`, whose own message depends on the installed sources.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send) {
    drop(job)
}

fn program(rt: Thread<'_, u32, nv_replay::nvmem::InOrder32, ()>) {
    in_another_thread(move || drop(rt));
}
fn main() {}
