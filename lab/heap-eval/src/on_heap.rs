//! The key-value workload and the queue on the heap.

use crate::kv::{KEYS, Values, size};
use crate::medium::{Counts, Fram};
use crate::queue::{self, ELEMENT, Element, Queue, same};
use std::fmt::Debug;
use vnv_heap::collections::Fifo;
use vnv_heap::nvmem::Persist;
use vnv_heap::{Config, Heap, JustInTime, Own, Policy, Snapshot};

/// A root that owns nothing.
#[derive(Persist)]
#[repr(C)]
pub struct Bare {
    /// Nothing of interest.
    pub number: u32,
}

/// A heap with such a root on the counting medium.
pub type Plain<'h, 'c, P, Pol> = Heap<'h, Bare, Fram<'c>, P, Pol>;

/// Bursts are as long as objects, so that an object is one transfer.
pub const CONFIG: Config = Config {
    dirty_limit: crate::kv::LIMIT as u32,
    burst: 2048,
    objects: 512,
    max_pins: 8,
    ..Config::DEFAULT
};

/// RAM whose content is anything.
pub fn ram(bytes: usize) -> Vec<u64> {
    vec![0x5A5A_5A5A_5A5A_5A5A; bytes / 8]
}

/// The same in bytes, aligned to 8.
pub fn bytes(ram: &mut [u64]) -> &mut [u8] {
    // SAFETY: numbers are bytes, and nothing else refers to them.
    unsafe { std::slice::from_raw_parts_mut(ram.as_mut_ptr().cast(), size_of_val(ram)) }
}

/// What must not fail in an evaluation.
#[track_caller]
pub fn sure<T, E: Debug>(r: Result<T, E>) -> T {
    match r {
        Ok(t) => t,
        Err(e) => panic!("{e:?}"),
    }
}

/// A value's handle.
#[derive(Debug)]
enum Value<'h> {
    B32(Own<'h, [u8; 32]>),
    B128(Own<'h, [u8; 128]>),
    B256(Own<'h, [u8; 256]>),
    B1024(Own<'h, [u8; 1024]>),
}

/// What is done with the values of a heap.
pub trait Job {
    /// What it finds.
    type Found;
    /// Does it.
    fn run<V: Values>(self, values: &mut V) -> Self::Found;
}

/// All RAM that a buffer may have: all values are resident.
const KV_RAM: usize = 65_528;

struct HeapValues<'a, 'h, 'c, Pol: Policy> {
    heap: &'a Plain<'h, 'c, JustInTime, Pol>,
    values: Vec<Value<'h>>,
    counts: &'c Counts,
}

impl<Pol: Policy> Values for HeapValues<'_, '_, '_, Pol> {
    fn update(&mut self, key: usize, fill: u8) {
        match &self.values[key] {
            Value::B32(v) => sure(self.heap.get_mut(v)).fill(fill),
            Value::B128(v) => sure(self.heap.get_mut(v)).fill(fill),
            Value::B256(v) => sure(self.heap.get_mut(v)).fill(fill),
            Value::B1024(v) => sure(self.heap.get_mut(v)).fill(fill),
        }
    }

    fn holds(&mut self, key: usize, fill: u8) -> bool {
        let all = |b: &[u8]| b.iter().all(|b| *b == fill);
        match &self.values[key] {
            Value::B32(v) => all(&*sure(self.heap.get(v))),
            Value::B128(v) => all(&*sure(self.heap.get(v))),
            Value::B256(v) => all(&*sure(self.heap.get(v))),
            Value::B1024(v) => all(&*sure(self.heap.get(v))),
        }
    }

    fn counts(&self) -> &Counts {
        self.counts
    }
}

/// Inserts all values into a heap of which `limit` bytes may be modified, flushes, and does the
/// job.
pub fn kv<Pol: Policy, J: Job>(limit: usize, job: J) -> J::Found {
    let counts = Counts::default();
    let mut buffer = ram(KV_RAM);
    let config = Config {
        dirty_limit: limit as u32,
        ..CONFIG
    };
    vnv_heap::brand!(b);
    let fram = Fram::new(128 * 1024, &counts);
    let heap = Plain::<JustInTime, Pol>::open(b, fram, bytes(&mut buffer), config, |_| {
        Ok(Bare { number: 0 })
    });
    let mut heap = sure(heap);
    let mut values = Vec::new();
    for key in 0..KEYS {
        values.push(match size(key) {
            32 => Value::B32(sure(heap.alloc([0; 32]))),
            128 => Value::B128(sure(heap.alloc([0; 128]))),
            256 => Value::B256(sure(heap.alloc([0; 256]))),
            _ => Value::B1024(sure(heap.alloc([0; 1024]))),
        });
    }
    sure(heap.persist());
    sure(heap.restore());
    let mut values = HeapValues {
        heap: &heap,
        values,
        counts: &counts,
    };
    // A restore empties the RAM.
    for key in 0..KEYS {
        assert!(values.holds(key, 0));
    }
    counts.reset();
    job.run(&mut values)
}

/// The values with the snapshot promise: the root owns them.
#[derive(Persist)]
#[repr(C)]
struct Table<'h> {
    b32: [Option<Own<'h, [u8; 32]>>; KEYS],
    b128: [Option<Own<'h, [u8; 128]>>; KEYS],
    b256: [Option<Own<'h, [u8; 256]>>; KEYS],
    b1024: [Option<Own<'h, [u8; 1024]>>; KEYS],
}

/// Bytes written by each of `keys.len()` updates, with a commit every `every` and one at the end.
pub fn snapshot(limit: usize, keys: &[usize], every: usize) -> f64 {
    let counts = Counts::default();
    let mut buffer = ram(KV_RAM);
    let config = Config {
        dirty_limit: limit as u32,
        ..CONFIG
    };
    vnv_heap::brand!(b);
    let fram = Fram::new(192 * 1024, &counts);
    let heap = Heap::<Table<'_>, _, Snapshot>::open(b, fram, bytes(&mut buffer), config, |heap| {
        let mut t = Table {
            b32: [const { None }; KEYS],
            b128: [const { None }; KEYS],
            b256: [const { None }; KEYS],
            b1024: [const { None }; KEYS],
        };
        for key in 0..KEYS {
            match size(key) {
                32 => t.b32[key] = Some(sure(heap.alloc([0; 32]))),
                128 => t.b128[key] = Some(sure(heap.alloc([0; 128]))),
                256 => t.b256[key] = Some(sure(heap.alloc([0; 256]))),
                _ => t.b1024[key] = Some(sure(heap.alloc([0; 1024]))),
            }
        }
        Ok(t)
    });
    let mut heap = sure(heap);
    sure(heap.commit());
    counts.reset();
    for (i, key) in keys.iter().enumerate() {
        let fill = crate::kv::fill(i);
        let root = sure(heap.root());
        if let Some(v) = &root.b32[*key] {
            sure(heap.get_mut(v)).fill(fill);
        } else if let Some(v) = &root.b128[*key] {
            sure(heap.get_mut(v)).fill(fill);
        } else if let Some(v) = &root.b256[*key] {
            sure(heap.get_mut(v)).fill(fill);
        } else if let Some(v) = &root.b1024[*key] {
            sure(heap.get_mut(v)).fill(fill);
        }
        drop(root);
        if (i + 1) % every == 0 {
            sure(heap.commit());
        }
    }
    counts.written() as f64 / keys.len() as f64
}

/// What is done with a queue on a heap.
pub trait QueueJob {
    /// What it finds.
    type Found;
    /// Does it.
    fn run<Q: Queue>(self, queue: &mut Q, counts: &Counts) -> Self::Found;
}

/// The crate's own queue.
struct HeapQueue<'a, 'h, 'c> {
    heap: &'a Plain<'h, 'c, JustInTime, vnv_heap::Predict>,
    queue: Fifo<'h, Element>,
}

impl Queue for HeapQueue<'_, '_, '_> {
    fn enqueue(&mut self, fill: u8) -> bool {
        self.queue.push(self.heap, [fill; ELEMENT]).is_ok()
    }

    fn dequeue(&mut self) -> Option<u8> {
        let fill = sure(self.queue.with(self.heap, 0, same))?;
        self.queue.skip(self.heap);
        fill
    }
}

/// Makes a queue on a heap in `ram` bytes of RAM, and does the job.
pub fn fifo<J: QueueJob>(buffer: usize, job: J) -> J::Found {
    let counts = Counts::default();
    let mut buffer = ram(buffer);
    let config = Config {
        dirty_limit: queue::RAM as u32,
        ..CONFIG
    };
    vnv_heap::brand!(b);
    let fram = Fram::new(64 * 1024, &counts);
    let heap = sure(Heap::open(b, fram, bytes(&mut buffer), config, |_| {
        Ok(Bare { number: 0 })
    }));
    let mut q = HeapQueue {
        heap: &heap,
        queue: sure(Fifo::alloc(&heap, queue::LENGTHS[11] as u16)),
    };
    job.run(&mut q, &counts)
}
