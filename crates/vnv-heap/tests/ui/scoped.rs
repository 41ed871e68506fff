//! What a scope frees cannot leave it, except by `Scoped::keep`.
#![allow(dead_code, unused)]

include!("support/types.rs");

use vnv_heap::Scoped;

fn stored<'h>(heap: &TestHeap<'h>) {
    let scoped = heap.scoped(heap.alloc(node(1)).unwrap());
    heap.root_mut().unwrap().first = Some(*scoped);
}

fn lent_for_longer<'a, 'h>(heap: &'a TestHeap<'h>) -> &'a Own<'h, Node<'h>> {
    let scoped = heap.scoped(heap.alloc(node(1)).unwrap());
    &scoped
}

fn used_after_it_was_kept<'h>(heap: &TestHeap<'h>) {
    let scoped = heap.scoped(heap.alloc(node(1)).unwrap());
    let own = Scoped::keep(scoped);
    heap.get(&scoped);
}

fn a_commit_while_it_lives<'h>(heap: &mut TestHeap<'h, Snapshot>) {
    let scoped = heap.scoped(heap.alloc(node(1)).unwrap());
    heap.commit();
    heap.get(&scoped);
}

fn of_another_heap() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(c);
    let second = TestHeap::<JustInTime>::open(c, fram(), &mut other, Config::DEFAULT, root).unwrap();
    let scoped = second.scoped(heap.alloc(node(1)).unwrap());
}

fn main() {}
