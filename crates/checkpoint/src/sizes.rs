//! How large the largest of the chunks is that are allocated: without a list of them.

use core::cell::Cell;
use nvmem::planted;

/// Chunks of up to this many blocks are told apart.
const EXACT: usize = 15;

/// How many chunks of each size there are.
#[derive(Debug)]
pub(crate) struct Sizes {
    /// Of `i + 1` blocks; the last are all that are larger.
    counts: [Cell<u16>; EXACT + 1],
    /// The largest of those, since there was none of them.
    large: Cell<u32>,
}

impl Sizes {
    pub(crate) const fn new() -> Self {
        Sizes {
            counts: [const { Cell::new(0) }; EXACT + 1],
            large: Cell::new(0),
        }
    }

    /// Counts a chunk of this many blocks, one at least, in or out. **Cost**: the same for all.
    pub(crate) fn count(&self, blocks: usize, more: bool) {
        let class = blocks.saturating_sub(1).min(EXACT);
        let Some(c) = self.counts.get(class) else {
            return;
        };
        match (c.get(), more) {
            // A count that was ever full stays so.
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

    /// Blocks of the largest chunk; 0 when there is none.
    pub(crate) fn largest(&self) -> u32 {
        if self.large.get() > 0 {
            return self.large.get();
        }
        let last = self.counts.iter().rposition(|c| c.get() > 0);
        last.map_or(0, |i| i as u32 + 1)
    }
}
