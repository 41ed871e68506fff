//! A guard cannot go to another thread, not even in a task.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn spawned(task: impl Future<Output = ()> + Send) {}

fn holds_a_guard(heap: TestHeap<'static>) {
    spawned(async move {
        let mut held = heap.root_mut().unwrap();
        core::future::ready(()).await;
        held.count += 1;
    });
}

fn main() {}
