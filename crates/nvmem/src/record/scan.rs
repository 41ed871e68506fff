//! Recovery: finds the newest record in a range, and whether a later boot could judge differently.

use super::slot::{self, COMMIT_WORDS, HEADER, Header, MAX_SLOTS, Slot, SlotSizes};
use crate::device::Medium;
use crate::planted;
use core::ops::Range;

/// The banks of a range: how many there are, where they begin and how large they are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Banks {
    pub sizes: SlotSizes,
    pub start: u32,
    /// Bytes per bank.
    pub bank_bytes: u32,
    pub count: u32,
}

impl Banks {
    /// `None` if the range is too small for values of `len` bytes.
    pub(super) const fn new(sizes: SlotSizes, range: &Range<u32>, len: u32) -> Option<Self> {
        let (count, multiple) = match &sizes.erase {
            // Two banks do not suffice where torn words are unstable: see docs/DESIGN.md.
            Some(e) => (3, e.size),
            None => (2, sizes.word),
        };
        let bank_bytes = range.end.saturating_sub(range.start) / count / multiple * multiple;
        let banks = Banks {
            sizes,
            start: range.start,
            bank_bytes,
            count,
        };
        if bank_bytes < sizes.stride(len) || bank_bytes < banks.format_marker_bytes() {
            return None;
        }
        Some(banks)
    }

    /// Bytes at the end of the range reserved for the format marker. A cut may leave them in any
    /// state.
    const fn format_marker_bytes(&self) -> u32 {
        let n = self.sizes.stride(0);
        match &self.sizes.erase {
            Some(e) => n.next_multiple_of(e.size),
            None => n,
        }
    }

    pub(super) const fn end(&self) -> u32 {
        self.start + self.count * self.bank_bytes
    }

    pub(super) const fn format_marker(&self) -> u32 {
        self.end() - self.format_marker_bytes()
    }

    pub(super) const fn at(&self, bank: u32, slot: u32, len: u32) -> u32 {
        self.start + bank * self.bank_bytes + slot * self.sizes.stride(len)
    }

    pub(super) const fn slots(&self, len: u32) -> u32 {
        if self.sizes.erase.is_none() {
            return 1;
        }
        let n = self.bank_bytes / self.sizes.stride(len);
        if n > MAX_SLOTS { MAX_SLOTS } else { n }
    }
}

/// The newest intact record of a bank.
#[derive(Clone, Copy)]
pub(super) struct BankRecord {
    pub header: Header,
    pub bank: u32,
    pub slot: u32,
    /// How many of its commit words were begun. 0: no program has acted on it. 1 (the marker): its
    /// content is complete. 2 (also the confirmation): the marker is complete, and a program may
    /// have acted on it.
    pub commit_words: u32,
    /// A later slot of this bank was begun and is torn.
    pub torn_tail: bool,
}

/// The state of a bank.
#[derive(Clone, Copy)]
enum Bank {
    Blank,
    /// The first slot is neither blank nor valid.
    Torn,
    Holds(BankRecord),
    /// More than one slot at the end is invalid, which only an interrupted erase can cause. Holds
    /// the sequence number of the last slot.
    Damaged(u16),
}

/// The result of scanning all banks.
pub(super) struct Scan {
    pub newest: Option<BankRecord>,
    /// The bank of the newest record whose content is certainly complete. It counts if the newest
    /// record proves unstable.
    pub base: Option<u32>,
    pub torn: [bool; 3],
    pub damaged: bool,
}

impl Scan {
    /// Whether a later boot could reach another result unless this boot writes its value again
    /// first.
    pub(super) fn in_doubt(&self) -> bool {
        let needed = if planted!("nvmem/record-one-commit-word") {
            1
        } else {
            COMMIT_WORDS
        };
        [
            self.newest.is_some_and(|f| f.commit_words < needed)
                && !planted!("nvmem/record-unconfirmed-not-rewritten"),
            self.newest.is_some_and(|f| f.torn_tail) && !planted!("nvmem/record-torn-tail-ignored"),
            self.torn.contains(&true) && !planted!("nvmem/record-torn-bank-ignored"),
        ]
        .contains(&true)
    }

    /// Whether a torn slot that is newer than the newest record may read as valid later.
    pub(super) fn has_torn(&self) -> bool {
        self.torn.contains(&true) || self.newest.is_some_and(|f| f.torn_tail)
    }

    /// The bank that the next write erases and starts.
    pub(super) fn next_bank(&self, banks: &Banks) -> u32 {
        let Some(newest) = self.newest else { return 0 };
        if planted!("nvmem/record-overwrites-newest") {
            return newest.bank;
        }
        let others = (1..banks.count).map(|i| (newest.bank + i) % banks.count);
        let free = others.filter(|b| Some(*b) != self.base || planted!("nvmem/record-erases-base"));
        // Prefer a torn bank; otherwise take the oldest one.
        let torn = free.clone().find(|b| self.torn[*b as usize]);
        torn.or(free.into_iter().next())
            .unwrap_or((newest.bank + 1) % banks.count)
    }
}

/// Whether sequence number `a` is newer than `b`; wraps.
fn newer(a: u16, b: u16) -> bool {
    if planted!("nvmem/record-sequence-does-not-wrap") {
        return a > b;
    }
    (a.wrapping_sub(b) as i16) > 0
}

/// Scans every bank. Writes the newest value to `best`, truncated to its length. `other` is scratch
/// space of the same length.
pub(super) fn scan<D: Medium>(
    d: &mut D,
    banks: &Banks,
    best: &mut [u8],
    other: &mut [u8],
) -> Result<Scan, D::Error> {
    let mut scan = Scan {
        newest: None,
        base: None,
        torn: [false; 3],
        damaged: false,
    };
    let mut base_sequence = 0;
    let mut damaged = None;
    for b in 0..banks.count {
        match scan_bank(d, banks, b, other)? {
            Bank::Blank => {}
            Bank::Torn => scan.torn[b as usize] = banks.sizes.erase.is_some(),
            Bank::Damaged(last) => {
                scan.torn[b as usize] = true;
                damaged = Some(last);
            }
            Bank::Holds(f) => {
                let s = f.header.sequence;
                if scan.newest.is_none_or(|n| newer(s, n.header.sequence)) {
                    scan.newest = Some(f);
                    best.copy_from_slice(other);
                }
                if (f.commit_words > 0 || f.slot > 0)
                    && scan.base.is_none_or(|_| newer(s, base_sequence))
                {
                    (scan.base, base_sequence) = (Some(b), s);
                }
            }
        }
    }
    // A damaged bank that is older than the newest record was being erased.
    scan.damaged =
        damaged.is_some_and(|last| scan.newest.is_none_or(|n| newer(last, n.header.sequence)));
    if let Some(f) = scan.newest
        && scan.base.is_none()
    {
        // The range was just formatted. Keep the bank of the format marker.
        scan.base = Some(if f.bank == banks.count - 1 {
            0
        } else {
            banks.count - 1
        });
    }
    Ok(scan)
}

fn scan_bank<D: Medium>(
    d: &mut D,
    banks: &Banks,
    bank: u32,
    out: &mut [u8],
) -> Result<Bank, D::Error> {
    let w = &banks.sizes;
    let first = match slot::read(d, w, banks.at(bank, 0, 0), banks.bank_bytes, out)? {
        Slot::Blank => return Ok(Bank::Blank),
        Slot::Valid(h) if h.magic == slot::RECORD => h,
        _ => return Ok(Bank::Torn),
    };
    let mut found = BankRecord {
        header: first,
        bank,
        slot: 0,
        commit_words: COMMIT_WORDS,
        torn_tail: false,
    };
    if w.erase.is_none() {
        return Ok(Bank::Holds(found));
    }
    let len = u32::from(first.len);
    let slots = banks.slots(len);
    let expected = |slot: u32| Header {
        sequence: first.sequence.wrapping_add(slot as u16),
        ..first
    };
    let mut last = 0;
    while last + 1 < slots
        && slot::read_header(d, w, banks.at(bank, last + 1, len))? == Some(expected(last + 1))
    {
        last += 1;
    }
    // One boot writes a bank, so at most its last slot is torn. The newest record is that slot or
    // the one before.
    for slot in (last.saturating_sub(1)..=last).rev() {
        if slot > 0 {
            let found = slot::read(d, w, banks.at(bank, slot, len), w.stride(len), out)?;
            if found != Slot::Valid(expected(slot)) {
                continue;
            }
        } else if last > 0 {
            // Reading the next slot has overwritten this value in `out`: read it again.
            if slot::read(d, w, banks.at(bank, 0, len), banks.bank_bytes, out)?
                != Slot::Valid(first)
            {
                continue;
            }
        }
        found.header = expected(slot);
        found.slot = slot;
        found.torn_tail = slot < last;
        if slot == last && last + 1 < slots {
            let next = banks.at(bank, last + 1, len);
            found.torn_tail = !slot::all_bytes_are(d, w, next, next + w.word, w.erased())?;
        }
        if !found.torn_tail {
            found.commit_words = slot::commit_words(d, w, banks.at(bank, slot, len), len)?;
        }
        return Ok(Bank::Holds(found));
    }
    Ok(Bank::Damaged(expected(last).sequence))
}

/// What a range without a valid record holds.
pub(super) enum EmptyRange {
    /// Blank, except perhaps for a torn format marker.
    Blank,
    /// A complete format marker: a format was begun and cut.
    Formatting,
    Foreign,
    Damaged,
}

/// Classifies a range in which [`scan`] found no record.
pub(super) fn classify_empty<D: Medium>(d: &mut D, banks: &Banks) -> Result<EmptyRange, D::Error> {
    let (w, marker) = (&banks.sizes, banks.format_marker());
    let found = slot::read(d, w, marker, banks.end() - marker, &mut [])?;
    let marked = found == Slot::Valid(Header::FORMATTING);
    if marked
        && (w.erase.is_none()
            || planted!("nvmem/record-marker-not-confirmed")
            || slot::commit_words(d, w, marker, 0)? > 0)
    {
        return Ok(EmptyRange::Formatting);
    }
    let mut blank = false;
    let fills: &[u8] = match &w.erase {
        Some(e) => &[e.erased],
        None => &[0x00, 0xFF],
    };
    let end = if planted!("nvmem/record-blank-by-its-start") {
        banks.start + w.word
    } else {
        marker
    };
    for fill in fills {
        blank = blank || slot::all_bytes_are(d, w, banks.start, end, *fill)?;
    }
    if blank {
        return Ok(EmptyRange::Blank);
    }
    if marked {
        // The range is not blank, so a format went on after the marker. The marker was therefore
        // complete.
        return Ok(EmptyRange::Formatting);
    }
    for b in 0..banks.count {
        let at = banks.at(b, 0, 0);
        if banks.bank_bytes >= HEADER && slot::read_header(d, w, at)?.is_some() {
            return Ok(EmptyRange::Damaged);
        }
    }
    Ok(EmptyRange::Foreign)
}
