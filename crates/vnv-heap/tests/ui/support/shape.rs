// Types that are too large or over-aligned for an object are refused at code generation.

use vnv_heap::collections::Chunked;
use vnv_heap::{Brand, Marked, Promise};

include!("types.rs");

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    heap.alloc(1u128);
    heap.alloc([0u8; 20_000]);
    root_with_a_handle::<Option<Own<'static, u128>>>();
    root_with_a_handle::<Chunked<'static, u128, 4>>();
}

/// The program allocates no such object, but an image may hold the handle.
fn root_with_a_handle<R: Persist<At<'static> = R> + Marked<()>>() {
    let ram = Box::leak(Box::new([0; 1024]));
    let brand = Brand::take().unwrap();
    let heap = Heap::<R, _, JustInTime>::open(brand, fram(), ram, Config::DEFAULT, |_| loop {});
}
