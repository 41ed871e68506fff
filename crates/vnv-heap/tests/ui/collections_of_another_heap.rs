//! A collection is used with its heap only: one with another marker, or with another brand, does
//! not compile.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::collections::{Blob, Fifo, Map, Vector};
use vnv_heap::{HeapOf, Predict, static_brand};

static_brand!(Log);

type LogHeap<R = u32> = Heap<'static, R, Fram, JustInTime, Predict, Log>;

fn with_another_marker(queue: &mut Fifo<'static, u32>, log: &LogHeap) {
    queue.push(log, 5);
}

fn through_a_reference(text: &Blob<'static, Log>, heap: &&TestHeap<'static>) {
    text.with(heap, |bytes| bytes.len());
}

fn with_any_heap<'h, H: HeapOf<'h>>(heap: &H, map: &Map<'h, u8, u8, 4, Log>) {
    map.get(heap, &1);
}

fn with_no_heap(vector: &mut Vector<'static, u32, 4>) {
    vector.push(&5u32, 5);
}

fn with_another_brand() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(c);
    let second = TestHeap::<JustInTime>::open(c, fram(), &mut other, Config::DEFAULT, root).unwrap();
    let mut queue = Fifo::<u32>::alloc(&heap, 4).unwrap();
    queue.push(&second, 5);
}

fn main() {}
