//! The allocator's data behind all used memory: an image of the heap up to `TrackedHeap::used`
//! alone loses it.

use checkpoint::nvmem::Medium;
use checkpoint::nvmem::ram::RamFram;
use checkpoint::{BLOCK, Images, Memory, Split, TrackedHeap};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr::{NonNull, null_mut};
use linked_list_allocator::Heap;
use proptest::prelude::*;
use std::alloc;

const WORD: usize = size_of::<usize>();
/// The size that the README requires for this allocator.
const HOLE: usize = 3 * WORD;
const SIZE: usize = 8 * 1024;
const WHOLE: Layout = match Layout::from_size_align(SIZE, 1024) {
    Ok(l) => l,
    Err(_) => unreachable!(),
};

/// The allocator inside `embedded-alloc`'s `LlffHeap`, for one thread.
struct Linked(UnsafeCell<Heap>);

// SAFETY: forwarded; one thread, and no reference is kept.
unsafe impl GlobalAlloc for Linked {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let heap = unsafe { &mut *self.0.get() };
        heap.allocate_first_fit(layout)
            .map_or(null_mut(), NonNull::as_ptr)
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { (*self.0.get()).deallocate(NonNull::new(p).expect("allocated"), layout) }
    }
}

struct Bench {
    memory: *mut u8,
    heap: TrackedHeap<Linked, { SIZE / BLOCK as usize }>,
}

impl Bench {
    fn new() -> Self {
        // SAFETY: not of size zero.
        let memory = unsafe { alloc::alloc_zeroed(WHOLE) };
        let mut heap = Heap::empty();
        // SAFETY: nothing else uses it.
        unsafe { heap.init(memory, SIZE) };
        Bench {
            memory,
            heap: TrackedHeap::new(Linked(UnsafeCell::new(heap)), memory),
        }
    }

    fn alloc(&self, bytes: usize) -> *mut u8 {
        // SAFETY: not of size zero.
        unsafe { self.heap.alloc(of(bytes)) }
    }

    /// All of the heap; nothing allocates while it is borrowed.
    #[expect(clippy::mut_from_ref)]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: all of it was zeroed, and nothing else uses it now.
        unsafe { core::slice::from_raw_parts_mut(self.memory, SIZE) }
    }

    /// Takes a checkpoint of the used heap and so many more bytes. Then the power is cut, RAM is
    /// filled with this byte, and the checkpoint is restored.
    ///
    /// The allocator's own words are a static, which the image holds.
    fn power_cycle(&self, more: usize, ram: u8) {
        let mut fram = RamFram::<20_000>::filled(0);
        let all = 0..fram.capacity();
        let mut images = Images::<_, 2>::open(&mut fram, all, 1).unwrap();
        let used = (self.heap.used() + more).min(SIZE);
        let memory = Memory::new(&mut [], self.bytes(), &mut []).heap_used(used);
        images.checkpoint(&Split, &memory, 0).unwrap();
        self.bytes().fill(ram);
        images
            .restore(&mut Memory::new(&mut [], self.bytes(), &mut []))
            .unwrap();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: as it was allocated.
        unsafe { alloc::dealloc(self.memory, WHOLE) }
    }
}

fn of(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).unwrap()
}

/// All blocks are full to the end, so the only free memory is one hole behind them.
#[test]
#[cfg_attr(miri, ignore = "addresses come back as bytes")]
fn the_last_hole_is_lost_without_its_head() {
    for (more, kept) in [(0, false), (HOLE, true)] {
        let bench = Bench::new();
        for _ in 0..5 {
            assert!(!bench.alloc(BLOCK as usize).is_null());
        }
        assert_eq!(bench.heap.used(), 5 * BLOCK as usize);
        bench.power_cycle(more, 0);
        let next = bench.alloc(64);
        assert_eq!(!next.is_null(), kept, "{more} bytes behind what is in use");
        if kept {
            assert_eq!(next.addr() - bench.memory.addr(), 5 * BLOCK as usize);
        }
    }
}

/// The last allocation is smaller than the allocator's minimum: the remainder lies between it and
/// the hole.
#[test]
#[cfg_attr(miri, ignore = "addresses come back as bytes")]
fn two_words_are_not_enough() {
    for (more, kept) in [(2 * WORD, false), (HOLE, true)] {
        let bench = Bench::new();
        assert!(!bench.alloc(BLOCK as usize - WORD).is_null());
        assert!(!bench.alloc(1).is_null());
        assert_eq!(bench.heap.used(), BLOCK as usize);
        let head = BLOCK as usize + WORD..BLOCK as usize + 3 * WORD;
        let before = bench.bytes()[head.clone()].to_vec();
        assert!(before.iter().any(|b| *b != 0), "a hole's size");
        bench.power_cycle(more, 0xA5);
        assert_eq!(bench.bytes()[head] == before[..], kept, "{more} bytes");
    }
}

/// A step: allocate so much, or free one.
type Step = (bool, usize, usize);

fn run(bench: &Bench, live: &mut Vec<(*mut u8, Layout)>, steps: &[Step]) -> Vec<usize> {
    let mut places = Vec::new();
    for (free, bytes, which) in steps {
        if *free && !live.is_empty() {
            let (p, layout) = live.swap_remove(which % live.len());
            // SAFETY: allocated with this layout.
            unsafe { bench.heap.dealloc(p, layout) };
        } else {
            let p = bench.alloc(*bytes);
            places.push(p.addr().wrapping_sub(bench.memory.addr()));
            if !p.is_null() {
                // SAFETY: allocated with so many bytes.
                unsafe { p.write_bytes(0x11, *bytes) };
                live.push((p, of(*bytes)));
            }
        }
    }
    places
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Blocks are often full except for one word.
    let bytes = prop_oneof![
        1..=8usize,
        Just(BLOCK as usize - 8),
        Just(BLOCK as usize - 24),
        100..140usize,
        1..600usize
    ];
    prop::collection::vec((any::<bool>(), bytes, 0..1000usize), 1..60)
}

proptest! {
    /// After a restore the allocator behaves as it would have before.
    #[test]
    #[cfg_attr(miri, ignore = "addresses come back as bytes")]
    fn the_allocator_goes_on(before in steps(), mut after in steps()) {
        // More than there is, so that the allocator looks at each hole.
        after.push((false, SIZE + 1, 0));
        let bench = Bench::new();
        let mut live = Vec::new();
        run(&bench, &mut live, &before);
        let heap = bench.bytes().to_vec();
        let of_heap = bench.heap.inner().0.get();
        // SAFETY: nothing in it is freed when it is dropped, and one of the two is used.
        let statics = unsafe { of_heap.read() };
        let used = bench.heap.used();
        bench.power_cycle(HOLE, 0xA5);
        prop_assert!(bench.bytes()[..used] == heap[..used]);
        let found = run(&bench, &mut live.clone(), &after);
        bench.bytes().copy_from_slice(&heap);
        // SAFETY: as above.
        unsafe { of_heap.write(statics) };
        prop_assert_eq!(found, run(&bench, &mut live, &after));
    }
}
