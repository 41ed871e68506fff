//! Writes a checkpoint to the log.
//!
//! ```text
//!  1. find_checkpoint  if the state of the log is not in RAM
//!  2. write_boot_record  once in each boot, on flash (see `record`)
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
//!
//! The units of cells:
//!
//! ```text
//!  state of a unit on flash           without erase
//!  FREE --erase, fill--> n needed     8 bits: the cell is needed
//!    ^                      |
//!    +------- 0 needed -----+         (after the next record only)
//! ```
//!
//! A unit is erased only in state FREE, and it becomes FREE only in `recount`, after a record was
//! written that needs none of its cells.

use super::Log;
use super::format::{Cell, Cells, LARGEST, NONE, PENDING, SLOTS, Shape, check, encode};
use super::record::{Fields, HEAD, Record};
use crate::cost::Cost;
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

// INVARIANT "Log: nothing in place": no cell of the checkpoint that counts is erased or written
// before the next one counts. `FREE`, and `recount`, which alone sets it.
// Noticed by: tests/suite/crash/log.rs, two cuts deep; planted `log-freed-too-early`.
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
            self.ready = planted!("checkpoint/log-goes-on-after-an-error");
            return match self.write(&job) {
                // The record was never stable, so no program ever continued from it.
                Ok(false) => {
                    below = self.records.newest().map(Record::number);
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
        if !self.records.write_boot_record(&mut self.medium)? {
            return Ok(false);
        }
        let memory = job.memory;
        let before = self.records.newest();
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
        self.records.append(&mut self.medium, record, &mut buf)?;
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

    // INVARIANT "Log: room for everything": after a checkpoint there is room for another one of all
    // bytes in use: the units in use leave at least that much of the log free. The live cells of
    // old units are at most what a checkpoint of everything would have taken.
    // Noticed by: tests/suite/log/room.rs, where any program has exactly the room that `bytes`
    // says; `log_a_life` in tests/suite/crash/log.rs: 4,000 boots that are cut; planted
    // `log-not-collected`.
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
            let own = buf
                .get_mut(HEAD..s.records.record as usize - 4)
                .unwrap_or_default();
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

    pub(super) fn slot_at(&self, slot: u16) -> u32 {
        let s = Self::SHAPE;
        let (unit, i) = (u32::from(slot) / s.per, u32::from(slot) % s.per);
        self.cells_at + unit * s.unit + i * s.cell
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

const REGIONS: usize = 32;

/// For each region of memory, how often a compared cell was unchanged: a moving average, in 256ths.
/// All regions start with "always compare". If comparing does not pay, a region learns that within
/// some cells. Starting with "never" would write unchanged cells until the region is sampled.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adaptive {
    same: [u8; REGIONS],
    /// The average from which comparing pays.
    least: u8,
    tick: u8,
}

impl Adaptive {
    pub(super) const ALWAYS: Self = Adaptive {
        same: [u8::MAX; REGIONS],
        least: 0,
        tick: 0,
    };

    pub(super) const fn new(cost: &Cost, cell: u32, unit: u32, erases: bool) -> Self {
        // In nanojoules, in 32 bits: comparing a cell costs less than a hundredth of a joule on any
        // medium.
        let compare = (cost.compare_pj / 8).saturating_mul(cell) / 125;
        let compare = if compare > 1 << 23 { 1 << 23 } else { compare };
        let programs = cell.div_ceil(cost.step()).saturating_mul(cost.program_nj);
        let erase = if erases {
            (cost.erase_nj / 64).saturating_mul(cell) / unit * 64
        } else {
            0
        };
        let write = programs.saturating_add(erase);
        let least = (256 * compare).div_ceil(if write > 0 { write } else { 1 });
        Adaptive {
            least: if least > 255 { 255 } else { least as u8 },
            ..Self::ALWAYS
        }
    }

    /// The region of a cell, with `cells` cells in all.
    pub(super) fn region(cell: u32, cells: u32) -> usize {
        (cell * REGIONS as u32).checked_div(cells).unwrap_or(0) as usize % REGIONS
    }

    /// Whether to compare a cell of this region.
    pub(super) fn compares(&mut self, region: usize) -> bool {
        if self.same.get(region).is_none_or(|s| *s >= self.least) {
            return true;
        }
        self.tick = (self.tick + 1) % 32;
        self.tick == 0
    }

    /// Notes the result of a comparison.
    pub(super) fn learn(&mut self, region: usize, same: bool) {
        if let Some(s) = self.same.get_mut(region) {
            *s = if same {
                s.saturating_add((u8::MAX - *s).div_ceil(8))
            } else {
                *s - s.div_ceil(8)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn learns_when_comparing_pays() {
        let mut a = Adaptive::new(&Cost::STM32L1, 128, 256, true);
        // 14.5 of 133 µJ.
        assert_eq!(a.least, 28);
        let (mut compared, region) = (0, Adaptive::region(3, 640));
        for _ in 0..640 {
            if a.compares(region) {
                compared += 1;
                a.learn(region, false);
            }
        }
        assert!((16..50).contains(&compared), "{compared}");
        let first = (0..).find(|_| {
            let now = a.compares(region);
            if now {
                a.learn(region, true);
            }
            now && a.compares(region)
        });
        assert!(first.is_some_and(|n| n <= 64), "{first:?}");
        // Cheap comparing is always done.
        let mut a = Adaptive::new(&Cost::STM32F0, 128, 2048, true);
        (0..100).for_each(|_| a.learn(0, false));
        assert!(a.least <= 1 && (0..100).filter(|_| a.compares(0)).count() >= 3);
    }
}
