//! A record: one value (settings, counters, calibration) in a range of any [`Medium`]. Each update
//! is atomic under power cuts.
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
//! 3. Write the content; the CRC is in its last word.
//! 4. Write the commit marker, then its confirmation (flash only).
//! 5. Flush.
//!
//! # Why it is safe
//!
//! - The newest slot with a correct CRC and, on flash, a commit marker counts. A torn slot does
//!   not, so the previous value counts. If the marker was begun, the content is complete and
//!   stable. If the confirmation was begun, the marker is too.
//! - A boot that does not find both words, or finds a torn slot or bank, is in doubt. It writes the
//!   value again before it returns it. The program acts only on a value that no later boot can
//!   judge differently.
//! - The bank to erase is never the newest one, nor the *base*: the bank of the newest confirmed
//!   value. If the newest slot proves unstable, the base still counts.
//! - A slot whose begin word reads as blank is untouched, except perhaps for that word, which may
//!   be half programmed. Where words may be programmed only once, a boot therefore never appends to
//!   a bank of an earlier boot: its first write erases a bank.
//! - Where a word may be programmed again ([`Contract::overwrites`]), a boot appends. It first
//!   programs the begin word of the last slot again, and then that of its own slot. Both are now
//!   stable, so each later boot finds this slot, whatever the torn slot before it reads as.
//! - A slot that was cut may read as valid later. Its sequence number must not be used again. Slots
//!   of a bank have consecutive numbers. The first write to a bank skips one number, and a boot
//!   that finds torn slots and does not append skips 64 more.
//!
//! docs/DESIGN.md explains why two banks, or one word fewer, do not suffice.
//!
//! [`Contract::overwrites`]: crate::device::Contract::overwrites

mod ring;

use crate::describe::fingerprint;
use crate::device::Medium;
use crate::layout::{Layout, LayoutMismatch};
use crate::persist::{Plain, from_bytes};
use crate::planted;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;
use ring::{Content, Newest, Ring, Sizes};

/// The most slots used per bank. So the numbers of three banks span less than half of the sequence
/// range.
const MAX_SLOTS: u32 = 4096;

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

/// A value of type `T` that survives power cuts, in a range of the medium `D`.
///
/// A copy of the value is in RAM: reading it does not access the medium.
#[derive(Debug)]
pub struct Record<T, D> {
    ring: Ring<D>,
    value: T,
}

type Result<T, D> = core::result::Result<T, RecordError<<D as Medium>::Error>>;

impl<T: Plain, D: Medium> Record<T, D> {
    const LEN: u32 = {
        assert!(size_of::<T>() <= 0x8000, "a record holds up to 32 KiB");
        size_of::<T>() as u32
    };

    /// The smallest range, in bytes, whose banks hold `updates` updates each. On a medium without
    /// erase, the smallest range.
    ///
    /// **Panics** if `updates` is above 4096 or the range would exceed 32-bit offsets. In a
    /// constant this is a compile error.
    pub const fn bytes(updates: u32) -> u32 {
        Sizes::of(&D::CONTRACT).range(Self::LEN, updates)
    }

    /// Opens the record in `range`, which nothing else uses. Formats a blank range with the value
    /// `initial`.
    ///
    /// **Power loss**: the record keeps its value, or gets `initial` if the range was blank; a
    /// format that was cut is repeated. **Cost**: reads the headers and a few slots. Writes one
    /// slot if the range is blank, or if a write to flash was cut; otherwise writes nothing. That
    /// write erases a bank, unless [`Contract::overwrites`](crate::device::Contract::overwrites)
    /// and a slot is free. **Errors**: all of [`RecordError`].
    pub fn open(medium: D, range: Range<u32>, initial: T) -> Result<Self, D> {
        Self::open_with::<T>(medium, range, initial, None)
    }

    /// As [`Record::open`]. A record of type `Old`, from an earlier version of the program, gets
    /// the value `migrate(old)`.
    ///
    /// **Power loss**: the old value or the new one. A migration that was cut is repeated, so
    /// `migrate` must have no side effects. **Cost**, **Errors**: as for `open`; a migration writes
    /// one slot.
    pub fn open_or_migrate<Old: Plain>(
        medium: D,
        range: Range<u32>,
        initial: T,
        mut migrate: impl FnMut(Old) -> T,
    ) -> Result<Self, D> {
        Self::open_with::<Old>(medium, range, initial, Some(&mut migrate))
    }

    /// Reads the value without writing to the medium. `None` if the range is blank or a format was
    /// cut.
    ///
    /// On flash the next boot will *probably* find the same value: after a cut during a write it
    /// may read differently again. Display it, but do not act on it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for [`Record::open`].
    pub fn read(medium: D, range: Range<u32>) -> Result<Option<T>, D> {
        let mut ring = Self::ring(medium, &range)?;
        let Some(newest) = newest(&mut ring, false)? else {
            return Ok(None);
        };
        if newest.header.fingerprint != ring.fingerprint {
            return Err(mismatch(2, newest.header.fingerprint, ring.fingerprint).into());
        }
        value(&mut ring, &newest).map(Some)
    }

    /// Deletes **all content of the range** and creates a record with the value `initial`.
    ///
    /// [`Record::open`] formats a blank range by itself, but no other. Use this for a range that
    /// `open` refuses as [`RecordError::Foreign`] or [`RecordError::Damaged`], if nothing in it is
    /// worth keeping, or to reset a device to factory settings. Three power cuts within the very
    /// first format on flash can also leave a range that `open` refuses as foreign; docs/DESIGN.md
    /// describes how.
    ///
    /// **Power loss**: the previous value, a range that `open` refuses or finds blank, or
    /// `initial`; never an older value. If a cut prevented it from returning, call it again.
    /// **Cost**: erases the whole range (writes all of it on a medium without erase), then the cost
    /// of a format by `open`. **Errors**: [`RecordError::Medium`], [`RecordError::TooSmall`],
    /// [`RecordError::BadRange`].
    pub fn format(medium: D, range: Range<u32>, initial: T) -> Result<Self, D> {
        let mut ring = Self::ring(medium, &range)?;
        ring.clear().map_err(RecordError::Medium)?;
        Self::open(ring.medium, range, initial)
    }

    fn ring(medium: D, range: &Range<u32>) -> Result<Ring<D>, D> {
        if range.end > medium.capacity()
            || range.start > range.end
            || !range
                .start
                .is_multiple_of(const { D::CONTRACT.alignment() })
        {
            return Err(RecordError::BadRange);
        }
        Ring::new(medium, range, Self::LEN, fingerprint::<T>()).ok_or(RecordError::TooSmall {
            needed: const { Self::bytes(1) },
        })
    }

    fn open_with<Old: Plain>(
        medium: D,
        range: Range<u32>,
        initial: T,
        migrate: Option<&mut dyn FnMut(Old) -> T>,
    ) -> Result<Self, D> {
        let mut ring = Self::ring(medium, &range)?;
        let found = newest(&mut ring, true)?;
        let Some(newest) = found else {
            let mut record = Record {
                ring,
                value: initial,
            };
            record.store_value()?;
            record
                .ring
                .remove_format_marker()
                .map_err(RecordError::Medium)?;
            return Ok(record);
        };
        let stored = newest.header.fingerprint;
        let mut write = ring.resume(&newest);
        let value = if stored == ring.fingerprint {
            value(&mut ring, &newest)?
        } else if let Some(migrate) = migrate
            && stored == fingerprint::<Old>()
        {
            write = true;
            migrate(value(&mut ring, &newest)?)
        } else {
            return Err(mismatch(2, stored, ring.fingerprint).into());
        };
        let mut record = Record { ring, value };
        if write {
            record.store_value()?;
        }
        Ok(record)
    }

    /// The current value.
    #[inline]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Sets the value. When this returns, the value is on the medium.
    ///
    /// **Power loss**: the old value or the new one. **Cost**: writes one slot: the value, 20
    /// bytes, padding to the program word and, on flash, three more words. One bank is erased every
    /// [`Record::updates_per_erase`] updates and, where words may be programmed only once, at the
    /// first update of a boot. **Errors**: [`RecordError::Medium`]; the value in RAM is then the
    /// old one.
    pub fn set(&mut self, value: T) -> Result<(), D> {
        let mut value = MaybeUninit::new(value);
        self.store(&mut value)?;
        // SAFETY: invariant "Plain is plain": initialised above; `store` clears its padding only.
        self.value = unsafe { value.assume_init() };
        Ok(())
    }

    /// How many updates fit into a bank before the next bank is erased; `u32::MAX` on a medium
    /// without erase. The three banks are erased in turn.
    pub fn updates_per_erase(&self) -> u32 {
        match D::CONTRACT.erase {
            Some(_) => self.ring.slots(Self::LEN),
            None => u32::MAX,
        }
    }

    /// Returns the medium.
    pub fn into_medium(self) -> D {
        self.ring.medium
    }

    fn store_value(&mut self) -> Result<(), D> {
        // SAFETY: invariant "Plain is plain": a copy of the bytes, never used as a `T`.
        let mut copy = unsafe { (&raw const self.value).cast::<MaybeUninit<T>>().read() };
        self.store(&mut copy)
    }

    /// Writes the bytes of an initialised value to the next slot.
    fn store(&mut self, value: &mut MaybeUninit<T>) -> Result<(), D> {
        // SAFETY: invariant "Padding is not read": `value` holds a `T`, whose bytes are all
        // initialised once its padding is cleared.
        let bytes = unsafe {
            T::clear_padding(value.as_mut_ptr().cast());
            core::slice::from_raw_parts(value.as_ptr().cast::<u8>(), size_of::<T>())
        };
        self.ring.write(bytes).map_err(RecordError::Medium)
    }
}

/// The newest record of a range. `None` if there is none and the range can be formatted; with
/// `format`, the format marker is then on the medium.
fn newest<D: Medium>(ring: &mut Ring<D>, format: bool) -> Result<Option<Newest>, D> {
    match ring.scan().map_err(RecordError::Medium)? {
        Content::Record(newest) => Ok(Some(newest)),
        Content::Blank if format && !planted!("nvmem/record-format-unmarked") => {
            ring.write_format_marker().map_err(RecordError::Medium)?;
            Ok(None)
        }
        Content::Blank | Content::Formatting => Ok(None),
        Content::Old(stored) => Err(mismatch(1, stored, ring.fingerprint).into()),
        Content::Foreign => Err(RecordError::Foreign),
        Content::Damaged => Err(RecordError::Damaged),
    }
}

/// Reads the value of the newest record.
fn value<V: Plain, D: Medium>(ring: &mut Ring<D>, newest: &Newest) -> Result<V, D> {
    let mut value = MaybeUninit::<V>::uninit();
    let at = value.as_mut_ptr().cast::<u8>();
    // SAFETY: invariant "Parts are inside": `size_of::<V>()` bytes that are exclusively borrowed
    // and initialised here.
    let bytes = unsafe {
        at.write_bytes(0, size_of::<V>());
        core::slice::from_raw_parts_mut(at, size_of::<V>())
    };
    let intact = ring.value(newest, bytes).map_err(RecordError::Medium)?;
    from_bytes(bytes)
        .ok()
        .filter(|_| intact)
        .ok_or(RecordError::Damaged)
}

fn layout(version: u16, fingerprint: u64) -> Layout {
    Layout {
        kind: *b"RECD",
        version,
        fingerprint,
    }
}

fn mismatch(version: u16, stored: u64, expected: u64) -> LayoutMismatch {
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
    let (header, marker, size) = ring::inspect(bytes, word)?;
    Some(SlotFacts {
        marker,
        sequence: header.sequence,
        layout: layout(2, header.fingerprint),
        len: header.len,
        size,
    })
}
