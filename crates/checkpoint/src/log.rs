//! A log of checkpoints. A checkpoint writes the cells of memory that changed to free places, then
//! a record that says where every cell is.
//!
//! ```text
//!  range   | anchor 0 | anchor 1 | ... | unit 0      | unit 1      | ...
//!          +----------+----------+-----+-------------+-------------+
//!          | records             |     | cells and manifests       |
//!          +---------------------+     +---------------------------+
//!
//!  record ---> manifest 3 ---> manifest 2 ---> manifest 1
//!    |            |               |               |
//!    +------------+-------+-------+---------------+
//!                         v   where each cell of memory is; the newer entry wins
//!          cell 0: unit 4, place 1   cell 1: zero   cell 2: unit 0, place 3   ...
//! ```
//!
//! Order of writes in a checkpoint: 1. changed cells, to places that the last record does not need;
//! 2. manifests, if the places do not fit into a record; 3. the record, with its checksum last.
//!
//! Why this is safe: nothing that the last record needs is overwritten or erased before the next
//! record is complete. A cut therefore leaves the last record and all of its cells intact. The
//! record's checksum covers head and places, each manifest has a checksum, and each cell has a
//! check of 16 bits beside its place.
//!
//! Files: `record` (records, and the anchors that hold them), `format` (sizes, cells, runs of
//! places), `save` (writing, free units, what to compare), `load` (reading).

pub(crate) mod format;
mod load;
pub(crate) mod record;
mod save;

use crate::cost::{Cost, Maxima, Work, straddle};
use crate::{Error, Memory, Restored, Store};
use core::ops::Range;
use format::{MANIFESTS, NONE, SLOTS, Shape};
use nvmem::device::Medium;
use record::Records;
use save::Adaptive;

/// A log of checkpoints of up to `CELLS` cells of `CELL` bytes, in a range of a medium with up to
/// `UNITS` units: the mode *Adaptive*.
///
/// Each checkpoint writes the cells that are in use, not zero, and changed since the last
/// checkpoint. Where comparing is expensive it learns which regions of memory are worth comparing
/// ([`Log::with_cost`]). New content goes to places that the last checkpoint does not need, so
/// nothing is changed in place. A checkpoint of a few cells costs those cells, a record, and a
/// share of the erases. Nearly empty units are emptied by writing their remaining cells again, from
/// memory. So there is always space for a checkpoint of everything.
///
/// A segment is divided into cells from its start: its length divided by `CELL`, rounded up. A unit
/// is an erase unit, or as many erase units as a cell needs. Without erase it is eight cells. RAM:
/// two bytes for each of the `CELLS`, one for each of the `UNITS`, and about 370. Units beyond
/// `UNITS`, and everything outside of the range, are not touched.
///
/// ```
/// use checkpoint::{Cost, Log, Memory, Store};
/// use checkpoint::nvmem::ram::RamNor;
///
/// // STM32L1: half pages of 128 bytes, erase units of 256. Up to 24 cells of memory, 60 units.
/// type Flash = RamNor<60, 256, 128, 0x00>;
/// let log = Log::<_, 24, 60>::open(Flash::new(), 0..60 * 256, 0x2024_0001)?;
/// let mut log = log.with_cost(&Cost::STM32L1);
///
/// let (mut statics, mut heap, mut stack) = ([1u8; 600], [2u8; 1024], [3u8; 300]);
/// let mut memory = Memory::new(&mut statics, &mut heap, &mut stack).heap_used(700);
/// log.save(&memory, 1)?;
/// assert_eq!(log.load(&mut memory)?.context, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// On flash each boot erases one anchor and writes one record, and its first checkpoint begins a
/// new unit. Anchors wear out first if few cells change. On an STM32L1 there are 8 anchors of two
/// records each: if they endure `E` erases, the log lasts for about `16 * E` checkpoints.
#[derive(Debug)]
pub struct Log<D, const CELLS: usize, const UNITS: usize, const CELL: usize = 128> {
    medium: D,
    /// Where the units begin.
    cells_at: u32,
    /// Two words, so that a `Log` is aligned to words only: a larger alignment would need further
    /// code for moving and zeroing it.
    program: [u32; 2],
    unit_count: u32,
    adaptive: Adaptive,
    /// The fields below match the medium.
    ready: bool,
    records: Records,
    /// The place of each cell of memory.
    map: [u16; CELLS],
    units: [u8; UNITS],
    /// The places of the manifests, from the oldest.
    chain: [u16; MANIFESTS],
    chain_len: usize,
    /// The unit that was filled last, and its next free cell: `u32::MAX` if this boot has not begun
    /// a unit.
    cursor: u32,
    next: u32,
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    pub(crate) const SHAPE: Shape = {
        let s = Shape::of(&D::CONTRACT, CELL as u32);
        assert!(
            CELLS > 0 && s.manifest(CELLS as u32) < MANIFESTS as u32 - 2,
            "too many cells: CELL must be larger"
        );
        assert!(
            UNITS > 1 && UNITS as u64 * (s.per as u64) < SLOTS as u64,
            "too many units: CELL must be larger"
        );
        s
    };

    /// The size of a range that always has space for checkpoints with `used` bytes in use and not
    /// zero: three times as many, and the anchors. A smaller range may do while little changes. The
    /// minimum is a little more than twice as many.
    ///
    /// `u32::MAX` if no range is large enough: it needs more than `CELLS` cells, more than `UNITS`
    /// units, or more bytes than a medium has.
    pub const fn bytes(used: u32) -> u32 {
        let s = Self::SHAPE;
        // Each segment may end in a partial cell.
        let n = used.div_ceil(s.cell) + 2;
        let cells = if n > CELLS as u32 { n } else { CELLS as u32 };
        let manifest = s.manifest(if cells > SLOTS { SLOTS } else { cells });
        let units = (3 * n + 2 * manifest).div_ceil(s.per) + 3;
        if units > UNITS as u32 || used.div_ceil(s.cell) > CELLS as u32 {
            return u32::MAX;
        }
        // Only this may exceed 32 bits: a cell has at least 32 bytes.
        units.saturating_mul(s.unit).saturating_add(s.front())
    }

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
        let alone = if s.records.unstable {
            0
        } else {
            programs(&s, 1, s.records.word, cost)
        };
        let record = Work {
            written: s.records.record as u64,
            programs: programs(&s, 1, s.records.record, cost) + alone,
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
        let slots = s.records.anchors as u64 * s.records.slots() as u64;
        let marks = if s.records.unstable {
            slots * s.records.marker as u64
        } else {
            0
        };
        let twice = 2 * (2 * Shape::chain(s.manifest(all)) as u64 + data as u64) * s.cell as u64;
        let reads = Work {
            read: slots * s.records.record as u64 + marks + s.records.record as u64 + twice,
            ..NOTHING
        };
        boot_record(&s, cost).and(reads)
    }

    /// Opens a log in a range that holds nothing else. `program` identifies the build of the
    /// program. Cells are always compared before they are written: see [`Log::with_cost`].
    ///
    /// **Power loss**: writes nothing. **Cost**: reads nothing. **Errors**: [`Error::TooSmall`] if
    /// not even an empty checkpoint fits, [`Error::BadRange`].
    pub fn open(medium: D, range: Range<u32>, program: u64) -> Result<Self, Error<D::Error>> {
        let align = const { D::CONTRACT.alignment() };
        if range.end > medium.capacity()
            || range.start > range.end
            || !range.start.is_multiple_of(align)
        {
            return Err(Error::BadRange);
        }
        let s = Self::SHAPE;
        let units = (range.end - range.start).saturating_sub(s.front()) / s.unit;
        if units < 2 {
            return Err(Error::TooSmall {
                needed: s.unit.saturating_mul(2).saturating_add(s.front()),
            });
        }
        Ok(Log {
            medium,
            cells_at: range.start + s.front(),
            program: [program as u32, (program >> 32) as u32],
            unit_count: units.min(UNITS as u32),
            adaptive: Adaptive::ALWAYS,
            ready: false,
            records: Records::new(range.start),
            map: [NONE; CELLS],
            units: [0; UNITS],
            chain: [0; MANIFESTS],
            chain_len: 0,
            cursor: 0,
            next: u32::MAX,
        })
    }

    /// Compares cells only in regions where comparing is expected to save more than it costs:
    /// enough of the region's cells were unchanged at earlier checkpoints. In other regions one
    /// cell in 32 is compared, to notice when that changes.
    #[must_use]
    pub fn with_cost(mut self, cost: &Cost) -> Self {
        self.adaptive = Adaptive::new(cost, CELL as u32, Self::SHAPE.unit, Self::SHAPE.erases);
        self
    }

    /// Returns the medium.
    pub fn into_medium(self) -> D {
        self.medium
    }
}

// SAFETY: *Log: checked before it is memory*, *Log: own record first*: each cell is checked, and
// the record made stable, before the first byte of memory is written. Each cell is checked again
// while it is written.
unsafe impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize> Store
    for Log<D, CELLS, UNITS, CELL>
{
    type Error = D::Error;

    fn save(&mut self, memory: &Memory<'_>, context: u32) -> Result<(), Error<D::Error>> {
        self.checkpoint(memory, context)
    }

    fn load(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.restore(memory)
    }
}

// INVARIANT "Log: bounded": no checkpoint and no restore of the log takes more reads, writes,
// program operations or erases than `worst_case` and `worst_restore` say. Beyond the cells that
// hold data, `collect` and `write_manifest` (log/save.rs) write at most one unit of cells and all
// places once.
// Noticed by: each boot of tests/suite/crash/log.rs; tests/suite/log/worst.rs, which also requires
// that the worst case comes near (two thirds of the bound).
/// Program operations of `count` writes of `len` bytes, each at a multiple of `len` from an aligned
/// base.
const fn programs(s: &Shape, count: u32, len: u32, cost: &Cost) -> u64 {
    let op = cost.step();
    let aligned = s.erases
        && s.unit.is_multiple_of(op)
        && s.records.anchor.is_multiple_of(op)
        && s.records.record.is_multiple_of(op)
        && s.cell.is_multiple_of(op)
        && len.is_multiple_of(op);
    // If an operation covers more than a word, a write may begin in the last word of one.
    let before = if aligned {
        0
    } else {
        straddle(s.records.word, op)
    };
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
    if !s.records.unstable {
        return NOTHING;
    }
    let marker = s.records.marker;
    Work {
        read: s.records.record as u64,
        written: (s.records.record + marker) as u64,
        programs: programs(s, 1, s.records.record, cost) + programs(s, 1, marker, cost),
        // The erases of all unreadable anchors, or of one; and one for the next record.
        erases: if s.erases {
            s.records.anchors as u64 - 1
        } else {
            0
        },
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
