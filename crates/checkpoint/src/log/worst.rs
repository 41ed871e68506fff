//! The worst-case cost of a checkpoint of the log, and of a restore.

use super::Log;
use super::shape::Shape;
use crate::cost::{Cost, Maxima, Work, straddle};
use nvmem::device::Medium;

/// Program operations of `count` writes of `len` bytes, each at a multiple of `len` from an aligned
/// base.
const fn programs(s: &Shape, count: u32, len: u32, cost: &Cost) -> u64 {
    let op = cost.step();
    let aligned = s.erases
        && s.unit.is_multiple_of(op)
        && s.anchor.is_multiple_of(op)
        && s.record.is_multiple_of(op)
        && s.cell.is_multiple_of(op)
        && len.is_multiple_of(op);
    // If an operation covers more than a word, a write may begin in the last word of one.
    let before = if aligned { 0 } else { straddle(s.word, op) };
    count as u64 * (len as u64 + before as u64).div_ceil(op as u64)
}

/// The most cells that hold data, and the most cells.
const fn cells(s: &Shape, m: &Maxima) -> (u32, u32) {
    let c = s.cell;
    let stack = m.stack.div_ceil(c);
    // The stack in use ends at the segment's end and may begin anywhere.
    let used = if m.stack_used == 0 {
        0
    } else {
        m.stack_used.div_ceil(c) + 1
    };
    let used = if used < stack { used } else { stack };
    let heap = if m.heap_used < m.heap {
        m.heap_used.div_ceil(c)
    } else {
        m.heap.div_ceil(c)
    };
    let statics = m.statics.div_ceil(c);
    (statics + heap + used, statics + m.heap.div_ceil(c) + stack)
}

/// A boot record with its marker, and the erases before it.
const fn boot_record(s: &Shape, cost: &Cost) -> Work {
    if !s.unstable {
        return NOTHING;
    }
    let marker = 4u32.next_multiple_of(s.word);
    Work {
        read: s.record as u64,
        written: (s.record + marker) as u64,
        programs: programs(s, 1, s.record, cost) + programs(s, 1, marker, cost),
        // The erases of all unreadable anchors, or of one; and one for the next record.
        erases: if s.erases { s.anchors as u64 - 1 } else { 0 },
        ..NOTHING
    }
}

const NOTHING: Work = Work {
    read: 0,
    compared: 0,
    written: 0,
    programs: 0,
    erases: 0,
};

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    /// The most work of a checkpoint of memory of at most this size. The worst checkpoint is the
    /// first of a boot, after the boot's `load`: all cells with data are compared to their end and
    /// written, those of one unit twice, and all places are encoded. Program operations have the
    /// size that the model says.
    ///
    /// Without a `load` before it, the first checkpoint also does the reads of
    /// [`Log::worst_restore`].
    ///
    /// ```
    /// use checkpoint::{Cost, Log, Maxima, Price};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<60, 256, 128, 0x00>;
    /// const MOST: Maxima = Maxima { statics: 600, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// const CAPACITOR: Price = Price { microjoules: 4_500, microseconds: 150_000 };
    /// // Does not compile when it may take more.
    /// const _: () = CAPACITOR.assert_enough(&Cost::STM32L1, &Log::<Flash, 24, 60>::worst_case(&MOST, &Cost::STM32L1));
    /// ```
    ///
    /// This budget is too small for one KiB of statics more:
    ///
    /// ```compile_fail
    /// # use checkpoint::{Cost, Log, Maxima, Price};
    /// # use checkpoint::nvmem::ram::RamNor;
    /// # type Flash = RamNor<60, 256, 128, 0x00>;
    /// const MOST: Maxima = Maxima { statics: 1624, heap: 0, heap_used: 0, stack: 1024, stack_used: 400 };
    /// # const CAPACITOR: Price = Price { microjoules: 4_500, microseconds: 150_000 };
    /// const _: () = CAPACITOR.assert_enough(&Cost::STM32L1, &Log::<Flash, 24, 60>::worst_case(&MOST, &Cost::STM32L1));
    /// ```
    pub const fn worst_case(most: &Maxima, cost: &Cost) -> Work {
        let s = Self::SHAPE;
        let (data, all) = cells(&s, most);
        // Cells are moved only where units are erased.
        let moved = if s.erases { s.per } else { 0 };
        let moved = if moved < data { moved } else { data };
        let written = data + moved + s.manifest(all);
        // A checksum that is written alone may need an operation of its own.
        let alone = if s.unstable {
            0
        } else {
            programs(&s, 1, s.word, cost)
        };
        let record = Work {
            written: s.record as u64,
            programs: programs(&s, 1, s.record, cost) + alone,
            erases: s.erases as u64,
            ..NOTHING
        };
        let content = Work {
            compared: data as u64 * s.cell as u64,
            written: written as u64 * s.cell as u64,
            programs: programs(&s, written, s.cell, cost),
            erases: if s.erases {
                written.div_ceil(s.per) as u64
            } else {
                0
            },
            ..NOTHING
        };
        boot_record(&s, cost).and(record).and(content)
    }

    /// The most work of a restore of a checkpoint of at most this size. It reads all records, reads
    /// manifests and cells twice, and on flash may write a record.
    ///
    /// Each rejected record costs the same reads again: one that a cut left unstable, or a damaged
    /// checkpoint.
    pub const fn worst_restore(most: &Maxima, cost: &Cost) -> Work {
        let s = Self::SHAPE;
        let (data, all) = cells(&s, most);
        let slots = s.anchors as u64 * s.slots() as u64;
        let marks = if s.unstable {
            slots * 4u32.next_multiple_of(s.word) as u64
        } else {
            0
        };
        let twice = 2 * (2 * Shape::chain(s.manifest(all)) as u64 + data as u64) * s.cell as u64;
        let reads = Work {
            read: slots * s.record as u64 + marks + s.record as u64 + twice,
            ..NOTHING
        };
        boot_record(&s, cost).and(reads)
    }
}
