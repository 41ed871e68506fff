//! Reading objects in place, on a mapped medium. Miri checks each reference.

use nvmem::{Buffered32, InOrder16, InOrder32, Model, Persist, Region};
use std::mem::MaybeUninit;
use vnv_heap::{Config, Error, Heap, JustInTime, Own, Promise, Snapshot, brand};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    first: Option<Own<'h, Node<'h>>>,
}

/// With padding, and a handle that the check must know.
#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    flag: bool,
    value: u32,
    next: Option<Own<'h, u64>>,
}

const CONFIG: Config = Config {
    dirty_limit: 256,
    ..Config::DEFAULT
};

fn in_place<M: Model, P: Promise>() {
    let mut words = vec![MaybeUninit::new(0u64); 1024];
    let mut ram = [0u8; 768];
    brand!(b);
    let region = Region::<M>::new(&mut words);
    let mut heap =
        Heap::<Root, _, P>::open(b, region, &mut ram, CONFIG, |_| Ok(Root { first: None }))
            .unwrap();
    let next = Some(heap.alloc(9u64).unwrap());
    let node = Node {
        flag: true,
        value: 7,
        next,
    };
    let node = heap.alloc(node).unwrap();
    // In RAM, and not written yet.
    let seen = heap.in_place().get(&node).unwrap();
    assert!(seen.flag && seen.value == 7);
    let others: Vec<Own<[u8; 60]>> = (0..30).map(|i| heap.alloc([i; 60]).unwrap()).collect();
    // On the medium and in RAM, all at once; nothing is paged in.
    let page_ins = heap.stats().page_ins;
    let view = heap.in_place();
    let all: Vec<&[u8; 60]> = others.iter().map(|own| view.get(own).unwrap()).collect();
    let (seen, root) = (view.get(&node).unwrap(), view.root().unwrap());
    assert!(root.first.is_none());
    for (i, object) in all.iter().enumerate() {
        assert_eq!(*object, &[i as u8; 60]);
    }
    assert!(seen.flag && seen.value == 7 && seen.next.is_some());
    assert_eq!(heap.stats().page_ins, page_ins);
    // What was changed since is in RAM, and a reference that was leaked there is not joined by
    // another.
    heap.get_mut(&node).unwrap().value = 8;
    assert_eq!(heap.in_place().get(&node).unwrap().value, 8);
    std::mem::forget(heap.get(&others[3]).unwrap());
    assert_eq!(heap.in_place().get(&others[3]).unwrap(), &[3; 60]);
    std::mem::forget(heap.get_mut(&others[4]).unwrap());
    assert!(matches!(heap.in_place().get(&others[4]), Err(Error::Busy)));
}

#[test]
fn an_object_is_read_where_it_lies() {
    in_place::<InOrder32, JustInTime>();
    in_place::<InOrder32, Snapshot>();
    in_place::<InOrder16, JustInTime>();
    in_place::<Buffered32, Snapshot>();
}

#[test]
fn a_suspended_heap_is_not_read() {
    let mut words = vec![MaybeUninit::new(0u64); 512];
    let mut ram = [0u8; 768];
    brand!(b);
    let region = Region::<InOrder32>::new(&mut words);
    let mut heap = Heap::<Root, _, JustInTime>::open(b, region, &mut ram, CONFIG, |_| {
        Ok(Root { first: None })
    })
    .unwrap();
    let own = heap.alloc([1u32; 4]).unwrap();
    heap.persist().unwrap();
    assert!(matches!(heap.in_place().get(&own), Err(Error::Suspended)));
    heap.restore().unwrap();
    assert_eq!(heap.in_place().get(&own).unwrap(), &[1; 4]);
}
