//! Elements of a collection own objects of the collection's heap. Otherwise freeing them would free
//! objects that others own.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::collections::Chunked;

fn main() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(c);
    let second = TestHeap::<JustInTime>::open(c, fram(), &mut other, Config::DEFAULT, root).unwrap();
    let make = |_| Ok([second.alloc(node(1)).unwrap()]);
    let chunks = Chunked::<_, 1>::alloc(&heap, 1, make);
}
