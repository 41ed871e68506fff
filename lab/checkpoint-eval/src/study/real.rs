//! Two real programs: one parses and aggregates recordings of motions in collections that grow, on
//! a real allocator; one logs temperatures in statics.

use crate::flash::{M0, M3, Part, Spi};
use crate::phases::WHOLE;
use crate::run::{Layout, Mode, Store};
use crate::say::{Figures, Series};
use checkpoint::{BLOCK, Memory, TrackedHeap, Work};
use std::alloc::{GlobalAlloc, Layout as Bytes, System};
use std::cell::UnsafeCell;
use std::collections::{BTreeMap, VecDeque};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};

const MOTIONS: &str = include_str!("../../../../examples/activity/data/basic_motions_train.csv");
const TEMPERATURES: &str = include_str!("../../../../examples/logger/data/seattle_temps_2010.csv");

/// Bytes of the heap that is tracked.
const ARENA: usize = 32 * 1024;
const BLOCKS: usize = ARENA / BLOCK as usize;
/// Behind what is in use: the head of the allocator's last hole, without which it would be lost.
const HOLE: usize = 3 * size_of::<usize>();

#[repr(align(128))]
struct Arena(UnsafeCell<[u8; ARENA]>);
// SAFETY: the study has one thread.
unsafe impl Sync for Arena {}
static ARENA_BYTES: Arena = Arena(UnsafeCell::new([0; ARENA]));

/// Whether the program that is studied allocates, or the study itself.
static STUDIED: AtomicBool = AtomicBool::new(false);

/// `linked_list_allocator` for the program that is studied, the host's for all else.
pub struct Switched(UnsafeCell<linked_list_allocator::Heap>);
// SAFETY: the study has one thread.
unsafe impl Sync for Switched {}

fn in_arena(p: *const u8) -> bool {
    p.addr().wrapping_sub(ARENA_BYTES.0.get().addr()) < ARENA
}

// SAFETY: what is given out comes from one of two allocators, and goes back to it.
unsafe impl GlobalAlloc for Switched {
    unsafe fn alloc(&self, layout: Bytes) -> *mut u8 {
        if !STUDIED.load(Ordering::Relaxed) {
            // SAFETY: forwarded.
            return unsafe { System.alloc(layout) };
        }
        // SAFETY: one thread, and no reference is kept.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout)
            .map_or(std::ptr::null_mut(), NonNull::as_ptr)
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Bytes) {
        match NonNull::new(p).filter(|_| in_arena(p)) {
            // SAFETY: as in `alloc`; it was allocated there.
            Some(p) => unsafe { (*self.0.get()).deallocate(p, layout) },
            // SAFETY: forwarded.
            None => unsafe { System.dealloc(p, layout) },
        }
    }
}

#[global_allocator]
static HEAP: TrackedHeap<Switched, BLOCKS> = TrackedHeap::new(
    Switched(UnsafeCell::new(linked_list_allocator::Heap::empty())),
    (&raw const ARENA_BYTES).cast(),
);

/// Lets the program that is studied run.
fn studied<T>(f: impl FnOnce() -> T) -> T {
    STUDIED.store(true, Ordering::Relaxed);
    let out = f();
    STUDIED.store(false, Ordering::Relaxed);
    out
}

/// What was found in one recording.
struct Features {
    mean: [i32; 6],
    spread: [i32; 6],
}

/// The program: the samples of the recording under way and of the last ones, and what was found in
/// all of them, by motion.
#[derive(Default)]
struct Motions {
    samples: Vec<[i32; 6]>,
    last: VecDeque<Vec<[i32; 6]>>,
    found: BTreeMap<String, Vec<Features>>,
    lines: u32,
}

impl Motions {
    fn line(&mut self, line: &str) {
        let fields: Vec<&str> = line.split(',').collect();
        let sample: Vec<i32> = fields[3..]
            .iter()
            .map(|f| f.parse().expect("a number"))
            .collect();
        self.samples.push(sample.try_into().expect("six axes"));
        self.lines += 1;
        if fields[2] == "99" {
            let n = self.samples.len() as i32;
            let sum = |f: &dyn Fn(&[i32; 6], usize) -> i32| -> [i32; 6] {
                std::array::from_fn(|axis| self.samples.iter().map(|s| f(s, axis)).sum::<i32>() / n)
            };
            let mean = sum(&|s, axis| s[axis]);
            let spread = sum(&|s, axis| (s[axis] - mean[axis]).abs());
            let of = self.found.entry(fields[1].to_owned()).or_default();
            of.push(Features { mean, spread });
            if self.last.len() == 4 {
                self.last.pop_front();
            }
            let whole = std::mem::take(&mut self.samples);
            self.last.push_back(whole);
        }
    }

    /// Something that depends on all of it.
    fn digest(&self) -> i64 {
        let all = self
            .found
            .values()
            .flatten()
            .flat_map(|f| f.mean.iter().chain(&f.spread));
        all.map(|v| i64::from(*v)).sum::<i64>() + i64::from(self.lines)
    }
}

/// Memory at a checkpoint.
#[derive(Clone)]
struct Snapshot {
    statics: Vec<u8>,
    heap: Vec<u8>,
    used: usize,
    table: Vec<u8>,
}

const STACK: usize = 256;

/// Runs the program, and keeps its memory every 50 lines.
fn motions(f: &mut Figures) -> Vec<Snapshot> {
    // SAFETY: nobody has allocated from it yet, and nobody else uses the arena.
    unsafe { (*HEAP.inner().0.get()).init(ARENA_BYTES.0.get().cast(), ARENA) };
    let mut out = Vec::new();
    let mut program = studied(|| Box::new(Motions::default()));
    for (i, line) in MOTIONS.lines().skip(1).enumerate() {
        studied(|| program.line(line));
        if i % 50 != 49 {
            continue;
        }
        // SAFETY: read only, while the program does not run.
        let heap = unsafe { &*ARENA_BYTES.0.get() }.to_vec();
        let table = (0..BLOCKS).map(|b| HEAP.count(b)).collect();
        let mut statics = vec![0x11; 64];
        statics[..4].copy_from_slice(&(i as u32).to_le_bytes());
        if out.len() % 8 == 7 {
            let at = format!("real_motions.at_{}", i + 1);
            f.say(format!("{at}.span"), HEAP.span() as f64);
            f.say(format!("{at}.occupation"), HEAP.occupation() as f64);
            f.say(
                format!("{at}.fragmentation"),
                f64::from(HEAP.fragmentation()) / 1000.0,
            );
        }
        let used = (HEAP.used() + HOLE).min(ARENA);
        out.push(Snapshot {
            statics,
            heap,
            used,
            table,
        });
    }
    assert!(program.digest() != 0 && program.lines == 4000);
    studied(|| drop(program));
    assert_eq!(HEAP.occupation(), 0, "all was given back");
    out
}

/// A logger with all in statics: a ring of readings of an hour, and for each hour of the day a sum
/// and how many.
fn temperatures() -> Vec<Snapshot> {
    const RING: usize = 6 * 1024;
    let mut statics = vec![0u8; 64 + RING + 24 * 8];
    let mut out = Vec::new();
    let rows = TEMPERATURES
        .lines()
        .skip(1)
        .filter_map(|l| l.split_once(',')?.1.parse::<i16>().ok());
    for (hour, t) in rows.take(120 * 24).enumerate() {
        statics[..4].copy_from_slice(&(hour as u32).to_le_bytes());
        let at = 64 + hour * 2 % RING;
        statics[at..at + 2].copy_from_slice(&t.to_le_bytes());
        let of_hour = 64 + RING + hour % 24 * 8;
        let sum = &mut statics[of_hour..of_hour + 8];
        let old = u64::from_le_bytes(std::array::from_fn(|i| sum[i]));
        sum.copy_from_slice(&(old + t as u64 + (1 << 40)).to_le_bytes());
        if hour % 24 == 23 {
            out.push(Snapshot {
                statics: statics.clone(),
                heap: Vec::new(),
                used: 0,
                table: Vec::new(),
            });
        }
    }
    out
}

/// Whatever saves a snapshot, and brings it back.
fn saved<P: Part>(mode: Mode, all: &[Snapshot]) -> Work {
    let table = |s: &Snapshot| {
        if mode == Mode::HeapTracker {
            s.table.clone()
        } else {
            Vec::new()
        }
    };
    let most = all
        .iter()
        .map(|s| s.statics.len() + table(s).len() + s.heap.len() + STACK)
        .max();
    let used = all
        .iter()
        .map(|s| s.statics.len() + table(s).len() + s.used + STACK)
        .max();
    let mut store = Store::<P>::new(Layout::Crate, mode, most.unwrap_or(0), used.unwrap_or(0));
    let mut sum = Work::default();
    for (n, s) in all.iter().enumerate() {
        let mut s = s.clone();
        let tracked = crate::program::Table::new(s.table.clone());
        s.statics.extend(table(&s));
        let mut stack = [n as u8 | 1; STACK];
        let memory = Memory::new(&mut s.statics, &mut s.heap, &mut stack).heap_used(s.used);
        sum = sum.and(store.save(mode, &memory, &tracked, n as u32));
        if n % 10 == 9 {
            let mut found = (
                vec![0xA5; s.statics.len()],
                vec![0xA5; s.heap.len()],
                [0xA5; STACK],
            );
            store
                .load(&mut Memory::new(&mut found.0, &mut found.1, &mut found.2).heap_used(s.used));
            assert!(
                found.0 == s.statics && found.1[..s.used] == s.heap[..s.used],
                "another state"
            );
        }
    }
    sum
}

pub fn all(f: &mut Figures) {
    let (motions, temperatures) = (motions(f), temperatures());
    on::<M3>(f, &motions, &temperatures);
    on::<M0>(f, &motions, &temperatures);
    on::<Spi>(f, &motions, &temperatures);
}

fn on<P: Part>(f: &mut Figures, motions: &[Snapshot], temperatures: &[Snapshot]) {
    for (name, all) in [("motions", motions), ("temperatures", temperatures)] {
        let one = |mode: &Mode| Series {
            mode: *mode,
            layout: Layout::Crate,
            points: vec![(0, saved::<P>(*mode, all))],
            rounds: all.len() as u32,
        };
        let all: Vec<Series> = WHOLE.iter().chain(Mode::LOG).map(one).collect();
        f.series::<P>(&format!("real_{name}_{}", P::NAME), &all, |_| false);
    }
}
