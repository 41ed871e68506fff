//! An allocator that keeps a count for each block of the heap, so that a checkpoint knows which blocks are in use.

use crate::mode::{BLOCK, Blocks};
use crate::sizes::Sizes;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use critical_section::Mutex;
use nvmem::planted;

/// Any allocator, with one byte for each of the heap's first `BLOCKS` blocks of 128 bytes: how many allocations lie in it, wholly or in part; and some forty bytes
/// for the measures of it all.
///
/// Make it the program's `#[global_allocator]` on top of the one that was, and give it to [`HeapTracker`](crate::HeapTracker). It is a static, so
/// its table is part of the statics that an image holds.
///
/// What is freed is zeroed, so that images need not hold it. Threads and interrupts may allocate: the table is changed in a critical
/// section; the allocator underneath takes care of itself.
#[derive(Debug)]
pub struct TrackedHeap<A, const BLOCKS: usize> {
    inner: A,
    start: Start,
    table: Mutex<Table<BLOCKS>>,
}

#[derive(Debug)]
struct Start(*const u8);
// SAFETY: *Blocks by address*: never read through or written through.
unsafe impl Sync for Start {}
// SAFETY: *Blocks by address*, as above.
unsafe impl Send for Start {}

#[derive(Debug)]
struct Table<const BLOCKS: usize> {
    counts: [Cell<u8>; BLOCKS],
    bytes: Cell<usize>,
    sizes: Sizes,
}

impl<A, const BLOCKS: usize> TrackedHeap<A, BLOCKS> {
    /// On this allocator, for a heap that starts here. What it allocates elsewhere is not tracked.
    pub const fn new(inner: A, start: *const u8) -> Self {
        TrackedHeap {
            inner,
            start: Start(start),
            table: Mutex::new(Table {
                counts: [const { Cell::new(0) }; BLOCKS],
                bytes: Cell::new(0),
                sizes: Sizes::new(),
            }),
        }
    }

    /// The allocator underneath.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// How many allocations lie in a block, wholly or in part.
    pub fn count(&self, block: usize) -> u8 {
        critical_section::with(|cs| {
            let counts = &self.table.borrow(cs).counts;
            counts.get(block).map_or(0, Cell::get)
        })
    }

    /// Bytes that are allocated, of those that are tracked: the heap's *occupation*.
    pub fn occupation(&self) -> usize {
        critical_section::with(|cs| self.table.borrow(cs).bytes.get())
    }

    /// Bytes from the start of the first block that is in use to the end of the last: the heap's *span*, in whole blocks. **Cost**: looks at each block.
    pub fn span(&self) -> usize {
        critical_section::with(|cs| {
            let counts = &self.table.borrow(cs).counts;
            let used = |c: &Cell<u8>| c.get() > 0;
            match (counts.iter().position(used), counts.iter().rposition(used)) {
                (Some(first), Some(last)) => (last + 1 - first) * BLOCK as usize,
                _ => 0,
            }
        })
    }

    /// Bytes from the start of the heap to the end of the last block that is in use, for [`Memory::heap_used`](crate::Memory::heap_used). **Cost**: looks at each block.
    ///
    /// What the allocator keeps in free memory behind it is not counted, and must be in the image, or the allocator is lost after a restore: add as much. One
    /// that merges what is free (`linked_list_allocator`, `embedded-alloc`'s `LlffHeap`) has one hole there, which starts with two words, one word further on if the last
    /// allocation is of less than two: three words. With others take [`HeapTracker`](crate::HeapTracker), which holds all that is not zero.
    pub fn used(&self) -> usize {
        critical_section::with(|cs| {
            let counts = &self.table.borrow(cs).counts;
            let last = counts.iter().rposition(|c| c.get() > 0);
            last.map_or(0, |last| (last + 1) * BLOCK as usize)
        })
    }

    /// Blocks of the largest chunk that is allocated, rounded up. Exact up to 1,920 bytes; of larger ones it is the largest since there was none of them.
    pub fn largest(&self) -> u32 {
        critical_section::with(|cs| self.table.borrow(cs).sizes.largest())
    }

    /// The heap's *fragmentation* in thousandths: 1 − x × (free chunks of size x) / (free bytes), with x the [largest](Self::largest) chunk that is allocated.
    ///
    /// This is equation 1 of *Efficient State Retention for Transiently-powered Embedded Sensing*, counted in blocks: of each run of blocks without any
    /// allocation, within the [span](Self::span), those that lie in whole pieces of x. 0 when all of what is free has room for chunks of x, also when nothing is free;
    /// 1000 when none has. What is free in blocks that are in use is not seen. **Cost**: looks at each block.
    pub fn fragmentation(&self) -> u16 {
        critical_section::with(|cs| {
            let table = self.table.borrow(cs);
            let x = table.sizes.largest().max(1);
            let (mut free, mut fitting, mut run, mut any) = (0u32, 0, 0u32, false);
            for c in &table.counts {
                if c.get() == 0 {
                    run += 1;
                    continue;
                }
                // What is before the first block in use, or behind the last, is not within the span.
                if any {
                    free += run;
                    fitting += run / x * x;
                }
                (run, any) = (0, true);
            }
            if free == 0 {
                return 0;
            }
            (1000 - u64::from(fitting) * 1000 / u64::from(free)) as u16
        })
    }

    /// Counts an allocation in or out. **Cost**: one byte for each block that it lies in.
    fn count_in(&self, at: *mut u8, size: usize, more: bool) {
        let Some(off) = at.addr().checked_sub(self.start.0.addr()) else {
            return;
        };
        if size == 0 || off / BLOCK as usize >= BLOCKS {
            return;
        }
        let first = off / BLOCK as usize;
        let mut last = (off + size - 1) / BLOCK as usize;
        if planted!("checkpoint/crossing-not-counted") {
            last = first;
        }
        critical_section::with(|cs| {
            let table = self.table.borrow(cs);
            for c in table.counts.iter().take(last + 1).skip(first) {
                // 128 allocations may start in a block and one cross into it. A count that was ever full stays so.
                match (c.get(), more) {
                    (u8::MAX, _) | (0, false) => {}
                    (n, true) => c.set(n + 1),
                    (n, false) => c.set(n - 1),
                }
            }
            table.sizes.count(size.div_ceil(BLOCK as usize), more);
            let bytes = table.bytes.get();
            table.bytes.set(if more {
                bytes.wrapping_add(size)
            } else {
                bytes.wrapping_sub(size)
            });
        });
    }
}

// SAFETY: *Memory is the inner allocator's*: all of it comes from there and goes back with the layout that it was given out with.
unsafe impl<A: GlobalAlloc, const BLOCKS: usize> GlobalAlloc for TrackedHeap<A, BLOCKS> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: *Memory is the inner allocator's*: forwarded as the caller promised it.
        let p = unsafe { self.inner.alloc(layout) };
        if !p.is_null() {
            self.count_in(p, layout.size(), true);
        }
        p
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: *Memory is the inner allocator's*: forwarded as the caller promised it.
        let p = unsafe { self.inner.alloc_zeroed(layout) };
        if !p.is_null() {
            self.count_in(p, layout.size(), true);
        }
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        self.count_in(p, layout.size(), false);
        if !planted!("checkpoint/freed-not-zeroed") {
            // SAFETY: *Memory is the inner allocator's*: the caller gives up these bytes, and it does not have them yet.
            unsafe { p.write_bytes(0, layout.size()) };
        }
        // SAFETY: *Memory is the inner allocator's*: forwarded as the caller promised it.
        unsafe { self.inner.dealloc(p, layout) }
    }

    // `realloc` is the provided one: it allocates, copies and frees, so what is left behind is zeroed.
}

impl<A, const BLOCKS: usize> Blocks for TrackedHeap<A, BLOCKS> {
    fn in_use(&self, block: u32) -> bool {
        block as usize >= BLOCKS || self.count(block as usize) > 0
    }
}
