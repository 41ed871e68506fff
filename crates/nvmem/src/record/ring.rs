//! The slots of a record: written in turn, and found again at boot. [The record](crate::record) has
//! the drawing. Nothing here depends on the value's type, so a program has this code once per
//! medium.

use super::Medium;
use super::marker::{
    all_bytes_are, is_blank, kill, order, read, read_progress, write_marker, write_word,
};
use crate::crc::Crc32;
use crate::device::Torn;
use crate::marker::{Marker, Progress, erased};
use crate::planted;
use crate::record::MAX_SLOTS;
use crate::record::format::{
    CRC, Content, FORMATTING, HEADER, Header, Newest, OLD, PIECE, RECORD, Sizes, Slot, newer,
};
use core::ops::Range;

// INVARIANT "A blank bank is in doubt": a new slot of a record counts only when no other bank can
// hold an older or newer one. A bank that reads as blank or torn is the bank that is written, or it
// is erased first.
// Noticed by: tests/suite/record_chains.rs; planted `record-blank-bank-trusted`,
// `record-unreadable-not-erased`.

// INVARIANT "No write completes a torn slot": where words persist in any order, the bank that a
// `set` overwrites holds a slot that counts. A torn slot may lack only words that the next slot has
// too, as its magic. Without erase, the next slot has the same place and number, so its first words
// could make the torn one whole, after a boot has returned the value before it.
// Noticed by: tests/suite/generated/found.rs; planted `record-torn-slot-completed`.

/// The slots of a record on a medium.
#[derive(Debug)]
pub struct Ring<D> {
    pub medium: D,
    start: u32,
    bank_bytes: u32,
    /// Bytes of the value.
    len: u32,
    pub fingerprint: u64,
    /// The sequence number given out last.
    sequence: u16,
    /// The bank and slot for the next write, if it needs no erase.
    free: Option<(u32, u32)>,
    /// Whether the begin word before the free slot is certainly stable.
    settled: bool,
    /// The bank of the last write that succeeded.
    newest: u32,
    /// The bank that the next write erases and starts if no slot is free.
    next_bank: u32,
    /// A bit for each bank that the next write erases before its slot counts.
    unreadable: u8,
}

/// The third bank of a flash.
fn third(a: u32, b: u32) -> u32 {
    (6 - a - b) % 3
}

impl<D: Medium> Ring<D> {
    const SIZES: Sizes = Sizes::of(&D::CONTRACT);
    const FLASH: bool = D::CONTRACT.erase.is_some();
    /// Whether a bank that holds no slot that counts puts the newest record in doubt.
    const DOUBTS: bool = Self::FLASH || matches!(D::CONTRACT.torn, Torn::Subset);

    /// `None` if the range is too small.
    pub fn new(medium: D, range: &Range<u32>, len: u32, fingerprint: u64) -> Option<Self> {
        let s = const { &Self::SIZES };
        let bank_bytes = range.end.saturating_sub(range.start) / s.banks / s.unit() * s.unit();
        let ring = Ring {
            medium,
            start: range.start,
            bank_bytes,
            len,
            fingerprint,
            sequence: 0,
            free: None,
            settled: true,
            newest: 2,
            next_bank: 0,
            unreadable: 0,
        };
        (bank_bytes >= s.stride(len) && bank_bytes >= s.format_marker()).then_some(ring)
    }

    fn bank_at(&self, bank: u32) -> u32 {
        self.start + bank * self.bank_bytes
    }

    fn end(&self) -> u32 {
        self.bank_at(Self::SIZES.banks)
    }

    fn format_marker(&self) -> u32 {
        self.end() - const { Self::SIZES.format_marker() }
    }

    /// Erases a bank.
    fn erase(&mut self, bank: u32) -> output!(Result<(), D::Error>) {
        steps!({
            let from = self.bank_at(bank);
            wait!(self.medium.erase(from, from + self.bank_bytes))
        })
    }

    /// The number of slots of a bank.
    pub fn slots(&self, len: u32) -> u32 {
        if !Self::FLASH {
            return 1;
        }
        (self.bank_bytes / Self::SIZES.stride(len)).clamp(1, MAX_SLOTS)
    }

    /// Writes the value to the next slot: see [the order of stores](super).
    pub fn write(&mut self, value: &[u8]) -> output!(Result<(), D::Error>) {
        steps!({
            let stride = Self::SIZES.stride(self.len);
            let free = if planted!("nvmem/record-slot-reused-after-error") {
                self.free
            } else {
                self.free.take()
            };
            let (bank, slot) = match free {
                Some((bank, slot)) => {
                    let before = self.bank_at(bank) + (slot - 1) * stride;
                    let skip = self.settled || planted!("nvmem/record-torn-slot-not-killed");
                    if D::CONTRACT.overwrites() && !skip {
                        // The next boots must all find the slot before this one begun. To kill that
                        // slot by its marker would waste a slot per boot, and leave the next one in
                        // the same doubt.
                        wait!(kill(&mut self.medium, before))?;
                    }
                    (bank, slot)
                }
                None => {
                    let bank = self.next_bank;
                    if Self::FLASH {
                        wait!(self.erase(bank))?;
                        if !planted!("nvmem/record-failed-bank-again") {
                            self.next_bank = third(bank, self.newest);
                        }
                        // A torn slot may read as valid later. This slot must be newer than it.
                        if !planted!("nvmem/record-sequence-not-skipped") {
                            self.sequence = self.sequence.wrapping_add(1);
                        }
                    }
                    (bank, 0)
                }
            };
            let header = Header {
                magic: RECORD,
                sequence: self.sequence.wrapping_add(1),
                len: self.len as u16,
                fingerprint: self.fingerprint,
            };
            wait!(self.write_slot(self.bank_at(bank) + slot * stride, header, value))?;
            self.sequence = header.sequence;
            self.settled = true;
            (self.newest, self.next_bank) = (bank, (bank + 1) % Self::SIZES.banks);
            self.free = (slot + 1 < self.slots(self.len)).then_some((bank, slot + 1));
            Ok(())
        })
    }

    fn write_slot(
        &mut self,
        at: u32,
        header: Header,
        value: &[u8],
    ) -> output!(Result<(), D::Error>) {
        steps!({
            let s = const { &Self::SIZES };
            let head = header.encode();
            let content = s.content(value.len() as u32);
            let end = content - CRC;
            let mut crc = Crc32::new().bytes(&head).bytes(value);
            for _ in HEADER + value.len() as u32..end {
                crc = crc.byte(0);
            }
            let checksum = crc.finish();
            let begun_late = planted!("nvmem/record-begin-word-last");
            if Self::FLASH && !begun_late {
                wait!(order(&mut self.medium))?;
                wait!(kill(&mut self.medium, at))?;
            }
            let mut buf = [0; PIECE];
            let most = const { PIECE as u32 / Self::SIZES.word * Self::SIZES.word };
            let mut off = 0;
            while off < content {
                let n = most.min(content - off);
                let piece = buf.get_mut(..n as usize).unwrap_or_default();
                for (i, to) in (off..).zip(piece.iter_mut()) {
                    *to = match i.checked_sub(end) {
                        Some(k) => (checksum >> (8 * k)) as u8,
                        None => match head.get(i as usize) {
                            Some(b) => *b,
                            None => value.get((i - HEADER) as usize).copied().unwrap_or(0),
                        },
                    };
                }
                wait!(self.medium.write(at + s.mark + off, piece))?;
                off += n;
            }
            if Self::FLASH && begun_late {
                wait!(kill(&mut self.medium, at))?;
            }
            if !Self::FLASH {
                if planted!("nvmem/record-no-flush") {
                    return Ok(());
                }
                return wait!(self.medium.flush());
            }
            let marker = Marker {
                at: at + s.mark + content,
                checksum,
            };
            for bank in 0..Self::SIZES.banks {
                let unreadable = self.unreadable >> bank & 1 != 0;
                if unreadable && !planted!("nvmem/record-unreadable-not-erased") {
                    wait!(self.erase(bank))?;
                }
            }
            self.unreadable = 0;
            if planted!("nvmem/record-no-flush-on-flash") {
                wait!(write_word(&mut self.medium, marker, 0))?;
                return wait!(write_word(&mut self.medium, marker, 1));
            }
            wait!(write_marker(&mut self.medium, marker))
        })
    }

    /// Reads a header, without verifying a checksum.
    fn header(&mut self, at: u32) -> output!(Result<Header, D::Error>) {
        steps!({
            let mut head = [0; HEADER as usize];
            wait!(read(&mut self.medium, at, &mut head))?;
            Ok(Header::decode(head))
        })
    }

    /// Reads the slot that begins at `at` and ends before `end`. Copies the value to `out`,
    /// truncated to its length.
    fn slot(&mut self, at: u32, end: u32, out: &mut [u8]) -> output!(Result<Slot, D::Error>) {
        steps!({
            let s = const { &Self::SIZES };
            let room = end - at;
            let at = at + s.mark;
            let header = wait!(self.header(at))?;
            let len = u32::from(header.len);
            if ![RECORD, FORMATTING].contains(&header.magic) || s.stride(len) > room {
                return Ok(Slot::Invalid);
            }
            let content = s.content(len);
            let mut crc = Crc32::new().bytes(&header.encode());
            let mut to = out.iter_mut();
            let mut off = HEADER;
            let mut stored = [0; CRC as usize];
            while off < content - CRC {
                let mut buf = [0; 64];
                let n = (content - CRC - off).min(64);
                let piece = buf.get_mut(..n as usize).unwrap_or_default();
                wait!(read(&mut self.medium, at + off, piece))?;
                crc = crc.bytes(piece);
                for (from, to) in piece.iter().zip(&mut to) {
                    *to = *from;
                }
                off += n;
            }
            wait!(read(&mut self.medium, at + off, &mut stored))?;
            let checksum = u32::from_le_bytes(stored);
            let mut progress = Progress::Confirmed;
            if Self::FLASH {
                let at = at + content;
                progress = wait!(read_progress(&mut self.medium, Marker { at, checksum }))?;
            }
            if checksum == crc.finish() || planted!("nvmem/record-crc-unchecked") {
                return Ok(Slot::Intact(header, progress));
            }
            if Self::FLASH && progress == Progress::Confirmed {
                return Ok(Slot::Damaged(header));
            }
            Ok(Slot::Invalid)
        })
    }

    /// The last slot of a bank that was begun; its first slot was. All begin words up to it are
    /// stable, except perhaps its own.
    fn last_begun(&mut self, at: u32, len: u32) -> output!(Result<u32, D::Error>) {
        steps!({
            let (mut last, mut blank) = (0, self.slots(len));
            while blank - last > 1 {
                let middle = u32::midpoint(last, blank);
                if wait!(is_blank(
                    &mut self.medium,
                    at + middle * Self::SIZES.stride(len)
                ))? {
                    blank = middle;
                } else {
                    last = middle;
                }
            }
            Ok(last)
        })
    }

    // INVARIANT "Flushed before it is believed": what a scan finds stays: a flush comes first. An
    // error is not a cut: a `set` whose last flush failed has left its slot in the medium's buffer,
    // where an open in the same boot reads it. If that slot counted, the next `set` would erase or
    // overwrite the value before it, and a cut then leaves neither.
    // Noticed by: tests/suite/generated/found.rs; planted `record-buffer-believed`.
    /// Finds the newest record, or what else the range holds.
    pub fn scan(&mut self) -> output!(Result<Content, D::Error>) {
        steps!({
            if !planted!("nvmem/record-buffer-believed") {
                wait!(self.medium.flush())?;
            }
            let mut newest: Option<Newest> = None;
            let mut base: Option<(u32, u16)> = None;
            let mut unreadable = 0;
            for bank in 0..Self::SIZES.banks {
                let (at, end) = (self.bank_at(bank), self.bank_at(bank + 1));
                if Self::FLASH && wait!(is_blank(&mut self.medium, at))? {
                    if !planted!("nvmem/record-blank-bank-trusted") {
                        unreadable |= 1 << bank;
                    }
                    continue;
                }
                let first = wait!(self.header(at + Self::SIZES.mark))?;
                let (mut last, mut holds, mut damaged) = (0, false, false);
                if Self::FLASH && first.magic == RECORD {
                    last = wait!(self.last_begun(at, first.len.into()))?;
                }
                // From the last slot to the newest one that counts, and on to the first confirmed
                // one.
                for slot in (0..=last).rev() {
                    let expected = Header {
                        magic: RECORD,
                        sequence: first.sequence.wrapping_add(slot as u16),
                        ..first
                    };
                    let sequence = expected.sequence;
                    let stride = Self::SIZES.stride(first.len.into());
                    let found = wait!(self.slot(at + slot * stride, end, &mut []))?;
                    let (header, progress) = match found {
                        Slot::Intact(h, p) => (h, p),
                        Slot::Damaged(h) => {
                            damaged |= h == expected;
                            continue;
                        }
                        Slot::Invalid => continue,
                    };
                    let marked = progress >= Progress::Marked;
                    let counts = marked || planted!("nvmem/record-unmarked-counts");
                    if header != expected || !counts {
                        continue;
                    }
                    let confirmed = progress == Progress::Confirmed;
                    if !holds && newest.is_none_or(|n| newer(sequence, n.header.sequence)) {
                        newest = Some(Newest {
                            header,
                            bank,
                            slot,
                            last,
                            confirmed,
                            damaged,
                            base: None,
                            unreadable: 0,
                        });
                    }
                    holds = true;
                    if confirmed {
                        if base.is_none_or(|(_, s)| newer(sequence, s)) {
                            base = Some((bank, sequence));
                        }
                        break;
                    }
                }
                if !holds {
                    unreadable |= 1 << bank;
                }
            }
            let Some(mut newest) = newest else {
                return wait!(self.classify_empty());
            };
            // In another bank this may be what a cut erase has left.
            if newest.damaged {
                return Ok(Content::Damaged);
            }
            newest.unreadable = unreadable;
            newest.base = base.map(|(bank, _)| bank);
            Ok(Content::Record(newest))
        })
    }

    /// Classifies a range without a record that counts.
    fn classify_empty(&mut self) -> output!(Result<Content, D::Error>) {
        steps!({
            let marker = self.format_marker();
            let found = wait!(self.slot(marker, self.end(), &mut []))?;
            let (marked, certain) = match found {
                Slot::Intact(h, p) if h == Header::MARK => (true, p >= Progress::Marked),
                _ => (false, false),
            };
            if certain || marked && planted!("nvmem/record-marker-not-confirmed") {
                return Ok(Content::Formatting);
            }
            let mut end = marker;
            if planted!("nvmem/record-blank-by-its-start") {
                end = self.start + Self::SIZES.word;
            }
            let fill = const { erased(&D::CONTRACT) };
            if wait!(all_bytes_are(&mut self.medium, self.start, end, fill))?
                || !Self::FLASH && wait!(all_bytes_are(&mut self.medium, self.start, end, 0))?
            {
                return Ok(Content::Blank);
            }
            if marked {
                // The range is not blank, so a format went on after the marker. The marker was
                // therefore complete.
                return Ok(Content::Formatting);
            }
            for bank in 0..Self::SIZES.banks {
                let at = self.bank_at(bank);
                let first = wait!(self.header(at + Self::SIZES.mark))?;
                if [RECORD, FORMATTING].contains(&first.magic) {
                    return Ok(Content::Damaged);
                }
                let first = wait!(self.header(at))?;
                if first.magic == OLD {
                    return Ok(Content::Old(first.fingerprint));
                }
            }
            Ok(Content::Foreign)
        })
    }

    /// Reads the value of the newest record. Returns whether it is intact and has `out`'s length.
    ///
    /// Reading it again is safe: the content of a record that counts is stable.
    pub fn value(&mut self, newest: &Newest, out: &mut [u8]) -> output!(Result<bool, D::Error>) {
        steps!({
            let stride = Self::SIZES.stride(newest.header.len.into());
            let at = self.bank_at(newest.bank) + newest.slot * stride;
            let found = wait!(self.slot(at, self.bank_at(newest.bank + 1), out))?;
            let same = matches!(found, Slot::Intact(h, _) if h == newest.header);
            Ok(same && out.len() == usize::from(newest.header.len))
        })
    }

    /// Continues after the newest record. Returns whether it is in doubt: a later boot could reach
    /// another result, unless this boot writes the value again first. To skip sequence numbers
    /// instead proves nothing: a bank that reads as blank may hold any number, and the number of a
    /// torn slot may be what it lacks.
    pub fn resume(&mut self, at: &Newest) -> bool {
        let tail = at.last - at.slot;
        let (mine, slots) = (self.is_mine(&at.header), self.slots(self.len));
        self.sequence = at.header.sequence.wrapping_add(tail as u16);
        (self.newest, self.next_bank) = (at.bank, self.bank_after(at));
        let append = D::CONTRACT.overwrites() || planted!("nvmem/record-appends-after-boot");
        let all_read = at.unreadable == 0 || planted!("nvmem/record-torn-bank-ignored");
        let stable = at.confirmed || planted!("nvmem/record-appends-to-unconfirmed");
        if append && all_read && stable && mine && at.last + 1 < slots {
            (self.free, self.settled) = (Some((at.bank, at.last + 1)), false);
        }
        if at.base.is_some() || at.unreadable.count_ones() < 2 {
            self.unreadable = at.unreadable & !(1 << self.next_bank);
        }
        let confirmed = at.confirmed || planted!("nvmem/record-unconfirmed-not-rewritten");
        let tail_known = tail == 0 || planted!("nvmem/record-torn-tail-ignored");
        let mut doubts = const { Self::DOUBTS };
        if planted!("nvmem/record-torn-slot-completed") {
            doubts = Self::FLASH;
        }
        doubts && !(confirmed && tail_known && all_read)
    }

    pub fn is_mine(&self, header: &Header) -> bool {
        header.fingerprint == self.fingerprint && u32::from(header.len) == self.len
    }

    /// The bank that the next write erases and starts.
    fn bank_after(&self, at: &Newest) -> u32 {
        let banks = Self::SIZES.banks;
        if planted!("nvmem/record-overwrites-newest") {
            return at.bank;
        }
        let unreadable = |bank: u32| at.unreadable >> bank & 1 != 0;
        if let Some(base) = at.base
            && base != at.bank
        {
            if planted!("nvmem/record-erases-base") {
                return base;
            }
            return third(at.bank, base);
        }
        let (next, other) = ((at.bank + 1) % banks, (at.bank + 2) % banks);
        if unreadable(other) && (!unreadable(next) || next == banks - 1) {
            return other;
        }
        next
    }

    /// Writes the format marker at the end of the range. An erase that was cut may leave any bytes,
    /// also where nothing needed erasing. So one place must be allowed to hold any bytes while the
    /// rest is blank, and the end is least likely to be somebody's data. Foreign data that begins
    /// at the start of the range stays recognisable.
    pub fn write_format_marker(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            let (from, to) = (self.format_marker(), self.end());
            wait!(self.medium.erase(from, to))?;
            wait!(self.write_slot(from, Header::MARK, &[]))
        })
    }

    pub fn remove_format_marker(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            let (from, to) = (self.format_marker(), self.end());
            if Self::FLASH {
                return wait!(self.medium.erase(from, to));
            }
            wait!(self.write_zeros(from, from + Self::SIZES.word))
        })
    }

    /// Erases all banks, the one of the newest record last. So a cut never leaves only an older
    /// value. On a medium without erase, fills them with zeros.
    pub fn clear(&mut self) -> output!(Result<(), D::Error>) {
        steps!({
            let newest = match wait!(self.scan())? {
                Content::Record(newest) => newest.bank,
                _ => 0,
            };
            let first = if planted!("nvmem/record-format-newest-first") {
                0
            } else {
                1
            };
            for i in first..first + Self::SIZES.banks {
                let bank = (newest + i) % Self::SIZES.banks;
                if Self::FLASH {
                    wait!(self.erase(bank))?;
                } else {
                    let (from, to) = (self.bank_at(bank), self.bank_at(bank + 1));
                    wait!(self.write_zeros(from, to))?;
                    wait!(self.medium.flush())?;
                }
            }
            Ok(())
        })
    }

    fn write_zeros(&mut self, from: u32, to: u32) -> output!(Result<(), D::Error>) {
        steps!({
            let zeros = [0; PIECE];
            let most = const { PIECE as u32 / Self::SIZES.word * Self::SIZES.word };
            let mut at = from;
            while at < to {
                let n = most.min(to - at);
                let piece = zeros.get(..n as usize).unwrap_or_default();
                wait!(self.medium.write(at, piece))?;
                at += n;
            }
            Ok(())
        })
    }
}
