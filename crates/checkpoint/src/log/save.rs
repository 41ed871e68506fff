//! How a checkpoint is written: cells, manifests when places no longer fit in a record, the record.

use super::Log;
use super::adaptive::Adaptive;
use super::record::{Fields, HEAD, Record};
use super::runs::{NONE, PENDING, SLOTS, check, encode};
use super::shape::{Cell, Cells, LARGEST, Shape};
use super::space::Stop;
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

/// What a checkpoint is of.
struct Round<'a, 'm, const CELL: usize> {
    memory: &'a Memory<'m>,
    /// The fingerprint of the memory.
    print: u32,
    cells: Cells<CELL>,
    context: u32,
    /// Cells, how many of them hold data, and how many all their places take at most.
    count: u32,
    data: u32,
    places: u32,
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
        let cells = Cells::of(memory);
        let count = cells.count();
        if count > CELLS as u32 {
            return Err(Error::Tables { cells: count });
        }
        let mut data = 0;
        for i in 0..count {
            if cells.get(i).is_some_and(|c| c.empty(memory).is_none()) {
                data += 1;
            }
        }
        let round = Round {
            memory,
            print: memory.fingerprint(),
            cells,
            context,
            count,
            data,
            places: s.manifest(count),
        };
        let mut below = None;
        loop {
            self.look(&round.cells, round.print, below)?;
            // All of it may have changed, and whatever is left over after that must be collectable.
            let most = data + round.places;
            let whole = self.unit_count * s.per;
            if self.survey().room < most || s.erases && whole < 2 * (most + s.per) {
                return Err(Error::TooSmall {
                    needed: Self::bytes(data * s.cell),
                });
            }
            // What is known of the medium may be wrong until all is written.
            self.ready = false;
            return match self.write(&round) {
                // The record was never stable: nobody has gone on from it.
                Ok(false) => {
                    below = self.found.as_ref().map(|f| f.record.number());
                    continue;
                }
                Ok(true) => {
                    self.ready = true;
                    Ok(())
                }
                Err(Stop::Full) => Err(Error::TooSmall { needed: u32::MAX }),
                Err(Stop::Medium(e)) => Err(Error::Medium(e)),
            };
        }
    }

    /// `false` when there is no record to go on from any more.
    fn write(&mut self, round: &Round<'_, '_, CELL>) -> Result<bool, Stop<D::Error>> {
        if !self.own()? {
            return Ok(false);
        }
        let memory = round.memory;
        let before = self.found.as_ref().map(|f| &f.record);
        let sequence = before.map_or(0, Record::sequence).wrapping_add(1);
        let old = before.map(|r| round.cells.using(r.heap_used(), r.stack_from()));
        let mut written = 0;
        for i in 0..round.count {
            let Some(cell) = round.cells.get(i) else {
                break;
            };
            let place = self.place_of(i);
            let to = match cell.empty(memory) {
                Some(to) => to,
                None => {
                    // With other bytes in use it has other zeros.
                    let alike = old.as_ref().is_some_and(|o| o.get(i) == Some(cell));
                    if u32::from(place) < SLOTS && alike && self.same(i, round, &cell)? {
                        continue;
                    }
                    written += 1;
                    self.put_cell(&cell, memory)?
                }
            };
            if to != place {
                self.moved(i, to);
            }
        }
        let full = self.collect(round, written)?;
        let mut buf = [0; LARGEST];
        let places = self.tell(round, full, &mut buf)?;
        let (heap_used, stack_from) = memory.in_use();
        let record = Record::new(&Fields {
            sequence,
            program: self.program,
            memory: round.print,
            context: round.context,
            heap_used,
            stack_from,
            manifest: self.newest(),
            manifests: self.chained as u8,
            places: places as u16,
            cell: CELL as u16,
        });
        self.append(record, &mut buf)?;
        self.recount();
        Ok(true)
    }

    /// The newest manifest.
    fn newest(&self) -> u16 {
        let last = self.chained.checked_sub(1).and_then(|k| self.chain.get(k));
        last.copied().unwrap_or(NONE)
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

    #[inline(never)]
    fn put_cell(&mut self, cell: &Cell, memory: &Memory<'_>) -> Result<u16, Stop<D::Error>> {
        let mut buf = [0; CELL];
        cell.content(memory, &mut buf);
        self.place(&buf)
    }

    /// Whether the medium is known to hold this cell as it is.
    fn same(&mut self, i: u32, round: &Round<'_, '_, CELL>, cell: &Cell) -> Result<bool, D::Error> {
        let region = Adaptive::region(i, round.count);
        if !self.adaptive.compares(region) {
            return Ok(false);
        }
        let base = self.slot_at(self.place_of(i));
        let glance = const { glance(D::CONTRACT.read_size) };
        let mut was = [0; LARGEST];
        let (mut at, mut same) = (cell.from / glance * glance, true);
        while at < cell.to && same {
            let n = glance.min(CELL as u32 - at);
            let was = was.get_mut(..n as usize).unwrap_or_default();
            self.medium.read(base + at, was)?;
            let (from, to) = (cell.from.max(at), cell.to.min(at + n));
            let was = was.get((from - at) as usize..(to - at) as usize);
            same = was.is_some_and(|was| round.memory.holds(cell.at + from, was));
            at += n;
        }
        self.adaptive.learn(region, same);
        Ok(same)
    }

    /// Writes what is needed of the emptiest units to other places, until so few units are in use that a checkpoint of everything has room. Whether all
    /// places are to be told anew: manifests were in the way.
    ///
    /// A cell that was written in this checkpoint need not be moved, but for what shares the first unit with older ones. So both together
    /// write no more cells than hold data, and one unit.
    fn collect(
        &mut self,
        round: &Round<'_, '_, CELL>,
        written: u32,
    ) -> Result<bool, Stop<D::Error>> {
        let s = Self::SHAPE;
        let mut full = false;
        if !s.erases || planted!("checkpoint/log-not-collected") {
            return Ok(full);
        }
        let (data, spare) = (round.data, round.places);
        let mut left = (data + s.per).saturating_sub(written);
        let whole = self.unit_count * s.per;
        // More of memory may be in use next time: as much as a log of this size is meant for.
        let meant = (whole + s.front() / s.cell) / 3 + spare + s.per;
        let next = meant.min(round.count + spare).max(data + spare);
        let limit = whole.saturating_sub(next).min(2 * (data + s.per));
        loop {
            let all = self.survey();
            if all.occupied <= limit || all.room <= spare + s.per {
                break;
            }
            let Some(unit) = all.emptiest else { break };
            let within = |p: u16| u32::from(p & !PENDING) / s.per == unit;
            if self.manifests().iter().any(|p| within(*p)) {
                full = true;
                self.unchain();
            }
            for i in 0..round.count {
                let place = self.place_of(i);
                if u32::from(place) < SLOTS
                    && within(place)
                    && let Some(cell) = round.cells.get(i)
                {
                    if left == 0 {
                        return Ok(full);
                    }
                    left -= 1;
                    let to = self.put_cell(&cell, round.memory)?;
                    self.moved(i, to);
                }
            }
        }
        Ok(full)
    }

    /// The manifests are not needed after the next commit.
    #[inline(never)]
    fn unchain(&mut self) {
        while self.chained > 0 {
            let newest = self.newest();
            self.release(newest);
            self.chained -= 1;
        }
    }

    /// Tells the places that no manifest holds: in the record as far as they fit, else in manifests. Bytes of the record's own.
    fn tell(
        &mut self,
        round: &Round<'_, '_, CELL>,
        mut full: bool,
        buf: &mut [u8; LARGEST],
    ) -> Result<usize, Stop<D::Error>> {
        let s = Self::SHAPE;
        let checked = |i: u32| {
            let mut content = [0; CELL];
            if let Some(cell) = round.cells.get(i) {
                cell.content(round.memory, &mut content);
            }
            check(&content)
        };
        let mut first = true;
        loop {
            if full {
                self.unchain();
                for p in &mut self.map {
                    *p |= PENDING;
                    if *p == NONE | PENDING {
                        *p = NONE;
                    }
                }
                full = false;
            }
            let own = buf.get_mut(HEAD..s.record as usize - 4).unwrap_or_default();
            let (len, next) = encode(own, &self.map, checked);
            if next == CELLS {
                return Ok(len);
            }
            if first {
                first = false;
                // Whether there is room for more manifests is known before the first one is written, so what is written is needed.
                let pending = self.map.iter().filter(|p| **p & PENDING != 0).count() as u32;
                full = self.chained as u32 + s.manifest(pending) > Shape::chain(round.places);
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
            manifest[..2].copy_from_slice(&self.newest().to_le_bytes());
            manifest[2..4].copy_from_slice(&(len as u16).to_le_bytes());
            let crc = crc32(manifest.get(..CELL - 4).unwrap_or_default());
            manifest[CELL - 4..].copy_from_slice(&crc.to_le_bytes());
            let slot = self.place(&manifest)?;
            if let Some(c) = self.chain.get_mut(self.chained) {
                *c = slot;
            }
            self.chained += 1;
        }
    }
}
