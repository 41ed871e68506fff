//! A handle belongs to one heap, also in a scope that never ends.
#![allow(dead_code, unused)]

include!("support/types.rs");

fn main() -> ! {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(a);
    let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(b);
    let two = TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
    two.get(&one.alloc(node(1)).unwrap());
    loop {}
}

fn a_later_heap() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(a);
    let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    let n = one.alloc(node(1)).unwrap();
    drop(one);
    brand!(b);
    let two = TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
    two.get(&n);
    loop {}
}

extern "C" fn in_an_inner_scope() -> ! {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(a);
    let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    let n = one.alloc(node(1)).unwrap();
    {
        brand!(b);
        let two =
            TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
        two.get(&n);
        loop {}
    }
}

fn in_a_closure() {
    let forever = || {
        let (mut ram, mut other) = ([0; 1024], [0; 1024]);
        brand!(a);
        let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
        brand!(b);
        let two =
            TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
        two.get(&one.alloc(node(1)).unwrap());
        loop {}
    };
    forever()
}

async fn in_a_task() {
    let (mut ram, mut other) = ([0; 1024], [0; 1024]);
    brand!(a);
    let one = TestHeap::<JustInTime>::open(a, fram(), &mut ram, Config::DEFAULT, root).unwrap();
    brand!(b);
    let two = TestHeap::<JustInTime>::open(b, fram(), &mut other, Config::DEFAULT, root).unwrap();
    two.get(&one.alloc(node(1)).unwrap());
    loop {
        core::future::pending::<()>().await
    }
}

fn in_a_loop() -> ! {
    let mut kept = None;
    loop {
        let mut ram = Box::new([0; 1024]);
        brand!(b);
        let heap =
            TestHeap::<JustInTime>::open(b, fram(), Box::leak(ram), Config::DEFAULT, root).unwrap();
        if let Some(n) = &kept {
            heap.get(n);
        }
        kept = Some(heap.alloc(node(1)).unwrap());
    }
}

fn neither_opened_nor_used() -> ! {
    brand!(a);
    brand!(b);
    let both: [vnv_heap::Brand<'_>; 2] = [a, b];
    loop {}
}
