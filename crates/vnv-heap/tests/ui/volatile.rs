//! Values that do not survive a power cut cannot be stored.
#![allow(dead_code, unused)]

include!("support/types.rs");

struct Plain {
    value: u32,
}

fn a_reference<'h>(heap: &TestHeap<'h>) {
    heap.alloc(&5u32);
}

fn a_text<'h>(heap: &TestHeap<'h>) {
    heap.alloc(String::new());
}

fn a_size<'h>(heap: &TestHeap<'h>) {
    heap.alloc(5usize);
}

fn not_derived<'h>(heap: &TestHeap<'h>) {
    heap.alloc(Plain { value: 1 });
}

fn a_guard<'h>(heap: &TestHeap<'h>, n: &Own<'h, Node<'h>>) {
    heap.alloc(heap.get(n).unwrap());
}

fn main() {}
