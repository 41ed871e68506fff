//! A handle belongs to one heap.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn got_from_another() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(a);
    let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(b);
    let two = TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
    let n = one.alloc(node(1)).unwrap();
    two.get(&n);
}

fn stored_in_another<'a, 'b>(one: &TestHeap<'a>, two: &TestHeap<'b>) {
    let n = one.alloc(node(1)).unwrap();
    two.root_mut().unwrap().first = Some(n);
}

fn allocated_in_another<'a, 'b>(one: &TestHeap<'a>, two: &TestHeap<'b>, n: Own<'a, Node<'a>>) {
    two.alloc(Node {
        value: 1,
        next: Some(n),
    });
}

fn one_brand_for_two() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(b);
    let one = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, root);
    let two = TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root);
}

fn main() {}
