//! The modes: which ranges of memory an image holds, and whether unchanged ones are skipped.

use crate::memory::{Extent, Memory};
use nvmem::planted;

/// What a checkpoint writes. An image describes its own extents, so images of all modes are
/// restored in the same way.
pub trait Mode {
    /// Whether the new image is compared with the slot's content, and only the differences are
    /// written.
    const COMPARE: bool = false;

    /// Whether there are at most three extents. A medium without program words and erase then gets
    /// each extent in one write; otherwise it gets pieces of 256 bytes.
    const FEW_EXTENTS: bool = false;

    /// The extents of `memory` that the image holds. Every call must return the same; if not, the
    /// checkpoint fails with [`Error::Damaged`](crate::Error::Damaged) and the previous one stays
    /// valid.
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone;
}

/// All of memory, used or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Full;

/// Statics, and the stack that is in use; no heap. For programs without a heap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stack;

/// Statics, the heap up to the highest byte in use, and the stack that is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split;

/// The extents of `M`, compared with the slot's content from an earlier checkpoint. Unchanged erase
/// units are not written; on a medium without erase, unchanged pieces of at most 256 bytes are not.
///
/// Bytes are compared at the same offset in both images. With [`Full`] offsets never move; with
/// [`Split`] everything behind a heap that has grown moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyIfChange<M = Full>(pub M);

/// Bytes of a heap block of [`Blocks`].
pub const BLOCK: u32 = 128;

/// Which blocks of the heap, counted from its start, are in use.
pub trait Blocks {
    /// Whether anything in this block may be in use. Of other blocks the next checkpoint holds only
    /// bytes that are not zero.
    fn in_use(&self, block: u32) -> bool;
}

/// Statics, the blocks of the heap that are in use, and the stack in use. Of the statics and of the
/// other blocks, it holds the bytes that are not zero.
///
/// The table of used blocks is itself among the statics. So the image's size depends on the blocks
/// in use, not on the size of the heap.
///
/// An allocator keeps its free list in free memory, and is lost after a restore without it. So no
/// byte of the heap is lost: runs of zeros in unused blocks are stored as a length, all other bytes
/// as they are: a link of a free list among zeros takes 20 bytes. Images are short if the heap was
/// zeroed before the program first started and freed memory is zeroed. After a restore the heap is
/// the same to the last byte.
#[derive(Debug)]
pub struct HeapTracker<'t, B>(pub &'t B);

// INVARIANT "No byte of the heap is lost": bytes that a tracked heap's image omits are zero, and
// the restore zeroes them.
// Noticed by: planted `free-list-lost`, `zeros-not-restored`.
/// Divides a segment, from `at` on, into extents that are zero and extents that are written.
struct ZeroRuns<'a, 'm, 'b, B> {
    memory: &'a Memory<'m>,
    blocks: &'b B,
    /// The offset where the heap starts. Bytes before it may be left out wherever they are zero.
    heap: u32,
    at: u32,
    end: u32,
}

impl<B> Clone for ZeroRuns<'_, '_, '_, B> {
    fn clone(&self) -> Self {
        ZeroRuns { ..*self }
    }
}

/// The shortest run of zeros between other bytes that is left out: describing it costs this much.
const MIN_ZEROS: u32 = 2 * crate::format::EXTENT;

impl<B: Blocks> ZeroRuns<'_, '_, '_, B> {
    /// The number of bytes from `at` on that are zero and not in use.
    fn zeros(&self, at: u32) -> u32 {
        let mut to = at;
        let in_use = |at: u32| {
            let off = at.checked_sub(self.heap);
            off.is_some_and(|off| self.blocks.in_use(off / BLOCK))
        };
        while to < self.end && !in_use(to) {
            let n = 4.min(self.end - to);
            if !self.memory.is_zero(to, n) && !planted!("checkpoint/free-list-lost") {
                break;
            }
            to += n;
        }
        to - at
    }
}

impl<B: Blocks> Iterator for ZeroRuns<'_, '_, '_, B> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let at = self.at;
        if at == self.end {
            return None;
        }
        let worth_omitting = |at, zeros| zeros >= MIN_ZEROS || zeros > 0 && at + zeros == self.end;
        let mut zeros = self.zeros(at);
        let zero = worth_omitting(at, zeros);
        let mut to = at + if zero { zeros } else { 0 };
        while !zero && to < self.end && !worth_omitting(to, zeros) {
            to = (to + zeros.max(4)).min(self.end);
            zeros = self.zeros(to);
        }
        self.at = to;
        Some(Extent {
            at,
            len: to - at,
            zero,
        })
    }
}

impl<B: Blocks> Mode for HeapTracker<'_, B> {
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let heap = memory.heap();
        let split = |e: Extent| ZeroRuns {
            memory,
            blocks: self.0,
            heap: heap.at,
            at: e.at,
            end: e.at + e.len,
        };
        let stack = [memory.stack_in_use()];
        split(memory.statics()).chain(split(heap)).chain(stack)
    }
}

impl Mode for Full {
    const FEW_EXTENTS: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        (0..3).map(|segment| memory.whole(segment))
    }
}

impl Mode for Stack {
    const FEW_EXTENTS: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        [memory.statics(), memory.stack_in_use()].into_iter()
    }
}

impl Mode for Split {
    const FEW_EXTENTS: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        (0..3).map(|segment| memory.used(segment))
    }
}

impl<M: Mode> Mode for CopyIfChange<M> {
    const COMPARE: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        self.0.extents(memory)
    }
}
