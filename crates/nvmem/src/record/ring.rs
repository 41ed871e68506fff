//! The slots of a record: written in turn, and found again at boot. [The record](super) has the
//! drawing. Nothing here depends on the value's type, so a program has this code once per medium.

use super::MAX_SLOTS;
use crate::crc::{Crc32, crc32};
use crate::device::{Contract, Medium};
use crate::marker::{
    Marker, Progress, all_bytes_are, erased, is_blank, kill, marker_size, order, read, word_size,
};
use crate::planted;
use crate::sequence::is_newer_16;
use core::ops::Range;

const RECORD: [u8; 4] = *b"RLR2";
/// The magic of version 1.
const OLD: [u8; 4] = *b"RLR1";
const FORMATTING: [u8; 4] = *b"RLF2";
const HEADER: u32 = 16;
const CRC: u32 = 4;
/// The most bytes that one call writes.
const PIECE: usize = 256;
/// The first write after a boot to another bank skips this many sequence numbers if a torn slot may
/// be newer than the newest record.
const TORN_SKIP: u16 = 64;

/// The header of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub magic: [u8; 4],
    pub sequence: u16,
    pub len: u16,
    pub fingerprint: u64,
}

impl Header {
    /// The header of a format marker.
    const MARK: Header = Header {
        magic: FORMATTING,
        sequence: 0,
        len: 0,
        fingerprint: 0,
    };

    fn encode(&self) -> [u8; HEADER as usize] {
        let [a, b, c, d] = self.magic;
        let numbers = u32::from(self.sequence) | u32::from(self.len) << 16;
        let [e, f, g, h] = numbers.to_le_bytes();
        let [i, j, k, l, m, n, o, p] = self.fingerprint.to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }

    fn decode(bytes: [u8; HEADER as usize]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = bytes;
        Header {
            magic: [a, b, c, d],
            sequence: u16::from_le_bytes([e, f]),
            len: u16::from_le_bytes([g, h]),
            fingerprint: u64::from_le_bytes([i, j, k, l, m, n, o, p]),
        }
    }
}

/// The sizes of slots, which follow from the medium's contract.
pub(super) struct Sizes {
    word: u32,
    /// Bytes of the begin word, the marker and its confirmation each; 0 without erase.
    mark: u32,
    /// Bytes of an erase unit; 0 without erase.
    erase: u32,
    banks: u32,
}

impl Sizes {
    pub(super) const fn of(c: &Contract) -> Self {
        let word = word_size(c);
        match &c.erase {
            // Two banks do not suffice where torn words are unstable: see docs/DESIGN.md.
            Some(e) => Sizes {
                word,
                mark: marker_size(c),
                erase: e.size,
                banks: 3,
            },
            None => Sizes {
                word,
                mark: 0,
                erase: 0,
                banks: 2,
            },
        }
    }

    /// Bytes of header, value, padding and checksum.
    const fn content(&self, len: u32) -> u32 {
        (HEADER + len + CRC).next_multiple_of(self.word)
    }

    /// Bytes of a slot.
    const fn stride(&self, len: u32) -> u32 {
        self.content(len) + 3 * self.mark
    }

    /// A bank's smallest multiple.
    const fn unit(&self) -> u32 {
        if self.erase > 0 {
            self.erase
        } else {
            self.word
        }
    }

    /// Bytes at the end of the range for the format marker. A cut may leave them in any state.
    const fn format_marker(&self) -> u32 {
        self.stride(0).next_multiple_of(self.unit())
    }

    /// Bytes of the smallest range whose banks hold `updates` updates each.
    pub(super) const fn range(&self, len: u32, updates: u32) -> u32 {
        assert!(
            self.erase == 0 || updates <= MAX_SLOTS,
            "a bank takes 4096 updates at most between two erases"
        );
        let slots = if updates == 0 || self.erase == 0 {
            1
        } else {
            updates as u64
        };
        let bank = slots * self.stride(len) as u64;
        let marker = self.stride(0) as u64;
        let bank = if bank < marker { marker } else { bank };
        let all = self.banks as u64 * bank.next_multiple_of(self.unit() as u64);
        assert!(all <= u32::MAX as u64, "a record has less than 2^32 bytes");
        all as u32
    }
}

/// A slot as it reads.
enum Slot {
    /// The checksum is right. Without erase, the progress is always [`Progress::Confirmed`].
    Intact(Header, Progress),
    /// Written to the end, but the checksum is wrong. No power cut can cause this.
    Damaged(Header),
    Invalid,
}

/// The newest record of a range.
#[derive(Clone, Copy)]
pub(super) struct Newest {
    pub header: Header,
    pub bank: u32,
    slot: u32,
    /// The last slot of the bank that was begun; the newest record's own, or a torn one after it.
    last: u32,
    confirmed: bool,
    /// A slot after it in its bank was confirmed, and its checksum is wrong.
    damaged: bool,
    /// The bank of the newest confirmed record. It counts if the newest record proves unstable.
    base: Option<u32>,
    /// A bank whose slots are all torn.
    torn: Option<u32>,
}

/// What a range holds.
pub(super) enum Content {
    Record(Newest),
    /// Blank, except perhaps for a torn format marker.
    Blank,
    /// A complete format marker: a format was begun and cut.
    Formatting,
    /// A record of version 1 with this fingerprint.
    Old(u64),
    Foreign,
    Damaged,
}

/// The slots of a record on a medium.
#[derive(Debug)]
pub(super) struct Ring<D> {
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
    /// The bank that the next write erases and starts if no slot is free.
    next_bank: u32,
}

impl<D: Medium> Ring<D> {
    const SIZES: Sizes = Sizes::of(&D::CONTRACT);
    const FLASH: bool = D::CONTRACT.erase.is_some();

    /// `None` if the range is too small.
    pub(super) fn new(medium: D, range: &Range<u32>, len: u32, fingerprint: u64) -> Option<Self> {
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
            next_bank: 0,
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

    /// The number of slots of a bank.
    pub(super) fn slots(&self, len: u32) -> u32 {
        if !Self::FLASH {
            return 1;
        }
        (self.bank_bytes / Self::SIZES.stride(len)).clamp(1, MAX_SLOTS)
    }

    /// Writes the value to the next slot: see [the order of stores](super).
    pub(super) fn write(&mut self, value: &[u8]) -> Result<(), D::Error> {
        let stride = Self::SIZES.stride(self.len);
        let (bank, slot) = match self.free.take() {
            Some((bank, slot)) => {
                let before = self.bank_at(bank) + (slot - 1) * stride;
                let skip = self.settled || planted!("nvmem/record-torn-slot-not-killed");
                if D::CONTRACT.overwrites() && !skip {
                    // The next boots must all find the slot before this one begun.
                    kill(&mut self.medium, before)?;
                }
                (bank, slot)
            }
            None => {
                let from = self.bank_at(self.next_bank);
                if Self::FLASH {
                    self.medium.erase(from, from + self.bank_bytes)?;
                    // A torn slot may read as valid later. This slot must be newer than it.
                    if !planted!("nvmem/record-sequence-not-skipped") {
                        self.sequence = self.sequence.wrapping_add(1);
                    }
                }
                (self.next_bank, 0)
            }
        };
        let header = Header {
            magic: RECORD,
            sequence: self.sequence.wrapping_add(1),
            len: self.len as u16,
            fingerprint: self.fingerprint,
        };
        self.write_slot(self.bank_at(bank) + slot * stride, header, value)?;
        self.sequence = header.sequence;
        self.settled = true;
        self.next_bank = (bank + 1) % Self::SIZES.banks;
        self.free = (slot + 1 < self.slots(self.len)).then_some((bank, slot + 1));
        Ok(())
    }

    fn write_slot(&mut self, at: u32, header: Header, value: &[u8]) -> Result<(), D::Error> {
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
            order(&mut self.medium)?;
            kill(&mut self.medium, at)?;
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
            self.medium.write(at + s.mark + off, piece)?;
            off += n;
        }
        if Self::FLASH && begun_late {
            kill(&mut self.medium, at)?;
        }
        if !Self::FLASH {
            if planted!("nvmem/record-no-flush") {
                return Ok(());
            }
            return self.medium.flush();
        }
        let marker = Marker {
            at: at + s.mark + content,
            checksum,
        };
        if planted!("nvmem/record-no-flush-on-flash") {
            marker.write_word(&mut self.medium, 0)?;
            return marker.write_word(&mut self.medium, 1);
        }
        marker.write(&mut self.medium)
    }

    /// Reads a header, without verifying a checksum.
    fn header(&mut self, at: u32) -> Result<Header, D::Error> {
        let mut head = [0; HEADER as usize];
        read(&mut self.medium, at, &mut head)?;
        Ok(Header::decode(head))
    }

    /// Reads the slot that begins at `at` and ends before `end`. Copies the value to `out`,
    /// truncated to its length.
    fn slot(&mut self, at: u32, end: u32, out: &mut [u8]) -> Result<Slot, D::Error> {
        let s = const { &Self::SIZES };
        let room = end - at;
        let at = at + s.mark;
        let header = self.header(at)?;
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
            read(&mut self.medium, at + off, piece)?;
            crc = crc.bytes(piece);
            for (from, to) in piece.iter().zip(&mut to) {
                *to = *from;
            }
            off += n;
        }
        read(&mut self.medium, at + off, &mut stored)?;
        let checksum = u32::from_le_bytes(stored);
        let mut progress = Progress::Confirmed;
        if Self::FLASH {
            let at = at + content;
            progress = Marker { at, checksum }.progress(&mut self.medium)?;
        }
        if checksum == crc.finish() || planted!("nvmem/record-crc-unchecked") {
            return Ok(Slot::Intact(header, progress));
        }
        if Self::FLASH && progress == Progress::Confirmed {
            return Ok(Slot::Damaged(header));
        }
        Ok(Slot::Invalid)
    }

    /// The last slot of a bank that was begun; its first slot was. All begin words up to it are
    /// stable, except perhaps its own.
    fn last_begun(&mut self, at: u32, len: u32) -> Result<u32, D::Error> {
        let (mut last, mut blank) = (0, self.slots(len));
        while blank - last > 1 {
            let middle = u32::midpoint(last, blank);
            if is_blank(&mut self.medium, at + middle * Self::SIZES.stride(len))? {
                blank = middle;
            } else {
                last = middle;
            }
        }
        Ok(last)
    }

    /// Finds the newest record, or what else the range holds.
    pub(super) fn scan(&mut self) -> Result<Content, D::Error> {
        let mut newest: Option<Newest> = None;
        let mut base: Option<(u32, u16)> = None;
        let mut torn = None;
        for bank in 0..Self::SIZES.banks {
            let (at, end) = (self.bank_at(bank), self.bank_at(bank + 1));
            if Self::FLASH && is_blank(&mut self.medium, at)? {
                continue;
            }
            let first = self.header(at + Self::SIZES.mark)?;
            let (mut last, mut holds, mut damaged) = (0, false, false);
            if Self::FLASH && first.magic == RECORD {
                last = self.last_begun(at, first.len.into())?;
            }
            // From the last slot to the newest one that counts, and on to the first confirmed one.
            for slot in (0..=last).rev() {
                let expected = Header {
                    magic: RECORD,
                    sequence: first.sequence.wrapping_add(slot as u16),
                    ..first
                };
                let sequence = expected.sequence;
                let stride = Self::SIZES.stride(first.len.into());
                let found = self.slot(at + slot * stride, end, &mut [])?;
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
                        torn: None,
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
            if Self::FLASH && !holds {
                torn = Some(bank);
            }
        }
        let Some(mut newest) = newest else {
            return self.classify_empty();
        };
        // In another bank this may be what a cut erase has left.
        if newest.damaged {
            return Ok(Content::Damaged);
        }
        newest.torn = torn;
        newest.base = base.map(|(bank, _)| bank);
        Ok(Content::Record(newest))
    }

    /// Classifies a range without a record that counts.
    fn classify_empty(&mut self) -> Result<Content, D::Error> {
        let marker = self.format_marker();
        let found = self.slot(marker, self.end(), &mut [])?;
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
        if all_bytes_are(&mut self.medium, self.start, end, fill)?
            || !Self::FLASH && all_bytes_are(&mut self.medium, self.start, end, 0)?
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
            let first = self.header(at + Self::SIZES.mark)?;
            if [RECORD, FORMATTING].contains(&first.magic) {
                return Ok(Content::Damaged);
            }
            let first = self.header(at)?;
            if first.magic == OLD {
                return Ok(Content::Old(first.fingerprint));
            }
        }
        Ok(Content::Foreign)
    }

    /// Reads the value of the newest record. Returns whether it is intact and has `out`'s length.
    ///
    /// Reading it again is safe: the content of a record that counts is stable.
    pub(super) fn value(&mut self, newest: &Newest, out: &mut [u8]) -> Result<bool, D::Error> {
        let stride = Self::SIZES.stride(newest.header.len.into());
        let at = self.bank_at(newest.bank) + newest.slot * stride;
        let found = self.slot(at, self.bank_at(newest.bank + 1), out)?;
        let same = matches!(found, Slot::Intact(h, _) if h == newest.header);
        Ok(same && out.len() == usize::from(newest.header.len))
    }

    /// Continues after the newest record. Returns whether it is in doubt: a later boot could reach
    /// another result, unless this boot writes the value again first.
    pub(super) fn resume(&mut self, at: &Newest) -> bool {
        let tail = at.last - at.slot;
        let (mine, slots) = (self.is_mine(&at.header), self.slots(self.len));
        self.sequence = at.header.sequence.wrapping_add(tail as u16);
        self.next_bank = self.bank_after(at);
        let append = D::CONTRACT.overwrites() || planted!("nvmem/record-appends-after-boot");
        let torn = tail > 0 || at.torn.is_some();
        if append && at.torn.is_none() && mine && at.last + 1 < slots {
            (self.free, self.settled) = (Some((at.bank, at.last + 1)), false);
        } else if torn && !planted!("nvmem/record-sequence-not-skipped") {
            // Higher than any torn slot, also those of earlier boots that were cut in this same
            // rewrite.
            self.sequence = self.sequence.wrapping_add(TORN_SKIP);
        }
        let confirmed = at.confirmed || planted!("nvmem/record-unconfirmed-not-rewritten");
        let tail_known = tail == 0 || planted!("nvmem/record-torn-tail-ignored");
        let banks_known = at.torn.is_none() || planted!("nvmem/record-torn-bank-ignored");
        Self::FLASH && !(confirmed && tail_known && banks_known)
    }

    pub(super) fn is_mine(&self, header: &Header) -> bool {
        header.fingerprint == self.fingerprint && u32::from(header.len) == self.len
    }

    /// The bank that the next write erases and starts.
    fn bank_after(&self, at: &Newest) -> u32 {
        let banks = Self::SIZES.banks;
        if planted!("nvmem/record-overwrites-newest") {
            return at.bank;
        }
        // Without a base the range was just formatted: keep the bank of the format marker.
        let last = banks - 1;
        let base = at.base.unwrap_or(if at.bank == last { 0 } else { last });
        if base != at.bank && planted!("nvmem/record-erases-base") {
            return base;
        }
        if base != at.bank {
            return 3 - at.bank - base;
        }
        // A torn bank is usually the next one in turn, and may hold a newer value. Its erase could
        // be cut and leave it looking blank, so write to the other one first.
        let step = if at.torn.is_some() { 2 } else { 1 };
        (at.bank + step) % banks
    }

    /// Writes the format marker at the end of the range. Foreign data that begins at the start of
    /// the range stays recognisable.
    pub(super) fn write_format_marker(&mut self) -> Result<(), D::Error> {
        let (from, to) = (self.format_marker(), self.end());
        self.medium.erase(from, to)?;
        self.write_slot(from, Header::MARK, &[])
    }

    pub(super) fn remove_format_marker(&mut self) -> Result<(), D::Error> {
        let (from, to) = (self.format_marker(), self.end());
        if Self::FLASH {
            return self.medium.erase(from, to);
        }
        self.write_zeros(from, from + Self::SIZES.word)
    }

    /// Erases all banks, the one of the newest record last. So a cut never leaves only an older
    /// value. On a medium without erase, fills them with zeros.
    pub(super) fn clear(&mut self) -> Result<(), D::Error> {
        let newest = match self.scan()? {
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
            let (from, to) = (self.bank_at(bank), self.bank_at(bank + 1));
            if Self::FLASH {
                self.medium.erase(from, to)?;
            } else {
                self.write_zeros(from, to)?;
                self.medium.flush()?;
            }
        }
        Ok(())
    }

    fn write_zeros(&mut self, from: u32, to: u32) -> Result<(), D::Error> {
        let zeros = [0; PIECE];
        let most = const { PIECE as u32 / Self::SIZES.word * Self::SIZES.word };
        let mut at = from;
        while at < to {
            let n = most.min(to - at);
            let piece = zeros.get(..n as usize).unwrap_or_default();
            self.medium.write(at, piece)?;
            at += n;
        }
        Ok(())
    }
}

/// Whether sequence number `a` is newer than `b`; wraps.
fn newer(a: u16, b: u16) -> bool {
    if planted!("nvmem/record-sequence-does-not-wrap") {
        return a > b;
    }
    is_newer_16(a, b)
}

/// Decodes the slot at the start of `bytes`, from its header on. `word` is the medium's program
/// word. Returns the header, and the size of the content if its checksum is right.
pub(super) fn inspect(bytes: &[u8], word: usize) -> Option<(Header, bool, Option<usize>)> {
    let header = Header::decode(*bytes.first_chunk()?);
    if ![RECORD, FORMATTING].contains(&header.magic) {
        return None;
    }
    let n = (HEADER as usize + usize::from(header.len) + CRC as usize).next_multiple_of(word);
    let intact = bytes
        .get(..n)
        .and_then(|b| b.split_last_chunk::<4>())
        .is_some_and(|(content, crc)| crc32(content) == u32::from_le_bytes(*crc));
    Some((header, header.magic == FORMATTING, intact.then_some(n)))
}
