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
//! Files: `anchor` (records and where they go), `record` and `runs` (formats), `save` and `space`
//! (writing, free units), `load` (reading), `shape` (sizes), `adaptive` (what to compare), `worst`
//! (cost).

mod adaptive;
mod anchor;
mod load;
pub(crate) mod record;
pub(crate) mod runs;
mod save;
pub(crate) mod shape;
mod space;
mod worst;

use crate::cost::Cost;
use crate::{Error, Memory, Restored, Store};
use adaptive::Adaptive;
use anchor::{Anchors, FoundRecord};
use core::ops::Range;
use nvmem::device::Medium;
use runs::{NONE, SLOTS};
use shape::{MANIFESTS, Shape};

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
#[derive(Debug)]
pub struct Log<D, const CELLS: usize, const UNITS: usize, const CELL: usize = 128> {
    medium: D,
    start: u32,
    /// Two words, so that a `Log` is aligned to words only: a larger alignment would need further
    /// code for moving and zeroing it.
    program: [u32; 2],
    unit_count: u32,
    adaptive: Adaptive,
    /// The fields below match the medium.
    ready: bool,
    anchors: Anchors,
    /// The newest valid record.
    found: Option<FoundRecord>,
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
            start: range.start,
            program: [program as u32, (program >> 32) as u32],
            unit_count: units.min(UNITS as u32),
            adaptive: Adaptive::ALWAYS,
            ready: false,
            anchors: Anchors::NEW,
            found: None,
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
