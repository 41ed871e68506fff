//! The sizes that follow from a medium's contract, and how memory is cut into cells.

use super::runs::{NONE, ZERO};
use crate::layout::Sizes;
use crate::memory::Memory;
use nvmem::device::Contract;

/// Bytes of a record where the program word is not larger.
pub(crate) const RECORD: u32 = 128;
/// The largest record and the largest program word.
pub(crate) const LARGEST: usize = crate::layout::PIECE;
/// The most anchors of any medium.
pub(crate) const ANCHORS: usize = 8;
/// Cells of manifests that a record may lead to.
pub(crate) const MANIFESTS: usize = 96;
/// Of those, how many tell of changes before all places are told anew.
const CHANGES: u32 = 32;
/// In a manifest: link to the one before, length, checksum.
pub(crate) const FRAME: u32 = 8;

/// Where things are.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub word: u32,
    /// Bytes of a cell.
    pub cell: u32,
    /// Bytes from one record to the next.
    pub record: u32,
    /// Bytes of an anchor: what is erased to hold records.
    pub anchor: u32,
    pub anchors: u32,
    /// Bytes of a unit of cells.
    pub unit: u32,
    /// Cells in it.
    pub per: u32,
    pub erases: bool,
    pub unstable: bool,
    /// What an erased byte reads.
    pub erased: u8,
}

impl Shape {
    pub(crate) const fn of(c: &Contract, cell: u32) -> Self {
        let s = Sizes::of(c);
        assert!(
            cell >= 32 && cell.is_multiple_of(s.word) && cell <= 1 << 12,
            "a cell is a multiple of the program word, from 32 bytes to 4 KiB"
        );
        let record = RECORD.next_multiple_of(s.word);
        let (erases, unstable) = (s.erases, s.unstable);
        let (anchor, unit) = if erases {
            let unit = cell.next_multiple_of(s.unit);
            ((2 * record).next_multiple_of(s.unit), unit)
        } else {
            (record, 8 * cell)
        };
        let anchors = match unstable {
            false => 2,
            true if anchor <= 512 => ANCHORS as u32,
            true => 4,
        };
        assert!(
            anchors as u64 * anchor as u64 <= u32::MAX as u64,
            "anchors of such erase units are larger than any medium"
        );
        let per = unit / cell;
        Shape {
            word: s.word,
            cell,
            record,
            anchor,
            anchors,
            unit,
            per: if per > 254 { 254 } else { per },
            erases,
            unstable,
            erased: match &c.erase {
                Some(e) => e.erased,
                None => 0,
            },
        }
    }

    /// Records that an anchor has room for.
    pub(crate) const fn slots(&self) -> u32 {
        self.anchor / self.record
    }

    /// Bytes in front of the units.
    pub(crate) const fn front(&self) -> u32 {
        self.anchors * self.anchor
    }

    /// Cells that the places of so many cells of memory take at most, wherever they lie: six bytes for one whose neighbours' are told in another way,
    /// and up to six at the end of each manifest.
    pub(crate) const fn manifest(&self, cells: u32) -> u32 {
        let row = (self.cell - FRAME - 6) / 6;
        cells.div_ceil(row) + 1
    }

    /// Manifests that a record leads to at most, where those of all places are so many.
    pub(crate) const fn chain(places: u32) -> u32 {
        let all = places.saturating_add(CHANGES);
        if all > MANIFESTS as u32 {
            return MANIFESTS as u32;
        }
        all
    }
}

/// A segment of memory: its length, and what of it is in use.
#[derive(Clone, Copy)]
struct Segment {
    len: u32,
    from: u32,
    to: u32,
}

/// How a memory is cut into cells: each segment from its start, the last cell of each as long as what is left.
#[derive(Clone, Copy)]
pub(crate) struct Cells<const CELL: usize>([Segment; 3]);

/// A piece of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its offset in memory.
    pub at: u32,
    /// What of it is in use, from its start: nothing, if both are the same.
    pub from: u32,
    pub to: u32,
}

impl<const CELL: usize> Cells<CELL> {
    #[inline(never)]
    pub(crate) fn of(memory: &Memory<'_>) -> Self {
        let segments = memory.lengths().map(|len| Segment {
            len,
            from: 0,
            to: len,
        });
        let (heap_used, stack_from) = memory.in_use();
        Cells(segments).using(heap_used, stack_from)
    }

    /// The same with something else in use.
    pub(crate) fn using(mut self, heap_used: u32, stack_from: u32) -> Self {
        let [_, heap, stack] = &mut self.0;
        heap.to = heap_used.min(heap.len);
        stack.from = stack_from.min(stack.len);
        self
    }

    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|s| s.len.div_ceil(CELL as u32)).sum()
    }

    #[inline(never)]
    pub(crate) fn get(&self, i: u32) -> Option<Cell> {
        let (mut off, mut at) = (i * CELL as u32, 0);
        for s in &self.0 {
            if off < s.len {
                let end = (off + CELL as u32).min(s.len);
                let (from, to) = (s.from.max(off) - off, s.to.min(end).saturating_sub(off));
                return Some(Cell {
                    at: at + off,
                    from: from.min(end - off),
                    to: to.max(from.min(end - off)),
                });
            }
            off -= s.len.next_multiple_of(CELL as u32);
            at += s.len;
        }
        None
    }
}

impl Cell {
    /// The place that says all of it: nothing of it is in use, or all that is, is zero.
    #[inline(never)]
    pub(crate) fn empty(&self, memory: &Memory<'_>) -> Option<u16> {
        if self.from >= self.to {
            return Some(NONE);
        }
        let zero = memory.is_zero(self.at + self.from, self.to - self.from);
        zero.then_some(ZERO)
    }

    /// What a cell of a medium holds of it, between zeros that are there.
    pub(crate) fn content(&self, memory: &Memory<'_>, buf: &mut [u8]) {
        if let Some(used) = buf.get_mut(self.from as usize..self.to as usize) {
            memory.read(self.at + self.from, used);
        }
    }
}
