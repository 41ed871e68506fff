//! Units of cells: which are free, and where the next cell goes.

use super::Log;
use super::runs::{NONE, PENDING, SLOTS};
use nvmem::device::Medium;
use nvmem::planted;

/// Of a unit: nothing in it is needed, and it may be erased. Else, where units are erased, how many of its cells are needed; where
/// they are not, a bit for each of its eight cells that is.
const FREE: u8 = u8::MAX;

/// Why cells cannot be written.
pub(super) enum Stop<E> {
    /// There is no room.
    Full,
    Medium(E),
}

impl<E> From<E> for Stop<E> {
    fn from(e: E) -> Self {
        Stop::Medium(e)
    }
}

/// What the units hold.
pub(super) struct Survey {
    /// Cells that can be written before the next commit.
    pub room: u32,
    /// Cells of units in which something is needed, or will be after the commit.
    pub occupied: u32,
    /// Of these the unit with the fewest, but for the one that is being filled.
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

    /// The unit that this boot fills, or has filled last; none of them, where it has not.
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

    /// The next unit with room: where units are erased one behind the last one, else that one as well.
    fn vacant(&self) -> Option<u32> {
        let mut unit = self.cursor;
        for k in 0..self.unit_count {
            if Self::SHAPE.erases || k > 0 {
                let next = unit + 1;
                unit = if next < self.unit_count { next } else { 0 };
            }
            // Free, or with a bit left.
            if (*self.units.get(unit as usize)? == FREE) == Self::SHAPE.erases {
                return Some(unit);
            }
        }
        None
    }

    /// A place for a cell. What was there is not needed by the checkpoint that counts.
    fn take(&mut self) -> Result<u16, Stop<D::Error>> {
        let s = Self::SHAPE;
        if !s.erases || self.next >= s.per {
            let unit = self.vacant().ok_or(Stop::Full)?;
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
    pub(super) fn place(&mut self, content: &[u8; CELL]) -> Result<u16, Stop<D::Error>> {
        let slot = self.take()?;
        let at = self.slot_at(slot);
        self.medium.write(at, content)?;
        Ok(slot)
    }

    /// A cell is not needed after the next commit.
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
        self.chain.get(..self.chained).unwrap_or_default()
    }

    /// After a commit: what is needed, and what is free.
    #[inline(never)]
    pub(super) fn recount(&mut self) {
        let s = Self::SHAPE;
        self.units.fill(0);
        for k in 0..CELLS + self.chained {
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
