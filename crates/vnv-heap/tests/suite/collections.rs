//! The collections against models, beyond the RAM, over cold boots and power cuts.

use crate::support::lives::{Promised, ROUNDS, Save};
use nvmem::ram::RamFram;
use nvmem::{Medium, Persist};
use powerfail::{Rng, Simulated, SpiFram, World, explore};
use std::collections::{HashMap, VecDeque};
use std::fmt::Debug;
use vnv_heap::collections::{Blob, Chunked, Fifo, Map, Vector};
use vnv_heap::{Config, Error, Heap, JustInTime, OpenError, Promise, Snapshot, Unrooted, brand};

#[derive(Persist)]
#[repr(C)]
struct Root<'h> {
    queue: Fifo<'h, [u8; 24]>,
    series: Vector<'h, u32, 8>,
    map: Map<'h, u16, u32, 4>,
    table: Chunked<'h, u16, 16>,
    text: Blob<'h>,
    n: u32,
}

type Fram = RamFram<32768>;

const CONFIG: Config = Config {
    dirty_limit: 700,
    objects: 200,
    ..Config::DEFAULT
};

fn root<'h, S: Medium, P: Promise>(
    heap: &Heap<'h, Unrooted, S, P>,
) -> Result<Root<'h>, Error<S::Error>> {
    Ok(Root {
        queue: Fifo::alloc(heap, 10)?,
        series: Vector::new(),
        map: Map::new(),
        table: Chunked::alloc(heap, 5, |i| Ok([i; 16]))?,
        text: Blob::alloc(heap, b"")?,
        n: 0,
    })
}

#[derive(Default, Clone)]
struct Model {
    queue: VecDeque<[u8; 24]>,
    series: Vec<u32>,
    map: HashMap<u16, u32>,
    table: Vec<u16>,
    text: Vec<u8>,
}

impl Model {
    fn new() -> Self {
        Model {
            table: (0..80).map(|i| i / 16).collect(),
            ..Model::default()
        }
    }

    /// One operation, on both; they agree.
    fn step<'h, S: Medium<Error: Debug>, P: Promise>(
        &mut self,
        heap: &Heap<'h, Root<'h>, S, P>,
        r: u32,
    ) {
        let mut root = heap.root_mut().unwrap();
        let (op, a) = (r % 12, r >> 8);
        match op {
            0 | 1 => {
                let element = [a as u8; 24];
                assert_eq!(root.queue.is_full(), self.queue.len() == 10);
                let pushed = root.queue.push(heap, element);
                if self.queue.len() < 10 {
                    pushed.unwrap();
                    self.queue.push_back(element);
                } else {
                    assert!(matches!(pushed.unwrap_err().error, Error::Full));
                }
            }
            2 => assert_eq!(root.queue.pop(heap).unwrap(), self.queue.pop_front()),
            3 | 4 => {
                root.series.push(heap, a).unwrap();
                self.series.push(a);
            }
            5 => assert_eq!(root.series.pop(heap).unwrap(), self.series.pop()),
            6 | 7 => {
                let key = a as u16 % 40;
                let old = root.map.insert(heap, key, a).unwrap();
                assert_eq!(old, self.map.insert(key, a));
            }
            8 => {
                let key = a as u16 % 40;
                let old = root.map.remove(heap, &key).unwrap();
                assert_eq!(old, self.map.remove(&key));
            }
            9 => {
                let i = a % 90;
                let there = root.table.set(heap, i, a as u16).unwrap();
                assert_eq!(there, i < 80);
                if there {
                    self.table[i as usize] = a as u16;
                }
            }
            10 => {
                self.text = (0..a % 60).map(|i| (a + i) as u8).collect();
                root.text.replace(heap, &self.text).unwrap();
            }
            _ => {
                let i = a % (self.series.len() as u32 + 1);
                let there = root.series.set(heap, i, a).unwrap();
                assert_eq!(there, (i as usize) < self.series.len());
                if there {
                    self.series[i as usize] = a;
                }
            }
        }
    }

    fn check<'h, S: Medium<Error: Debug>, P: Promise>(&self, heap: &Heap<'h, Root<'h>, S, P>) {
        let root = heap.root().unwrap();
        assert_eq!(usize::from(root.queue.len()), self.queue.len());
        for (i, e) in self.queue.iter().enumerate() {
            assert_eq!(root.queue.get(heap, i as u16).unwrap().as_ref(), Some(e));
        }
        assert_eq!(root.queue.get(heap, self.queue.len() as u16).unwrap(), None);
        assert_eq!(root.series.len() as usize, self.series.len());
        for (i, v) in self.series.iter().enumerate() {
            assert_eq!(root.series.get(heap, i as u32).unwrap().as_ref(), Some(v));
        }
        assert_eq!(root.series.get(heap, root.series.len()).unwrap(), None);
        assert_eq!(root.map.len() as usize, self.map.len());
        for key in 0..40 {
            assert_eq!(
                root.map.get(heap, &key).unwrap(),
                self.map.get(&key).copied()
            );
        }
        let mut all = HashMap::new();
        root.map
            .for_each(heap, |k, v| assert_eq!(all.insert(*k, *v), None))
            .unwrap();
        assert_eq!(all, self.map);
        for (i, v) in self.table.iter().enumerate() {
            assert_eq!(root.table.get(heap, i as u32).unwrap().as_ref(), Some(v));
        }
        assert_eq!(root.table.get(heap, 80).unwrap(), None);
        root.text.with(heap, |b| assert_eq!(b, self.text)).unwrap();
    }
}

fn lives<P: Promise>()
where
    for<'a, 'h> Heap<'h, Root<'h>, &'a mut Fram, P>: Save,
{
    for seed in 1..if cfg!(miri) { 2 } else { 9 } {
        let mut fram = Fram::filled(0);
        let mut model = Model::new();
        let mut random = Rng::new(seed);
        for _ in 0..if cfg!(miri) { 2 } else { 12 } {
            let mut ram = [0u8; 1280];
            brand!(b);
            let mut heap = Heap::<Root, _, P>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
            model.check(&heap);
            for i in 0..if cfg!(miri) { 10 } else { 100 } {
                model.step(&heap, random.next_u32());
                if i % 33 == 0 {
                    model.check(&heap);
                    heap.save();
                }
            }
            model.check(&heap);
            heap.save();
            let audit = heap.audit().unwrap();
            assert_eq!(audit.reachable, audit.allocated, "leaked");
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

#[test]
fn a_discarded_collection_frees_its_elements() {
    let mut fram = Fram::filled(0);
    let mut ram = [0u8; 1280];
    brand!(b);
    let mut heap = Heap::<Root, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, root).unwrap();
    let mut model = Model::new();
    let mut random = Rng::new(77);
    for _ in 0..300 {
        model.step(&heap, random.next_u32());
    }
    let before = heap.audit().unwrap().allocated;
    assert!(before > 20, "{before}");
    let mut held = heap.root_mut().unwrap();
    let root = &mut *held;
    let one = Fifo::alloc(&heap, 1).unwrap();
    heap.discard(core::mem::replace(&mut root.queue, one))
        .unwrap();
    root.series.clear(&heap).unwrap();
    root.map.clear(&heap).unwrap();
    assert_eq!((root.series.len(), root.map.len()), (0, 0));
    let one = Chunked::alloc(&heap, 1, |_| Ok([0; 16])).unwrap();
    heap.discard(core::mem::replace(&mut root.table, one))
        .unwrap();
    root.text.replace(&heap, b"").unwrap();
    drop(held);
    // The root, one element, one chunk, the text.
    assert_eq!(heap.audit().unwrap().allocated, 4);
}

/// Freeing the owner of a collection frees its elements: more objects than one scan collects.
#[test]
fn freeing_the_owner_frees_the_elements() {
    #[derive(Persist)]
    #[repr(C)]
    struct Owner<'h> {
        large: Chunked<'h, u32, 4>,
        text: Blob<'h>,
    }
    #[derive(Persist)]
    #[repr(C)]
    struct Top<'h> {
        owner: Option<vnv_heap::Own<'h, Owner<'h>>>,
    }
    let mut fram = Fram::filled(0);
    let mut ram = [0u8; 1280];
    brand!(b);
    let mut heap = Heap::<Top, _, JustInTime>::open(b, &mut fram, &mut ram, CONFIG, |_| {
        Ok(Top { owner: None })
    })
    .unwrap();
    let own = heap
        .alloc(Owner {
            large: Chunked::alloc(&heap, 100, |i| Ok([u32::from(i); 4])).unwrap(),
            text: Blob::alloc(&heap, b"text").unwrap(),
        })
        .unwrap();
    heap.root_mut().unwrap().owner = Some(own);
    assert_eq!(heap.audit().unwrap().reachable, 103);
    let own = heap.root_mut().unwrap().owner.take().unwrap();
    heap.free(own).unwrap();
    assert_eq!(heap.audit().unwrap().allocated, 1);
}

#[derive(Persist)]
#[repr(C)]
struct Queue<'h> {
    q: Fifo<'h, [u8; 256]>,
}

/// Bytes written for an enqueue and a dequeue in a queue of this length, with 4 KiB of RAM.
fn traffic(len: u16) -> f64 {
    let mut fram = RamFram::<65536>::filled(0);
    let mut ram = [0u8; 4096];
    let config = Config {
        dirty_limit: 1 << 16,
        ..CONFIG
    };
    brand!(b);
    let heap = Heap::<Queue, _, JustInTime>::open(b, &mut fram, &mut ram, config, |heap| {
        Ok(Queue {
            q: Fifo::alloc(heap, 121)?,
        })
    })
    .unwrap();
    let mut n = 0u8;
    let mut round = |fill: bool| {
        let mut root = heap.root_mut().unwrap();
        if root.q.push(&heap, [n; 256]).is_err() {
            panic!("full")
        }
        if !fill {
            let oldest = n.wrapping_sub(len as u8);
            assert_eq!(root.q.pop(&heap).unwrap(), Some([oldest; 256]));
        }
        n = n.wrapping_add(1);
    };
    (0..len).for_each(|_| round(true));
    (0..2000).for_each(|_| round(false));
    let before = heap.stats().bytes_written;
    (0..2000).for_each(|_| round(false));
    f64::from(heap.stats().bytes_written - before) / 2000.0
}

#[cfg_attr(miri, ignore = "thousands of rounds")]
#[test]
fn a_queue_writes_nothing_while_it_fits() {
    for len in [1, 5, 10, 13, 14] {
        assert_eq!(traffic(len), 0.0, "{len}");
    }
}

#[cfg_attr(miri, ignore = "thousands of rounds")]
#[test]
fn beyond_the_ram_a_queue_is_near_the_ideal() {
    for len in [16, 20, 30, 60, 120] {
        let ideal = 256.0 * (1.0 - 14.0 / f64::from(len));
        let written = traffic(len);
        println!("{len}: {written} of {ideal}");
        assert!(written <= ideal * 1.05 + 4.0, "{len}: {written}, {ideal}");
    }
}

/// The names of the collections' types and fields are part of the format: an image made before a
/// renaming must still open.
#[cfg(all(target_pointer_width = "64", target_endian = "little"))]
#[test]
fn fingerprints_stay() {
    let root = nvmem::describe::fingerprint::<Root<'static>>();
    assert_eq!(root, 0x2552_5193_e0a7_e119, "{root:#x}");
}

#[derive(Persist)]
#[repr(C)]
struct Small<'h> {
    n: u32,
    queue: Fifo<'h, [u8; 5]>,
    series: Vector<'h, u16, 2>,
    map: Map<'h, u8, u16, 2>,
    text: Blob<'h>,
}

/// One operation on each collection a round.
fn round<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Small<'h>, S, P>) {
    let mut root = heap.root_mut().unwrap();
    let n = root.n + 1;
    root.n = n;
    if n > 2 {
        assert_eq!(root.queue.pop(heap).unwrap(), Some([n as u8 - 2; 5]));
    }
    root.queue
        .push(heap, [n as u8; 5])
        .unwrap_or_else(|_| panic!("full"));
    root.series.push(heap, n as u16).unwrap();
    root.map.insert(heap, n as u8, n as u16 * 3).unwrap();
    root.map.remove(heap, &(n as u8 - 1)).unwrap();
    root.text.replace(heap, &[7; 9][..n as usize + 1]).unwrap();
}

fn look<'h, S: Medium<Error: Debug>, P: Promise>(heap: &Heap<'h, Small<'h>, S, P>) -> u32 {
    let root = heap.root().unwrap();
    let n = root.n;
    assert_eq!(u32::from(root.queue.len()), n.min(2));
    for i in 0..root.queue.len() {
        let e = n as u8 + 1 + i as u8 - root.queue.len() as u8;
        assert_eq!(root.queue.get(heap, i).unwrap(), Some([e; 5]));
    }
    assert_eq!(root.series.len(), n);
    for i in 0..n {
        assert_eq!(root.series.get(heap, i).unwrap(), Some(i as u16 + 1));
    }
    assert_eq!(root.map.len(), n.min(1));
    for k in 0..=n as u8 + 1 {
        let expected = (u32::from(k) == n && n > 0).then_some(u16::from(k) * 3);
        assert_eq!(root.map.get(heap, &k).unwrap(), expected);
    }
    let len = if n == 0 { 0 } else { n as usize + 1 };
    root.text
        .with(heap, |b| assert_eq!(b, &[7; 9][..len]))
        .unwrap();
    n
}

fn small<'h, S: Medium, P: Promise>(
    heap: &Heap<'h, Unrooted, S, P>,
) -> Result<Small<'h>, Error<S::Error>> {
    Ok(Small {
        n: 0,
        queue: Fifo::alloc(heap, 3)?,
        series: Vector::new(),
        map: Map::new(),
        text: Blob::alloc(heap, b"")?,
    })
}

const FEW: Config = Config {
    objects: 24,
    max_pins: 4,
    ..CONFIG
};

cut!(Small, small, FEW, round, look);
