//! How a state is found, checked, and brought back.

use super::Log;
use super::anchor::Found;
use super::record::{HEAD, Record};
use super::runs::{NONE, PENDING, Place, Runs, SLOTS, ZERO, check};
use super::shape::{Cells, FRAME, LARGEST, MANIFESTS};
use crate::read::Reader;
use crate::{Error, Memory, Restored};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::planted;

/// What is done with a cell that is told.
enum Use<'a, 'm> {
    /// It is noted where it is.
    Map,
    Check,
    Apply(&'a mut Memory<'m>),
}

/// What a record tells itself.
fn places<'b>(buf: &'b [u8; LARGEST], record: &Record) -> &'b [u8] {
    buf.get(HEAD..HEAD + usize::from(record.places))
        .unwrap_or_default()
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

    /// A manifest: the one before it, and how many of its bytes are places.
    fn manifest(
        &mut self,
        slot: u16,
        b: &mut [u8; CELL],
    ) -> Result<Option<(u16, usize)>, D::Error> {
        self.cell(slot, b)?;
        let (content, crc) = b.split_at(CELL - 4);
        let len = usize::from(u16::from_le_bytes([b[2], b[3]]));
        let sound = crc == crc32(content).to_le_bytes() && len <= CELL - FRAME as usize;
        Ok(sound.then_some((u16::from_le_bytes([b[0], b[1]]), len)))
    }

    /// One told cell; whether it makes sense.
    fn told(
        &mut self,
        p: Place,
        pending: u16,
        cells: &Cells,
        what: &mut Use<'_, '_>,
    ) -> Result<bool, D::Error> {
        let slots = self.slots();
        let known = matches!(p.place, NONE | ZERO) || u32::from(p.place) < slots;
        let Some(to) = self.map.get_mut(usize::from(p.cell)).filter(|_| known) else {
            return Ok(false);
        };
        if let Use::Map = what {
            *to = p.place | pending;
            return Ok(true);
        }
        // The newest word on a cell has a place without a bit, and sets it.
        if *to != p.place {
            return Ok(true);
        }
        *to |= PENDING;
        let Some(cell) = cells.get(u32::from(p.cell)) else {
            return Ok(p.place == NONE);
        };
        let mut buf = [0; CELL];
        if u32::from(p.place) < SLOTS {
            self.cell(p.place, &mut buf)?;
            if check(&buf) != p.check && !planted!("checkpoint/log-check-unread") {
                return Ok(false);
            }
        }
        if p.place != NONE
            && let Use::Apply(memory) = what
            && let Some(used) = buf.get(cell.from as usize..cell.to as usize)
        {
            memory.write(cell.at + cell.from, used);
        }
        Ok(true)
    }

    /// All that is told, from the oldest word to the newest to note it, and back to use it. Whether it makes sense.
    fn told_all(
        &mut self,
        places: &[u8],
        cells: &Cells,
        mut what: Use<'_, '_>,
    ) -> Result<bool, D::Error> {
        let map = matches!(what, Use::Map);
        if !map {
            self.map.iter_mut().for_each(|p| *p &= !PENDING);
        }
        let mut sound = true;
        let mut b = [0; CELL];
        // The record's own places are the newest word.
        for step in 0..=self.chained {
            let k = if map { step } else { self.chained - step };
            if k == self.chained {
                for p in Runs::new(places) {
                    sound &= self.told(p, PENDING, cells, &mut what)?;
                }
                continue;
            }
            let slot = self.chain.get(k).copied().unwrap_or(NONE);
            let Some((_, len)) = self.manifest(slot, &mut b)? else {
                return Ok(false);
            };
            for p in Runs::new(b.get(4..4 + len).unwrap_or_default()) {
                sound &= self.told(p, 0, cells, &mut what)?;
            }
        }
        if !map {
            self.map.iter_mut().for_each(|p| *p &= !PENDING);
            for p in Runs::new(places) {
                if let Some(to) = self.map.get_mut(usize::from(p.cell)) {
                    *to |= PENDING;
                }
            }
        }
        Ok(sound)
    }

    /// Reads where everything is, as a record says; whether it makes sense.
    fn adopt(&mut self, found: &Found, places: &[u8], cells: &Cells) -> Result<bool, D::Error> {
        let r = found.record;
        if u32::from(r.cell) != CELL as u32 {
            return Ok(false);
        }
        self.map.fill(NONE);
        self.chained = usize::from(r.manifests);
        if self.chained > MANIFESTS {
            self.chained = 0;
            return Ok(false);
        }
        let (mut slot, mut b) = (r.manifest, [0; CELL]);
        for k in (0..self.chained).rev() {
            if u32::from(slot) >= self.slots() {
                return Ok(false);
            }
            let Some((before, _)) = self.manifest(slot, &mut b)? else {
                return Ok(false);
            };
            if let Some(c) = self.chain.get_mut(k) {
                *c = slot;
            }
            slot = before;
        }
        if !self.told_all(places, cells, Use::Map)? {
            return Ok(false);
        }
        (self.open, self.cursor) = (None, 0);
        self.recount();
        // Behind the last one that is in use: units are used in turn.
        let last = self
            .chain
            .get(..self.chained)
            .and_then(|c| c.last())
            .copied();
        let mut newest = self
            .map
            .iter()
            .filter(|p| u32::from(**p & !PENDING) < SLOTS);
        let newest = newest.rfind(|p| **p & PENDING != 0).copied().or(last);
        self.cursor = newest.map_or(0, |s| u32::from(s & !PENDING) / Self::SHAPE.per);
        (self.found, self.number, self.ready) = (Some(*found), r.number, true);
        Ok(true)
    }

    /// The bytes of a record; whether they are what they were.
    fn again(&mut self, found: &Found, buf: &mut [u8; LARGEST]) -> Result<bool, D::Error> {
        let again = self.peek(found.anchor, found.slot, buf)?;
        Ok(again.is_some_and(|(_, crc)| crc == found.crc))
    }

    /// Makes sure that it is known what the medium holds, for a checkpoint that was not preceded by a restore.
    pub(super) fn look(&mut self, memory: &Memory<'_>) -> Result<(), Error<D::Error>> {
        if self.ready
            && self
                .found
                .is_none_or(|f| f.record.memory == memory.fingerprint())
        {
            return Ok(());
        }
        let all = Cells::of(memory, CELL as u32);
        let mut buf = [0; LARGEST];
        loop {
            let found = self.find(self.below).map_err(Error::Medium)?;
            let Some(found) = found else { break };
            let r = found.record;
            let ours = r.program == self.program && r.memory == memory.fingerprint();
            let cells = all.using(r.heap_used, r.stack_from);
            let again = self.again(&found, &mut buf).map_err(Error::Medium)?;
            if ours
                && again
                && self
                    .adopt(&found, places(&buf, &r), &cells)
                    .map_err(Error::Medium)?
            {
                self.below = None;
                return Ok(());
            }
            self.below = Some(r.number);
        }
        self.nothing();
        Ok(())
    }

    /// There is nothing to go on from.
    fn nothing(&mut self) {
        self.map.fill(NONE);
        (self.chained, self.open, self.found, self.ready) = (0, None, None, true);
        self.recount();
    }

    /// Brings memory back to what it was at the checkpoint that counts: see [`Store::load`](crate::Store::load).
    pub(super) fn restore(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.below = None;
        let r = self.latest(memory);
        self.below = None;
        // What was begun is unknown, but that there is nothing is known.
        if matches!(r, Err(Error::Medium(_) | Error::Spoilt)) {
            self.forget();
        }
        r
    }

    fn latest(&mut self, memory: &mut Memory<'_>) -> Result<Restored, Error<D::Error>> {
        self.forget();
        let all = Cells::of(memory, CELL as u32);
        let (mut why, mut damaged) = (Error::NoImage, 0u8);
        let mut buf = [0; LARGEST];
        loop {
            let found = self.find(self.below).map_err(Error::Medium)?;
            let Some(found) = found else { break };
            let r = found.record;
            self.below = Some(r.number);
            if r.program != self.program {
                why = Error::OtherProgram { found: r.program };
                continue;
            }
            if r.memory != memory.fingerprint() {
                why = Error::OtherMemory;
                continue;
            }
            let cells = all.using(r.heap_used, r.stack_from);
            if !self.again(&found, &mut buf).map_err(Error::Medium)? {
                // It was never stable: nobody has gone on from it.
                continue;
            }
            let told = places(&buf, &r);
            let sound = self.adopt(&found, told, &cells).map_err(Error::Medium)?
                && self
                    .told_all(told, &cells, Use::Check)
                    .map_err(Error::Medium)?;
            if !sound {
                damaged = damaged.saturating_add(1);
                if let Error::NoImage = why {
                    why = Error::Damaged;
                }
                continue;
            }
            let unfinished = self.anchors.unfinished;
            // What was checked is copied, or is not what was read.
            if !found.sure && !planted!("checkpoint/log-unsure-used") && !self.own()? {
                continue;
            }
            let sound = self.told_all(told, &cells, Use::Apply(memory));
            if !sound.map_err(Error::Medium)? {
                return Err(Error::Spoilt);
            }
            return Ok(Restored {
                sequence: r.sequence,
                context: r.context,
                name: 0,
                damaged,
                unfinished,
            });
        }
        self.nothing();
        Err(why)
    }
}
