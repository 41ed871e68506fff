//! A record: one value (settings, counters, calibration) in a range of any
//! [`Medium`](crate::Medium). Each update is atomic under power cuts.
//!
//! After a cut inside [`Record::set`], the next boot finds the old value or the new one. A value
//! that the program has seen, from [`Record::get`] or after a successful `set`, never reverts at a
//! later boot. This holds even on flash with unstable words, which read differently each time.
//!
//! # Layout
//!
//! Without erase, the range is two banks of one slot each, written alternately. On flash it is
//! three banks, each a whole number of erase units:
//!
//! ```text
//! range   | bank 0                   | bank 1 (newest)          | bank 2                   |
//!         | slot | slot | slot | ... | slot | slot | free | ... | erased by the next write |
//!                                      seq 7  seq 8               that starts a bank
//!
//! slot    | begin word  | header   | value | zeros | CRC  | commit marker | confirmation |
//!         | flash only  | 16 bytes | len   |       | 4    | flash only    | flash only   |
//!
//! header  | magic "RLR2" | sequence u16 | len u16 | fingerprint u64 |
//! ```
//!
//! Header to CRC are the slot's content, padded with zeros to the program word. The begin word is a
//! [killed](crate::marker::kill) word; marker and confirmation are a [`Marker`](crate::marker).
//!
//! # Order of stores
//!
//! 1. Erase the next bank if no slot is free (flash only).
//! 2. Program every bit of the slot's begin word (flash only).
//! 3. Write the content; the CRC is in its last word. At the first write of a boot, erase the other
//!    bank that holds no slot that counts, if there is one (flash only).
//! 4. Write the commit marker, then its confirmation (flash only).
//! 5. Flush.
//!
//! # Why it is safe
//!
//! - The newest slot with a correct CRC and, on flash, a commit marker counts. A torn slot does
//!   not, so the previous value counts. If the marker was begun, the content is complete and
//!   stable. If the confirmation was begun, the marker is too.
//! - A boot that does not find both words, or finds a torn slot, or a bank without a slot that
//!   counts, is in doubt. It writes the value again before it returns it. The program acts only on
//!   a value that no later boot can judge differently.
//! - The bank to erase is never the newest one, nor the *base*: the bank of the newest confirmed
//!   value. If the newest slot proves unstable, the base still counts.
//! - A bank that reads as blank or torn may hold a slot with any number: its erase was cut. It is
//!   the bank that is written, or it is erased before the new slot gets its commit marker.
//! - After a failed write, its bank may hold the newest value. The next write takes the third bank.
//! - A slot whose begin word reads as blank is untouched, except perhaps for that word, which may
//!   be half programmed. Where words may be programmed only once, a boot therefore never appends to
//!   a bank of an earlier boot: its first write erases a bank.
//! - Where a word may be programmed again ([`Contract::overwrites`]), a boot appends, if all banks
//!   hold a slot and the newest one is confirmed. It first programs the begin word of the last slot
//!   again, and then that of its own slot. Both are now stable, so each later boot finds this slot
//!   after the torn one.
//! - Without erase, a torn slot is overwritten in place. Where words persist in any order, it may
//!   lack only words that the next slot has too, which would then make it whole. So such a boot is
//!   in doubt, too: it writes the value over the torn slot before it returns it.
//! - A slot that was cut may read as valid later. Its sequence number must not be used again. Slots
//!   of a bank have consecutive numbers. The first write to a bank skips one number.
//!
//! ```text
//! newest record   the two other banks     the write goes to      erased before the marker
//! confirmed       both hold slots         the next in turn
//! confirmed       one reads blank/torn    that one
//! confirmed       both read blank/torn    the next; not bank 2   the other one
//! marked          base and a third        the third
//! marked          no base, both unread    as confirmed           nothing: the first format
//! ```
//!
//! tests/suite/record_chains.rs searches chains of cuts, and `an_unstable_commit_word` in
//! tests/suite/crash_record.rs is a history of three. Two cuts in a row lose nothing, also if a
//! word that was cut reads differently each time. A completed write ends a chain, and any number of
//! chains may follow.
//!
//! crates/nvmem/DESIGN.md explains why two banks, or one word fewer, do not suffice.
//!
//! [`Contract::overwrites`]: crate::device::Contract::overwrites

pub(crate) mod format;

use crate::layout::{Layout, LayoutMismatch};
use core::fmt;

pub use crate::blocking::record::Record;

/// The most slots used per bank. So the numbers of three banks span less than half of the sequence
/// range.
pub(crate) const MAX_SLOTS: u32 = 4096;

/// Why a record cannot be opened or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RecordError<E> {
    /// The medium's error. After a failed [`Record::set`], this run keeps the old value; after a
    /// reboot either the old or the new value counts.
    Medium(E),
    /// The range holds a record of another type, or of an older version of this format. Nothing was
    /// written.
    Layout(LayoutMismatch),
    /// The range holds data that is not a record. Nothing was written. [`Record::format`]
    /// overwrites it.
    Foreign,
    /// The range holds a damaged record. No power cut can cause this. Nothing was written.
    /// [`Record::format`] overwrites it.
    Damaged,
    /// The range has fewer bytes than this record needs.
    TooSmall {
        /// The smallest size that suffices, in bytes.
        needed: u32,
    },
    /// The range does not begin at a multiple of
    /// [`Contract::alignment`](crate::device::Contract::alignment), or ends outside the medium.
    BadRange,
}

impl<E: fmt::Debug> fmt::Display for RecordError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Medium(e) => write!(f, "the medium failed: {e:?}"),
            RecordError::Layout(e) => write!(f, "{e}"),
            RecordError::Foreign => f.write_str("the range holds data that is not a record"),
            RecordError::Damaged => f.write_str("the record is damaged"),
            RecordError::TooSmall { needed } => write!(f, "the range needs {needed} bytes"),
            RecordError::BadRange => f.write_str("the range is misaligned or outside the medium"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for RecordError<E> {}

impl<E> From<LayoutMismatch> for RecordError<E> {
    fn from(e: LayoutMismatch) -> Self {
        RecordError::Layout(e)
    }
}

fn layout(version: u16, fingerprint: u64) -> Layout {
    Layout {
        kind: *b"RECD",
        version,
        fingerprint,
    }
}

pub(crate) fn mismatch(version: u16, stored: u64, expected: u64) -> LayoutMismatch {
    LayoutMismatch {
        stored: layout(version, stored),
        expected: layout(2, expected),
    }
}

/// A slot as the inspector prints it.
pub(crate) struct SlotFacts {
    pub marker: bool,
    pub sequence: u16,
    pub layout: Layout,
    pub len: u16,
    /// The size of the slot's content in bytes if its checksum is correct.
    pub size: Option<usize>,
}

/// Decodes the slot whose header is at the start of `bytes`. `None` if it does not begin with a
/// slot's magic.
pub(crate) fn inspect_slot(bytes: &[u8], word: usize) -> Option<SlotFacts> {
    let (header, marker, size) = format::inspect(bytes, word)?;
    Some(SlotFacts {
        marker,
        sequence: header.sequence,
        layout: layout(2, header.fingerprint),
        len: header.len,
        size,
    })
}
