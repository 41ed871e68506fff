//! Each heap that lives as long as the program has a marker. A handle of one cannot be used with
//! another.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::{Brand, Predict, static_brand};

static_brand!(Log);

type LogHeap<R = u32> = Heap<'static, R, Fram, JustInTime, Predict, Log>;

fn got_from_another(heap: &TestHeap<'static>, log: &LogHeap) {
    let n = log.alloc(5u32).unwrap();
    heap.get(&n);
}

fn stored_in_another(heap: &TestHeap<'static>, log: &LogHeap<Root<'static>>) {
    let first = log.alloc(node(1)).ok();
    heap.root_mut().unwrap().first = first;
}

#[derive(Persist)]
#[repr(C)]
struct Entry<'h> {
    before: Option<Own<'h, u32, Log>>,
}

fn allocated_in_another(heap: &TestHeap<'static>, log: &LogHeap) {
    let before = Some(log.alloc(5u32).unwrap());
    heap.alloc(Entry { before });
}

fn the_root_of_another(brand: Brand<'static>, ram: &'static mut [u8]) {
    let heap: Heap<'static, Entry<'static>, Fram, vnv_heap::JustInTime> =
        Heap::open(brand, fram(), ram, Config::DEFAULT, |_| Ok(Entry { before: None })).unwrap();
}

fn read_from_an_object(heap: &TestHeap<'static>, kept: &Own<'static, Entry<'static>>) {
    let before = heap.get_mut(kept).unwrap().before.take();
}

fn the_brand_of_another(ram: &'static mut [u8]) {
    let heap: LogHeap =
        Heap::open(Brand::take().unwrap(), fram(), ram, Config::DEFAULT, |_| Ok(0)).unwrap();
}

fn one_brand_for_two(ram: &'static mut [u8], other: &'static mut [u8]) {
    let brand = Log::take().unwrap();
    let one = LogHeap::open(brand, fram(), ram, Config::DEFAULT, |_| Ok(0));
    let two = LogHeap::open(brand, fram(), other, Config::DEFAULT, |_| Ok(0));
}

fn main() {}
