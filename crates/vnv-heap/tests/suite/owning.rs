//! Collections of elements that own objects, against models, over cold boots and power cuts.

use crate::support::lives::{Promised, ROUNDS, Save};
use nvmem::ram::RamFram;
use nvmem::{Medium, Persist};
use powerfail::{Rng, Simulated, SpiFram, World, explore};
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use vnv_heap::collections::{Blob, Fifo, Map, Vector};
use vnv_heap::{
    Config, Error, Heap, JustInTime, OpenError, Own, Promise, Snapshot, Unrooted, brand,
};

/// Owns bytes, which vary.
#[derive(Persist)]
#[repr(C)]
struct Packet<'h> {
    payload: Blob<'h>,
    ttl: u16,
}

/// With padding.
#[derive(Persist)]
#[repr(C)]
struct Item<'h> {
    kind: u8,
    packet: Option<Own<'h, Packet<'h>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    queue: Fifo<'h, Own<'h, Packet<'h>>>,
    items: Vector<'h, Item<'h>, 4>,
    texts: Map<'h, u16, Blob<'h>, 2>,
    n: u32,
}

type Fram = RamFram<32768>;

const CONFIG: Config = Config {
    dirty_limit: 700,
    objects: 600,
    ..Config::DEFAULT
};

fn root<'h, S: Medium, P: Promise>(
    heap: &Heap<'h, Unrooted, S, P>,
) -> Result<Root<'h>, Error<S::Error>> {
    Ok(Root {
        queue: Fifo::alloc(heap, 8)?,
        items: Vector::new(),
        texts: Map::new(),
        n: 0,
    })
}

fn packet<'h, R, S: Medium<Error: Debug>, P: Promise>(
    heap: &Heap<'h, R, S, P>,
    n: u32,
) -> Own<'h, Packet<'h>> {
    let payload = Blob::alloc(heap, &[n as u8; 20][..n as usize % 20]).unwrap();
    let ttl = n as u16;
    heap.alloc(Packet { payload, ttl }).unwrap()
}

/// The number it was made from.
fn number<'h, R, S: Medium<Error: Debug>, P: Promise>(
    heap: &Heap<'h, R, S, P>,
    packet: &Own<'h, Packet<'h>>,
) -> u32 {
    let p = heap.get(packet).unwrap();
    let n = u32::from(p.ttl);
    let right = |b: &[u8]| assert_eq!(b, &[n as u8; 20][..n as usize % 20]);
    p.payload.with(heap, right).unwrap();
    n
}

#[derive(Default)]
struct Model {
    queue: VecDeque<u32>,
    items: Vec<(u8, Option<u32>)>,
    texts: HashMap<u16, Vec<u8>>,
}

impl Model {
    /// One operation, on both; they agree. What comes back is freed, or put elsewhere.
    fn step<'h, S: Medium<Error: Debug>, P: Promise>(
        &mut self,
        heap: &Heap<'h, Root<'h>, S, P>,
        r: u32,
    ) {
        let mut root = heap.root_mut().unwrap();
        let (op, a) = (r % 16, (r >> 8) % 60_000);
        match op {
            0..=3 => {
                let pushed = root.queue.push(heap, packet(heap, a));
                if self.queue.len() < 8 {
                    pushed.unwrap();
                    self.queue.push_back(a);
                } else {
                    let refused = pushed.unwrap_err();
                    assert!(matches!(refused.error, Error::Full));
                    heap.free(refused.value).unwrap();
                }
            }
            4 | 5 => {
                let taken = root.queue.pop(heap).unwrap();
                assert_eq!(
                    taken.as_ref().map(|p| number(heap, p)),
                    self.queue.pop_front()
                );
                // From the queue to the end of the vector.
                if let Some(packet) = taken {
                    let item = Item {
                        kind: 2,
                        packet: Some(packet),
                    };
                    self.items
                        .push((2, item.packet.as_ref().map(|p| number(heap, p))));
                    root.items.push(heap, item).unwrap();
                }
            }
            6..=8 => {
                let packet = (a % 3 > 0).then(|| packet(heap, a));
                self.items.push((a as u8, packet.as_ref().map(|_| a)));
                root.items
                    .push(
                        heap,
                        Item {
                            kind: a as u8,
                            packet,
                        },
                    )
                    .unwrap();
            }
            9 => {
                let taken = root.items.pop(heap).unwrap();
                let seen = taken
                    .as_ref()
                    .map(|i| (i.kind, i.packet.as_ref().map(|p| number(heap, p))));
                assert_eq!(seen, self.items.pop());
                heap.discard(taken.and_then(|i| i.packet)).unwrap();
            }
            10 => {
                let i = a % (self.items.len() as u32 + 1);
                let new = packet(heap, a);
                let replace = |item: &mut Item<'h>| item.packet.replace(new);
                match root.items.update(heap, i, replace).unwrap() {
                    Some(old) => {
                        let before = self.items[i as usize].1.replace(a);
                        assert_eq!(old.as_ref().map(|p| number(heap, p)), before);
                        heap.discard(old).unwrap();
                    }
                    // The closure went with what it had: unreachable until the next open.
                    None => assert_eq!(i as usize, self.items.len()),
                }
            }
            11..=13 => {
                let text = vec![a as u8; a as usize % 50];
                let (key, blob) = (a as u16 % 30, Blob::alloc(heap, &text).unwrap());
                let old = root.texts.insert(heap, key, blob).unwrap();
                let before = self.texts.insert(key, text);
                assert_eq!(
                    old.as_ref().map(|b| b.with(heap, <[u8]>::to_vec).unwrap()),
                    before
                );
                if let Some(old) = old {
                    heap.discard(old).unwrap();
                }
            }
            14 => {
                let key = a as u16 % 30;
                let old = root.texts.remove(heap, &key).unwrap();
                assert_eq!(old.is_some(), self.texts.remove(&key).is_some());
                if let Some(old) = old {
                    heap.discard(old).unwrap();
                }
            }
            _ => match a % 9 {
                0 => {
                    root.queue.clear(heap).unwrap();
                    self.queue.clear();
                }
                1 => {
                    root.items.clear(heap).unwrap();
                    self.items.clear();
                }
                2 => {
                    root.texts.clear(heap).unwrap();
                    self.texts.clear();
                }
                _ => root.n += 1,
            },
        }
    }

    fn check<'h, S: Medium<Error: Debug>, P: Promise>(&self, heap: &Heap<'h, Root<'h>, S, P>) {
        let root = heap.root().unwrap();
        assert_eq!(usize::from(root.queue.len()), self.queue.len());
        for (i, n) in self.queue.iter().enumerate() {
            let seen = root.queue.with(heap, i as u16, |p| number(heap, p));
            assert_eq!(seen.unwrap(), Some(*n));
        }
        assert_eq!(root.items.len() as usize, self.items.len());
        for (i, item) in self.items.iter().enumerate() {
            let seen = root.items.with(heap, i as u32, |i| {
                (i.kind, i.packet.as_ref().map(|p| number(heap, p)))
            });
            assert_eq!(seen.unwrap(), Some(*item));
        }
        let mut all = HashMap::new();
        let see = |k: &u16, v: &Blob<'h>| {
            all.insert(*k, v.with(heap, <[u8]>::to_vec).unwrap());
        };
        root.texts.for_each(heap, see).unwrap();
        assert_eq!(all, self.texts);
    }
}

fn lives<P: Promise>()
where
    for<'a, 'h> Heap<'h, Root<'h>, &'a mut Fram, P>: Save,
{
    for seed in 1..if cfg!(miri) { 2 } else { 6 } {
        let mut fram = Fram::filled(0);
        let mut model = Model::default();
        let mut random = Rng::new(seed);
        for _ in 0..if cfg!(miri) { 2 } else { 8 } {
            let mut ram = [0u8; 1280];
            brand!(b);
            let mut heap = Heap::<Root, _, P>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
            model.check(&heap);
            let audit = heap.audit().unwrap();
            assert_eq!(
                audit.reachable, audit.allocated,
                "open leaves what nothing leads to"
            );
            let mut lost = 0;
            for i in 0..if cfg!(miri) { 12 } else { 100 } {
                let r = random.next_u32();
                // What its closure did not use is lost: a packet and its bytes.
                let miss = r % 16 == 10
                    && (r >> 8) % 60_000 % (model.items.len() as u32 + 1)
                        == model.items.len() as u32;
                lost += if miss { 2 } else { 0 };
                model.step(&heap, r);
                if i % 33 == 0 {
                    model.check(&heap);
                    heap.save();
                }
            }
            model.check(&heap);
            heap.save();
            let audit = heap.audit().unwrap();
            assert_eq!(audit.reachable + lost, audit.allocated, "leaked");
        }
    }
}

#[test]
fn as_the_models_just_in_time() {
    lives::<JustInTime>();
}

#[test]
fn as_the_models_snapshot() {
    lives::<Snapshot>();
}

/// A collection is freed with all its elements, in every way of freeing it.
#[cfg_attr(miri, ignore = "hundreds of operations")]
#[test]
fn a_discarded_collection_frees_what_its_elements_own() {
    for way in 0..3 {
        let mut fram = Fram::filled(0);
        let mut ram = [0u8; 1280];
        brand!(b);
        let mut heap =
            Heap::<Root, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
        let mut model = Model::default();
        let mut random = Rng::new(5);
        // None that loses something, until there is much to free.
        let mut steps = core::iter::repeat_with(|| random.next_u32()).filter(|r| r % 16 != 10);
        while heap.audit().unwrap().allocated <= 40 {
            steps.by_ref().take(50).for_each(|r| model.step(&heap, r));
        }
        let mut held = heap.root_mut().unwrap();
        let root = &mut *held;
        let (queue, one) = (&mut root.queue, Fifo::alloc(&heap, 1).unwrap());
        let (queue, items, texts) = (
            core::mem::replace(queue, one),
            core::mem::take(&mut root.items),
            core::mem::take(&mut root.texts),
        );
        match way {
            0 => {
                heap.discard(queue).unwrap();
                heap.discard(items).unwrap();
                heap.discard(texts).unwrap();
            }
            1 => heap
                .discard(Root {
                    queue,
                    items,
                    texts,
                    n: 0,
                })
                .unwrap(),
            _ => {
                let owner = heap
                    .alloc(Root {
                        queue,
                        items,
                        texts,
                        n: 0,
                    })
                    .unwrap();
                heap.free(owner).unwrap();
            }
        }
        drop(held);
        // The root and one place of a queue.
        assert_eq!(heap.audit().unwrap().allocated, 2, "{way}");
    }
}

#[derive(Persist)]
#[repr(C)]
struct Small<'h> {
    n: u32,
    queue: Fifo<'h, Own<'h, [u8; 5]>>,
    items: Vector<'h, Blob<'h>, 2>,
    map: Map<'h, u8, Blob<'h>, 2>,
}

/// One operation on each collection a round; the vector grows, and shrinks again.
fn round<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Small<'h>, S, P>) {
    let mut root = heap.root_mut().unwrap();
    let n = root.n + 1;
    root.n = n;
    if n > 1 {
        let oldest = root.queue.pop(heap).unwrap().unwrap();
        heap.free(oldest).unwrap();
    }
    let element = heap.alloc([n as u8; 5]).unwrap();
    root.queue.push(heap, element).unwrap();
    if n == 3 {
        let item = root.items.pop(heap).unwrap().unwrap();
        heap.discard(item).unwrap();
    } else {
        let item = Blob::alloc(heap, &[n as u8; 3][..n as usize]).unwrap();
        root.items.push(heap, item).unwrap();
    }
    let value = Blob::alloc(heap, &[7; 9][..n as usize]).unwrap();
    let before = root.map.insert(heap, n as u8 & 1, value).unwrap();
    before.map_or(Ok(()), |b| heap.discard(b)).unwrap();
}

fn look<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Small<'h>, S, P>) -> u32 {
    let root = heap.root().unwrap();
    let n = root.n;
    assert_eq!(u32::from(root.queue.len()), n.min(1));
    let seen = root.queue.with(heap, 0, |own| heap.read(own).unwrap());
    assert_eq!(seen.unwrap(), (n > 0).then_some([n as u8; 5]));
    assert_eq!(root.items.len(), [0, 1, 2, 1][n as usize]);
    for i in 0..root.items.len() {
        let n = i as usize + 1;
        let right = |b: &[u8]| assert_eq!(b, &[n as u8; 3][..n]);
        root.items
            .with(heap, i, |b| b.with(heap, right).unwrap())
            .unwrap()
            .unwrap();
    }
    assert_eq!(root.map.len(), n.min(2));
    for n in [n, n.saturating_sub(1)].into_iter().filter(|n| *n > 0) {
        let right = |b: &[u8]| assert_eq!(b, &[7; 9][..n as usize]);
        let seen = root
            .map
            .with(heap, &(n as u8 & 1), |b| b.with(heap, right).unwrap());
        assert_eq!(seen.unwrap(), Some(()));
    }
    n
}

fn small<'h, S: Medium, P: Promise>(
    heap: &Heap<'h, Unrooted, S, P>,
) -> Result<Small<'h>, Error<S::Error>> {
    Ok(Small {
        n: 0,
        queue: Fifo::alloc(heap, 2)?,
        items: Vector::new(),
        map: Map::new(),
    })
}

const FEW: Config = Config {
    objects: 24,
    max_pins: 4,
    ..CONFIG
};

cut!(Small, small, FEW, round, look);
