//! A heap may go to another thread, but not be used by two; a guard stays where it is.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn lent_to_another_thread(heap: &'static Heap<'static, u32, Fram>) {
    std::thread::spawn(move || heap.root().is_ok());
}

fn a_guard_in_another_thread(heap: &'static Heap<'static, u32, Fram>) {
    let held = heap.root().unwrap();
    std::thread::spawn(move || drop(held));
}

fn main() {}
