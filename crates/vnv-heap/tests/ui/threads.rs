//! A heap may move to another thread, but two threads cannot share it. A guard stays in its thread.
#![allow(dead_code, unused)]

include!("support/types.rs");

/// As `std::thread::spawn` asks; its own message shows more where the standard library's source is
/// installed.
fn in_another_thread<T>(job: impl FnOnce() -> T + Send + 'static) {
    drop(job)
}

fn lent_to_another_thread(heap: &'static Heap<'static, u32, Fram, vnv_heap::JustInTime>) {
    in_another_thread(move || heap.root().is_ok());
}

fn a_guard_in_another_thread(heap: &'static Heap<'static, u32, Fram, vnv_heap::JustInTime>) {
    let held = heap.root().unwrap();
    in_another_thread(move || drop(held));
}

fn main() {}
