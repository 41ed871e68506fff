//! `TrackedHeap` around an allocator that keeps its free list in free memory. A model computes the
//! table anew from the live allocations. Also tests images of such a heap.

use checkpoint::nvmem::Medium;
use checkpoint::nvmem::ram::RamFram;
use checkpoint::{BLOCK, Blocks, HeapTracker, Images, Memory, Split, TrackedHeap};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use proptest::prelude::*;
use std::alloc;

const SIZE: usize = 8 * 1024;
const BLOCKS: usize = SIZE / BLOCK as usize;

/// First fit. A free chunk starts with its size and the offset of the next one, in 16 bits each.
pub struct FirstFit {
    start: *mut u8,
    head: Cell<u16>,
}

const NONE: u16 = u16::MAX;

impl FirstFit {
    fn new(start: *mut u8) -> Self {
        let heap = FirstFit {
            start,
            head: Cell::new(NONE),
        };
        heap.put(SIZE as u16, NONE, 0);
        heap.head.set(0);
        heap
    }
    fn chunk(&self, at: u16) -> (u16, u16) {
        // SAFETY: a chunk lies in the heap and has at least eight bytes.
        unsafe { self.start.add(at.into()).cast::<(u16, u16)>().read() }
    }
    fn put(&self, size: u16, next: u16, at: u16) {
        // SAFETY: as above.
        unsafe {
            self.start
                .add(at.into())
                .cast::<(u16, u16)>()
                .write((size, next))
        }
    }
    fn units(layout: Layout) -> u16 {
        layout.size().next_multiple_of(8) as u16
    }
}

// SAFETY: chunks do not overlap, and start at multiples of the requested alignment.
unsafe impl GlobalAlloc for FirstFit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let wanted = Self::units(layout);
        let (mut before, mut at) = (NONE, self.head.get());
        while at != NONE {
            let (size, next) = self.chunk(at);
            // Chunks have multiples of eight bytes, so the gap before the aligned offset is a chunk
            // or empty.
            let start = at.next_multiple_of(layout.align().max(8) as u16);
            let front = start - at;
            if size >= front + wanted {
                let left = size - front - wanted;
                let rest = if left > 0 {
                    self.put(left, next, start + wanted);
                    start + wanted
                } else {
                    next
                };
                let rest = if front > 0 {
                    self.put(front, rest, at);
                    at
                } else {
                    rest
                };
                match before {
                    NONE => self.head.set(rest),
                    b => self.put(self.chunk(b).0, rest, b),
                }
                // SAFETY: in the heap.
                return unsafe { self.start.add(start.into()) };
            }
            (before, at) = (at, next);
        }
        core::ptr::null_mut()
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        let at = (p.addr() - self.start.addr()) as u16;
        self.put(Self::units(layout), self.head.get(), at);
        self.head.set(at);
    }
}

pub type Heap = TrackedHeap<FirstFit, BLOCKS>;

pub struct Bench {
    memory: *mut u8,
    pub heap: Heap,
    live: Vec<(*mut u8, Layout, u8)>,
}

const WHOLE: Layout = match Layout::from_size_align(SIZE, 1024) {
    Ok(l) => l,
    Err(_) => unreachable!(),
};

impl Bench {
    pub fn new() -> Self {
        // SAFETY: not of size zero.
        let memory = unsafe { alloc::alloc_zeroed(WHOLE) };
        Bench {
            memory,
            heap: TrackedHeap::new(FirstFit::new(memory), memory),
            live: Vec::new(),
        }
    }

    pub fn bytes(&self) -> Vec<u8> {
        // SAFETY: all of it was zeroed, and nothing else uses it now.
        unsafe { core::slice::from_raw_parts(self.memory, SIZE) }.to_vec()
    }

    pub fn step(&mut self, what: u8, size: usize, fill: u8) {
        let kinds = if fill < 128 { 4 } else { 11 };
        let layout = Layout::from_size_align(size, 1 << (fill % kinds)).unwrap();
        let n = self.live.len();
        // SAFETY: a live chunk was allocated with its layout, and has that many bytes.
        unsafe {
            match what {
                0..=3 => {
                    let p = match what {
                        0 => self.heap.alloc_zeroed(layout),
                        _ => self.heap.alloc(layout),
                    };
                    if !p.is_null() {
                        assert!(p.addr().is_multiple_of(layout.align()));
                        let zeros =
                            core::slice::from_raw_parts(p, if what == 0 { size } else { 0 });
                        assert!(zeros.iter().all(|b| *b == 0), "zeroed");
                        p.write_bytes(fill, size);
                        self.live.push((p, layout, fill));
                    }
                }
                4 | 5 if n > 0 => {
                    let (p, layout, _) = self.live.swap_remove(fill as usize % n);
                    self.heap.dealloc(p, layout);
                }
                6 if n > 0 => {
                    let i = fill as usize % n;
                    let (p, old, fill) = self.live[i];
                    let q = self.heap.realloc(p, old, size);
                    if !q.is_null() {
                        let kept = core::slice::from_raw_parts(q, size.min(old.size()));
                        assert!(kept.iter().all(|b| *b == fill), "content is moved");
                        q.write_bytes(fill, size);
                        self.live[i] =
                            (q, Layout::from_size_align(size, old.align()).unwrap(), fill);
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether free memory is zero, but for what the allocator keeps there: the first four bytes of
    /// a chunk, and chunks begin at multiples of eight.
    pub fn free_memory_is_zero(&self) -> bool {
        let mut bytes = self.bytes();
        for (p, layout, _) in &self.live {
            let off = p.addr() - self.memory.addr();
            bytes[off..off + layout.size()].fill(0);
        }
        bytes.chunks(8).all(|unit| unit[4..] == [0; 4])
    }

    /// The table, computed from the live allocations only.
    pub fn check(&self) {
        let mut table = [0u8; BLOCKS];
        for (p, layout, _) in &self.live {
            let off = p.addr() - self.memory.addr();
            for c in &mut table[off / 128..=(off + layout.size() - 1) / 128] {
                *c += 1;
            }
        }
        for (b, c) in table.iter().enumerate() {
            assert_eq!(self.heap.count(b), *c, "block {b}");
        }
        let bytes: usize = self.live.iter().map(|l| l.1.size()).sum();
        assert_eq!(self.heap.occupation(), bytes);
        let used = table
            .iter()
            .rposition(|c| *c > 0)
            .map_or(0, |l| (l + 1) * 128);
        let first = table.iter().position(|c| *c > 0).unwrap_or(0) * 128;
        assert_eq!(
            (self.heap.used(), self.heap.span()),
            (used, used.saturating_sub(first))
        );
        let blocks = self.live.iter().map(|l| l.1.size().div_ceil(128));
        let largest = blocks.max().unwrap_or(0);
        if largest <= 15 {
            assert_eq!(self.heap.largest() as usize, largest);
        } else {
            assert!(self.heap.largest() as usize >= largest);
        }
        let x = self.heap.largest().max(1) as usize;
        let within = table[first / 128..used / 128].split(|c| *c > 0);
        let (free, fitting) = within.fold((0, 0), |(free, fitting), run| {
            (free + run.len(), fitting + run.chunks_exact(x).count() * x)
        });
        let wanted = (free - fitting) as f64 / free.max(1) as f64;
        let shown = f64::from(self.heap.fragmentation()) / 1000.0;
        assert!((shown - wanted).abs() <= 0.001, "{shown}, {wanted}");
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: as it was allocated.
        unsafe { alloc::dealloc(self.memory, WHOLE) }
    }
}

/// Takes an image of the heap, and restores it over garbage.
pub fn again(heap: &[u8], blocks: &Heap) -> (Vec<u8>, u64) {
    let mut fram = RamFram::<20_000>::filled(0);
    let mut copy = heap.to_vec();
    let all = 0..fram.capacity();
    let mut images = Images::<_, 2>::open(&mut fram, all, 1).unwrap();
    let memory = Memory::new(&mut [], &mut copy, &mut []);
    images.checkpoint(&HeapTracker(blocks), &memory, 0).unwrap();
    let mut found = vec![0xA5; heap.len()];
    images
        .restore(&mut Memory::new(&mut [], &mut found, &mut []))
        .unwrap();
    (found, fram.bytes_written())
}

pub fn steps() -> impl Strategy<Value = Vec<(u8, usize, u8)>> {
    let size = prop_oneof![1..40usize, 100..300usize, 1..1500usize];
    prop::collection::vec(
        (0..7u8, size, 1..=255u8),
        1..if cfg!(miri) { 10 } else { 80 },
    )
}

proptest! {
    #[test]
    fn the_table_is_that_of_what_is_allocated(steps in steps()) {
        let mut bench = Bench::new();
        for (what, size, fill) in steps {
            bench.step(what, size, fill);
            bench.check();
        }
        let bytes = bench.bytes();
        let (found, _) = again(&bytes, &bench.heap);
        prop_assert!(found == bytes, "all of the heap is as it was, the free list too");
        for (p, layout, _) in bench.live.split_off(0) {
            // SAFETY: allocated with this layout.
            unsafe { bench.heap.dealloc(p, layout) };
        }
        bench.check();
        prop_assert_eq!(bench.heap.occupation(), 0);
    }
}

#[test]
fn what_is_free_takes_no_room() {
    let mut bench = Bench::new();
    for n in 0..40 {
        bench.step(1, 128, n + 4);
    }
    let (_, all) = again(&bench.bytes(), &bench.heap);
    assert!(all > 40 * 128);
    // All but the first and the last are freed.
    let rest = bench.live.split_off(1);
    for (i, (p, layout, fill)) in rest.into_iter().enumerate() {
        if i == 38 {
            bench.live.push((p, layout, fill));
        } else {
            // SAFETY: allocated with this layout.
            unsafe { bench.heap.dealloc(p, layout) };
        }
    }
    bench.check();
    let bytes = bench.bytes();
    let (found, some) = again(&bytes, &bench.heap);
    assert!(found == bytes);
    // Two blocks, and the link of each freed chunk: 4 bytes in two extents.
    assert!(some < 300 + 38 * 20 + 40, "{some}");
    assert_eq!(
        (bench.heap.used(), bench.heap.occupation()),
        (40 * 128, 256)
    );
    let used = bench.heap.used();
    let mut copy = bytes.clone();
    let mut fram = RamFram::<20_000>::filled(0);
    let memory = Memory::new(&mut [], &mut copy, &mut []).heap_used(used);
    Images::<_, 2>::open(&mut fram, 0..20_000, 1)
        .unwrap()
        .checkpoint(&Split, &memory, 0)
        .unwrap();
    assert!(fram.bytes_written() > 4 * some);
}

/// The paper's figure 6: the same span and occupation, but another fragmentation.
#[test]
fn the_largest_chunk_says_what_is_fragmented() {
    let mut bench = Bench::new();
    let free = |bench: &mut Bench, at: usize| {
        let (p, layout, _) = bench.live.remove(at);
        // SAFETY: allocated with this layout.
        unsafe { bench.heap.dealloc(p, layout) };
        bench.check();
    };
    for n in 0..8 {
        bench.step(1, 256, 11 * (n + 1) + 7);
    }
    assert_eq!((bench.heap.largest(), bench.heap.fragmentation()), (2, 0));
    free(&mut bench, 3);
    assert_eq!(
        bench.heap.fragmentation(),
        0,
        "one of the same size has room"
    );
    bench.step(1, 384, 7);
    assert_eq!(
        (bench.heap.largest(), bench.heap.fragmentation()),
        (3, 1000)
    );
    // The chunk next to the hole: four blocks, and three of them are enough.
    free(&mut bench, 3);
    assert_eq!(bench.heap.fragmentation(), 250);
    bench.step(1, 17 * 128, 7);
    assert_eq!(
        (bench.heap.largest(), bench.heap.fragmentation()),
        (17, 1000)
    );
    let last = bench.live.len() - 1;
    free(&mut bench, last);
    assert_eq!((bench.heap.largest(), bench.heap.fragmentation()), (3, 250));
}

#[test]
fn outside_of_the_table() {
    let bench = Bench::new();
    assert!(
        bench.heap.in_use(BLOCKS as u32),
        "what is not tracked counts as used"
    );
    assert_eq!(bench.heap.count(BLOCKS), 0);
    let layout = Layout::from_size_align(64, 8).unwrap();
    let mut room = [0u8; 64];
    let elsewhere = room.as_mut_ptr();
    let heap = TrackedHeap::<_, 2>::new(alloc::System, elsewhere.wrapping_add(1 << 40));
    // SAFETY: allocated with this layout.
    unsafe {
        let p = heap.alloc(layout);
        assert_eq!(heap.occupation(), 0);
        heap.dealloc(p, layout);
    }
    assert_eq!(heap.occupation(), 0);
}
