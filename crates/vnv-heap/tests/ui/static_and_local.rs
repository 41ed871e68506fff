//! A local brand cannot be used as a `'static` one.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn stored(ram: &'static mut [u8]) -> ! {
    brand!(b);
    let heap: TestHeap<'static> =
        Heap::open(b, fram(), ram, Config::DEFAULT, root).unwrap();
    loop {}
}

fn kept(keep: &mut Vec<Own<'static, u32>>) -> ! {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    keep.push(heap.alloc(5u32).unwrap());
    loop {}
}

fn main() {}
