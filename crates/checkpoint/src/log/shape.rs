//! The sizes that follow from a medium's contract, and how memory is cut into cells.

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

    /// Manifests that a record leads to at most, with so many cells of memory.
    pub(crate) const fn chain(&self, cells: u32) -> u32 {
        let all = self.manifest(cells).saturating_add(CHANGES);
        if all > MANIFESTS as u32 {
            return MANIFESTS as u32;
        }
        all
    }
}

/// How a memory is cut into cells: each segment from its start, the last cell of each as long as what is left.
#[derive(Clone, Copy)]
pub(crate) struct Cells {
    lengths: [u32; 3],
    heap_used: u32,
    stack_from: u32,
    cell: u32,
}

/// A piece of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Its offset in memory.
    pub at: u32,
    /// What of it is in use, from its start: nothing, if both are the same.
    pub from: u32,
    pub to: u32,
}

impl Cells {
    #[inline(never)]
    pub(crate) fn of(memory: &Memory<'_>, cell: u32) -> Self {
        let (heap_used, stack_from) = memory.in_use();
        Cells {
            lengths: memory.lengths(),
            heap_used,
            stack_from,
            cell,
        }
    }

    /// The same with something else in use.
    pub(crate) fn using(self, heap_used: u32, stack_from: u32) -> Self {
        Cells {
            heap_used,
            stack_from,
            ..self
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.lengths.iter().map(|l| l.div_ceil(self.cell)).sum()
    }

    pub(crate) fn get(&self, i: u32) -> Option<Cell> {
        let [statics, heap, stack] = self.lengths;
        let parts = [
            (statics, 0, statics),
            (heap, 0, self.heap_used.min(heap)),
            (stack, self.stack_from.min(stack), stack),
        ];
        let (mut i, mut base) = (i, 0);
        for (len, from, to) in parts {
            let n = len.div_ceil(self.cell);
            if i < n {
                let off = i * self.cell;
                let end = (off + self.cell).min(len);
                let (from, to) = (from.clamp(off, end) - off, to.clamp(off, end) - off);
                return Some(Cell {
                    at: base + off,
                    from,
                    to: to.max(from),
                });
            }
            (i, base) = (i - n, base + len);
        }
        None
    }
}

impl Cell {
    pub(crate) fn is_used(&self) -> bool {
        self.from < self.to
    }

    pub(crate) fn is_zero(&self, memory: &Memory<'_>) -> bool {
        memory.is_zero(self.at + self.from, self.to - self.from)
    }

    /// What a cell of a medium holds of it: what is in use, and zeros.
    pub(crate) fn content(&self, memory: &Memory<'_>, buf: &mut [u8]) {
        buf.fill(0);
        if let Some(used) = buf.get_mut(self.from as usize..self.to as usize) {
            memory.read(self.at + self.from, used);
        }
    }
}
