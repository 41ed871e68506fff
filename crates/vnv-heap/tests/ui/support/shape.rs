// What is too large for an object, or aligned to more than blocks are, is refused when it is
// compiled for good.

include!("types.rs");

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    heap.alloc(1u128);
    heap.alloc([0u8; 20_000]);
}
