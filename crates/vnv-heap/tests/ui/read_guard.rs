//! A guard for reading does not permit writes.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn assigned<'h>(heap: &TestHeap<'h>, n: &Own<'h, Node<'h>>) {
    heap.get(n).unwrap().value = 1;
}

fn a_root<'h>(heap: &TestHeap<'h>) {
    heap.root().unwrap().count += 1;
}

fn in_a_closure<'h>(heap: &TestHeap<'h>, n: &Own<'h, Node<'h>>) {
    heap.with(n, |n| n.value = 1);
}

fn kept_after_its_guard<'h>(heap: &TestHeap<'h>, n: &Own<'h, Node<'h>>) -> u32 {
    let value: &u32 = &heap.get(n).unwrap().value;
    *value
}

fn main() {}
