//! The units of cells: which are free, and where the next cell goes.
//!
//! ```text
//!  state of a unit on flash           without erase
//!  FREE --erase, fill--> n needed     8 bits: the cell is needed
//!    ^                      |
//!    +------- 0 needed -----+         (after the next record only)
//! ```
//!
//! Why this is safe: a unit is erased only in state FREE, and it becomes FREE only in `recount`,
//! after a record was written that needs none of its cells.

use super::Log;
use super::runs::{NONE, PENDING, SLOTS};
use nvmem::device::Medium;
use nvmem::planted;

/// A unit that may be erased: nothing in it is needed. Other values: with erases, the number of
/// needed cells in the unit; without, a bit for each of its eight cells that is needed.
const FREE: u8 = u8::MAX;

/// Why cells cannot be written.
pub(super) enum WriteError<E> {
    /// There is no free place.
    Full,
    Medium(E),
}

impl<E> From<E> for WriteError<E> {
    fn from(e: E) -> Self {
        WriteError::Medium(e)
    }
}

/// A count of the units' cells.
pub(super) struct Survey {
    /// Cells that can be written before the next record.
    pub room: u32,
    /// All cells of units in which a cell is needed, or will be after the next record.
    pub occupied: u32,
    /// The unit with the fewest needed cells, except the one being filled.
    pub emptiest: Option<u32>,
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    pub(super) fn slot_at(&self, slot: u16) -> u32 {
        let s = Self::SHAPE;
        let (unit, i) = (u32::from(slot) / s.per, u32::from(slot) % s.per);
        self.start + s.front() + unit * s.unit + i * s.cell
    }

    /// The unit that this boot fills or filled last; `usize::MAX` if there is none.
    fn filling(&self) -> usize {
        if self.next == u32::MAX {
            return usize::MAX;
        }
        self.cursor as usize
    }

    #[inline(never)]
    pub(super) fn survey(&self) -> Survey {
        let s = Self::SHAPE;
        let mut all = Survey {
            room: 0,
            occupied: 0,
            emptiest: None,
        };
        let mut least = FREE;
        let live = self.units.iter().take(self.unit_count as usize);
        for (i, u) in live.enumerate() {
            if !s.erases {
                all.room += u.count_zeros();
            } else if *u == FREE {
                all.room += s.per;
            } else if *u > 0 {
                all.occupied += s.per;
                if *u < least && i != self.filling() {
                    (least, all.emptiest) = (*u, Some(i as u32));
                }
            }
        }
        if s.erases {
            all.room += s.per.saturating_sub(self.next);
        }
        all
    }

    /// The next unit with a free cell. With erases the search begins after the current unit, else
    /// with it.
    fn vacant(&self) -> Option<u32> {
        let mut unit = self.cursor;
        for k in 0..self.unit_count {
            if Self::SHAPE.erases || k > 0 {
                let next = unit + 1;
                unit = if next < self.unit_count { next } else { 0 };
            }
            // With erases a free unit, else one with a free bit.
            if (*self.units.get(unit as usize)? == FREE) == Self::SHAPE.erases {
                return Some(unit);
            }
        }
        None
    }

    /// Allocates a place for a cell. The valid checkpoint does not need what was there.
    fn alloc_slot(&mut self) -> Result<u16, WriteError<D::Error>> {
        let s = Self::SHAPE;
        if !s.erases || self.next >= s.per {
            let unit = self.vacant().ok_or(WriteError::Full)?;
            if s.erases {
                let at = self.slot_at((unit * s.per) as u16);
                if !planted!("checkpoint/log-not-erased") {
                    self.medium.erase(at, at + s.unit)?;
                }
                if let Some(u) = self.units.get_mut(unit as usize) {
                    *u = 0;
                }
                self.next = 0;
            }
            self.cursor = unit;
        }
        let mut i = self.next;
        if let Some(u) = self.units.get_mut(self.cursor as usize) {
            if s.erases {
                *u += 1;
                self.next += 1;
            } else {
                i = u.trailing_ones();
                *u |= 1 << i;
            }
        }
        Ok((self.cursor * s.per + i) as u16)
    }

    /// Writes a cell.
    #[inline(never)]
    pub(super) fn write_cell(&mut self, content: &[u8; CELL]) -> Result<u16, WriteError<D::Error>> {
        let slot = self.alloc_slot()?;
        let at = self.slot_at(slot);
        self.medium.write(at, content)?;
        Ok(slot)
    }

    /// Notes that a cell is not needed after the next record.
    #[inline(never)]
    pub(super) fn release(&mut self, place: u16) {
        let s = Self::SHAPE;
        let place = u32::from(place & !PENDING);
        if place < SLOTS
            && let Some(u) = self.units.get_mut((place / s.per) as usize)
        {
            if s.erases && *u != FREE {
                *u = u.saturating_sub(1);
                if *u == 0 && planted!("checkpoint/log-freed-too-early") {
                    *u = FREE;
                }
            } else if !s.erases && planted!("checkpoint/log-freed-too-early") {
                *u &= !(1 << (place % s.per));
            }
        }
    }

    /// The places of the manifests.
    pub(super) fn manifests(&self) -> &[u16] {
        self.chain.get(..self.chain_len).unwrap_or_default()
    }

    /// Counts the needed cells again, after a record or a load.
    #[inline(never)]
    pub(super) fn recount(&mut self) {
        let s = Self::SHAPE;
        self.units.fill(0);
        for k in 0..CELLS + self.chain_len {
            let p = self.map.get(k).or_else(|| self.chain.get(k - CELLS));
            let slot = u32::from(p.copied().unwrap_or(NONE) & !PENDING);
            if slot < SLOTS
                && let Some(u) = self.units.get_mut((slot / s.per) as usize)
            {
                if s.erases {
                    *u = (*u + 1).min(FREE - 1);
                } else {
                    *u |= 1 << (slot % s.per);
                }
            }
        }
        if s.erases {
            let open = self.filling();
            for (i, u) in self.units.iter_mut().enumerate() {
                if *u == 0 && i != open {
                    *u = FREE;
                }
            }
        }
    }
}
