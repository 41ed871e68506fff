//! What callgrind counts. A line `measured KEY TIMES` for each measurement, in their order.
//! Arguments: the seed, and the size of a heap on a 32-bit target.

use heap_eval::kv::{LIMIT, Pattern, UPDATES, Values, all_hold, updates};
use heap_eval::measure::measure;
use heap_eval::medium::Counts;
use heap_eval::on_heap::{self, Job, QueueJob};
use heap_eval::pages::PageValues;
use heap_eval::queue::{self, NvmQueue, Queue, RamQueue};
use heap_eval::retrieval::{self, Measure};
use std::hint::black_box;
use vnv_heap::Predict;

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let seed = numbers.first().copied().unwrap_or(1);
    let heap_size = numbers.get(1).copied().unwrap_or(128) as usize;
    retrieval::resident(1);
    retrieval::resident(400);
    retrieval::fields();
    retrieval::evict();
    retrieval::cases::<32>(&Instructions);
    retrieval::cases::<64>(&Instructions);
    retrieval::cases::<128>(&Instructions);
    retrieval::cases::<256>(&Instructions);
    retrieval::cases::<512>(&Instructions);
    retrieval::cases::<1024>(&Instructions);
    values(seed);
    pages::<32>(seed);
    pages::<64>(seed);
    pages::<128>(seed);
    pages::<256>(seed);
    pages::<512>(seed);
    retrieval::modules(&Instructions);
    queues(queue::RAM - heap_size.next_multiple_of(8));
}

/// One access under callgrind.
struct Instructions;
impl Measure for Instructions {
    #[inline(always)]
    fn access(&self, key: &str, _: &Counts, access: impl FnOnce()) {
        measure(key, 1, access);
    }
}

/// Measures the updates, and whether they are there.
struct Updates<'k>(&'k str, &'k [usize]);
impl Job for Updates<'_> {
    type Found = ();
    fn run<V: Values>(self, v: &mut V) {
        let Updates(key, keys) = self;
        measure(key, UPDATES, || updates(black_box(&mut *v), keys));
        assert!(all_hold(v, keys), "{key} lost a value");
    }
}

fn values(seed: u64) {
    for p in Pattern::ALL {
        let keys = p.keys(UPDATES, seed);
        let key = format!("heap.kv_{}", p.name());
        on_heap::kv::<Predict, _>(LIMIT, Updates(&key, &keys));
    }
}

fn pages<const S: usize>(seed: u64) {
    for p in Pattern::ALL {
        let counts = Counts::default();
        let mut v = PageValues::<S>::new(LIMIT, &counts);
        let key = format!("pages_{S}.kv_{}", p.name());
        Updates(&key, &p.keys(UPDATES, seed)).run(&mut v);
    }
}

/// Measures rounds of a queue.
struct Rounds<'k>(&'k str, usize);
impl QueueJob for Rounds<'_> {
    type Found = ();
    fn run<Q: Queue>(self, q: &mut Q, _: &Counts) {
        let Rounds(name, len) = self;
        let (first, many) = (10 * len, 400);
        assert!(queue::start(q, len) && queue::rounds(q, len, 0, first));
        let key = format!("{name}.fifo_{len}");
        let right = measure(&key, many, || {
            queue::rounds(black_box(&mut *q), len, first, many)
        });
        assert!(right, "{key} lost an element");
    }
}

fn queues(buffer: usize) {
    for len in queue::LENGTHS {
        let counts = Counts::default();
        on_heap::fifo(buffer, Rounds("heap", len));
        if len < 15 {
            Rounds("ram", len).run(&mut RamQueue::default(), &counts);
        }
        Rounds("nvm", len).run(&mut NvmQueue::new(len + 1, &counts), &counts);
    }
}
