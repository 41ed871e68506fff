//! While references in place live, the heap is not used otherwise.
#![allow(dead_code, unused)]

include!("support/types.rs");

use nvmem::{InOrder32, Region};
use vnv_heap::InPlace;

type Mapped<'h> = Heap<'h, Root<'h>, Region<'static, InOrder32>>;

fn changed_meanwhile<'h>(heap: &mut Mapped<'h>, n: &Own<'h, Node<'h>>) -> u32 {
    let node = heap.in_place().get(n).unwrap();
    heap.get_mut(n).unwrap().value = 1;
    node.value
}

fn committed_meanwhile<'h>(heap: &mut Mapped<'h>) -> u32 {
    let view = heap.in_place();
    heap.commit();
    view.root().unwrap().count
}

fn written_in_place<'h>(heap: &mut Mapped<'h>) {
    heap.in_place().root().unwrap().count = 1;
}

fn on_a_bus<'h>(heap: &mut TestHeap<'h>) {
    heap.in_place();
}

fn main() {}
