//! The modes: which parts of memory an image holds, and whether they are compared first.

use crate::memory::{Extent, Memory};

/// What a checkpoint writes. An image says itself what it holds, so any mode's image is restored in the same way.
pub trait Mode {
    /// Whether what a slot holds is compared with what is to be written, and only what differs is written.
    const COMPARE: bool = false;

    /// The parts of `memory` that the image holds. Called again, it says the same.
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

impl Mode for Full {
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        [memory.statics(), memory.heap(), memory.stack()].into_iter()
    }
}

impl Mode for Stack {
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        [memory.statics(), memory.stack_in_use()].into_iter()
    }
}

impl Mode for Split {
    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        let used = [memory.heap_in_use(), memory.stack_in_use()];
        [memory.statics()].into_iter().chain(used)
    }
}

impl<M: Mode> Mode for CopyIfChange<M> {
    const COMPARE: bool = true;

    fn extents(&self, memory: &Memory<'_>) -> impl Iterator<Item = Extent> + Clone {
        self.0.extents(memory)
    }
}
