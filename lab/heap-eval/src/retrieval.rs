//! Getting an object: resident, not resident, and not resident while a modified one must leave.

use crate::measure::measure;
use crate::medium::{Counts, Fram};
use crate::modules::{MODULE, Modules};
use crate::on_heap::{Bare, CONFIG, bytes, ram, sure};
use std::hint::black_box;
use vnv_heap::nvmem::Persist;
use vnv_heap::{Config, Fields, Heap, JustInTime, Own, Predict};

/// How many are measured together.
const GETS: usize = 4_000;

/// RAM for content.
const CONTENT: usize = 1024;

/// What the heap needs beside it: a header, and the look-up.
const METADATA: usize = 24;

type Objects<'h, 'c> = Heap<'h, Bare, Fram<'c>, JustInTime, Predict>;

/// `get` and release of a resident object, in the mean over `n` of 32 bytes.
pub fn resident(n: usize) {
    let counts = Counts::default();
    let mut buffer = ram(65_528);
    vnv_heap::brand!(b);
    let fram = Fram::new(128 * 1024, &counts);
    let config = Config {
        dirty_limit: 60_000,
        ..CONFIG
    };
    let heap: Objects<'_, '_> = sure(Heap::open(b, fram, bytes(&mut buffer), config, |_| {
        Ok(Bare { number: 0 })
    }));
    let all: Vec<Own<'_, [u8; 32]>> = (0..n).map(|_| sure(heap.alloc([0; 32]))).collect();
    let order: Vec<_> = all.iter().cycle().take(GETS).collect();
    let get_all = || {
        for own in &order {
            if let Ok(held) = heap.get(black_box(own)) {
                black_box(&*held);
            }
        }
    };
    get_all();
    counts.reset();
    let key = format!("heap.get_resident_{n}");
    measure(&key, GETS, get_all);
    assert_eq!(counts.read(), 0, "all are resident");
    measure(&format!("{key}.empty"), GETS, || {
        for own in &order {
            black_box(own);
        }
    });
}

/// What has a field.
#[derive(Persist, Fields)]
#[repr(C)]
struct Node {
    data: [u8; 28],
    temperature: i16,
    spare: u16,
}

/// Reading and writing a field of a resident object: by what the derive makes, and by the closure
/// that it stands for.
pub fn fields() {
    let counts = Counts::default();
    let mut buffer = ram(CONTENT + METADATA);
    vnv_heap::brand!(b);
    let fram = Fram::new(16 * 1024, &counts);
    let heap: Objects<'_, '_> = sure(Heap::open(b, fram, bytes(&mut buffer), CONFIG, |_| {
        Ok(Bare { number: 0 })
    }));
    let node = sure(heap.alloc(Node {
        data: [0; 28],
        temperature: 20,
        spare: 0,
    }));
    sure(node.set_temperature(&heap, 21));
    many("field_get", |_| {
        black_box(black_box(&node).temperature(&heap)).ok();
    });
    many("field_with", |_| {
        black_box(heap.with(black_box(&node), |n| n.temperature)).ok();
    });
    many("field_set", |t| {
        black_box(black_box(&node).set_temperature(&heap, t)).ok();
    });
    many("field_update", |t| {
        black_box(heap.update(black_box(&node), |n| n.temperature = t)).ok();
    });
    assert_eq!(sure(node.temperature(&heap)), (GETS - 1) as i16);
}

fn many(key: &str, one: impl Fn(i16)) {
    measure(&format!("heap.{key}"), GETS, || {
        (0..GETS).for_each(|i| one(black_box(i as i16)));
    });
    measure(&format!("heap.{key}.empty"), GETS, || {
        (0..GETS).for_each(|i| {
            black_box(i as i16);
        });
    });
}

/// What is counted of one access.
pub trait Measure {
    /// Does it, and counts. The counts of the bus began at zero.
    fn access(&self, key: &str, counts: &Counts, access: impl FnOnce());
}

/// `get` of an object of `N` bytes in the three cases, with 1 KiB of RAM and metadata.
pub fn cases<const N: usize>(m: &impl Measure) {
    let counts = Counts::default();
    let mut buffer = ram(CONTENT + METADATA);
    vnv_heap::brand!(b);
    let fram = Fram::new(16 * 1024, &counts);
    let mut heap: Objects<'_, '_> = sure(Heap::open(b, fram, bytes(&mut buffer), CONFIG, |_| {
        Ok(Bare { number: 0 })
    }));
    let small = sure(heap.alloc([0u8; N]));
    let large = sure(heap.alloc([0u8; CONTENT]));
    sure(heap.persist());
    sure(heap.restore());
    let get = |case: &str| {
        counts.reset();
        m.access(&format!("heap.retrieval_{case}_{N}"), &counts, || {
            if let Ok(held) = black_box(&heap).get(black_box(&small)) {
                black_box(&*held);
            }
        });
    };
    get("bad");
    assert_eq!(counts.written(), 0);
    assert!(counts.read() >= N as u64, "it was not resident");
    get("best");
    assert_eq!(counts.read(), 0, "it is resident");
    sure(heap.get_mut(&large))[0] = 1;
    get("worst");
    assert!(counts.written() >= CONTENT as u64, "nothing had to leave");
}

/// `get_mut` of 1 KiB while 1 KiB that was modified must leave.
pub fn evict() {
    let counts = Counts::default();
    let mut buffer = ram(CONTENT + METADATA);
    vnv_heap::brand!(b);
    let fram = Fram::new(16 * 1024, &counts);
    let heap: Objects<'_, '_> = sure(Heap::open(b, fram, bytes(&mut buffer), CONFIG, |_| {
        Ok(Bare { number: 0 })
    }));
    let all: [Own<'_, [u8; CONTENT]>; 2] = [0, 1].map(|i| sure(heap.alloc([i; CONTENT])));
    for i in 0..6 {
        sure(heap.get_mut(&all[i % 2]))[0] = 7;
    }
    counts.reset();
    measure("heap.get_mut_evict_1024", 1, || {
        if let Ok(mut held) = black_box(&heap).get_mut(black_box(&all[0])) {
            black_box(&mut *held)[0] = 8;
        }
    });
    assert!(counts.written() >= 1024 && counts.read() >= 1024);
}

/// Access to data that is split into modules, in the same cases.
pub fn modules(m: &impl Measure) {
    for size in [32, 64, 128, 256, 512, 1024] {
        let counts = Counts::default();
        let mut modules = Modules::new(2, &counts);
        let at = black_box(MODULE - size);
        let mut get = |case: &str, module: usize| {
            counts.reset();
            m.access(&format!("modules.{case}_{size}"), &counts, || {
                let modules = black_box(&mut modules);
                black_box(modules.get(module, at, size).map(|b| b[0]));
            });
        };
        get("bad", 0);
        get("best", 0);
        assert!(modules.get_mut(0, at, size).is_some());
        counts.reset();
        m.access(&format!("modules.worst_{size}"), &counts, || {
            let modules = black_box(&mut modules);
            if let Some(b) = modules.get_mut(1, at, size) {
                black_box(b)[0] = 2;
            }
        });
    }
}
