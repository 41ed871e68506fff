//! What a heap does when nothing goes wrong.

use nvmem::Persist;
use nvmem::ram::RamFram;
use vnv_heap::{Audit, Config, Error, Heap, OpenError, Own, Snapshot, Unrooted, brand};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    first: Option<Own<'h, Node<'h>>>,
    count: u16,
}

#[derive(Persist)]
#[repr(C)]
struct Node<'h> {
    value: u32,
    next: Option<Own<'h, Node<'h>>>,
    big: Option<Own<'h, [u8; 100]>>,
}

/// Miri looks at each byte.
const SIZE: usize = if cfg!(miri) { 6144 } else { 16384 };
const BOOTS: u32 = if cfg!(miri) { 2 } else { 5 };
type Fram = RamFram<SIZE>;

const CONFIG: Config = Config {
    dirty_limit: 512,
    ..Config::DEFAULT
};

fn root<'h, P: vnv_heap::Promise>(
    _: &Heap<'h, Unrooted, &mut Fram, P>,
) -> Result<Root<'h>, Error<nvmem::device::Misuse>> {
    Ok(Root {
        first: None,
        count: 0,
    })
}

fn push<'h, P: vnv_heap::Promise>(heap: &Heap<'h, Root<'h>, &mut Fram, P>, value: u32) {
    let big = heap.alloc([value as u8; 100]).unwrap();
    let next = heap.root_mut().unwrap().first.take();
    let node = heap
        .alloc(Node {
            value,
            next,
            big: Some(big),
        })
        .unwrap();
    let mut root = heap.root_mut().unwrap();
    root.first = Some(node);
    root.count += 1;
}

fn check<'h, P: vnv_heap::Promise>(heap: &Heap<'h, Root<'h>, &mut Fram, P>, n: u32) {
    let root = heap.root().unwrap();
    assert_eq!(u32::from(root.count), n);
    let mut expected = n;
    // Hand over hand: the guard of a node lives while the next one is taken.
    let mut at = root.first.as_ref().map(|own| heap.get(own).unwrap());
    while let Some(node) = at {
        expected -= 1;
        assert_eq!(node.value, expected);
        let big = heap.get(node.big.as_ref().unwrap()).unwrap();
        assert_eq!(*big, [expected as u8; 100]);
        at = node.next.as_ref().map(|own| heap.get(own).unwrap());
    }
    assert_eq!(expected, 0);
}

#[test]
fn a_list_larger_than_the_ram_comes_back_after_a_cold_boot() {
    let mut fram = Fram::filled(0);
    for boot in 0..BOOTS {
        let mut ram = [0u8; 1024];
        brand!(b);
        let mut heap =
            Heap::<Root, _, vnv_heap::JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root)
                .unwrap();
        check(&heap, boot * 10);
        for i in 0..10 {
            push(&heap, boot * 10 + i);
        }
        check(&heap, boot * 10 + 10);
        let n = (boot as u16 * 10 + 10) * 2 + 1;
        assert_eq!(
            heap.audit().unwrap(),
            Audit {
                reachable: n,
                allocated: n,
                damaged: 0,
            }
        );
        check(&heap, boot * 10 + 10);
        heap.persist().unwrap();
        assert!(matches!(heap.root(), Err(Error::Suspended)));
        let suspended = heap.stats();
        assert!(suspended.write_backs > 0 && suspended.bytes_written > 0);
        heap.restore().unwrap();
        assert_eq!(heap.stats(), suspended);
    }
}

#[test]
fn without_a_persist_a_just_in_time_heap_was_interrupted() {
    let mut fram = Fram::filled(0xFF);
    {
        let mut ram = [0u8; 1024];
        brand!(b);
        let heap =
            Heap::<Root, _, vnv_heap::JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root)
                .unwrap();
        push(&heap, 0);
    }
    let mut ram = [0u8; 1024];
    {
        brand!(b);
        let e =
            Heap::<Root, _, vnv_heap::JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root).err();
        assert!(matches!(e, Some(OpenError::Interrupted)), "{e:?}");
    }
    brand!(b);
    let heap = Heap::<Root, _, vnv_heap::JustInTime>::format(b, &mut fram, &mut ram, CONFIG, root)
        .unwrap();
    check(&heap, 0);
}

#[test]
fn a_snapshot_is_as_of_the_last_commit() {
    let mut fram = Fram::filled(0);
    for boot in 0..if cfg!(miri) { 1 } else { BOOTS } {
        let mut ram = [0u8; 1024];
        brand!(b);
        let mut heap =
            Heap::<Root, _, Snapshot>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
        check(&heap, boot * 10);
        for i in 0..10 {
            push(&heap, boot * 10 + i);
        }
        heap.commit().unwrap();
        for i in 10..15 {
            push(&heap, boot * 10 + i);
        }
        check(&heap, boot * 10 + 15);
        let n = (boot as u16 * 10 + 15) * 2 + 1;
        let audit = heap.audit().unwrap();
        assert_eq!((audit.reachable, audit.allocated), (n, n));
    }
}

#[test]
fn two_guards_that_exclude_each_other() {
    let (mut fram, mut ram) = (Fram::filled(0), [0u8; 1024]);
    brand!(b);
    let heap =
        Heap::<Root, _, vnv_heap::JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
    let x = heap.alloc(7u32).unwrap();
    {
        let one = heap.get(&x).unwrap();
        let two = heap.get(&x).unwrap();
        assert!(matches!(heap.get_mut(&x), Err(Error::Busy)));
        assert_eq!(*one + *two, 14);
    }
    let mut alone = heap.get_mut(&x).unwrap();
    *alone += 1;
    assert!(matches!(heap.get(&x), Err(Error::Busy)));
    assert!(matches!(heap.get_mut(&x), Err(Error::Busy)));
    let r = heap.free(x).unwrap_err();
    assert_eq!(r.error, Error::Busy);
    let x = r.value.unwrap();
    drop(alone);
    assert_eq!(heap.read(&x).unwrap(), 8);
    heap.write(&x, 9).unwrap();
    assert_eq!(heap.replace(&x, 10).unwrap(), 9);
    assert_eq!(heap.with(&x, |x| *x).unwrap(), 10);
    assert_eq!(heap.update(&x, core::mem::take).unwrap(), 10);
    assert_eq!(heap.take(x).unwrap(), 0);
}

#[test]
fn freeing_frees_what_is_owned_and_what_is_held_later() {
    let (mut fram, mut ram) = (Fram::filled(0), [0u8; 1024]);
    brand!(b);
    let mut heap =
        Heap::<Root, _, vnv_heap::JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
    for i in 0..if cfg!(miri) { 8 } else { 40 } {
        push(&heap, i);
    }
    let first = heap.root_mut().unwrap().first.take().unwrap();
    {
        let node = heap.get(&first).unwrap();
        let second = heap.get(node.next.as_ref().unwrap()).unwrap();
        drop(node);
        heap.free(first).unwrap();
        // Still there, and readable, though nothing owns it any more.
        assert_eq!(second.value, if cfg!(miri) { 6 } else { 38 });
    }
    heap.root_mut().unwrap().count = 0;
    check(&heap, 0);
    let audit = heap.audit().unwrap();
    assert_eq!((audit.reachable, audit.allocated), (1, 1));
}
