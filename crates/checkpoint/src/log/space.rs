//! Units of cells: which are free, and where the next cell goes.

use super::Log;
use super::runs::{PENDING, SLOTS};
use crate::Error;
use nvmem::device::Medium;
use nvmem::planted;

/// Of a unit: nothing in it is needed, and it may be erased. Else, where units are erased, how many of its cells are needed; where
/// they are not, a bit for each of its eight cells that is.
pub(super) const FREE: u8 = u8::MAX;

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    pub(super) fn slot_at(&self, slot: u16) -> u32 {
        let s = Self::SHAPE;
        let (unit, i) = (u32::from(slot) / s.per, u32::from(slot) % s.per);
        self.start + s.front() + unit * s.unit + i * s.cell
    }

    /// Units that there are.
    pub(super) fn live(&self) -> &[u8] {
        self.units
            .get(..self.unit_count as usize)
            .unwrap_or_default()
    }

    fn unit(&mut self, slot: u16) -> Option<&mut u8> {
        self.units
            .get_mut((u32::from(slot) / Self::SHAPE.per) as usize)
    }

    /// Cells that can be written before the next commit.
    pub(super) fn room(&self) -> u32 {
        let s = Self::SHAPE;
        if !s.erases {
            return self.live().iter().map(|u| u.count_zeros()).sum();
        }
        let free = self.live().iter().filter(|u| **u == FREE).count() as u32;
        free * s.per + self.open.map_or(0, |(_, next)| s.per - next)
    }

    /// Cells of units in which something is needed, or will be after the commit.
    pub(super) fn occupied(&self) -> u32 {
        let n = |(_, u): &(usize, &u8)| !matches!(**u, 0 | FREE);
        self.live().iter().enumerate().filter(n).count() as u32 * Self::SHAPE.per
    }

    /// A place for a cell. What was there is not needed by the checkpoint that counts.
    fn take(&mut self) -> Result<Option<u16>, D::Error> {
        let s = Self::SHAPE;
        let n = self.unit_count;
        if !s.erases {
            for k in 0..n {
                let unit = (self.cursor + k) % n;
                let Some(u) = self.units.get_mut(unit as usize) else {
                    break;
                };
                let i = u.trailing_ones();
                if i < 8 {
                    *u |= 1 << i;
                    self.cursor = unit;
                    return Ok(Some((unit * s.per + i) as u16));
                }
            }
            return Ok(None);
        }
        if self.open.is_none_or(|(_, next)| next == s.per) {
            let free = |u: &u8| *u == FREE;
            let found = (1..=n)
                .map(|k| (self.cursor + k) % n)
                .find(|u| self.live().get(*u as usize).is_some_and(free));
            let Some(unit) = found else { return Ok(None) };
            let at = self.slot_at((unit * s.per) as u16);
            if !planted!("checkpoint/log-not-erased") {
                self.medium.erase(at, at + s.unit)?;
            }
            if let Some(u) = self.units.get_mut(unit as usize) {
                *u = 0;
            }
            self.cursor = unit;
            self.open = Some((unit, 0));
        }
        let Some((unit, next)) = self.open else {
            return Ok(None);
        };
        self.open = Some((unit, next + 1));
        if let Some(u) = self.units.get_mut(unit as usize) {
            *u += 1;
        }
        Ok(Some((unit * s.per + next) as u16))
    }

    /// Writes a cell.
    pub(super) fn place(&mut self, content: &[u8; CELL]) -> Result<u16, Error<D::Error>> {
        let slot = self.take().map_err(Error::Medium)?;
        let slot = slot.ok_or(Error::TooSmall { needed: u32::MAX })?;
        let at = self.slot_at(slot);
        self.medium.write(at, content).map_err(Error::Medium)?;
        Ok(slot)
    }

    /// A cell is not needed after the next commit.
    #[inline(never)]
    pub(super) fn release(&mut self, place: u16) {
        let s = Self::SHAPE;
        if u32::from(place & !PENDING) < SLOTS
            && let Some(u) = self.unit(place & !PENDING)
        {
            if s.erases && *u != FREE {
                *u = u.saturating_sub(1);
                if *u == 0 && planted!("checkpoint/log-freed-too-early") {
                    *u = FREE;
                }
            } else if !s.erases && planted!("checkpoint/log-freed-too-early") {
                *u &= !(1 << (u32::from(place) % s.per));
            }
        }
    }

    /// After a commit: what is needed, and what is free.
    pub(super) fn recount(&mut self) {
        let s = Self::SHAPE;
        self.units.fill(0);
        let manifests = self.chain.get(..self.chained).unwrap_or_default();
        for p in self.map.iter().chain(manifests) {
            let slot = u32::from(p & !PENDING);
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
            let open = self.open.map(|(unit, _)| unit);
            for (i, u) in self.units.iter_mut().enumerate() {
                if *u == 0 && open != Some(i as u32) {
                    *u = FREE;
                }
            }
        }
    }

    /// Of the units that the next commit needs the one with the fewest cells.
    pub(super) fn emptiest(&self) -> Option<u32> {
        let open = self.open.map(|(unit, _)| unit);
        let some = |(i, u): &(usize, &u8)| !matches!(**u, 0 | FREE) && open != Some(*i as u32);
        let all = self.live().iter().enumerate().filter(some);
        all.min_by_key(|(_, u)| **u).map(|(i, _)| i as u32)
    }
}
