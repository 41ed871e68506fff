//! Getters and setters of an object that is freed, or of another heap.
#![allow(dead_code, unused)]

include!("support/types.rs");

#[derive(vnv_heap::Fields, Persist)]
#[repr(C)]
struct Item {
    rate: u8,
}

fn main() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    let item = heap.alloc(Item { rate: 1 }).unwrap();
    brand!(c);
    let second = TestHeap::<JustInTime>::open(c, fram(), &mut other, Config::DEFAULT, root).unwrap();
    item.rate(&second);
    heap.free(item);
    item.set_rate(&heap, 3);
}
