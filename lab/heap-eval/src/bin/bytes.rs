//! Counts bytes: lines `key value`. Arguments: the first seed, and the size of a heap on a 32-bit
//! target.

use heap_eval::kv::{DATA, LIMIT, Pattern, UPDATES, Values, all_hold, updates};
use heap_eval::medium::Counts;
use heap_eval::on_heap::{self, Job, QueueJob};
use heap_eval::pages::PageValues;
use heap_eval::queue::{self, NvmQueue, Queue};
use heap_eval::retrieval::{self, Measure};
use heap_eval::{room, saves};
use vnv_heap::{CostModel, Lru, Policy, Predict, WorstCase};

/// Runs with as many seeds.
const SEEDS: u64 = 20;

fn say(key: &str, value: f64) {
    println!("{key} {value}");
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|a| a.parse().ok())
        .collect();
    let seed = numbers.first().copied().unwrap_or(1);
    let heap_size = numbers.get(1).copied().unwrap_or(128) as usize;
    let buffer = queue::RAM - heap_size.next_multiple_of(8);
    std::thread::scope(|s| {
        s.spawn(|| pages(seed));
        s.spawn(|| limits(seed));
        accesses();
        key_values(seed);
        snapshots(seed);
        fifos(buffer);
        persists(buffer, seed);
        memory(buffer);
    });
}

/// Microseconds on the bus.
fn say_times(key: &str, [bursts, words]: [f64; 2]) {
    say(&format!("{key}.bus_microseconds"), bursts);
    say(&format!("{key}.bus_microseconds_by_words"), words);
}

fn times(counts: &Counts) -> [f64; 2] {
    counts.microseconds(&CostModel::ESP32C3_MB85RS4MT)
}

/// The mean over the seeds.
fn mean<const N: usize>(
    pattern: Pattern,
    seed: u64,
    one: impl Fn(&[usize]) -> [f64; N],
) -> [f64; N] {
    let mut sums = [0.0; N];
    for s in seed..seed + SEEDS {
        let found = one(&pattern.keys(UPDATES, s));
        sums.iter_mut().zip(found).for_each(|(sum, v)| *sum += v);
    }
    sums.map(|sum| sum / SEEDS as f64)
}

/// One access, in time on the bus.
struct Times;
impl Measure for Times {
    fn access(&self, key: &str, counts: &Counts, access: impl FnOnce()) {
        access();
        say_times(key, times(counts));
    }
}

fn accesses() {
    retrieval::cases::<32>(&Times);
    retrieval::cases::<64>(&Times);
    retrieval::cases::<128>(&Times);
    retrieval::cases::<256>(&Times);
    retrieval::cases::<512>(&Times);
    retrieval::cases::<1024>(&Times);
    retrieval::modules(&Times);
}

struct Updates<'k>(&'k [usize]);
impl Job for Updates<'_> {
    /// Of each update: bytes written, time by bursts and by words.
    type Found = [f64; 3];
    fn run<V: Values>(self, v: &mut V) -> [f64; 3] {
        updates(v, self.0);
        let written = v.counts().written() as f64;
        let [bursts, words] = times(v.counts());
        assert!(all_hold(v, self.0), "a value was lost");
        [written, bursts, words].map(|all| all / self.0.len() as f64)
    }
}

fn say_kv(who: &str, p: Pattern, seed: u64, one: impl Fn(&[usize]) -> [f64; 3]) {
    let [bytes, bursts, words] = mean(p, seed, one);
    let key = format!("{who}.kv_{}", p.name());
    say(&format!("{key}.bytes_written"), bytes);
    say_times(&key, [bursts, words]);
}

fn key_values(seed: u64) {
    for p in Pattern::ALL {
        say_kv("heap", p, seed, |keys| {
            on_heap::kv::<Predict, _>(LIMIT, Updates(keys))
        });
    }
}

fn limits(seed: u64) {
    fn one<Pol: Policy>(name: &str, seed: u64) {
        for part in [10, 20] {
            for p in Pattern::ALL {
                let [bytes, ..] = mean(p, seed, |keys| {
                    on_heap::kv::<Pol, _>(DATA / part, Updates(keys))
                });
                say(
                    &format!("heap.{name}_{part}_{}.bytes_written", p.name()),
                    bytes,
                );
            }
        }
    }
    one::<Predict>("default", seed);
    one::<Lru>("lru", seed);
}

fn snapshots(seed: u64) {
    for every in [1, 100, 1000] {
        let [bytes] = mean(Pattern::Uniform, seed, |keys| {
            [on_heap::snapshot(LIMIT, keys, every)]
        });
        say(&format!("heap.snapshot_{every}.bytes_written"), bytes);
    }
}

fn pages(seed: u64) {
    fn one<const S: usize>(seed: u64) {
        let counts = Counts::default();
        let metadata = PageValues::<S>::new(LIMIT, &counts).metadata();
        say(&format!("pages_{S}.kv_metadata"), metadata as f64);
        for p in Pattern::ALL {
            say_kv(&format!("pages_{S}"), p, seed, |keys| {
                let counts = Counts::default();
                let mut v = PageValues::<S>::new(LIMIT, &counts);
                Updates(keys).run(&mut v)
            });
        }
    }
    one::<32>(seed);
    one::<64>(seed);
    one::<128>(seed);
    one::<256>(seed);
    one::<512>(seed);
}

/// Rounds of a queue: enough for what it starts with to be forgotten, then those that count.
struct Rounds(usize);
impl QueueJob for Rounds {
    /// Of each round: bytes written, bytes read, time by bursts and by words.
    type Found = [f64; 4];
    fn run<Q: Queue>(self, q: &mut Q, counts: &Counts) -> [f64; 4] {
        let (first, many) = (20 * self.0, 50 * self.0.max(20));
        assert!(queue::start(q, self.0) && queue::rounds(q, self.0, 0, first));
        counts.reset();
        assert!(queue::rounds(q, self.0, first, many), "an element was lost");
        let [bursts, words] = times(counts);
        let (written, read) = (counts.written() as f64, counts.read() as f64);
        [written, read, bursts, words].map(|all| all / many as f64)
    }
}

fn fifos(buffer: usize) {
    for len in queue::LENGTHS {
        let [written, read, bursts, words] = on_heap::fifo(buffer, Rounds(len));
        say(&format!("heap.fifo_{len}.bytes_written"), written);
        say(&format!("heap.fifo_{len}.bytes_read"), read);
        say_times(&format!("heap.fifo_{len}"), [bursts, words]);
        let counts = Counts::default();
        let mut nvm = NvmQueue::new(len + 1, &counts);
        let [written, _, bursts, words] = Rounds(len).run(&mut nvm, &counts);
        say(&format!("nvm.fifo_{len}.bytes_written"), written);
        say_times(&format!("nvm.fifo_{len}"), [bursts, words]);
        if len < 15 {
            say(&format!("ram.fifo_{len}.bytes_written"), 0.0);
        }
    }
}

fn persists(buffer: usize, seed: u64) {
    let energy = |key: &str, of: &dyn Fn(&CostModel) -> WorstCase| {
        let (bursts, words) = (of(&CostModel::ESP32C3_MB85RS4MT), of(&saves::WORDS));
        say(&format!("{key}.microseconds"), bursts.microseconds.into());
        say(
            &format!("{key}.microseconds_by_words"),
            words.microseconds.into(),
        );
        say(&format!("{key}.microjoules"), bursts.microjoules.into());
        say(
            &format!("{key}.microjoules_by_words"),
            words.microjoules.into(),
        );
    };
    let bytes = |limit| saves::bound(limit, &saves::WORDS).bytes.into();
    for limit in [512, 1024, 2048, 3072, 4096] {
        let key = format!("heap.persist_bound_{limit}");
        say(&key, bytes(limit));
        energy(&key, &|model| saves::bound(limit, model));
        let worst = saves::worst(buffer, limit, seed);
        say(&format!("heap.persist_worst_{limit}"), worst as f64);
    }
    let heap = queue::RAM - buffer;
    for ram in [2048, 3072, 4096, 6144, 8192] {
        let key = format!("heap.persist_ram_{ram}");
        say(&format!("{key}.bound"), bytes(2048));
        let worst = saves::worst(ram - heap, 2048, seed);
        say(&format!("{key}.worst"), worst as f64);
        energy(&key, &|model| saves::bound(2048, model));
        let key = format!("unmanaged.persist_ram_{ram}");
        say(&format!("{key}.bytes"), ram as f64);
        energy(&key, &|model| saves::unmanaged(ram as u32, model));
    }
}

fn memory(buffer: usize) {
    say("heap.ram_per_resident", room::per_resident());
    say("heap.ram_per_handle", room::per_handle() as f64);
    say("heap.size_of_heap_32", (queue::RAM - buffer) as f64);
    say("heap.kv_metadata", 256.0 * room::per_resident());
    let share = |size: usize, n: usize| {
        say(
            &format!("heap.usable_{size}"),
            (size * n) as f64 / queue::RAM as f64,
        );
    };
    share(8, room::resident::<8>(buffer));
    share(32, room::resident::<32>(buffer));
    share(64, room::resident::<64>(buffer));
    share(128, room::resident::<128>(buffer));
    share(256, room::resident::<256>(buffer));
    share(512, room::resident::<512>(buffer));
}
