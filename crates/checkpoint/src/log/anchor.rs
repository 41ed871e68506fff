//! Records, in a few anchors; docs/DESIGN.md says why it is done so.

use super::record::Record;
use super::shape::{ANCHORS, LARGEST};
use super::{Log, Shape};
use crate::layout::mark;
use crate::read::Reader;
use crate::scan;
use nvmem::device::Medium;
use nvmem::planted;

/// What is known of the anchors in this boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchors {
    /// The highest number in each, of records that can be read.
    tops: [u32; ANCHORS],
    /// Of each, a bit: it has one.
    known: u8,
    /// Of each, a bit: this boot has erased it, and nothing was written since.
    clean: u8,
    /// Where the next record goes.
    now: u8,
    slot: u32,
    /// The highest number of all, or that of the last record that this boot wrote.
    number: u32,
    /// This boot has a record of its own.
    owned: bool,
    /// Something was found that is no record.
    pub unfinished: u8,
}

impl Anchors {
    pub(super) const NEW: Self = Anchors {
        tops: [0; ANCHORS],
        known: 0,
        clean: 0,
        now: 0,
        slot: u32::MAX,
        number: 0,
        owned: false,
        unfinished: 0,
    };

    fn top(&self, anchor: u8) -> Option<u32> {
        let t = self.tops.get(usize::from(anchor) % ANCHORS);
        t.copied().filter(|_| self.known & 1 << anchor != 0)
    }

    /// There is a record with this number.
    fn note(&mut self, anchor: u8, number: u32) {
        if self.top(anchor).is_none_or(|t| later(number, t))
            && let Some(t) = self.tops.get_mut(usize::from(anchor) % ANCHORS)
        {
            *t = number;
        }
        if self.known == 0 || later(number, self.number) {
            self.number = number;
        }
        self.known |= 1 << anchor;
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
    at: u32,
    anchor: u8,
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
    #[inline(never)]
    fn peek(&mut self, at: u32, buf: &mut [u8; LARGEST]) -> Result<Option<Record>, D::Error> {
        let len = (Self::ANCHOR.record as usize).min(LARGEST);
        let buf = buf.get_mut(..len).unwrap_or_default();
        Reader { at }.read(&mut self.medium, buf)?;
        Ok(Record::decode(buf))
    }

    /// Reads the bytes of the record that was found; whether they are what they were.
    pub(super) fn again(&mut self, buf: &mut [u8; LARGEST]) -> Result<bool, D::Error> {
        let Some(Found { at, record, .. }) = self.found else {
            return Ok(false);
        };
        let again = self.peek(at, buf)?;
        let same = |r: Record| r.crc() == record.crc() || planted!("checkpoint/log-other-record");
        Ok(again.is_some_and(same))
    }

    /// Looks at all anchors: finds the record with the highest number that is lower than this one.
    pub(super) fn find(&mut self, below: Option<u32>) -> Result<(), D::Error> {
        self.found = None;
        self.anchors = Anchors::NEW;
        let mut buf = [0; LARGEST];
        for anchor in 0..Self::ANCHOR.anchors as u8 {
            let mut slot = 0;
            while slot < Self::ANCHOR.slots() {
                let at = self.anchor_at(anchor, slot);
                let Some(record) = self.peek(at, &mut buf)? else {
                    let blank = match Self::ANCHOR.erases {
                        true => Self::ANCHOR.erased,
                        false => buf[0],
                    };
                    let mut bytes = buf.iter().take(Self::ANCHOR.record as usize);
                    if bytes.any(|b| *b != blank) {
                        self.anchors.unfinished += 1;
                    }
                    break;
                };
                let number = record.number();
                self.anchors.note(anchor, number);
                slot += 1;
                let mut sure = !Self::ANCHOR.unstable;
                if record.is_copy() {
                    if Self::ANCHOR.unstable {
                        let (mut found, at) = ([0; 4], self.anchor_at(anchor, slot));
                        Reader { at }.read(&mut self.medium, &mut found)?;
                        sure = found == mark(record.crc(), 0)
                            || planted!("checkpoint/log-copy-without-mark");
                    }
                    slot += 1;
                }
                let better = |f: &Found| later(number, f.record.number());
                if below.is_none_or(|b| later(b, number)) && self.found.as_ref().is_none_or(better)
                {
                    self.found = Some(Found {
                        at,
                        anchor,
                        sure,
                        record,
                    });
                }
            }
        }
        Ok(())
    }

    fn wipe(&mut self, anchor: u8) -> Result<(), D::Error> {
        if Self::ANCHOR.erases {
            let at = self.anchor_at(anchor, 0);
            self.medium.erase(at, at + Self::ANCHOR.anchor)?;
        }
        self.anchors.known &= !(1 << anchor);
        self.anchors.clean |= 1 << anchor;
        Ok(())
    }

    /// The anchor that is the least likely to be needed, but the one that the latest record is in: one that this boot has erased; else, of those without a
    /// record from `base` on, the one with the oldest; else the oldest but one, of which the oldest is the only one that is known to be stable.
    fn target(&self, base: u32) -> u8 {
        let others = (0..Self::ANCHOR.anchors as u8).filter(|a| *a != self.anchors.now);
        if planted!("checkpoint/log-base-erased") && !self.anchors.owned {
            let newest = others.max_by_key(|a| self.anchors.top(*a).unwrap_or(0));
            return newest.unwrap_or(0);
        }
        // How far before `base`; of two that are as far the later one.
        let (mut oldest, mut next) = ((i32::MIN, 0), 0);
        let mut second = i32::MIN;
        for a in others {
            let age = match self.anchors.top(a) {
                _ if self.anchors.clean & 1 << a != 0 => i32::MAX,
                None => i32::MAX - 1,
                Some(top) => base.wrapping_sub(top).cast_signed(),
            };
            if age >= oldest.0 {
                (second, next) = oldest;
                oldest = (age, a);
            } else if age >= second {
                (second, next) = (age, a);
            }
        }
        if oldest.0 > 0 || !Self::ANCHOR.unstable {
            oldest.1
        } else {
            next
        }
    }

    /// Before anything else is written: this boot goes on from the record that was found, and no later boot from an older one, nor from one that
    /// can not be read now. `false` when the record reads differently now.
    ///
    /// **Power loss**: as before, and the same again.
    pub(super) fn own(&mut self) -> Result<bool, D::Error> {
        if self.anchors.owned {
            return Ok(true);
        }
        // Nothing is open: the next record goes to another anchor.
        self.anchors.now = self.found.as_ref().map_or(0, |f| f.anchor);
        if Self::ANCHOR.unstable {
            if planted!("checkpoint/log-appends-after-cut")
                && let Some(f) = &self.found
            {
                let slot = (f.at - self.anchor_at(f.anchor, 0)) / Self::ANCHOR.record;
                self.anchors.slot = slot + 1 + u32::from(f.record.is_copy());
                self.anchors.owned = true;
                return Ok(true);
            }
            let mut buf = [0; LARGEST];
            if self.found.is_some() && !self.again(&mut buf)? {
                return Ok(false);
            }
            // What can not be read now may be read later.
            for anchor in 0..Self::ANCHOR.anchors as u8 {
                if self.found.is_none() || self.anchors.top(anchor).is_none() {
                    self.wipe(anchor)?;
                }
            }
            if !planted!("checkpoint/log-number-by-one") {
                self.anchors.number = self.anchors.number.wrapping_add(1);
            }
            if let Some(Found { record, .. }) = self.found {
                let crc = self.put(record.as_copy(), &mut buf)?;
                let word = 4usize.next_multiple_of(Self::ANCHOR.word as usize);
                let (word, m) = (buf.get_mut(..word).unwrap_or_default(), mark(crc, 0));
                for to in word.chunks_mut(4) {
                    to.copy_from_slice(m.get(..to.len()).unwrap_or_default());
                }
                let at = self.anchor_at(self.anchors.now, self.anchors.slot);
                self.medium.write(at, word)?;
                self.anchors.slot += 1;
            }
        }
        self.anchors.owned = true;
        Ok(true)
    }

    /// Writes the next record, whose places are in `buf` already: its checksum. From then on it is the one that was found.
    #[inline(never)]
    fn put(&mut self, mut record: Record, buf: &mut [u8; LARGEST]) -> Result<u32, D::Error> {
        let number = self.anchors.number.wrapping_add(1);
        let base = match &self.found {
            Some(f) if f.sure || planted!("checkpoint/log-base-unsure") => f.record.number(),
            Some(f) => f.record.base(),
            None => number,
        };
        if self.anchors.slot >= Self::ANCHOR.slots() {
            // Of this boot's own the latest is stable: any other anchor will do.
            let to = self.target(base);
            if self.anchors.clean & 1 << to == 0 {
                self.wipe(to)?;
            }
            self.anchors.clean &= !(1 << to);
            (self.anchors.now, self.anchors.slot) = (to, 0);
        }
        let same = planted!("checkpoint/log-same-number") && !self.anchors.owned;
        record.set_numbers(if same { record.number() } else { number }, base);
        let word = Self::ANCHOR.word as usize;
        let whole = record.encode(buf, word);
        let at = self.anchor_at(self.anchors.now, self.anchors.slot);
        let buf = buf.get(..whole).unwrap_or_default();
        // Where stores persist in any order the checksum goes last: else it might meet what an attempt that was cut has left.
        if Self::ANCHOR.unstable {
            self.medium.write(at, buf)?;
        } else {
            let (body, sum) = buf.split_at_checked(whole - word).unwrap_or_default();
            self.medium.write(at, body)?;
            if !planted!("checkpoint/log-not-flushed") {
                self.medium.flush()?;
            }
            self.medium.write(at + body.len() as u32, sum)?;
        }
        self.anchors.slot += 1;
        self.anchors.note(self.anchors.now, number);
        self.found = Some(Found {
            at,
            anchor: self.anchors.now,
            sure: true,
            record,
        });
        Ok(record.crc())
    }

    /// The next record of this boot, which has one already or goes on from none.
    pub(super) fn append(
        &mut self,
        record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<(), D::Error> {
        self.put(record, buf)?;
        if planted!("checkpoint/log-no-flush-at-end") {
            return Ok(());
        }
        self.medium.flush()
    }
}
