//! Tracks the size of the largest allocated chunk without a list of chunks.

use core::cell::Cell;
use nvmem::planted;

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
            let large = if c.get() == 0 && !planted!("checkpoint/largest-stays") {
                0
            } else {
                self.large.get().max(blocks as u32)
            };
            self.large.set(large);
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
