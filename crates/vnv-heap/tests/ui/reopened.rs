//! A handle does not outlive its heap, and is not valid in the next opening.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn kept_over_a_reopening() {
    let mut kept = None;
    for _ in 0..2 {
        let mut ram = [0; 1024];
        brand!(b);
        let heap =
            TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
        if let Some(n) = &kept {
            heap.get(n);
        }
        kept = Some(heap.alloc(node(1)).unwrap());
    }
}

fn returned() -> Own<'static, Node<'static>> {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    heap.alloc(node(1)).unwrap()
}

fn a_guard_beyond_its_heap<'h>(heap: TestHeap<'h>, n: &Own<'h, Node<'h>>) {
    let held = heap.get(n).unwrap();
    drop(heap);
    drop(held);
}

fn main() {}
