//! How a checkpoint is written: cells, manifests when places no longer fit in a record, the record.

use super::Log;
use super::record::{HEAD, Record};
use super::runs::{NONE, PENDING, SLOTS, ZERO, check, encode};
use super::shape::{Cell, Cells, FRAME, LARGEST};
use crate::{Error, Memory};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// Bytes that are compared at once: what follows a difference is not read.
const fn glance(read_size: u32) -> u32 {
    if read_size <= 32 && 32 % read_size == 0 {
        32
    } else {
        read_size
    }
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    /// Keeps the state of `memory`: see [`Store::save`](crate::Store::save).
    pub(super) fn checkpoint(
        &mut self,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        let s = Self::SHAPE;
        let cells = Cells::of(memory, s.cell);
        if cells.count() > CELLS as u32 {
            return Err(Error::Tables {
                cells: cells.count(),
            });
        }
        loop {
            if let Err(e) = self.look(memory) {
                self.forget();
                return Err(e);
            }
            let data = |c: &Cell| c.is_used() && !c.is_zero(memory);
            let all = (0..cells.count()).filter_map(|i| cells.get(i));
            let n = all.filter(data).count() as u32;
            // All of it may have changed, and whatever is left over after that must be collectable.
            let most = n + s.manifest(cells.count());
            let whole = self.unit_count * s.per;
            if self.room() < most || s.erases && whole < 2 * (most + s.per) {
                return Err(Error::TooSmall {
                    needed: Self::bytes(n.saturating_mul(s.cell)),
                });
            }
            let done = match self.own() {
                // The record was never stable: nobody has gone on from it.
                Ok(false) => {
                    self.below = self.found.map(|f| f.record.number);
                    self.forget();
                    continue;
                }
                Ok(true) => self.write(memory, &cells, context, n, most),
                Err(e) => Err(e),
            };
            if done.is_err() {
                self.forget();
            }
            self.below = None;
            return done;
        }
    }

    fn write(
        &mut self,
        memory: &Memory<'_>,
        cells: &Cells,
        context: u32,
        data: u32,
        most: u32,
    ) -> Result<(), Error<D::Error>> {
        let before = self.found.map(|f| f.record);
        let old = before.map(|r| cells.using(r.heap_used, r.stack_from));
        let mut written = 0;
        for i in 0..cells.count() {
            let Some(cell) = cells.get(i) else { break };
            let place = self.place_of(i);
            let to = if !cell.is_used() {
                NONE
            } else if cell.is_zero(memory) {
                ZERO
            } else {
                // With other bytes in use it has other zeros.
                let alike = old.is_some_and(|o| o.get(i) == Some(cell));
                if u32::from(place) < SLOTS && alike && self.same(i, cells, &cell, memory)? {
                    continue;
                }
                written += 1;
                self.put_cell(&cell, memory)?
            };
            if to != place {
                self.moved(i, to);
            }
        }
        let full = self.collect(memory, cells, data, most, written)?;
        let mut buf = [0; LARGEST];
        let places = self.tell(memory, cells, full, &mut buf)?;
        let (heap_used, stack_from) = memory.in_use();
        let manifests = self.chain.get(..self.chained).unwrap_or_default();
        let record = Record {
            number: 0,
            base: 0,
            sequence: before.map_or(0, |r| r.sequence).wrapping_add(1),
            program: self.program,
            memory: memory.fingerprint(),
            context,
            heap_used,
            stack_from,
            manifest: manifests.last().copied().unwrap_or(NONE),
            manifests: self.chained as u8,
            copy: false,
            places: places as u16,
            cell: CELL as u16,
        };
        self.append(record, &mut buf).map_err(Error::Medium)?;
        self.recount();
        Ok(())
    }

    fn place_of(&self, cell: u32) -> u16 {
        self.map.get(cell as usize).map_or(NONE, |p| p & !PENDING)
    }

    /// A cell of memory is somewhere else now.
    #[inline(never)]
    fn moved(&mut self, cell: u32, to: u16) {
        self.release(self.place_of(cell));
        if let Some(p) = self.map.get_mut(cell as usize) {
            *p = to | PENDING;
        }
    }

    /// What tells the content of a cell. Not inlined: it is asked for at each kind of run.
    #[inline(never)]
    fn checked(i: u32, memory: &Memory<'_>, cells: &Cells) -> u16 {
        let mut content = [0; CELL];
        if let Some(cell) = cells.get(i) {
            cell.content(memory, &mut content);
        }
        check(&content)
    }

    #[inline(never)]
    fn put_cell(&mut self, cell: &Cell, memory: &Memory<'_>) -> Result<u16, Error<D::Error>> {
        let mut buf = [0; CELL];
        cell.content(memory, &mut buf);
        self.place(&buf)
    }

    /// Whether the medium is known to hold this cell as it is.
    fn same(
        &mut self,
        i: u32,
        cells: &Cells,
        cell: &Cell,
        memory: &Memory<'_>,
    ) -> Result<bool, Error<D::Error>> {
        if !self.adaptive.compares(i, cells.count()) {
            return Ok(false);
        }
        let base = self.slot_at(self.place_of(i));
        let glance = const { glance(D::CONTRACT.read_size) };
        let (mut at, mut same) = (cell.from / glance * glance, true);
        while at < cell.to && same {
            let n = glance.min(CELL as u32 - at);
            let (mut is, mut was) = ([0; LARGEST], [0; LARGEST]);
            let Some(whole) = was.get_mut(..n as usize) else {
                break;
            };
            self.medium.read(base + at, whole).map_err(Error::Medium)?;
            let (from, to) = (cell.from.max(at), cell.to.min(at + n));
            let within = (from - at) as usize..(to - at) as usize;
            let (Some(is), Some(was)) = (is.get_mut(within.clone()), was.get(within)) else {
                break;
            };
            same = memory.read(cell.at + from, is) && is == was;
            at += n;
        }
        self.adaptive.learn(i, cells.count(), same);
        Ok(same)
    }

    /// Writes what is needed of the emptiest units to other places, until so few units are in use that a checkpoint of everything has room. Whether all
    /// places are to be told anew: manifests were in the way.
    ///
    /// A cell that was written in this checkpoint need not be moved, but for what shares the first unit with older ones. So both together
    /// write no more cells than hold data, and one unit.
    fn collect(
        &mut self,
        memory: &Memory<'_>,
        cells: &Cells,
        data: u32,
        most: u32,
        written: u32,
    ) -> Result<bool, Error<D::Error>> {
        let s = Self::SHAPE;
        let mut full = false;
        if !s.erases || planted!("checkpoint/log-not-collected") {
            return Ok(full);
        }
        let mut left = (data + s.per).saturating_sub(written);
        let spare = s.manifest(cells.count());
        let whole = self.unit_count * s.per;
        // More of memory may be in use next time: as much as a log of this size is meant for.
        let meant = (whole + s.front() / s.cell) / 3 + spare + s.per;
        let next = meant.min(cells.count() + spare).max(most);
        let limit = whole.saturating_sub(next).min(2 * (data + s.per));
        while self.occupied() > limit && self.room() > spare + s.per {
            let Some(unit) = self.emptiest() else { break };
            let within = |p: u16| u32::from(p & !PENDING) / s.per == unit;
            let manifests = self.chain.get(..self.chained).unwrap_or_default();
            if manifests.iter().any(|p| within(*p)) {
                full = true;
                self.unchain();
            }
            for i in 0..cells.count() {
                let place = self.place_of(i);
                if u32::from(place) < SLOTS
                    && within(place)
                    && let Some(cell) = cells.get(i)
                {
                    if left == 0 {
                        return Ok(full);
                    }
                    left -= 1;
                    let to = self.put_cell(&cell, memory)?;
                    self.moved(i, to);
                }
            }
        }
        Ok(full)
    }

    /// The manifests are not needed after the next commit.
    fn unchain(&mut self) {
        for k in 0..self.chained {
            let slot = self.chain.get(k).copied().unwrap_or(NONE);
            self.release(slot);
        }
        self.chained = 0;
    }

    /// Tells the places that no manifest holds: in the record as far as they fit, else in manifests. Bytes of the record's own.
    fn tell(
        &mut self,
        memory: &Memory<'_>,
        cells: &Cells,
        mut full: bool,
        buf: &mut [u8; LARGEST],
    ) -> Result<usize, Error<D::Error>> {
        let s = Self::SHAPE;
        let checked = |i: u32| Self::checked(i, memory, cells);
        let mut first = true;
        loop {
            if full {
                self.unchain();
                for p in self.map.iter_mut() {
                    *p = if *p & !PENDING == NONE {
                        NONE
                    } else {
                        *p | PENDING
                    };
                }
                full = false;
            }
            let own = buf.get_mut(HEAD..s.record as usize - 4).unwrap_or_default();
            let (len, next) = encode(own, &self.map, checked);
            if next == self.map.len() {
                return Ok(len);
            }
            if first {
                first = false;
                // Whether there is room for more manifests is known before the first one is written, so what is written is needed.
                let pending = self.map.iter().filter(|p| **p & PENDING != 0).count() as u32;
                full = self.chained as u32 + s.manifest(pending) > s.chain(cells.count());
                if full {
                    continue;
                }
            }
            let mut manifest = [0; CELL];
            let room = manifest.get_mut(4..CELL - 4).unwrap_or_default();
            let (len, next) = encode(room, &self.map, checked);
            for p in self.map.iter_mut().take(next) {
                *p &= !PENDING;
            }
            let before = self.chained.checked_sub(1).and_then(|k| self.chain.get(k));
            let before = before.copied().unwrap_or(NONE);
            manifest[..2].copy_from_slice(&before.to_le_bytes());
            manifest[2..4].copy_from_slice(&(len as u16).to_le_bytes());
            let crc = crc32(
                manifest
                    .get(..CELL - FRAME as usize + 4)
                    .unwrap_or_default(),
            );
            manifest[CELL - 4..].copy_from_slice(&crc.to_le_bytes());
            let slot = self.place(&manifest)?;
            if let Some(c) = self.chain.get_mut(self.chained) {
                *c = slot;
            }
            self.chained += 1;
        }
    }
}
