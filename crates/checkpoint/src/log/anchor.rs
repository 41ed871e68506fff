//! Records, in a few anchors; docs/DESIGN.md says why it is done so.

use super::record::Record;
use super::shape::{ANCHORS, LARGEST};
use super::{Log, Shape};
use crate::Error;
use crate::layout::mark;
use crate::read::Reader;
use crate::scan;
use nvmem::device::Medium;
use nvmem::planted;

/// What is known of the anchors in this boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchors {
    /// The highest number in each, of records that can be read.
    tops: [Option<u32>; ANCHORS],
    /// Of each, a bit: this boot has erased it, and nothing was written since.
    clean: u8,
    /// Where the next record goes.
    now: u8,
    slot: u32,
    /// This boot has a record of its own.
    pub owned: bool,
    /// Something was found that is no record.
    pub unfinished: u8,
}

impl Anchors {
    pub(super) const NEW: Self = Anchors {
        tops: [None; ANCHORS],
        clean: 0,
        now: 0,
        slot: u32::MAX,
        owned: false,
        unfinished: 0,
    };

    fn set(&mut self, anchor: u8, top: Option<u32>) {
        if let Some(t) = self.tops.get_mut(usize::from(anchor)) {
            *t = top;
        }
    }

    fn top(&self, anchor: u8) -> Option<u32> {
        self.tops.get(usize::from(anchor)).copied().flatten()
    }

    /// The highest number of all.
    fn highest(&self) -> Option<u32> {
        let all = self.tops.iter().copied().flatten();
        all.reduce(|a, b| if later(b, a) { b } else { a })
    }
}

/// Whether a number is higher; numbers wrap.
fn later(a: u32, b: u32) -> bool {
    if planted!("checkpoint/log-number-does-not-wrap") {
        return a > b;
    }
    scan::later(a, b)
}

/// A record that can be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub anchor: u8,
    pub slot: u32,
    pub crc: u32,
    /// It is stable: its mark can be read, or words are never unstable.
    pub sure: bool,
    pub record: Record,
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    const ANCHOR: Shape = Self::SHAPE;

    fn anchor_at(&self, anchor: u8, slot: u32) -> u32 {
        self.start + u32::from(anchor) * Self::ANCHOR.anchor + slot * Self::ANCHOR.record
    }

    /// The bytes where a record may be.
    pub(super) fn peek(
        &mut self,
        anchor: u8,
        slot: u32,
        buf: &mut [u8; LARGEST],
    ) -> Result<Option<(Record, u32)>, D::Error> {
        let mut from = Reader {
            at: self.anchor_at(anchor, slot),
        };
        let len = (Self::ANCHOR.record as usize).min(LARGEST);
        let buf = buf.get_mut(..len).unwrap_or_default();
        from.read(&mut self.medium, buf)?;
        Ok(Record::decode(buf))
    }

    /// Looks at all anchors: the record with the highest number that is lower than this one.
    pub(super) fn find(&mut self, below: Option<u32>) -> Result<Option<Found>, D::Error> {
        let mut best: Option<Found> = None;
        self.anchors = Anchors::NEW;
        let mut buf = [0; LARGEST];
        for anchor in 0..Self::ANCHOR.anchors as u8 {
            let mut slot = 0;
            while slot < Self::ANCHOR.slots() {
                let Some((record, crc)) = self.peek(anchor, slot, &mut buf)? else {
                    let blank = match Self::ANCHOR.erases {
                        true => Self::ANCHOR.erased,
                        false => buf[0],
                    };
                    let bytes = buf.iter().take(Self::ANCHOR.record as usize);
                    if bytes.into_iter().any(|b| *b != blank) {
                        self.anchors.unfinished = self.anchors.unfinished.saturating_add(1);
                    }
                    break;
                };
                let top = self.anchors.top(anchor);
                if top.is_none_or(|t| later(record.number, t)) {
                    self.anchors.set(anchor, Some(record.number));
                }
                let mut sure = !Self::ANCHOR.unstable;
                if record.copy && Self::ANCHOR.unstable {
                    let mut found = [0; 4];
                    let at = self.anchor_at(anchor, slot + 1);
                    Reader { at }.read(&mut self.medium, &mut found)?;
                    sure = found == mark(crc, 0);
                }
                let allowed = below.is_none_or(|b| later(b, record.number));
                let better = best.is_none_or(|b| later(record.number, b.record.number));
                if allowed && better {
                    best = Some(Found {
                        anchor,
                        slot,
                        crc,
                        sure,
                        record,
                    });
                }
                slot += if record.copy { 2 } else { 1 };
            }
        }
        Ok(best)
    }

    /// Makes an anchor ready for records, and the place for the next one.
    fn enter(&mut self, anchor: u8) -> Result<(), D::Error> {
        if self.anchors.clean & 1 << anchor == 0 {
            self.anchors.set(anchor, None);
            self.wipe(anchor)?;
        }
        self.anchors.clean &= !(1 << anchor);
        (self.anchors.now, self.anchors.slot) = (anchor, 0);
        Ok(())
    }

    fn wipe(&mut self, anchor: u8) -> Result<(), D::Error> {
        if Self::ANCHOR.erases {
            let at = self.anchor_at(anchor, 0);
            self.medium.erase(at, at + Self::ANCHOR.anchor)?;
        }
        self.anchors.clean |= 1 << anchor;
        Ok(())
    }

    /// The anchor that is the least likely to be needed: one that this boot has erased; else, of those without a record from `base` on, the one
    /// with the oldest; else the oldest but one, of which the oldest is the only one that is known to be stable.
    fn target(&self, base: u32, but: u8) -> u8 {
        let mut free: Option<(u32, u8)> = None;
        // Of those with numbers from `base` on.
        let (mut oldest, mut next): (Option<(u32, u8)>, _) = (None, None);
        for a in (0..Self::ANCHOR.anchors as u8).filter(|a| *a != but) {
            let age = match self.anchors.top(a) {
                _ if self.anchors.clean & 1 << a != 0 => u32::MAX,
                None => u32::MAX - 1,
                Some(top) if later(base, top) => base.wrapping_sub(top),
                Some(top) => {
                    let young = (top.wrapping_sub(base), a);
                    if oldest.is_none_or(|o| young < o) {
                        (oldest, next) = (Some(young), oldest);
                    } else if next.is_none_or(|n| young < n) {
                        next = Some(young);
                    }
                    continue;
                }
            };
            free = free.max(Some((age, a)));
        }
        free.or(next).or(oldest).map_or(0, |(_, a)| a)
    }

    /// Before anything else is written: this boot goes on from the record that was found, and no later boot from an older one, nor from one that
    /// can not be read now. `false` when the record reads differently now.
    ///
    /// **Power loss**: as before, and the same again.
    pub(super) fn own(&mut self) -> Result<bool, Error<D::Error>> {
        if self.anchors.owned {
            return Ok(true);
        }
        if !Self::ANCHOR.unstable {
            // Nothing is open: the next record goes to another anchor.
            self.anchors.owned = true;
            self.anchors.now = self.found.map_or(0, |f| f.anchor);
            return Ok(true);
        }
        let next = self.anchors.highest().unwrap_or(0).wrapping_add(2);
        let Some(found) = self.found else {
            for anchor in 0..Self::ANCHOR.anchors as u8 {
                self.anchors.set(anchor, None);
                self.wipe(anchor).map_err(Error::Medium)?;
            }
            self.number = next.wrapping_sub(1);
            self.anchors.owned = true;
            return Ok(true);
        };
        if planted!("checkpoint/log-appends-after-cut") {
            self.anchors.now = found.anchor;
            self.anchors.slot = found.slot + 1 + u32::from(found.record.copy);
            self.anchors.owned = true;
            return Ok(true);
        }
        let mut buf = [0; LARGEST];
        let again = self.peek(found.anchor, found.slot, &mut buf);
        let Some((mut record, _)) = again
            .map_err(Error::Medium)?
            .filter(|(_, c)| *c == found.crc)
        else {
            return Ok(false);
        };
        if found.sure {
            record.base = record.number;
        }
        record.number = if planted!("checkpoint/log-same-number") {
            record.number
        } else {
            next
        };
        record.copy = true;
        // What can not be read now may be read later.
        for anchor in 0..Self::ANCHOR.anchors as u8 {
            if self.anchors.top(anchor).is_none() {
                self.wipe(anchor).map_err(Error::Medium)?;
            }
        }
        let target = if planted!("checkpoint/log-base-erased") {
            let all = (0..Self::ANCHOR.anchors as u8).filter(|a| *a != found.anchor);
            all.max_by_key(|a| self.anchors.top(*a).map_or(0, |t| t))
                .unwrap_or(0)
        } else {
            self.target(record.base, found.anchor)
        };
        self.enter(target).map_err(Error::Medium)?;
        let crc = self.put(&record, &mut buf).map_err(Error::Medium)?;
        let word = Self::ANCHOR.word as usize;
        let mut bytes = [0; LARGEST];
        let m = mark(crc, 0);
        let word = bytes
            .get_mut(..4usize.next_multiple_of(word))
            .unwrap_or_default();
        word.iter_mut()
            .zip(m.iter().cycle())
            .for_each(|(to, b)| *to = *b);
        let at = self.anchor_at(self.anchors.now, self.anchors.slot);
        self.medium.write(at, word).map_err(Error::Medium)?;
        self.anchors.slot += 1;
        self.anchors.owned = true;
        self.number = record.number;
        self.found = Some(Found {
            anchor: self.anchors.now,
            slot: 0,
            crc,
            sure: true,
            record,
        });
        Ok(true)
    }

    /// Writes a record, whose places are in `buf` already: its checksum.
    fn put(&mut self, record: &Record, buf: &mut [u8; LARGEST]) -> Result<u32, D::Error> {
        let (anchor, slot) = (self.anchors.now, self.anchors.slot);
        let len = record.encode(buf).unwrap_or(LARGEST).clamp(4, LARGEST);
        let crc = buf.get(len - 4..len).and_then(|c| c.first_chunk());
        let crc = crc.map_or(0, |c| u32::from_le_bytes(*c));
        let whole = len
            .next_multiple_of(Self::ANCHOR.word as usize)
            .min(LARGEST);
        buf.get_mut(len..whole).unwrap_or_default().fill(0);
        let at = self.anchor_at(anchor, slot);
        let buf = buf.get(..whole).unwrap_or_default();
        // Where stores persist in any order the checksum goes last: else it might meet what an attempt that was cut has left.
        let last = whole - Self::ANCHOR.word as usize;
        let alone = !Self::ANCHOR.unstable;
        let (body, sum) = buf.split_at(if alone { last } else { whole });
        self.medium.write(at, body)?;
        if alone {
            if !planted!("checkpoint/log-not-flushed") {
                self.medium.flush()?;
            }
            self.medium.write(at + last as u32, sum)?;
        }
        self.anchors.slot = slot + 1;
        self.anchors.set(anchor, Some(record.number));
        Ok(crc)
    }

    /// The next record of this boot, which has one already or goes on from none.
    pub(super) fn append(
        &mut self,
        mut record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<(), D::Error> {
        record.number = if Self::ANCHOR.unstable {
            self.number.wrapping_add(1)
        } else {
            self.anchors.highest().unwrap_or(0).wrapping_add(1)
        };
        record.base = if self.found.is_some() {
            self.number
        } else {
            record.number
        };
        if self.anchors.slot >= Self::ANCHOR.slots() {
            // Of this boot's own the latest is stable: any other anchor will do.
            let but = self.anchors.now;
            self.enter(self.target(self.number, but))?;
        }
        let (anchor, slot) = (self.anchors.now, self.anchors.slot);
        let crc = self.put(&record, buf)?;
        self.medium.flush()?;
        self.number = record.number;
        self.found = Some(Found {
            anchor,
            slot,
            crc,
            sure: true,
            record,
        });
        Ok(())
    }
}
