//! A handle cannot be used after its object is freed.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn used_after_free<'h>(heap: &TestHeap<'h>, n: Own<'h, Node<'h>>) {
    heap.free(n).unwrap();
    heap.get(&n);
}

fn freed_twice<'h>(heap: &TestHeap<'h>, n: Own<'h, Node<'h>>) {
    heap.free(n).unwrap();
    heap.free(n).unwrap();
}

fn two_owners<'h>(heap: &TestHeap<'h>, n: Own<'h, Node<'h>>) {
    heap.root_mut().unwrap().first = Some(n);
    heap.root_mut().unwrap().first = Some(n);
}

fn freed_out_of_its_owner<'h>(heap: &TestHeap<'h>) {
    let root = heap.root_mut().unwrap();
    if let Some(first) = root.first {
        heap.free(first);
    }
}

fn copied<'h>(n: &Own<'h, Node<'h>>) -> Own<'h, Node<'h>> {
    n.clone()
}

fn main() {}
