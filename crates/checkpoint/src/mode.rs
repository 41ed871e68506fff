//! The modes: which parts of memory an image holds, and whether they are compared first.

use crate::memory::{Extent, Memory};
use nvmem::planted;

/// What a checkpoint writes. An image says itself what it holds, so any mode's image is restored in the same way.
pub trait Mode {
    /// Whether what a slot holds is compared with what is to be written, and only what differs is written.
    const COMPARE: bool = false;

    /// Whether there are three parts at most: then a medium without program words and erase is given each of them as it is; else, pieces of 256 bytes.
    const FEW: bool = false;

    /// The parts of `memory` that the image holds. Called again, it says the same; if it does not, the checkpoint is [`Error::Damaged`](crate::Error::Damaged) and the one before counts.
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone;
}

/// All of memory, used or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Full;

/// Statics, and the stack that is in use; no heap. For programs without one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stack;

/// Statics, the heap up to the highest byte in use, and the stack that is in use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Split;

/// What `M` says, compared with what the slot holds from an earlier checkpoint: erase units (on a medium without erase, pieces
/// of at most 256 bytes) that are the same already are not written.
///
/// Compared is what stands at the same place in both images: with [`Full`] all of it does, with [`Split`] what lies behind a
/// heap that has grown does not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyIfChange<M = Full>(pub M);

/// Bytes of a heap block that [`Blocks`] tells about.
pub const BLOCK: u32 = 128;

/// Which blocks of the heap, counted from its start, are in use.
pub trait Blocks {
    /// Whether anything in this block may be in use. Of what is not, the next checkpoint holds only what is not zero.
    fn in_use(&self, block: u32) -> bool;
}

/// Statics, the blocks of the heap that are in use, and the stack that is in use; of the statics and of the other blocks, what is not zero.
///
/// The table that tells which blocks are in use is itself among the statics. So it takes as much of an image as there are blocks in use, however large the heap is.
///
/// An allocator keeps its free list in what is free, and would be lost without it after a restore. So nothing of the heap is: runs of zeros in
/// blocks that are not in use are told by their length, all else is in the image. This is short if the heap was zeroed before the program first
/// started, and what is freed is zeroed.
#[derive(Debug)]
pub struct HeapTracker<'t, B>(pub &'t B);

/// A segment from `at` on, as parts that are zero and parts that are written.
struct Parts<'a, 'm, 'b, B> {
    memory: &'a Memory<'m>,
    blocks: &'b B,
    /// Where the heap starts; what is before it may be zero anywhere.
    heap: u32,
    at: u32,
    end: u32,
}

impl<B> Clone for Parts<'_, '_, '_, B> {
    fn clone(&self) -> Self {
        Parts { ..*self }
    }
}

/// A run of zeros within other bytes costs this much when it is told by its length.
const SHORT: u32 = 2 * crate::layout::EXTENT;

impl<B: Blocks> Parts<'_, '_, '_, B> {
    /// The bytes from `at` on that are zero and not in use.
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

impl<B: Blocks> Iterator for Parts<'_, '_, '_, B> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        let at = self.at;
        if at == self.end {
            return None;
        }
        let told = |at, zeros| zeros >= SHORT || zeros > 0 && at + zeros == self.end;
        let mut zeros = self.zeros(at);
        let zero = told(at, zeros);
        let mut to = at + if zero { zeros } else { 0 };
        while !zero && to < self.end && !told(to, zeros) {
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
        let parts = |e: Extent| Parts {
            memory,
            blocks: self.0,
            heap: heap.at,
            at: e.at,
            end: e.at + e.len,
        };
        let stack = [memory.stack_in_use()];
        parts(memory.statics()).chain(parts(heap)).chain(stack)
    }
}

impl Mode for Full {
    const FEW: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        (0..3).map(|segment| memory.whole(segment))
    }
}

impl Mode for Stack {
    const FEW: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        [memory.statics(), memory.stack_in_use()].into_iter()
    }
}

impl Mode for Split {
    const FEW: bool = true;

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
