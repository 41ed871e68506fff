//! How a state is found, checked, and brought back.

use super::Log;
use super::record::{HEAD, Record};
use super::runs::{NONE, PENDING, Runs, SLOTS, ZERO, check};
use super::shape::{Cells, FRAME, LARGEST};
use crate::read::Reader;
use crate::{Error, Memory, Restored};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// What is done with what is told.
enum Use<'a, 'm> {
    /// It is noted where the manifests are.
    Chain,
    /// It is noted where each cell is.
    Map,
    Check,
    Apply(&'a mut Memory<'m>),
}

/// What a record tells itself.
fn places<'b>(buf: &'b [u8; LARGEST], record: &Record) -> &'b [u8] {
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
        Reader { at }.read(&mut self.medium, buf)
    }

    /// What a manifest or a record tells; whether it makes sense.
    #[inline(never)]
    fn told(
        &mut self,
        runs: &[u8],
        pending: u16,
        cells: &Cells<CELL>,
        what: &mut Use<'_, '_>,
    ) -> Result<bool, D::Error> {
        let mut sound = true;
        for p in Runs::new(runs) {
            let known = matches!(p.place, NONE | ZERO) || u32::from(p.place) < self.slots();
            let Some(to) = self.map.get_mut(usize::from(p.cell)).filter(|_| known) else {
                sound = false;
                continue;
            };
            if let Use::Map = what {
                *to = p.place | pending;
                continue;
            }
            // The newest word on a cell has a place without a bit, and sets it.
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
                && let Use::Apply(memory) = what
                && let Some(used) = buf.get(cell.from as usize..cell.to as usize)
            {
                memory.write(cell.at + cell.from, used);
            }
        }
        Ok(sound)
    }

    /// All that is told, from the oldest word to the newest to note it, and back to use it. Whether it makes sense.
    #[inline(never)]
    fn told_all(
        &mut self,
        places: &[u8],
        cells: &Cells<CELL>,
        mut what: Use<'_, '_>,
    ) -> Result<bool, D::Error> {
        let map = matches!(what, Use::Map);
        self.all_told();
        let mut sound = true;
        let mut b = [0; CELL];
        // The record's own places are the newest word.
        for step in 0..=self.chained {
            let k = if map { step } else { self.chained - step };
            let (mut runs, mut pending) = (places, PENDING);
            if k < self.chained {
                let slot = self.chain.get(k).copied().unwrap_or(NONE);
                if u32::from(slot) >= self.slots() {
                    return Ok(false);
                }
                self.cell(slot, &mut b)?;
                let (content, crc) = b.split_at(CELL - 4);
                let len = usize::from(u16::from_le_bytes([b[2], b[3]]));
                let sound = crc == crc32(content).to_le_bytes()
                    || planted!("checkpoint/log-manifest-unchecked");
                if !sound || len > CELL - FRAME as usize {
                    return Ok(false);
                }
                if k > 0
                    && let Some(before) = self.chain.get_mut(k - 1)
                {
                    *before = u16::from_le_bytes([b[0], b[1]]);
                }
                (runs, pending) = (b.get(4..4 + len).unwrap_or_default(), 0);
            }
            if !matches!(what, Use::Chain) {
                sound &= self.told(runs, pending, cells, &mut what)?;
            }
        }
        if !map {
            self.all_told();
            self.told(places, PENDING, cells, &mut Use::Map)?;
        }
        Ok(sound)
    }

    /// No place is pending.
    fn all_told(&mut self) {
        self.map.iter_mut().for_each(|p| *p &= !PENDING);
    }

    /// Reads where everything is, as the record that was found says; whether it makes sense.
    fn adopt(&mut self, places: &[u8], cells: &Cells<CELL>) -> Result<bool, D::Error> {
        let Some(r) = self.found.as_ref().map(|f| &f.record) else {
            return Ok(false);
        };
        let (chained, newest) = (r.manifests(), r.manifest());
        if r.cell() != CELL as u32 || chained > self.chain.len() {
            return Ok(false);
        }
        self.chained = chained;
        if let Some(c) = chained.checked_sub(1).and_then(|k| self.chain.get_mut(k)) {
            *c = newest;
        }
        if !self.told_all(places, cells, Use::Chain)? || !self.told_all(places, cells, Use::Map)? {
            return Ok(false);
        }
        self.recount();
        // Behind the last one that is in use: units are used in turn.
        let mut last = if chained > 0 { newest } else { 0 };
        for p in &self.map {
            let p = p.wrapping_sub(PENDING);
            if u32::from(p) < SLOTS {
                last = p;
            }
        }
        self.cursor = u32::from(last) / Self::SHAPE.per;
        Ok(true)
    }

    /// Looks for the record that counts: the newest, below this number, of this memory that makes sense. With `apply` its checkpoint is checked and brought back.
    fn search(
        &mut self,
        all: &Cells<CELL>,
        print: u32,
        mut below: Option<u32>,
        mut apply: Option<&mut Memory<'_>>,
    ) -> Result<Restored, Error<D::Error>> {
        self.ready = false;
        let (mut why, mut damaged) = (Error::NoImage, 0u8);
        let mut buf = [0; LARGEST];
        loop {
            self.map.fill(NONE);
            (self.chained, self.next) = (0, u32::MAX);
            self.find(below).map_err(Error::Medium)?;
            let Some(found) = self.found else { break };
            let r = found.record;
            below = Some(r.number());
            if r.program() != self.program {
                let [low, high] = r.program().map(u64::from);
                let found = low | high << 32;
                why = Error::OtherProgram { found };
                continue;
            }
            if r.memory() != print {
                why = Error::OtherMemory;
                continue;
            }
            if !self.again(&mut buf).map_err(Error::Medium)? {
                // It was never stable: nobody has gone on from it.
                continue;
            }
            let cells = all.using(r.heap_used(), r.stack_from());
            let told = places(&buf, &r);
            let mut sound = self.adopt(told, &cells).map_err(Error::Medium)?;
            if sound && apply.is_some() {
                let checked = self.told_all(told, &cells, Use::Check);
                sound = checked.map_err(Error::Medium)?;
            }
            if !sound {
                damaged = damaged.saturating_add(1);
                if let Error::NoImage = why {
                    why = Error::Damaged;
                }
                continue;
            }
            let unfinished = self.anchors.unfinished;
            if let Some(memory) = &mut apply {
                // What was checked is copied, or is not what was read.
                if !found.sure && !planted!("checkpoint/log-unsure-used") {
                    let owned = self.own().map_err(Error::Medium)?;
                    if !owned {
                        continue;
                    }
                }
                let sound = self.told_all(told, &cells, Use::Apply(memory));
                if !sound.map_err(Error::Medium)? {
                    return Err(Error::Spoilt);
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
        // There is nothing to go on from.
        self.recount();
        self.ready = true;
        Err(why)
    }

    /// Makes sure that it is known what the medium holds, for a checkpoint that was not preceded by a restore.
    pub(super) fn look(
        &mut self,
        cells: &Cells<CELL>,
        print: u32,
        below: Option<u32>,
    ) -> Result<(), Error<D::Error>> {
        let alike = |f: &super::anchor::Found| f.record.memory() == print;
        if self.ready && self.found.as_ref().is_none_or(alike) {
            return Ok(());
        }
        match self.search(cells, print, below, None) {
            Err(Error::Medium(e)) => Err(Error::Medium(e)),
            _ => Ok(()),
        }
    }

    /// Brings memory back to what it was at the checkpoint that counts: see [`Store::load`](crate::Store::load).
    pub(super) fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        let cells = Cells::of(memory);
        let print = memory.fingerprint();
        self.search(&cells, print, None, Some(memory))
    }
}
