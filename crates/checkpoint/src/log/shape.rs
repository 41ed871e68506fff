//! The sizes of a log, derived from a medium's contract, and the division of memory into cells.
//!
//! ```text
//!  anchors (records)              units (cells, manifests)
//!  |a0|a1|..|a7|                  |u0: c c c c|u1: c c c c| ...
//!  '-- front() --'                '-- unit --'  per cells each
//! ```

use super::runs::{NONE, ZERO};
use crate::layout::Sizes;
use crate::memory::Memory;
use nvmem::device::Contract;

/// Bytes of a record, unless the program word is larger.
pub(crate) const RECORD: u32 = 128;
/// The largest record and the largest program word.
pub(crate) const LARGEST: usize = crate::layout::PIECE;
/// The most anchors of any medium.
pub(crate) const ANCHORS: usize = 8;
/// The most manifests in a record's chain.
pub(crate) const MANIFESTS: usize = 96;
/// The most manifests that are chained before all places are written anew.
const CHANGES: u32 = 32;
/// Bytes of a manifest beside its runs: the previous manifest's place, the length, the checksum.
pub(crate) const FRAME: u32 = 8;

/// Where records and cells lie.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub word: u32,
    /// Bytes of a cell.
    pub cell: u32,
    /// Bytes from one record to the next.
    pub record: u32,
    /// Bytes of an anchor: the erase units that hold records.
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
            "the erase units are too large: no medium can hold the anchors"
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

    /// The number of records in an anchor.
    pub(crate) const fn slots(&self) -> u32 {
        self.anchor / self.record
    }

    /// Bytes in front of the units.
    pub(crate) const fn front(&self) -> u32 {
        self.anchors * self.anchor
    }

    /// The most cells that the places of `cells` cells take, wherever they lie: six bytes for a
    /// cell that is encoded differently from its neighbours, and up to six at the end of each
    /// manifest.
    pub(crate) const fn manifest(&self, cells: u32) -> u32 {
        let row = (self.cell - FRAME - 6) / 6;
        cells.div_ceil(row) + 1
    }

    /// The most manifests in a chain, if the places of all cells take `places` manifests.
    pub(crate) const fn chain(places: u32) -> u32 {
        let all = places.saturating_add(CHANGES);
        if all > MANIFESTS as u32 {
            return MANIFESTS as u32;
        }
        all
    }
}

/// A segment's length, and the part in use.
#[derive(Clone, Copy)]
struct Segment {
    len: u32,
    from: u32,
    to: u32,
}

/// The division of memory into cells: each segment from its start; its last cell may be shorter.
#[derive(Clone, Copy)]
pub(crate) struct Cells<const CELL: usize>([Segment; 3]);

/// One cell of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its offset in memory.
    pub at: u32,
    /// The part in use, from the cell's start; empty if both are the same.
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

    /// The same cells with other parts in use.
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
    /// `NONE` if nothing of the cell is in use, `ZERO` if all that is in use is zero, else `None`.
    #[inline(never)]
    pub(crate) fn empty(&self, memory: &Memory<'_>) -> Option<u16> {
        if self.from >= self.to {
            return Some(NONE);
        }
        let zero = memory.is_zero(self.at + self.from, self.to - self.from);
        zero.then_some(ZERO)
    }

    /// The bytes that the medium holds for this cell: the part in use, with zeros around it.
    pub(crate) fn content(&self, memory: &Memory<'_>, buf: &mut [u8]) {
        if let Some(used) = buf.get_mut(self.from as usize..self.to as usize) {
            memory.read(self.at + self.from, used);
        }
    }
}
