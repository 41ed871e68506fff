//! A log of checkpoints: what changed is written to another place, and the last thing that is written says where everything is.

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
use anchor::{Anchors, Found};
use core::ops::Range;
use nvmem::device::Medium;
use runs::{NONE, SLOTS};
use shape::{MANIFESTS, Shape};

/// Checkpoints of a memory of up to `CELLS` cells of `CELL` bytes, in a range of a medium with up to `UNITS` units: the mode *Adaptive*.
///
/// Each checkpoint writes the cells of memory that are in use, not zero and not the same as in the checkpoint before; where comparing is dear it learns, for each
/// region of memory, whether to compare at all ([`Log::with_cost`]). What is written goes to places that the last checkpoint does not need, so
/// nothing is ever changed in place, and a checkpoint of a few cells costs a few cells, a record, and its part of the erases. Cells that are left
/// over in nearly empty units are written again, from memory, so that there is always room for a checkpoint of everything.
///
/// A segment of memory is cut into cells from its start, so it takes its length divided by `CELL`, rounded up. A unit is an erase unit or, if that is
/// smaller, as many as a cell takes; without erase it is eight cells. RAM: two bytes for each of the `CELLS`, one for each of the
/// `UNITS`, and some 370. A log of less than all of the medium, or with more units than `UNITS`, leaves the others alone.
#[derive(Debug)]
pub struct Log<D, const CELLS: usize, const UNITS: usize, const CELL: usize = 128> {
    medium: D,
    start: u32,
    /// In words, so that a log is aligned to words: what moves and zeroes what is aligned to more would be there as well.
    program: [u32; 2],
    unit_count: u32,
    adaptive: Adaptive,
    /// What is below is known.
    ready: bool,
    anchors: Anchors,
    /// The record that counts.
    found: Option<Found>,
    /// Where each cell of memory is.
    map: [u16; CELLS],
    units: [u8; UNITS],
    /// The cells of the manifests, from the oldest.
    chain: [u16; MANIFESTS],
    chained: usize,
    /// The unit that was filled last, and its next cell: `u32::MAX` when this boot has not begun to fill it.
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
            "so many cells need larger ones"
        );
        assert!(
            UNITS > 1 && UNITS as u64 * (s.per as u64) < SLOTS as u64,
            "so many units need larger cells"
        );
        s
    };

    /// The size of a range in which checkpoints of a memory of which so many bytes are in use and not zero always have room: three times as many, and what else
    /// a log needs. In less it may do, as long as not too much of it changes; a little more than twice as many is the least.
    ///
    /// `u32::MAX` when no range is large enough: more than `CELLS` cells, more than `UNITS` units, or more bytes than a medium has.
    pub const fn bytes(used: u32) -> u32 {
        let s = Self::SHAPE;
        // Each segment may end in a part of a cell.
        let n = used.div_ceil(s.cell) + 2;
        let cells = if n > CELLS as u32 { n } else { CELLS as u32 };
        let manifest = s.manifest(if cells > SLOTS { SLOTS } else { cells });
        let units = (3 * n + 2 * manifest).div_ceil(s.per) + 3;
        if units > UNITS as u32 || used.div_ceil(s.cell) > CELLS as u32 {
            return u32::MAX;
        }
        // Only this may be more than 32 bits hold: a cell has at least 32 bytes.
        units.saturating_mul(s.unit).saturating_add(s.front())
    }

    /// Opens a log in a range that it has for itself. `program` tells one build of a program from another. Cells are always compared before they are written: see
    /// [`Log::with_cost`].
    ///
    /// **Power loss**: writes nothing. **Cost**: reads nothing. **Errors**: [`Error::TooSmall`] for a checkpoint of nothing, [`Error::BadRange`].
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
            chained: 0,
            cursor: 0,
            next: u32::MAX,
        })
    }

    /// The same, but cells are compared only where that is expected to cost less than it saves: in regions of which enough was the same at the checkpoints before.
    /// Of the others one cell in 32 is compared, to see whether that has changed.
    #[must_use]
    pub fn with_cost(mut self, cost: &Cost) -> Self {
        self.adaptive = Adaptive::new(cost, CELL as u32, Self::SHAPE.unit, Self::SHAPE.erases);
        self
    }

    /// The medium back.
    pub fn into_medium(self) -> D {
        self.medium
    }
}

// SAFETY: *Log: checked before it is memory*, *Log: own record first*: each cell is checked, and the record is made stable, before the
// first byte of memory is written, and each cell is checked again as it is.
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
