//! What the cases around this file are made of does compile.
#![allow(dead_code, unused)]

include!("types.rs");

fn main() {
    let mut ram = [0; 1024];
    brand!(b);
    let mut heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    let n = heap.alloc(node(1)).unwrap();
    heap.get_mut(&n).unwrap().value += 1;
    heap.root_mut().unwrap().first = Some(n);
    heap.persist().unwrap();
}
