//! The workloads of lab/EVALUATION.md on the machine that stands for an ESP32-C3: as
//! `lab/heap-eval` has them for a host, so far as 64 KiB of RAM go, in which the medium lies
//! too. Elsewhere the scenarios do nothing.

use crate::{Group, Mapped, Scenario, Scene};

/// The workloads.
pub const fn group<M: Mapped>() -> Group<M> {
    const {
        Group {
            name: "heap-work",
            primitive: "vnv-heap",
            scenarios: &[
                Scenario::measuring("retrieval", 16, retrieval),
                Scenario::measuring("short_queues", 16, short_queues),
                Scenario::measuring("long_queues", 16, long_queues),
                Scenario::measuring("values", 16, values),
            ],
        }
    }
}

macro_rules! workload {
    ($name:ident, $($work:expr),+) => {
        fn $name<M: Mapped>(scene: &mut Scene<'_, M>) {
            let region = scene.region();
            // SAFETY: the region's first unit, of which nothing is lent.
            unsafe { region.store(0, 1) };
            #[cfg(target_arch = "riscv32")]
            {
                scene.measure(crate::abi::section::EMPTY, || ());
                $(crate::ok!(scene, $work(scene));)+
            }
        }
    };
}
workload!(
    retrieval,
    |s| work::resident(s, HEAP_GET_RESIDENT_1, 1),
    |s| work::resident(s, HEAP_GET_RESIDENT_400, 400),
    work::evict,
    |s| work::cases::<M, 32>(s, 0),
    |s| work::cases::<M, 64>(s, 1),
    |s| work::cases::<M, 128>(s, 2),
    |s| work::cases::<M, 256>(s, 3),
    |s| work::cases::<M, 512>(s, 4),
    |s| work::cases::<M, 1024>(s, 5)
);
workload!(
    short_queues,
    |s| work::queue(s, HEAP_FIFO_10, 10),
    |s| work::queue(s, HEAP_FIFO_16, 16),
    |s| work::queue(s, HEAP_FIFO_20, 20),
    |s| work::queue(s, HEAP_FIFO_30, 30)
);
workload!(long_queues, |s| work::queue(s, HEAP_FIFO_60, 60), |s| {
    work::queue(s, HEAP_FIFO_120, 120)
});
workload!(
    values,
    |s| work::values(s, HEAP_KV_UNIFORM),
    |s| work::values(s, HEAP_KV_SEQUENTIAL),
    |s| work::values(s, HEAP_KV_UNEQUAL),
    |s| work::values(s, HEAP_KV_PARTITIONED)
);
#[cfg(target_arch = "riscv32")]
use crate::abi::section::*;

#[cfg(target_arch = "riscv32")]
mod work {
    use super::*;
    use crate::abi::work::{GETS, ROUNDS, UPDATES};
    use crate::check;
    use crate::heap::Buffer;
    use core::hint::black_box;
    use nvmem::device::Misuse;
    use nvmem::ram::RamFram;
    use vnv_heap::collections::Fifo;
    use vnv_heap::{Config, Heap, OpenError, Own, brand};

    type Fram<'a, const N: usize> = &'a mut RamFram<N>;
    type Done = Result<(), OpenError<Misuse>>;

    /// Bursts are as long as objects, so that an object is one transfer.
    const CONFIG: Config = Config {
        dirty_limit: 12_000,
        burst: 2048,
        objects: 512,
        max_pins: 8,
        budget: None,
    };
    /// RAM for content, and what the heap needs beside it.
    const CONTENT: usize = 1024;
    const METADATA: usize = 24;

    #[inline(never)]
    pub fn resident<M: Mapped>(scene: &Scene<'_, M>, section: u16, n: usize) -> Done {
        let mut fram = RamFram::<{ 22 * 1024 }>::filled(0);
        let mut ram = Buffer::<{ 18 * 1024 }>::new();
        brand!(b);
        let heap: Heap<'_, u32, Fram<'_, _>, vnv_heap::JustInTime> =
            Heap::open(b, &mut fram, ram.bytes(), CONFIG, |_| Ok(0))?;
        let mut all = [const { None }; 400];
        for place in all.iter_mut().take(n) {
            *place = Some(heap.alloc([0u8; 32]).map_err(|r| r.error)?);
        }
        let get_all = || {
            for own in all.iter().take(n).flatten().cycle().take(usize::from(GETS)) {
                if let Ok(held) = heap.get(black_box(own)) {
                    black_box(&*held);
                }
            }
        };
        get_all();
        let page_ins = heap.stats().page_ins;
        scene.measure(section, get_all);
        check!(scene, heap.stats().page_ins == page_ins);
        Ok(())
    }

    #[inline(never)]
    pub fn cases<M: Mapped, const N: usize>(scene: &Scene<'_, M>, number: u16) -> Done {
        let mut fram = RamFram::<{ 16 * 1024 }>::filled(0);
        let mut ram = Buffer::<{ CONTENT + METADATA }>::new();
        brand!(b);
        let mut heap: Heap<'_, u32, Fram<'_, _>, vnv_heap::JustInTime> =
            Heap::open(b, &mut fram, ram.bytes(), CONFIG, |_| Ok(0))?;
        let small = heap.alloc([0u8; N]).map_err(|r| r.error)?;
        let large = heap.alloc([0u8; CONTENT]).map_err(|r| r.error)?;
        heap.persist()?;
        heap.restore()?;
        let get = |case| {
            scene.measure(case + 10 * number, || {
                if let Ok(held) = black_box(&heap).get(black_box(&small)) {
                    black_box(&*held);
                }
            });
        };
        let page_ins = heap.stats().page_ins;
        get(HEAP_RETRIEVAL_BAD_32);
        check!(scene, heap.stats().page_ins == page_ins + 1);
        get(HEAP_RETRIEVAL_BEST_32);
        check!(scene, heap.stats().page_ins == page_ins + 1);
        heap.get_mut(&large)?[0] = 1;
        let written = heap.stats().write_backs;
        get(HEAP_RETRIEVAL_WORST_32);
        check!(scene, heap.stats().write_backs == written + 1);
        Ok(())
    }

    #[inline(never)]
    pub fn evict<M: Mapped>(scene: &Scene<'_, M>) -> Done {
        let mut fram = RamFram::<{ 16 * 1024 }>::filled(0);
        let mut ram = Buffer::<{ CONTENT + METADATA }>::new();
        brand!(b);
        let heap: Heap<'_, u32, Fram<'_, _>, vnv_heap::JustInTime> =
            Heap::open(b, &mut fram, ram.bytes(), CONFIG, |_| Ok(0))?;
        let first = heap.alloc([0u8; CONTENT]).map_err(|r| r.error)?;
        let second = heap.alloc([1u8; CONTENT]).map_err(|r| r.error)?;
        for _ in 0..3 {
            heap.get_mut(&first)?[0] = 7;
            heap.get_mut(&second)?[0] = 7;
        }
        let before = heap.stats();
        scene.measure(HEAP_EVICT_1024, || {
            if let Ok(mut held) = black_box(&heap).get_mut(black_box(&first)) {
                black_box(&mut *held)[0] = 8;
            }
        });
        let after = heap.stats();
        check!(
            scene,
            after.write_backs == before.write_backs + 1 && after.page_ins == before.page_ins + 1
        );
        Ok(())
    }

    /// Bytes of an element.
    const ELEMENT: usize = 256;
    /// As much RAM as on the host: 4 KiB, the heap itself included.
    const QUEUE_RAM: usize = 4096 - 128;

    #[inline(never)]
    pub fn queue<M: Mapped>(scene: &Scene<'_, M>, section: u16, len: u16) -> Done {
        let mut fram = RamFram::<{ 40 * 1024 }>::filled(0);
        let mut ram = Buffer::<{ QUEUE_RAM }>::new();
        brand!(b);
        let config = Config {
            dirty_limit: 4096,
            objects: 160,
            ..CONFIG
        };
        let heap: Heap<'_, u32, Fram<'_, _>, vnv_heap::JustInTime> =
            Heap::open(b, &mut fram, ram.bytes(), config, |_| Ok(0))?;
        let mut q = Fifo::<[u8; ELEMENT]>::alloc(&heap, 120)?;
        let fill = |i: u16| (i % 251) as u8;
        for i in 0..len {
            q.push(&heap, [fill(i); ELEMENT]).map_err(|r| r.error)?;
        }
        let mut round = |i: u16| -> Result<bool, OpenError<Misuse>> {
            let same = |e: &[u8; ELEMENT]| e.iter().all(|b| *b == e[0]).then_some(e[0]);
            let right = q.with(&heap, 0, same)?.flatten() == Some(fill(i));
            q.skip(&heap);
            q.push(&heap, [fill(len + i); ELEMENT])
                .map_err(|r| r.error)?;
            Ok(right)
        };
        let first = 3 * len;
        for i in 0..first {
            check!(scene, round(i)?);
        }
        let right = scene.measure(section, || -> Result<bool, OpenError<Misuse>> {
            for i in first..first + ROUNDS {
                if !round(i)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        check!(scene, right);
        Ok(())
    }

    /// A quarter of the host's values.
    const KEYS: usize = 64;
    const DATA: usize = 16 * 32 + 32 * 128 + 8 * 256 + 8 * 1024;

    enum Value<'h> {
        B32(Own<'h, [u8; 32]>),
        B128(Own<'h, [u8; 128]>),
        B256(Own<'h, [u8; 256]>),
        B1024(Own<'h, [u8; 1024]>),
    }

    /// Sums of the weights sin⁴(40·key/256) + 0.1 up to each key, in thousandths.
    const SUMS: [u32; KEYS] = {
        let mut sums = [0; KEYS];
        let mut sum = 0.0;
        let mut key = 0;
        while key < KEYS {
            let s = sine(40.0 * key as f64 / 256.0);
            sum += s * s * s * s + 0.1;
            sums[key] = (1000.0 * sum) as u32;
            key += 1;
        }
        sums
    };

    /// By its series, for small angles.
    const fn sine(x: f64) -> f64 {
        let turn = 2.0 * core::f64::consts::PI;
        let x = x - turn * ((x / turn) as u32 as f64);
        let (mut term, mut sum, mut n) = (x, x, 1.0);
        while n < 20.0 {
            term = -term * x * x / ((2.0 * n) * (2.0 * n + 1.0));
            sum += term;
            n += 1.0;
        }
        sum
    }

    /// Overwrites the whole value, or gives its first byte.
    fn each<'h, const N: usize>(
        heap: &Heap<'h, u32, Fram<'_, N>, vnv_heap::JustInTime>,
        value: &Value<'h>,
        fill: Option<u8>,
    ) -> Result<u8, OpenError<Misuse>> {
        macro_rules! on {
            ($v:expr) => {
                match fill {
                    Some(fill) => {
                        heap.get_mut($v)?.fill(fill);
                        fill
                    }
                    None => heap.get($v)?[0],
                }
            };
        }
        Ok(match value {
            Value::B32(v) => on!(v),
            Value::B128(v) => on!(v),
            Value::B256(v) => on!(v),
            Value::B1024(v) => on!(v),
        })
    }

    #[inline(never)]
    pub fn values<M: Mapped>(scene: &Scene<'_, M>, pattern: u16) -> Done {
        let mut fram = RamFram::<{ 20 * 1024 }>::filled(0);
        let mut ram = Buffer::<{ 16 * 1024 }>::new();
        brand!(b);
        let config = Config {
            dirty_limit: DATA as u32 / 5,
            objects: 80,
            ..CONFIG
        };
        let mut heap: Heap<'_, u32, Fram<'_, _>, vnv_heap::JustInTime> =
            Heap::open(b, &mut fram, ram.bytes(), config, |_| Ok(0))?;
        let mut all = [const { None }; KEYS];
        for (key, place) in all.iter_mut().enumerate() {
            *place = Some(match key % 8 {
                0 | 4 => Value::B32(heap.alloc([0; 32]).map_err(|r| r.error)?),
                2 => Value::B256(heap.alloc([0; 256]).map_err(|r| r.error)?),
                6 => Value::B1024(heap.alloc([0; 1024]).map_err(|r| r.error)?),
                _ => Value::B128(heap.alloc([0; 128]).map_err(|r| r.error)?),
            });
        }
        heap.persist()?;
        heap.restore()?;
        // A restore empties the RAM.
        for v in all.iter().flatten() {
            check!(scene, each(&heap, v, None)? == 0);
        }
        let mut keys = [0u8; UPDATES as usize];
        let (mut seed, mut group) = (1u32, 0);
        let mut below = |n: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((u64::from(seed) * u64::from(n)) >> 32) as u32
        };
        for (i, key) in keys.iter_mut().enumerate() {
            if i % 100 == 0 {
                group = below(KEYS as u32 / 16);
            }
            *key = match pattern {
                HEAP_KV_UNIFORM => below(KEYS as u32),
                HEAP_KV_SEQUENTIAL => (i % KEYS) as u32,
                HEAP_KV_UNEQUAL => {
                    let at = below(SUMS[KEYS - 1]);
                    SUMS.partition_point(|s| *s <= at) as u32
                }
                _ => group * 16 + below(16),
            } as u8;
        }
        scene.measure(pattern, || -> Done {
            for (i, key) in keys.iter().enumerate() {
                if let Some(v) = &all[usize::from(*key)] {
                    each(&heap, v, Some(i as u8 | 1))?;
                }
            }
            Ok(())
        })?;
        let mut last = [0; KEYS];
        for (i, key) in keys.iter().enumerate() {
            last[usize::from(*key)] = i as u8 | 1;
        }
        for (v, last) in all.iter().flatten().zip(last) {
            check!(scene, each(&heap, v, None)? == last);
        }
        Ok(())
    }
}
