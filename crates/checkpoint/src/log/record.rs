//! The record: it makes a checkpoint complete, and says where the cells are.
//!
//! ```text
//!  word  0     1       2     3         4-5      6       7        8      9       10        11
//!       +------+-------+-----+---------+--------+-------+--------+------+-------+---------+-------+
//!       | RLL2 | number| base| sequence| program| memory| context| heap | stack | manif., | places|
//!       |      |       |     |         |        |       |        | used | from  | n, copy | , cell|
//!       +------+-------+-----+---------+--------+-------+--------+------+-------+---------+-------+
//!       | places (runs)                          | CRC of all before it |
//!       +----------------------------------------+----------------------+
//! ```
//!
//! The record is valid when the CRC matches. It is written last, in one write or after a flush.
//!
//! Anchors hold the records, a few erase units of their own. A plain record needs no marker,
//! because every boot after it copies it. Rejected were:
//! - markers without copies, in a unit that is erased before the records they cover: the marker
//!   itself may be unstable, and its copies meet the same limit with one more erase at each boot;
//! - higher record numbers instead of erasing: a chain of cut records has no highest number;
//! - records among the cells: one erase less at a boot, but each cut occupies a unit of cells.
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
//! the next. After step 3 every boot finds the stable copy, so no boot goes back to a state older
//! than the one that this boot continued from. The anchor of the newest stable record is never
//! erased while another one can be.
//!
//! Cuts can exhaust the anchors: a copy that was cut, but reads as whole at the next boot, occupies
//! one. When all are occupied, a boot erases the second oldest, and an older state could come back.
//! That takes a row of boots, one fewer than there are anchors. Each of them is cut within the
//! record or the marker of its copy, each copy is read as whole by the next boot, and in the end
//! none can be read. No log of bounded size avoids such a limit. Take a word on which the state
//! depends that the program continued from. A boot that reads it right does not know whether it is
//! stable, and may not continue. It may not write to it either: the word may be the only stable
//! one. So it writes elsewhere, and at some moment one word there decides. If that one is cut, and
//! both read right, the next boot has one more word that it must not touch.

use super::format::{ANCHORS, LARGEST, RecordShape};
use crate::format::{is_written, zero};
use nvmem::crc::crc32;
use nvmem::device::Medium;
use nvmem::marker::{self, Marker};
use nvmem::{planted, sequence};

pub(crate) const MAGIC: [u8; 4] = *b"RLL2";
/// The format before this one, which is refused.
const OLDER: [u8; 4] = *b"RLL1";
/// Bytes in front of the record's own places.
pub(crate) const HEAD: usize = 48;
const WORDS: usize = HEAD / 4;

/// A record without its places: twelve words, least significant byte first, and its checksum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record([u32; WORDS + 1]);

/// The content of a record.
pub(crate) struct Fields {
    /// The checkpoint's sequence number; wraps.
    pub sequence: u32,
    pub program: [u32; 2],
    pub memory: u32,
    pub context: u32,
    pub heap_used: u32,
    pub stack_from: u32,
    /// The place of the newest manifest, and the number of manifests.
    pub manifest: u16,
    pub manifests: u8,
    /// Bytes of places.
    pub places: u16,
    /// Bytes of a cell.
    pub cell: u16,
}

impl Record {
    /// A record whose number and base are not set yet.
    pub(crate) fn new(f: &Fields) -> Self {
        Record([
            u32::from_le_bytes(MAGIC),
            0,
            0,
            f.sequence,
            f.program[0],
            f.program[1],
            f.memory,
            f.context,
            f.heap_used,
            f.stack_from,
            u32::from(f.manifest) | u32::from(f.manifests) << 16,
            u32::from(f.places) | u32::from(f.cell) << 16,
            0,
        ])
    }

    /// The record number: later records have higher ones; wraps.
    pub(crate) fn number(&self) -> u32 {
        self.0[1]
    }

    /// The number of the latest record that was known to be stable when this one was written.
    pub(crate) fn base(&self) -> u32 {
        self.0[2]
    }

    pub(crate) fn set_numbers(&mut self, number: u32, base: u32) {
        (self.0[1], self.0[2]) = (number, base);
    }

    pub(crate) fn sequence(&self) -> u32 {
        self.0[3]
    }

    /// The program number's lower and upper half.
    pub(crate) fn program(&self) -> [u32; 2] {
        [self.0[4], self.0[5]]
    }

    pub(crate) fn memory(&self) -> u32 {
        self.0[6]
    }

    pub(crate) fn context(&self) -> u32 {
        self.0[7]
    }

    pub(crate) fn heap_used(&self) -> u32 {
        self.0[8]
    }

    pub(crate) fn stack_from(&self) -> u32 {
        self.0[9]
    }

    pub(crate) fn manifest(&self) -> u16 {
        self.0[10] as u16
    }

    pub(crate) fn manifests(&self) -> usize {
        usize::from((self.0[10] >> 16) as u8)
    }

    /// Whether it is a boot record: a copy that a boot continues from, followed by a marker.
    pub(crate) fn is_copy(&self) -> bool {
        self.0[10] >> 24 != 0
    }

    pub(crate) fn as_copy(mut self) -> Self {
        self.0[10] |= 1 << 24;
        self
    }

    pub(crate) fn places(&self) -> usize {
        usize::from(self.0[11] as u16)
    }

    pub(crate) fn cell(&self) -> u32 {
        self.0[11] >> 16
    }

    pub(crate) fn crc(&self) -> u32 {
        self.0[WORDS]
    }

    /// The marker of a copy, at this offset.
    pub(crate) fn marker(&self, at: u32) -> Marker {
        Marker {
            at,
            checksum: self.crc(),
        }
    }

    /// The offset of its checksum, aligned to four bytes.
    fn end(&self) -> usize {
        (HEAD + self.places()).next_multiple_of(4)
    }

    /// Writes head and checksum around the places that are in `to`, and zeros up to a multiple of
    /// the word. Returns the bytes in all.
    pub(crate) fn encode(&mut self, to: &mut [u8; LARGEST], word: usize) -> usize {
        for (to, w) in to.as_chunks_mut::<4>().0.iter_mut().zip(&self.0[..WORDS]) {
            *to = w.to_le_bytes();
        }
        let end = self.end();
        let whole = (end + 4).next_multiple_of(word);
        zero(to.get_mut(HEAD + self.places()..whole).unwrap_or_default());
        let crc = crc32(to.get(..end).unwrap_or_default());
        self.0[WORDS] = crc;
        if let Some(to) = to.get_mut(end..end + 4) {
            to.copy_from_slice(&crc.to_le_bytes());
        }
        whole
    }

    pub(crate) fn decode(b: &[u8]) -> Option<Self> {
        let mut r = Record([0; WORDS + 1]);
        for (w, b) in r.0.iter_mut().zip(b.as_chunks::<4>().0) {
            *w = u32::from_le_bytes(*b);
        }
        if r.0[0] != u32::from_le_bytes(MAGIC) || r.0[10] >> 24 > 1 {
            return None;
        }
        let end = r.end();
        r.0[WORDS] = u32::from_le_bytes(*b.get(end..end + 4)?.first_chunk()?);
        (crc32(b.get(..end)?) == r.crc()).then_some(r)
    }
}

/// The records of a log, and what this boot knows about their anchors.
#[derive(Debug, Clone, Copy)]
pub(super) struct Records {
    /// Where the anchors begin.
    start: u32,
    /// The newest valid record.
    newest: Option<FoundRecord>,
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
    unfinished: u8,
    /// A slot begins as a record of an older format.
    older: bool,
}

impl Records {
    pub(super) const fn new(start: u32) -> Self {
        Records {
            start,
            newest: None,
            highest: [0; ANCHORS],
            known: 0,
            clean: 0,
            current: 0,
            slot: u32::MAX,
            number: 0,
            owned: false,
            unfinished: 0,
            older: false,
        }
    }

    /// The newest valid record, as far as they were searched.
    pub(super) fn newest(&self) -> Option<&Record> {
        self.newest.as_ref().map(|f| &f.record)
    }

    /// Whether the newest record is known to be stable.
    pub(super) fn is_stable(&self) -> bool {
        self.newest.is_some_and(|f| f.stable)
    }

    /// The number of slots with bytes that are no record.
    pub(super) fn unfinished(&self) -> u8 {
        self.unfinished
    }

    /// Whether there are records of an older format.
    pub(super) fn is_older(&self) -> bool {
        self.older
    }

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
    sequence::is_newer(a, b)
}

/// A readable record.
#[derive(Debug, Clone, Copy)]
struct FoundRecord {
    at: u32,
    anchor: u8,
    /// Its marker is readable, or the medium has no unstable words.
    stable: bool,
    record: Record,
}

/// Reads and decodes a record slot.
#[inline(never)]
fn read_record<D: Medium>(
    medium: &mut D,
    at: u32,
    buf: &mut [u8; LARGEST],
) -> Result<Option<Record>, D::Error> {
    let len = (shape::<D>().record as usize).min(LARGEST);
    let buf = buf.get_mut(..len).unwrap_or_default();
    marker::read(medium, at, buf)?;
    Ok(Record::decode(buf))
}

/// The shape of the anchors on this medium.
const fn shape<D: Medium>() -> RecordShape {
    const { RecordShape::of(&D::CONTRACT) }
}

/// The methods that read or write the medium. The caller passes the same medium to all of them.
impl Records {
    fn anchor_at<D: Medium>(&self, anchor: u8, slot: u32) -> u32 {
        let s = shape::<D>();
        self.start + u32::from(anchor) * s.anchor + slot * s.record
    }

    // INVARIANT "Log: one record": head and places of a state are of one record: both reads of it
    // give the same checksum. No cut makes two records at one position, but a bus that misreads an
    // address does: the head of one with the places of another would be a mixture.
    // Noticed by: `a_record_that_reads_as_another_one` in tests/suite/log/damage.rs; planted
    // `log-other-record`.
    /// Reads the newest record again. Returns whether it reads the same.
    pub(super) fn reread<D: Medium>(
        &mut self,
        medium: &mut D,
        buf: &mut [u8; LARGEST],
    ) -> Result<bool, D::Error> {
        let Some(FoundRecord { at, record, .. }) = self.newest else {
            return Ok(false);
        };
        let Some(again) = read_record(medium, at, buf)? else {
            return Ok(false);
        };
        if again.crc() != record.crc() && !planted!("checkpoint/log-other-record") {
            return Ok(false);
        }
        Ok(true)
    }

    /// Scans all anchors for the record with the highest number below `below`.
    pub(super) fn find<D: Medium>(
        &mut self,
        medium: &mut D,
        below: Option<u32>,
    ) -> Result<(), D::Error> {
        let s = shape::<D>();
        *self = Records::new(self.start);
        let mut buf = [0; LARGEST];
        for anchor in 0..s.anchors as u8 {
            let mut slot = 0;
            while slot < s.slots() {
                let at = self.anchor_at::<D>(anchor, slot);
                let Some(record) = read_record(medium, at, &mut buf)? else {
                    self.older |= buf.first_chunk() == Some(&OLDER);
                    let blank = if s.erases { s.erased } else { buf[0] };
                    let mut bytes = buf.iter().take(s.record as usize);
                    if bytes.any(|b| *b != blank) {
                        self.unfinished += 1;
                    }
                    break;
                };
                let number = record.number();
                self.note(anchor, number);
                slot += 1;
                let mut stable = !s.unstable;
                if record.is_copy() {
                    if s.unstable {
                        let marker = record.marker(self.anchor_at::<D>(anchor, slot));
                        stable = is_written(medium, marker, 0)?;
                        if planted!("checkpoint/log-copy-without-mark") {
                            stable = true;
                        }
                    }
                    slot += 1;
                }
                let better = |f: &FoundRecord| later(number, f.record.number());
                if below.is_none_or(|b| later(b, number)) && self.newest.as_ref().is_none_or(better)
                {
                    self.newest = Some(FoundRecord {
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

    fn erase_anchor<D: Medium>(&mut self, medium: &mut D, anchor: u8) -> Result<(), D::Error> {
        let s = shape::<D>();
        if s.erases {
            let at = self.anchor_at::<D>(anchor, 0);
            medium.erase(at, at + s.anchor)?;
        }
        self.known &= !(1 << anchor);
        self.clean |= 1 << anchor;
        Ok(())
    }

    // INVARIANT "Log: the base stays": no anchor with a record number from the record's base on is
    // erased, as long as there is another one: it may hold the only stable record. The base is a
    // record that was read with its commit marker. `write_record` sets it.
    // Noticed by: planted `log-base-erased`, `log-base-unsure`.
    /// Chooses the anchor for the next record, never the current one:
    /// 1. an anchor that this boot has erased;
    /// 2. among anchors whose records are all older than `base`, the one with the oldest;
    /// 3. otherwise the second oldest, because only the oldest holds a record known to be stable.
    fn target<D: Medium>(&self, base: u32) -> u8 {
        let s = shape::<D>();
        let others = (0..s.anchors as u8).filter(|a| *a != self.current);
        if !self.owned && planted!("checkpoint/log-base-erased") {
            let newest = others.max_by_key(|a| self.highest(*a).unwrap_or(0));
            return newest.unwrap_or(0);
        }
        // Age: how far the anchor's newest record is before `base`. Of equal ages the later anchor
        // wins.
        let (mut oldest, mut next) = ((i32::MIN, 0), 0);
        let mut second = i32::MIN;
        for a in others {
            let age = match self.highest(a) {
                _ if self.clean & 1 << a != 0 => i32::MAX,
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
        if oldest.0 > 0 || !s.unstable {
            oldest.1
        } else {
            next
        }
    }

    // INVARIANT "Log: own record first": on unstable media, this boot first needs a record of its
    // own, or one with a commit marker. Before that it erases and writes no cell and touches no
    // memory. So every record that becomes readable later has a lower number, and no cell of an
    // older state must be kept.
    // Noticed by: planted `log-unsure-used`, `log-copy-without-mark`, `log-appends-after-cut`.

    // INVARIANT "Log: the highest number": a record that cannot be read now and may be read later
    // has a lower number than this boot's records. A record that was cut may have any number, so
    // anchors without a readable record are erased first. Behind the last record of an anchor may
    // be one that was cut, so a boot adds two to the number. Numbers wrap.
    // Noticed by: `a_record_that_is_read_late_has_a_lower_number` in tests/suite/histories.rs;
    // planted `log-number-by-one`, `log-same-number`, `log-number-does-not-wrap`.
    /// Writes this boot's record before anything else is written. After it, no later boot continues
    /// from an older record, nor from one that is unreadable now. Returns `false` if the newest
    /// record now reads differently.
    ///
    /// **Power loss**: the same record is found, and this runs again.
    pub(super) fn write_boot_record<D: Medium>(
        &mut self,
        medium: &mut D,
    ) -> Result<bool, D::Error> {
        let s = shape::<D>();
        if self.owned {
            return Ok(true);
        }
        // No anchor is open, so the next record goes to another anchor.
        self.current = self.newest.as_ref().map_or(0, |f| f.anchor);
        if s.unstable {
            if planted!("checkpoint/log-appends-after-cut") {
                let after = |f: FoundRecord| {
                    let slot = (f.at - self.anchor_at::<D>(f.anchor, 0)) / s.record;
                    slot + 1 + u32::from(f.record.is_copy())
                };
                self.slot = self.newest.map_or(u32::MAX, after);
                self.owned = true;
                return Ok(true);
            }
            let mut buf = [0; LARGEST];
            if self.newest.is_some() && !self.reread(medium, &mut buf)? {
                return Ok(false);
            }
            // Records that are unreadable now may be readable later.
            for anchor in 0..s.anchors as u8 {
                if self.newest.is_none() || self.highest(anchor).is_none() {
                    self.erase_anchor(medium, anchor)?;
                }
            }
            if !planted!("checkpoint/log-number-by-one") {
                self.number = self.number.wrapping_add(1);
            }
            if let Some(FoundRecord { record, .. }) = self.newest {
                let checksum = self.write_record(medium, record.as_copy(), &mut buf)?;
                let at = self.anchor_at::<D>(self.current, self.slot);
                Marker { at, checksum }.write_word(medium, 0)?;
                self.slot += 1;
            }
        }
        self.owned = true;
        Ok(true)
    }

    // INVARIANT "Log: whole before it counts": where stores persist in any order, a record's
    // checksum is written alone, after all bytes that it covers have persisted. Otherwise it might
    // match what another attempt left.
    // Noticed by: planted `log-not-flushed`.
    /// Writes the next record, whose places are in `buf` already, and returns its checksum. It
    /// becomes the newest record.
    #[inline(never)]
    fn write_record<D: Medium>(
        &mut self,
        medium: &mut D,
        mut record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<u32, D::Error> {
        let s = shape::<D>();
        let number = self.number.wrapping_add(1);
        let mut base = number;
        if let Some(f) = &self.newest {
            let stable = f.stable || planted!("checkpoint/log-base-unsure");
            base = if stable {
                f.record.number()
            } else {
                f.record.base()
            };
        }
        if self.slot >= s.slots() {
            // The latest record of this boot is stable, so any other anchor may be erased.
            let to = self.target::<D>(base);
            if self.clean & 1 << to == 0 {
                self.erase_anchor(medium, to)?;
            }
            self.clean &= !(1 << to);
            (self.current, self.slot) = (to, 0);
        }
        record.set_numbers(number, base);
        if !self.owned && planted!("checkpoint/log-same-number") {
            record.set_numbers(self.newest.map_or(number, |f| f.record.number()), base);
        }
        let word = s.word as usize;
        let whole = record.encode(buf, word);
        let at = self.anchor_at::<D>(self.current, self.slot);
        let buf = buf.get(..whole).unwrap_or_default();
        // If stores persist in any order, the checksum is written last: it might match the bytes of
        // a cut attempt.
        if s.unstable {
            medium.write(at, buf)?;
        } else {
            let (body, sum) = buf.split_at_checked(whole - word).unwrap_or_default();
            medium.write(at, body)?;
            if !planted!("checkpoint/log-not-flushed") {
                medium.flush()?;
            }
            medium.write(at + body.len() as u32, sum)?;
        }
        self.slot += 1;
        self.note(self.current, number);
        self.newest = Some(FoundRecord {
            at,
            anchor: self.current,
            stable: true,
            record,
        });
        Ok(record.crc())
    }

    /// Writes a record after the boot record, or after no record at all, and flushes.
    pub(super) fn append<D: Medium>(
        &mut self,
        medium: &mut D,
        record: Record,
        buf: &mut [u8; LARGEST],
    ) -> Result<(), D::Error> {
        self.write_record(medium, record, buf)?;
        if planted!("checkpoint/log-no-flush-at-end") {
            return Ok(());
        }
        medium.flush()
    }
}
