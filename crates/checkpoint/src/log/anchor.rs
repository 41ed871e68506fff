//! Records and the anchors that hold them. docs/DESIGN.md explains the choice.
//!
//! ```text
//!  flash:  anchor 0        anchor 1        anchor 2        anchor 3
//!         +-------+-------++-------+-------++-------+-------++-------+-------+
//!         |copy 6 |marker ||  7    |  8    ||copy 10|marker || 4     | torn  |
//!         +-------+-------++-------+-------++-------+-------++-------+-------+
//!           boot A                            boot B (current)
//! ```
//!
//! An anchor is erased as a whole and then filled from its start. Numbers are record numbers; they
//! wrap. A record's `base` is the newest record known to be stable when it was written.
//!
//! Order of writes at the first checkpoint of a boot on flash (`write_boot_record`):
//! 1. read the record again; if it reads differently, it was never stable: search further;
//! 2. erase all anchors without a readable record: theirs might become readable later;
//! 3. write a copy of the record under a new number to another anchor, then the copy's marker. Only
//!    then is anything else written.
//!
//! Why this is safe: on flash a record whose write was cut may be readable at one boot and not at
//! the next. After step 3 every boot finds the stable copy, so no boot goes back behind the state
//! that this boot continued from. The anchor of the newest stable record is never erased while
//! another one can be.

use super::record::Record;
use super::shape::{ANCHORS, LARGEST};
use super::{Log, Shape};
use crate::layout::marker_word;
use crate::read::Reader;
use crate::scan;
use nvmem::device::Medium;
use nvmem::planted;

/// The state of the anchors in this boot.
#[derive(Debug, Clone, Copy)]
pub(super) struct Anchors {
    /// The highest record number in each anchor, of readable records.
    highest: [u32; ANCHORS],
    /// One bit for each anchor: it has a readable record.
    known: u8,
    /// One bit for each anchor: this boot erased it and wrote nothing since.
    clean: u8,
    /// The anchor and slot for the next record.
    current: u8,
    slot: u32,
    /// The highest record number of all anchors, or that of the last record written by this boot.
    number: u32,
    /// This boot has written its boot record.
    owned: bool,
    /// The number of slots with bytes that are no record.
    pub unfinished: u8,
}

impl Anchors {
    pub(super) const NEW: Self = Anchors {
        highest: [0; ANCHORS],
        known: 0,
        clean: 0,
        current: 0,
        slot: u32::MAX,
        number: 0,
        owned: false,
        unfinished: 0,
    };

    fn highest(&self, anchor: u8) -> Option<u32> {
        let t = self.highest.get(usize::from(anchor) % ANCHORS);
        t.copied().filter(|_| self.known & 1 << anchor != 0)
    }

    /// Notes a readable record with this number.
    fn note(&mut self, anchor: u8, number: u32) {
        if self.highest(anchor).is_none_or(|t| later(number, t))
            && let Some(t) = self.highest.get_mut(usize::from(anchor) % ANCHORS)
        {
            *t = number;
        }
        if self.known == 0 || later(number, self.number) {
            self.number = number;
        }
        self.known |= 1 << anchor;
    }
}

/// Whether record number `a` is later than `b`; they wrap.
fn later(a: u32, b: u32) -> bool {
    if planted!("checkpoint/log-number-does-not-wrap") {
        return a > b;
    }
    scan::later(a, b)
}

/// A readable record.
#[derive(Debug, Clone, Copy)]
pub(super) struct FoundRecord {
    at: u32,
    anchor: u8,
    /// Its marker is readable, or the medium has no unstable words.
    pub stable: bool,
    pub record: Record,
}

impl<D: Medium, const CELLS: usize, const UNITS: usize, const CELL: usize>
    Log<D, CELLS, UNITS, CELL>
{
    const ANCHOR: Shape = Self::SHAPE;

    fn anchor_at(&self, anchor: u8, slot: u32) -> u32 {
        self.start + u32::from(anchor) * Self::ANCHOR.anchor + slot * Self::ANCHOR.record
    }

    /// Reads and decodes a record slot.
    #[inline(never)]
    fn read_record(
        &mut self,
        at: u32,
        buf: &mut [u8; LARGEST],
    ) -> Result<Option<Record>, D::Error> {
        let len = (Self::ANCHOR.record as usize).min(LARGEST);
        let buf = buf.get_mut(..len).unwrap_or_default();
        Reader { at }.read(&mut self.medium, buf)?;
        Ok(Record::decode(buf))
    }

    /// Reads the found record again. Returns whether it reads the same.
    pub(super) fn reread(&mut self, buf: &mut [u8; LARGEST]) -> Result<bool, D::Error> {
        let Some(FoundRecord { at, record, .. }) = self.found else {
            return Ok(false);
        };
        let again = self.read_record(at, buf)?;
        let same = |r: Record| r.crc() == record.crc() || planted!("checkpoint/log-other-record");
        Ok(again.is_some_and(same))
    }

    /// Scans all anchors for the record with the highest number below `below`.
    pub(super) fn find_record(&mut self, below: Option<u32>) -> Result<(), D::Error> {
        self.found = None;
        self.anchors = Anchors::NEW;
        let mut buf = [0; LARGEST];
        for anchor in 0..Self::ANCHOR.anchors as u8 {
            let mut slot = 0;
            while slot < Self::ANCHOR.slots() {
                let at = self.anchor_at(anchor, slot);
                let Some(record) = self.read_record(at, &mut buf)? else {
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
                let mut stable = !Self::ANCHOR.unstable;
                if record.is_copy() {
                    if Self::ANCHOR.unstable {
                        let (mut found, at) = ([0; 4], self.anchor_at(anchor, slot));
                        Reader { at }.read(&mut self.medium, &mut found)?;
                        stable = found == marker_word(record.crc(), 0)
                            || planted!("checkpoint/log-copy-without-mark");
                    }
                    slot += 1;
                }
                let better = |f: &FoundRecord| later(number, f.record.number());
                if below.is_none_or(|b| later(b, number)) && self.found.as_ref().is_none_or(better)
                {
                    self.found = Some(FoundRecord {
                        at,
                        anchor,
                        stable,
                        record,
                    });
                }
            }
        }
        Ok(())
    }

    fn erase_anchor(&mut self, anchor: u8) -> Result<(), D::Error> {
        if Self::ANCHOR.erases {
            let at = self.anchor_at(anchor, 0);
            self.medium.erase(at, at + Self::ANCHOR.anchor)?;
        }
        self.anchors.known &= !(1 << anchor);
        self.anchors.clean |= 1 << anchor;
        Ok(())
    }

    /// Chooses the anchor for the next record, never the current one:
    /// 1. an anchor that this boot has erased;
    /// 2. among anchors whose records are all older than `base`, the one with the oldest;
    /// 3. otherwise the second oldest, because only the oldest holds a record known to be stable.
    fn target(&self, base: u32) -> u8 {
        let others = (0..Self::ANCHOR.anchors as u8).filter(|a| *a != self.anchors.current);
        if planted!("checkpoint/log-base-erased") && !self.anchors.owned {
            let newest = others.max_by_key(|a| self.anchors.highest(*a).unwrap_or(0));
            return newest.unwrap_or(0);
        }
        // Age: how far the anchor's newest record is before `base`. Of equal ages the later anchor
        // wins.
        let (mut oldest, mut next) = ((i32::MIN, 0), 0);
        let mut second = i32::MIN;
        for a in others {
            let age = match self.anchors.highest(a) {
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

    /// Writes this boot's record before anything else is written. After it, no later boot continues
    /// from an older record, nor from one that is unreadable now. Returns `false` if the found
    /// record now reads differently.
    ///
    /// **Power loss**: the same record is found, and this runs again.
    pub(super) fn write_boot_record(&mut self) -> Result<bool, D::Error> {
        if self.anchors.owned {
            return Ok(true);
        }
        // No anchor is open, so the next record goes to another anchor.
        self.anchors.current = self.found.as_ref().map_or(0, |f| f.anchor);
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
            if self.found.is_some() && !self.reread(&mut buf)? {
                return Ok(false);
            }
            // Records that are unreadable now may be readable later.
            for anchor in 0..Self::ANCHOR.anchors as u8 {
                if self.found.is_none() || self.anchors.highest(anchor).is_none() {
                    self.erase_anchor(anchor)?;
                }
            }
            if !planted!("checkpoint/log-number-by-one") {
                self.anchors.number = self.anchors.number.wrapping_add(1);
            }
            if let Some(FoundRecord { record, .. }) = self.found {
                let crc = self.write_record(record.as_copy(), &mut buf)?;
                let word = 4usize.next_multiple_of(Self::ANCHOR.word as usize);
                let (word, m) = (buf.get_mut(..word).unwrap_or_default(), marker_word(crc, 0));
                for to in word.chunks_mut(4) {
                    to.copy_from_slice(m.get(..to.len()).unwrap_or_default());
                }
                let at = self.anchor_at(self.anchors.current, self.anchors.slot);
                self.medium.write(at, word)?;
                self.anchors.slot += 1;
            }
        }
        self.anchors.owned = true;
        Ok(true)
    }

    /// Writes the next record, whose places are in `buf` already, and returns its checksum. It
    /// becomes the found record.
    #[inline(never)]
    fn write_record(
        &mut self,
        mut record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<u32, D::Error> {
        let number = self.anchors.number.wrapping_add(1);
        let base = match &self.found {
            Some(f) if f.stable || planted!("checkpoint/log-base-unsure") => f.record.number(),
            Some(f) => f.record.base(),
            None => number,
        };
        if self.anchors.slot >= Self::ANCHOR.slots() {
            // The latest record of this boot is stable, so any other anchor may be erased.
            let to = self.target(base);
            if self.anchors.clean & 1 << to == 0 {
                self.erase_anchor(to)?;
            }
            self.anchors.clean &= !(1 << to);
            (self.anchors.current, self.anchors.slot) = (to, 0);
        }
        let same = planted!("checkpoint/log-same-number") && !self.anchors.owned;
        record.set_numbers(if same { record.number() } else { number }, base);
        let word = Self::ANCHOR.word as usize;
        let whole = record.encode(buf, word);
        let at = self.anchor_at(self.anchors.current, self.anchors.slot);
        let buf = buf.get(..whole).unwrap_or_default();
        // If stores persist in any order, the checksum is written last: it might match the bytes of
        // a cut attempt.
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
        self.anchors.note(self.anchors.current, number);
        self.found = Some(FoundRecord {
            at,
            anchor: self.anchors.current,
            stable: true,
            record,
        });
        Ok(record.crc())
    }

    /// Writes a record after the boot record, or after no record at all, and flushes.
    pub(super) fn append(
        &mut self,
        record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<(), D::Error> {
        self.write_record(record, buf)?;
        if planted!("checkpoint/log-no-flush-at-end") {
            return Ok(());
        }
        self.medium.flush()
    }
}
