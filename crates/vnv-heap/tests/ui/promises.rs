//! Each promise has its own function to save.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn persist_of_a_snapshot<'h>(heap: &mut TestHeap<'h, Snapshot>) {
    heap.persist();
}

fn commit_just_in_time<'h>(heap: &mut TestHeap<'h>) {
    heap.commit();
}

fn commit_while_held<'h>(heap: &mut TestHeap<'h, Snapshot>, n: &Own<'h, Node<'h>>) {
    let mut held = heap.get_mut(n).unwrap();
    heap.commit();
    held.value = 1;
}

fn a_copy_of_handles<'h>(heap: &TestHeap<'h>, n: &Own<'h, Node<'h>>) {
    heap.read(n);
}

fn main() {}
