//! An allocator that counts allocations in each block of the heap, so that a checkpoint knows which
//! blocks are in use.

use crate::mode::{BLOCK, Blocks};
use core::alloc::{GlobalAlloc, Layout};
use core::cell::Cell;
use critical_section::Mutex;
use nvmem::planted;

/// Wraps any allocator. It adds one byte for each of the heap's first `BLOCKS` blocks of 128 bytes:
/// the number of allocations that lie in it, wholly or in part. About forty more bytes hold its
/// measures.
///
/// Make it the program's `#[global_allocator]` around the previous one, and pass it to
/// [`HeapTracker`](crate::HeapTracker). It is a static, so images hold its table with the statics.
///
/// Freed memory is zeroed, so that images need not hold it. Threads and interrupts may allocate:
/// the table is changed in a critical section, and the wrapped allocator protects itself.
///
/// ```ignore
/// #[global_allocator]
/// static HEAP: TrackedHeap<Heap, 320> = TrackedHeap::new(Heap::empty(), &raw const HEAP_START); // 40 KiB
///
/// images.checkpoint(&HeapTracker(&HEAP), &memory, 0)?;                  // only what is in use
/// images.checkpoint(&Split, &memory.heap_used(HEAP.used() + HOLE), 0)?; // to the last used block
/// ```
///
/// `HOLE` is the allocator's own data behind the last used block: see [`used`](TrackedHeap::used).
#[derive(Debug)]
pub struct TrackedHeap<A, const BLOCKS: usize> {
    inner: A,
    start: Start,
    table: Mutex<Table<BLOCKS>>,
}

#[derive(Debug)]
struct Start(*const u8);
// SAFETY: *Blocks by address*: the pointer is never read or written through.
unsafe impl Sync for Start {}
// SAFETY: *Blocks by address*, as above.
unsafe impl Send for Start {}

#[derive(Debug)]
struct Table<const BLOCKS: usize> {
    counts: [Cell<u8>; BLOCKS],
    bytes: Cell<usize>,
    sizes: ChunkSizes,
}

impl<A, const BLOCKS: usize> TrackedHeap<A, BLOCKS> {
    /// Wraps this allocator, for a heap that starts at `start`. Allocations before `start` are not
    /// tracked.
    pub const fn new(inner: A, start: *const u8) -> Self {
        TrackedHeap {
            inner,
            start: Start(start),
            table: Mutex::new(Table {
                counts: [const { Cell::new(0) }; BLOCKS],
                bytes: Cell::new(0),
                sizes: ChunkSizes::new(),
            }),
        }
    }

    /// The wrapped allocator.
    pub const fn inner(&self) -> &A {
        &self.inner
    }

    /// The number of allocations that lie in a block, wholly or in part.
    pub fn count(&self, block: usize) -> u8 {
        critical_section::with(|cs| {
            let counts = &self.table.borrow(cs).counts;
            counts.get(block).map_or(0, Cell::get)
        })
    }

    /// The bytes that are allocated and tracked: the heap's *occupation*.
    pub fn occupation(&self) -> usize {
        critical_section::with(|cs| self.table.borrow(cs).bytes.get())
    }

    /// Bytes from the start of the first block in use to the end of the last: the heap's *span*, in
    /// whole blocks. **Cost**: looks at each block.
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

    /// Bytes from the start of the heap to the end of the last block in use, for
    /// [`Memory::heap_used`](crate::Memory::heap_used). **Cost**: looks at each block.
    ///
    /// The allocator's own data in free memory behind that block is not counted. It must be in the
    /// image, or the allocator is lost after a restore: add its size. An allocator that merges free
    /// memory (`linked_list_allocator`, `embedded-alloc`'s `LlffHeap`) has one hole there: add
    /// three words. The hole starts with two words, one word later if the last allocation has less
    /// than two. With other allocators use [`HeapTracker`](crate::HeapTracker), which holds all
    /// bytes that are not zero.
    pub fn used(&self) -> usize {
        critical_section::with(|cs| {
            let counts = &self.table.borrow(cs).counts;
            let last = counts.iter().rposition(|c| c.get() > 0);
            last.map_or(0, |last| (last + 1) * BLOCK as usize)
        })
    }

    /// Blocks of the largest allocated chunk, rounded up. Exact up to 1,920 bytes; of larger chunks
    /// it is the largest since there was none of them.
    pub fn largest(&self) -> u32 {
        critical_section::with(|cs| self.table.borrow(cs).sizes.largest())
    }

    /// The heap's *fragmentation* in thousandths: 1 − x × (free chunks of size x) / (free bytes),
    /// where x is the [largest](Self::largest) allocated chunk.
    ///
    /// This is equation 1 of *Efficient State Retention for Transiently-powered Embedded Sensing*,
    /// counted in blocks. Of each run of free blocks within the [span](Self::span), the blocks in
    /// whole pieces of x count. 0 if all free blocks have space for chunks of x, also if none is
    /// free; 1000 if none has. Free bytes in used blocks are not seen. **Cost**: looks at each
    /// block.
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
                // Free blocks before the first used block, or behind the last, are outside of the
                // span.
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

    // INVARIANT "Blocks by address": the heap's start in a `TrackedHeap` is compared with
    // addresses, and never used as a pointer.
    // Noticed by: `a_table_of_another_place` in tests/suite/soundness.rs, under Miri.

    // INVARIANT "The table is what is allocated": the count of a block is the number of allocations
    // that lie in it, wholly or in part. One byte is enough, because `dealloc` is given the layout:
    // 128 allocations may start in a block, and one more may cross into it.
    // Noticed by: the model in tests/suite/tracked.rs; planted `crossing-not-counted`.
    /// Counts an allocation or its release. **Cost**: one byte for each block that it lies in.
    fn count_allocation(&self, at: *mut u8, size: usize, allocated: bool) {
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
                // 128 allocations may start in a block and one may cross into it. A saturated count
                // stays saturated.
                match (c.get(), allocated) {
                    (u8::MAX, _) | (0, false) => {}
                    (n, true) => c.set(n + 1),
                    (n, false) => c.set(n - 1),
                }
            }
            table.sizes.count(size.div_ceil(BLOCK as usize), allocated);
            let bytes = table.bytes.get();
            table.bytes.set(if allocated {
                bytes.wrapping_add(size)
            } else {
                bytes.wrapping_sub(size)
            });
        });
    }
}

// INVARIANT "Memory is the inner allocator's": a `TrackedHeap` forwards each pointer and layout
// unchanged, and zeroes only memory that is being freed.
// Noticed by: `threads_allocate` in tests/suite/soundness.rs, under Miri.

// SAFETY: *Memory is the inner allocator's*: all memory comes from it and goes back with the same
// layout.
unsafe impl<A: GlobalAlloc, const BLOCKS: usize> GlobalAlloc for TrackedHeap<A, BLOCKS> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: *Memory is the inner allocator's*: the caller's promise is passed on.
        let p = unsafe { self.inner.alloc(layout) };
        if !p.is_null() {
            self.count_allocation(p, layout.size(), true);
        }
        p
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: *Memory is the inner allocator's*: the caller's promise is passed on.
        let p = unsafe { self.inner.alloc_zeroed(layout) };
        if !p.is_null() {
            self.count_allocation(p, layout.size(), true);
        }
        p
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        self.count_allocation(p, layout.size(), false);
        if !planted!("checkpoint/freed-not-zeroed") {
            // SAFETY: *Memory is the inner allocator's*: the caller gives up these bytes, and the
            // inner allocator has not got them back yet.
            unsafe { p.write_bytes(0, layout.size()) };
        }
        // SAFETY: *Memory is the inner allocator's*: the caller's promise is passed on.
        unsafe { self.inner.dealloc(p, layout) }
    }

    // `realloc` is the provided one: it allocates, copies and frees, so the old bytes are zeroed.
    // It does not grow in place.
}

impl<A, const BLOCKS: usize> Blocks for TrackedHeap<A, BLOCKS> {
    fn in_use(&self, block: u32) -> bool {
        block as usize >= BLOCKS || self.count(block as usize) > 0
    }
}

/// Chunks of up to this many blocks are counted by exact size.
const EXACT: usize = 15;

/// How many chunks of each size there are.
#[derive(Debug)]
pub(crate) struct ChunkSizes {
    /// `counts[i]` counts chunks of `i + 1` blocks; the last counts all larger ones.
    counts: [Cell<u16>; EXACT + 1],
    /// The largest of the larger ones since there was none.
    large: Cell<u32>,
}

impl ChunkSizes {
    pub(crate) const fn new() -> Self {
        ChunkSizes {
            counts: [const { Cell::new(0) }; EXACT + 1],
            large: Cell::new(0),
        }
    }

    /// Counts a chunk of this many blocks, at least one, as allocated or freed. **Cost**: constant.
    pub(crate) fn count(&self, blocks: usize, allocated: bool) {
        let class = blocks.saturating_sub(1).min(EXACT);
        let Some(c) = self.counts.get(class) else {
            return;
        };
        match (c.get(), allocated) {
            // A saturated count stays saturated.
            (u16::MAX, _) | (0, false) => {}
            (n, true) => c.set(n + 1),
            (n, false) => c.set(n - 1),
        }
        if class == EXACT {
            self.large.set(self.large.get().max(blocks as u32));
            if c.get() == 0 && !planted!("checkpoint/largest-stays") {
                self.large.set(0);
            }
        }
    }

    /// Blocks of the largest chunk; 0 if there is none.
    pub(crate) fn largest(&self) -> u32 {
        if self.large.get() > 0 {
            return self.large.get();
        }
        let last = self.counts.iter().rposition(|c| c.get() > 0);
        last.map_or(0, |i| i as u32 + 1)
    }
}
