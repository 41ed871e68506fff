//! The table in RAM: the slot of each page, the order of the blocks, and how many live pages each
//! holds. All three are in one buffer of the caller:
//!
//! ```text
//! | map: slot of each page  | next: following block in the log | live: live pages |
//! | pages entries           | one per block                    | one per block    |
//! ```

use super::geometry::{Geometry, NONE};

/// In `next`: the block is not in the log.
const FREE: u16 = 0xFFFE;

#[derive(Debug)]
pub(crate) struct Table<'b> {
    slots: u16,
    map: &'b mut [u16],
    /// The block after this one in the log; `NONE` after the newest.
    next: &'b mut [u16],
    live: &'b mut [u16],
}

impl<'b> Table<'b> {
    /// `None` if the buffer is too short.
    pub(crate) fn new(s: &Geometry, buffer: &'b mut [u16]) -> Option<Self> {
        let buffer = buffer.get_mut(..s.entries() as usize)?;
        let (map, blocks) = buffer.split_at_mut(s.pages as usize);
        let (next, live) = blocks.split_at_mut(s.blocks as usize);
        let mut table = Table {
            slots: s.slots as u16,
            map,
            next,
            live,
        };
        table.clear();
        Some(table)
    }

    pub(crate) fn clear(&mut self) {
        self.map.fill(NONE);
        self.next.fill(FREE);
        self.live.fill(0);
    }

    /// The slot of a page, or `NONE`.
    pub(crate) fn slot(&self, page: u16) -> u16 {
        self.map.get(usize::from(page)).copied().unwrap_or(NONE)
    }

    /// Sets the slot of a page.
    pub(crate) fn set(&mut self, page: u16, slot: u16) {
        let Some(entry) = self.map.get_mut(usize::from(page)) else {
            return;
        };
        let old = core::mem::replace(entry, slot);
        if old != NONE
            && let Some(n) = self.live.get_mut(usize::from(old / self.slots))
        {
            *n -= 1;
        }
        if let Some(n) = self.live.get_mut(usize::from(slot / self.slots)) {
            *n += 1;
        }
    }

    pub(crate) fn live(&self, block: u16) -> u16 {
        self.live.get(usize::from(block)).copied().unwrap_or(0)
    }

    pub(crate) fn next(&self, block: u16) -> u16 {
        self.next.get(usize::from(block)).copied().unwrap_or(NONE)
    }

    /// Puts a block into the log, before `next`.
    pub(crate) fn link(&mut self, block: u16, next: u16) {
        if let Some(n) = self.next.get_mut(usize::from(block)) {
            *n = next;
        }
    }

    /// Removes a block from the log.
    pub(crate) fn unlink(&mut self, block: u16) {
        self.link(block, FREE);
    }

    /// Whether a block is outside the log and holds no live page.
    pub(crate) fn is_free(&self, block: u16) -> bool {
        self.next(block) == FREE && self.live(block) == 0
    }

    pub(crate) fn in_log(&self, block: u16) -> bool {
        self.next(block) != FREE
    }

    /// The first page from number `page` on whose slot is in this block.
    pub(crate) fn next_page_of_block(&self, block: u16, page: u16) -> Option<u16> {
        let from = u32::from(block) * u32::from(self.slots);
        let slots = from..from + u32::from(self.slots);
        let rest = self.map.get(usize::from(page)..)?;
        let i = rest.iter().position(|s| slots.contains(&u32::from(*s)))?;
        Some(page + i as u16)
    }
}
