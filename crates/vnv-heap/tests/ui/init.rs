//! Before the root is written, no name gives access to it: object 1 holds bytes of the previous
//! image, of any type.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn reads_the_root() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<Snapshot>::format(b, fram(), &mut ram, Config::DEFAULT, |heap| {
        let before = heap.root_mut().unwrap().first.take();
        root(heap)
    });
}

fn takes_its_handle() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, |heap| {
        heap.read(heap.root_handle());
        root(heap)
    });
}

fn takes_it_for_rooted<'h>(heap: &TestHeap<'h>) -> Result<Root<'h>, Failure> {
    heap.root_mut()?.count += 1;
    Ok(Root { first: None, count: 0 })
}

fn a_function_that_expects_the_root() {
    let mut ram = [0; 1024];
    brand!(b);
    let heap =
        TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, takes_it_for_rooted);
}

fn attached() {
    static POWER_LOW: vnv_heap::Saver = vnv_heap::Saver::new();
    let mut ram = [0; 1024];
    brand!(b);
    let heap = TestHeap::<JustInTime>::open(b, fram(), &mut ram, Config::DEFAULT, |heap| {
        heap.attach(&POWER_LOW, || root(heap)).unwrap()
    });
}

fn main() {}
