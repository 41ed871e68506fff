//! Finds a checkpoint in the log, checks it, and restores it.
//!
//! ```text
//!  find_checkpoint, for each record from the newest:
//!    find_record -> right program and memory? -> reread
//!    load_map:   Pass::Chain   record -> ... -> oldest manifest   note the manifests' places
//!                Pass::Map     oldest manifest -> ... -> record   note each cell's place
//!    restore:    Pass::Check   record -> ... -> oldest manifest   check each cell once
//!                (not stable? write_boot_record)
//!                Pass::Apply   record -> ... -> oldest manifest   check each cell and write it to memory
//! ```
//!
//! The passes run from the newest entry to the oldest where only the newest entry of a cell is
//! used. The `PENDING` bit in the map marks cells that were already handled.
//!
//! Why this is safe: memory is written only in the last pass, after every cell was checked. If a
//! cell reads differently then, the result is `PartlyRestored`, and the program must start again.

use super::Log;
use super::format::{Cells, FRAME, LARGEST, NONE, PENDING, Runs, SLOTS, ZERO, check};
use super::record::{HEAD, Record};
use crate::format::flush_before_reading;
use crate::{Error, Memory, Restored};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::marker;
use nvmem::planted;

/// What a pass over the manifests does.
enum Pass<'a, 'm> {
    /// Note the places of the manifests.
    Chain,
    /// Note the place of each cell.
    Map,
    Check,
    Apply(&'a mut Memory<'m>),
}

/// The runs in the record itself.
fn record_runs<'b>(buf: &'b [u8; LARGEST], record: &Record) -> &'b [u8] {
    buf.get(HEAD..HEAD + record.places()).unwrap_or_default()
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    fn slots(&self) -> u32 {
        self.unit_count * Self::SHAPE.per
    }

    /// The bytes of a cell.
    fn cell(&mut self, slot: u16, buf: &mut [u8; CELL]) -> Result<(), D::Error> {
        let at = self.slot_at(slot);
        marker::read(&mut self.medium, at, buf)
    }

    /// Applies one pass to the runs of a manifest or record. Returns whether all of them are valid.
    #[inline(never)]
    fn apply_runs(
        &mut self,
        runs: &[u8],
        pending: u16,
        cells: &Cells<CELL>,
        pass: &mut Pass<'_, '_>,
    ) -> Result<bool, D::Error> {
        let mut sound = true;
        for p in Runs::new(runs) {
            let known = matches!(p.place, NONE | ZERO) || u32::from(p.place) < self.slots();
            let Some(to) = self.map.get_mut(usize::from(p.cell)).filter(|_| known) else {
                sound = false;
                continue;
            };
            if let Pass::Map = pass {
                *to = p.place | pending;
                continue;
            }
            // The newest entry of a cell has no `PENDING` bit in the map, and sets it.
            if *to != p.place {
                continue;
            }
            *to |= PENDING;
            let Some(cell) = cells.get(u32::from(p.cell)) else {
                sound &= p.place == NONE;
                continue;
            };
            let mut buf = [0; CELL];
            if u32::from(p.place) < SLOTS {
                self.cell(p.place, &mut buf)?;
                if check(&buf) != p.check && !planted!("checkpoint/log-check-unread") {
                    sound = false;
                    continue;
                }
            }
            if p.place != NONE
                && let Pass::Apply(memory) = pass
                && let Some(used) = buf.get(cell.from as usize..cell.to as usize)
            {
                memory.write(cell.at + cell.from, used);
            }
        }
        Ok(sound)
    }

    /// Walks the manifest chain and the record, and applies one pass to their runs. `Pass::Map`
    /// walks from the oldest manifest to the record, so that newer places replace older ones. All
    /// other passes walk from the record to the oldest manifest. Returns whether all of it is
    /// valid.
    #[inline(never)]
    fn apply_manifests(
        &mut self,
        places: &[u8],
        cells: &Cells<CELL>,
        mut pass: Pass<'_, '_>,
    ) -> Result<bool, D::Error> {
        let map = matches!(pass, Pass::Map);
        self.clear_pending();
        let mut sound = true;
        let mut b = [0; CELL];
        // The record's own places are the newest.
        for step in 0..=self.chain_len {
            let k = if map { step } else { self.chain_len - step };
            let (mut runs, mut pending) = (places, PENDING);
            if k < self.chain_len {
                let slot = self.chain.get(k).copied().unwrap_or(NONE);
                if u32::from(slot) >= self.slots() {
                    return Ok(false);
                }
                self.cell(slot, &mut b)?;
                let (content, crc) = b.split_at(CELL - 4);
                let len = usize::from(u16::from_le_bytes([b[2], b[3]]));
                let mut intact = crc == crc32(content).to_le_bytes();
                if planted!("checkpoint/log-manifest-unchecked") {
                    intact = true;
                }
                if !intact || len > CELL - FRAME as usize {
                    return Ok(false);
                }
                if k > 0
                    && let Some(before) = self.chain.get_mut(k - 1)
                {
                    *before = u16::from_le_bytes([b[0], b[1]]);
                }
                (runs, pending) = (b.get(4..4 + len).unwrap_or_default(), 0);
            }
            if !matches!(pass, Pass::Chain) {
                sound &= self.apply_runs(runs, pending, cells, &mut pass)?;
            }
        }
        if !map {
            self.clear_pending();
            self.apply_runs(places, PENDING, cells, &mut Pass::Map)?;
        }
        Ok(sound)
    }

    /// Clears the `PENDING` bit of all places.
    fn clear_pending(&mut self) {
        self.map.iter_mut().for_each(|p| *p &= !PENDING);
    }

    /// Builds the map of cells and the chain of manifests of the found record. Returns whether they
    /// are valid.
    fn load_map(&mut self, places: &[u8], cells: &Cells<CELL>) -> Result<bool, D::Error> {
        let Some(r) = self.records.newest() else {
            return Ok(false);
        };
        let (chain_len, newest) = (r.manifests(), r.manifest());
        if r.cell() != CELL as u32 || chain_len > self.chain.len() {
            return Ok(false);
        }
        self.chain_len = chain_len;
        if let Some(c) = chain_len.checked_sub(1).and_then(|k| self.chain.get_mut(k)) {
            *c = newest;
        }
        if !self.apply_manifests(places, cells, Pass::Chain)?
            || !self.apply_manifests(places, cells, Pass::Map)?
        {
            return Ok(false);
        }
        self.recount();
        // Continue behind the last place in use: units are used in turn.
        let mut last = if chain_len > 0 { newest } else { 0 };
        for p in &self.map {
            let p = p.wrapping_sub(PENDING);
            if u32::from(p) < SLOTS {
                last = p;
            }
        }
        self.cursor = u32::from(last) / Self::SHAPE.per;
        Ok(true)
    }

    // INVARIANT "Log: checked before it is memory": nothing is written to memory before each cell
    // was checked. A manifest has a checksum of its own, because a cell's check does not cover the
    // cell's number: a flipped bit there would bring its bytes back elsewhere.
    // Noticed by: `every_flipped_bit_is_found_or_harmless` and `.._of_a_manifest_..` in
    // tests/suite/log/damage.rs; planted `log-check-unread`, `log-manifest-unchecked`.
    /// Finds the newest valid record of this program and memory, with a number below `below`. With
    /// `apply`, checks its checkpoint and restores it.
    fn find_checkpoint(
        &mut self,
        all: &Cells<CELL>,
        fingerprint: u32,
        mut below: Option<u32>,
        mut apply: Option<&mut Memory<'_>>,
    ) -> Result<Restored, Error<D::Error>> {
        self.ready = false;
        let (mut error, mut damaged) = (Error::NoImage, 0u8);
        let mut buf = [0; LARGEST];
        flush_before_reading(&mut self.medium).map_err(Error::Medium)?;
        loop {
            self.map.fill(NONE);
            (self.chain_len, self.next) = (0, u32::MAX);
            self.records
                .find(&mut self.medium, below)
                .map_err(Error::Medium)?;
            let Some(r) = self.records.newest().copied() else {
                break;
            };
            below = Some(r.number());
            if r.program() != self.program {
                let [low, high] = r.program().map(u64::from);
                let found = low | high << 32;
                error = Error::OtherProgram { found };
                continue;
            }
            if r.memory() != fingerprint {
                error = Error::OtherMemory;
                continue;
            }
            let again = self.records.reread(&mut self.medium, &mut buf);
            if !again.map_err(Error::Medium)? {
                // It was never stable, so no program ever continued from it.
                continue;
            }
            let cells = all.using(r.heap_used(), r.stack_from());
            let runs = record_runs(&buf, &r);
            let mut sound = self.load_map(runs, &cells).map_err(Error::Medium)?;
            if sound && apply.is_some() {
                let checked = self.apply_manifests(runs, &cells, Pass::Check);
                sound = checked.map_err(Error::Medium)?;
            }
            if !sound {
                damaged = damaged.saturating_add(1);
                if let Error::NoImage = error {
                    error = Error::Damaged;
                }
                continue;
            }
            let unfinished = self.records.unfinished();
            if let Some(memory) = &mut apply {
                // `write_boot_record` reads the record again and fails unless it is the one that
                // was checked.
                if !self.records.is_stable() && !planted!("checkpoint/log-unsure-used") {
                    let owned = self.records.write_boot_record(&mut self.medium);
                    if !owned.map_err(Error::Medium)? {
                        continue;
                    }
                }
                let sound = self.apply_manifests(runs, &cells, Pass::Apply(memory));
                if !sound.map_err(Error::Medium)? {
                    return Err(Error::PartlyRestored);
                }
            }
            self.ready = true;
            return Ok(Restored {
                sequence: r.sequence(),
                context: r.context(),
                name: 0,
                damaged,
                unfinished,
            });
        }
        // There is no valid checkpoint.
        self.recount();
        self.ready = true;
        Err(match error {
            Error::NoImage if self.records.is_older() => Error::OlderFormat,
            error => error,
        })
    }

    /// Loads the log's state from the medium, for a checkpoint without a restore before it.
    pub(super) fn load_state(
        &mut self,
        cells: &Cells<CELL>,
        fingerprint: u32,
        below: Option<u32>,
    ) -> Result<(), Error<D::Error>> {
        let alike = |r: &Record| r.memory() == fingerprint;
        if self.ready && self.records.newest().is_none_or(alike) {
            return Ok(());
        }
        match self.find_checkpoint(cells, fingerprint, below, None) {
            Err(Error::Medium(e)) => Err(Error::Medium(e)),
            _ => Ok(()),
        }
    }

    /// Restores memory from the newest valid checkpoint: see [`Store::load`](crate::Store::load).
    pub(super) fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        let cells = Cells::of(memory);
        let fingerprint = memory.fingerprint();
        self.find_checkpoint(&cells, fingerprint, None, Some(memory))
    }
}
