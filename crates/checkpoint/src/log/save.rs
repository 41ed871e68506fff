//! Writes a checkpoint to the log.
//!
//! ```text
//!  1. find_checkpoint  if the state of the log is not in RAM
//!  2. write_boot_record  once in each boot, on flash (see `anchor`)
//!  3. for each cell that is in use: compare, and write it to a free place if it differs
//!  4. collect   move the cells of nearly empty units, until the next checkpoint has space
//!  5. write_manifest   if the pending places do not fit into the record: one or more manifests,
//!                      chained to the ones before; too many: all places anew, in a new chain
//!  6. append the record, flush             <- the checkpoint becomes valid here
//!  7. recount   units without needed cells become free
//! ```
//!
//! Why this is safe: steps 3 to 5 write only to places that the last valid record does not need.
//! Such places become free in step 7 at the earliest. A cut in steps 1 to 5 leaves the last record
//! valid. A cut in step 6 leaves it or the new one.

use super::Log;
use super::adaptive::Adaptive;
use super::record::{Fields, HEAD, Record};
use super::runs::{NONE, PENDING, SLOTS, check, encode};
use super::shape::{Cell, Cells, LARGEST, Shape};
use super::space::WriteError;
use crate::{Error, Memory};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// The bytes that are read and compared at once. After the first difference no more is read.
const fn compare_step(read_size: u32) -> u32 {
    if read_size <= 32 && 32 % read_size == 0 {
        32
    } else {
        read_size
    }
}

/// The input of one checkpoint.
struct SaveJob<'a, 'm, const CELL: usize> {
    memory: &'a Memory<'m>,
    /// The fingerprint of the memory.
    fingerprint: u32,
    cells: Cells<CELL>,
    context: u32,
    /// The number of cells, how many of them hold data, and how many cells all their places take at
    /// most.
    count: u32,
    data: u32,
    places: u32,
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    /// Saves `memory`: see [`Store::save`](crate::Store::save).
    pub(super) fn checkpoint(
        &mut self,
        memory: &Memory<'_>,
        context: u32,
    ) -> Result<(), Error<D::Error>> {
        let s = Self::SHAPE;
        let cells = Cells::of(memory);
        let count = cells.count();
        if count > CELLS as u32 {
            return Err(Error::TablesTooSmall { cells: count });
        }
        let mut data = 0;
        for i in 0..count {
            if cells.get(i).is_some_and(|c| c.empty(memory).is_none()) {
                data += 1;
            }
        }
        let job = SaveJob {
            memory,
            fingerprint: memory.fingerprint(),
            cells,
            context,
            count,
            data,
            places: s.manifest(count),
        };
        let mut below = None;
        loop {
            self.load_state(&job.cells, job.fingerprint, below)?;
            // All cells may have changed, and the places that they leave behind must be collectable
            // after that.
            let most = data + job.places;
            let whole = self.unit_count * s.per;
            if self.survey().room < most || s.erases && whole < 2 * (most + s.per) {
                return Err(Error::TooSmall {
                    needed: Self::bytes(data * s.cell),
                });
            }
            // The state in RAM does not match the medium until all is written.
            self.ready = false;
            return match self.write(&job) {
                // The record was never stable, so no program ever continued from it.
                Ok(false) => {
                    below = self.found.as_ref().map(|f| f.record.number());
                    continue;
                }
                Ok(true) => {
                    self.ready = true;
                    Ok(())
                }
                Err(WriteError::Full) => Err(Error::TooSmall { needed: u32::MAX }),
                Err(WriteError::Medium(e)) => Err(Error::Medium(e)),
            };
        }
    }

    /// Returns `false` if the found record now reads differently.
    fn write(&mut self, job: &SaveJob<'_, '_, CELL>) -> Result<bool, WriteError<D::Error>> {
        if !self.write_boot_record()? {
            return Ok(false);
        }
        let memory = job.memory;
        let before = self.found.as_ref().map(|f| &f.record);
        let sequence = before.map_or(0, Record::sequence).wrapping_add(1);
        let old = before.map(|r| job.cells.using(r.heap_used(), r.stack_from()));
        let mut written = 0;
        for i in 0..job.count {
            let Some(cell) = job.cells.get(i) else {
                break;
            };
            let place = self.place_of(i);
            let to = match cell.empty(memory) {
                Some(to) => to,
                None => {
                    // With other bytes in use, other bytes of the stored cell are zero.
                    let alike = old.as_ref().is_some_and(|o| o.get(i) == Some(cell));
                    if u32::from(place) < SLOTS && alike && self.is_unchanged(i, job, &cell)? {
                        continue;
                    }
                    written += 1;
                    self.write_memory_cell(&cell, memory)?
                }
            };
            if to != place {
                self.set_place(i, to);
            }
        }
        let rewrite_all = self.collect(job, written)?;
        let mut buf = [0; LARGEST];
        let places = self.write_manifest(job, rewrite_all, &mut buf)?;
        let (heap_used, stack_from) = memory.in_use();
        let record = Record::new(&Fields {
            sequence,
            program: self.program,
            memory: job.fingerprint,
            context: job.context,
            heap_used,
            stack_from,
            manifest: self.newest_manifest(),
            manifests: self.chain_len as u8,
            places: places as u16,
            cell: CELL as u16,
        });
        self.append(record, &mut buf)?;
        self.recount();
        Ok(true)
    }

    /// The place of the newest manifest.
    fn newest_manifest(&self) -> u16 {
        let last = self
            .chain_len
            .checked_sub(1)
            .and_then(|k| self.chain.get(k));
        last.copied().unwrap_or(NONE)
    }

    fn place_of(&self, cell: u32) -> u16 {
        self.map.get(cell as usize).map_or(NONE, |p| p & !PENDING)
    }

    /// Sets the new place of a cell.
    #[inline(never)]
    fn set_place(&mut self, cell: u32, to: u16) {
        self.release(self.place_of(cell));
        if let Some(p) = self.map.get_mut(cell as usize) {
            *p = to | PENDING;
        }
    }

    #[inline(never)]
    fn write_memory_cell(
        &mut self,
        cell: &Cell,
        memory: &Memory<'_>,
    ) -> Result<u16, WriteError<D::Error>> {
        let mut buf = [0; CELL];
        cell.content(memory, &mut buf);
        self.write_cell(&buf)
    }

    /// Whether the medium holds this cell unchanged. `false` if it was not compared.
    fn is_unchanged(
        &mut self,
        i: u32,
        job: &SaveJob<'_, '_, CELL>,
        cell: &Cell,
    ) -> Result<bool, D::Error> {
        let region = Adaptive::region(i, job.count);
        if !self.adaptive.compares(region) {
            return Ok(false);
        }
        let base = self.slot_at(self.place_of(i));
        let step = const { compare_step(D::CONTRACT.read_size) };
        let mut was = [0; LARGEST];
        let (mut at, mut same) = (cell.from / step * step, true);
        while at < cell.to && same {
            let n = step.min(CELL as u32 - at);
            let was = was.get_mut(..n as usize).unwrap_or_default();
            self.medium.read(base + at, was)?;
            let (from, to) = (cell.from.max(at), cell.to.min(at + n));
            let was = was.get((from - at) as usize..(to - at) as usize);
            same = was.is_some_and(|was| job.memory.holds(cell.at + from, was));
            at += n;
        }
        self.adaptive.learn(region, same);
        Ok(same)
    }

    /// Empties the units with the fewest needed cells, until so few units are in use that a
    /// checkpoint of everything has space. Returns whether all places must be written anew, because
    /// a manifest was in one of these units.
    ///
    /// Cells that this checkpoint wrote need not be moved, except those that share the first unit
    /// with older ones. So writing and moving together write at most the cells that hold data, and
    /// one unit.
    fn collect(
        &mut self,
        job: &SaveJob<'_, '_, CELL>,
        written: u32,
    ) -> Result<bool, WriteError<D::Error>> {
        let s = Self::SHAPE;
        let mut rewrite_all = false;
        if !s.erases || planted!("checkpoint/log-not-collected") {
            return Ok(rewrite_all);
        }
        let (data, spare) = (job.data, job.places);
        let mut left = (data + s.per).saturating_sub(written);
        let whole = self.unit_count * s.per;
        // More memory may be in use next time: as much as a log of this size is meant for.
        let meant = (whole + s.front() / s.cell) / 3 + spare + s.per;
        let next = meant.min(job.count + spare).max(data + spare);
        let limit = whole.saturating_sub(next).min(2 * (data + s.per));
        loop {
            let all = self.survey();
            if all.occupied <= limit || all.room <= spare + s.per {
                break;
            }
            let Some(unit) = all.emptiest else { break };
            let within = |p: u16| u32::from(p & !PENDING) / s.per == unit;
            if self.manifests().iter().any(|p| within(*p)) {
                rewrite_all = true;
                self.drop_manifests();
            }
            for i in 0..job.count {
                let place = self.place_of(i);
                if u32::from(place) < SLOTS
                    && within(place)
                    && let Some(cell) = job.cells.get(i)
                {
                    if left == 0 {
                        return Ok(rewrite_all);
                    }
                    left -= 1;
                    let to = self.write_memory_cell(&cell, job.memory)?;
                    self.set_place(i, to);
                }
            }
        }
        Ok(rewrite_all)
    }

    /// Releases all manifests: they are not needed after the next record.
    #[inline(never)]
    fn drop_manifests(&mut self) {
        while self.chain_len > 0 {
            let newest = self.newest_manifest();
            self.release(newest);
            self.chain_len -= 1;
        }
    }

    /// Encodes the places that no manifest holds: into the record if they fit, else into new
    /// manifests. Returns the bytes of places in the record.
    fn write_manifest(
        &mut self,
        job: &SaveJob<'_, '_, CELL>,
        mut rewrite_all: bool,
        buf: &mut [u8; LARGEST],
    ) -> Result<usize, WriteError<D::Error>> {
        let s = Self::SHAPE;
        let checked = |i: u32| {
            let mut content = [0; CELL];
            if let Some(cell) = job.cells.get(i) {
                cell.content(job.memory, &mut content);
            }
            check(&content)
        };
        let mut first = true;
        loop {
            if rewrite_all {
                self.drop_manifests();
                for p in &mut self.map {
                    *p |= PENDING;
                    if *p == NONE | PENDING {
                        *p = NONE;
                    }
                }
                rewrite_all = false;
            }
            let own = buf.get_mut(HEAD..s.record as usize - 4).unwrap_or_default();
            let (len, next) = encode(own, &self.map, checked);
            if next == CELLS {
                return Ok(len);
            }
            if first {
                first = false;
                // Checked before the first manifest is written, so that none is written in vain.
                let pending = self.map.iter().filter(|p| **p & PENDING != 0).count() as u32;
                rewrite_all =
                    self.chain_len as u32 + s.manifest(pending) > Shape::chain(job.places);
                if rewrite_all {
                    continue;
                }
            }
            let mut manifest = [0; CELL];
            let room = manifest.get_mut(4..CELL - 4).unwrap_or_default();
            let (len, next) = encode(room, &self.map, checked);
            for p in self.map.iter_mut().take(next) {
                *p &= !PENDING;
            }
            manifest[..2].copy_from_slice(&self.newest_manifest().to_le_bytes());
            manifest[2..4].copy_from_slice(&(len as u16).to_le_bytes());
            let crc = crc32(manifest.get(..CELL - 4).unwrap_or_default());
            manifest[CELL - 4..].copy_from_slice(&crc.to_le_bytes());
            let slot = self.write_cell(&manifest)?;
            if let Some(c) = self.chain.get_mut(self.chain_len) {
                *c = slot;
            }
            self.chain_len += 1;
        }
    }
}
