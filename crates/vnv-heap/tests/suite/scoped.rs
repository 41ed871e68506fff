//! Values that are freed at the end of a block: `Heap::scoped`.

use crate::support::lives::{Promised, ROUNDS, Save};
use nvmem::ram::RamFram;
use nvmem::{Medium, Persist};
use powerfail::{Simulated, SpiFram, World, explore};
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use vnv_heap::collections::{Blob, Fifo, Map, Vector};
use vnv_heap::{
    Config, Error, Heap, HeapOf, JustInTime, OpenError, Own, Promise, Scoped, Snapshot, brand,
};

#[derive(Persist)]
#[repr(C)]
struct Packet<'h> {
    payload: Blob<'h>,
    next: Option<Own<'h, Packet<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    n: u32,
    kept: Option<Own<'h, Packet<'h>>>,
}

const CONFIG: Config = Config {
    objects: 48,
    max_pins: 4,
    ..Config::DEFAULT
};

fn packet<'h, H: HeapOf<'h>>(heap: &H, n: u8) -> Result<Own<'h, Packet<'h>>, Error<H::Error>> {
    let payload = Blob::alloc(heap, &[n; 6])?;
    let next = None;
    Ok(heap.unrooted().alloc(Packet { payload, next })?)
}

macro_rules! heap {
    ($heap:ident) => {
        let mut fram = RamFram::<8192>::filled(0);
        let mut ram = [0u8; 1024];
        brand!(b);
        let root = |_: &_| Ok(Root { n: 0, kept: None });
        #[allow(unused_mut)]
        let mut $heap =
            Heap::<Root, _, Snapshot>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
    };
}

/// Each way out of a block frees what was in it.
#[test]
fn freed_on_every_way_out() {
    heap!(heap);
    let empty = heap.audit().unwrap().allocated;
    let used = |way: u32| -> Result<u32, Error<_>> {
        let first = heap.scoped(packet(&heap, 1)?);
        let mut list = heap.scoped(Vector::<Own<Packet>, 2>::new());
        for n in 0..5 {
            list.push(&heap, packet(&heap, n)?)?;
        }
        let mut queue = heap.scoped(Fifo::<u32>::alloc(&heap, 3)?);
        let mut map = heap.scoped(Map::<u8, Blob, 2>::new());
        queue.push(&heap, 7)?;
        map.insert(&heap, 3, Blob::alloc(&heap, b"three")?)?;
        heap.update(&first, |p| p.next = packet(&heap, 2).ok())?;
        match way {
            0 => return Ok(9),
            1 => _ = Fifo::<[u8; 900]>::alloc(&heap, 40)?,
            2 => panic!("on purpose"),
            _ => {}
        }
        Ok(list.len())
    };
    assert_eq!(used(0).unwrap(), 9);
    assert!(matches!(used(1), Err(Error::Full)));
    assert!(catch_unwind(AssertUnwindSafe(|| used(2))).is_err());
    assert_eq!(used(3).unwrap(), 5);
    assert_eq!(heap.audit().unwrap().allocated, empty);
}

/// What is kept belongs to the program again; what is replaced inside is freed by the program.
#[test]
fn keep_returns_the_value_unfreed() {
    heap!(heap);
    let empty = heap.audit().unwrap().allocated;
    let scoped = heap.scoped(packet(&heap, 1).unwrap());
    let payload = heap.with(&scoped, |p| p.payload.with(&heap, <[u8]>::to_vec));
    assert_eq!(payload.unwrap().unwrap(), [1; 6]);
    heap.root_mut().unwrap().kept = Some(Scoped::keep(scoped));
    heap.commit().unwrap();
    let mut scoped = heap.scoped(packet(&heap, 2).unwrap());
    let second = core::mem::replace(&mut *scoped, packet(&heap, 3).unwrap());
    drop(scoped);
    heap.free(second).unwrap();
    let audit = heap.audit().unwrap();
    assert_eq!((audit.allocated, audit.reachable), (empty + 2, empty + 2));
}

/// An object that a guard still pins is freed when the guard ends.
#[test]
fn freed_when_its_guard_ends() {
    heap!(heap);
    let before = heap.free_objects().unwrap();
    let scoped = heap.scoped(packet(&heap, 4).unwrap());
    let pinned = heap.get(&scoped).unwrap();
    drop(scoped);
    assert_eq!(heap.free_objects().unwrap(), before - 2);
    pinned
        .payload
        .with(&heap, |b| assert_eq!(b, [4; 6]))
        .unwrap();
    drop(pinned);
    assert_eq!(heap.free_objects().unwrap(), before);
}

/// A leaked one is unreachable: the next open frees it.
#[test]
fn leaked() {
    let mut fram = RamFram::<8192>::filled(0);
    for boot in 0..3 {
        let mut ram = [0u8; 1024];
        brand!(b);
        let root = |_: &_| Ok(Root { n: 0, kept: None });
        let open = Heap::<Root, _, Snapshot>::open;
        let mut heap = open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
        assert_eq!(heap.audit().unwrap().allocated, 1, "boot {boot}");
        core::mem::forget(heap.scoped(packet(&heap, 4).unwrap()));
        heap.commit().unwrap();
        assert_eq!(heap.audit().unwrap().allocated, 3);
    }
}

/// A round keeps one of its packets, and moves the former one out of the root into a scope.
fn round<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Root<'h>, S, P>) {
    let mut scratch = heap.scoped(Vector::<Own<Packet>, 2>::new());
    let mut root = heap.root_mut().unwrap();
    root.n += 1;
    let packet = heap.scoped(packet(heap, root.n as u8).unwrap());
    if let Some(before) = root.kept.take() {
        scratch.push(heap, before).unwrap();
    }
    root.kept = Some(Scoped::keep(packet));
}

fn look<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Root<'h>, S, P>) -> u32 {
    let root = heap.root().unwrap();
    let right = |b: &[u8]| assert_eq!(b, [root.n as u8; 6]);
    if let Some(kept) = &root.kept {
        heap.with(kept, |p| p.payload.with(heap, right).unwrap())
            .unwrap();
    }
    assert_eq!(root.kept.is_some(), root.n > 0);
    root.n
}

fn root<'h, H: HeapOf<'h>>(_: &H) -> Result<Root<'h>, Error<H::Error>> {
    Ok(Root { n: 0, kept: None })
}

cut!(Root, root, CONFIG, round, look);
