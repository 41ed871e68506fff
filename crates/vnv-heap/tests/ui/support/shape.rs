// Types that are too large or over-aligned for an object are refused at code generation.

include!("types.rs");

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    heap.alloc(1u128);
    heap.alloc([0u8; 20_000]);
}
