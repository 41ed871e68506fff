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
//!         | slot | slot | slot | ... | slot | slot | free | ... | erased by the next `set` |
//!                                      seq 7  seq 8               that starts a bank
//!
//! slot    | header   | value | zeros | CRC  | commit marker  | confirmation   |
//!         | 16 bytes | len   |       | 4    | 1 program word | 1 program word |
//!
//! header  | magic "RLR1" | sequence u16 | len u16 | fingerprint u64 |
//! ```
//!
//! The commit marker and its confirmation exist only on flash. Everything before them is the slot's
//! content, padded with zeros to the program word.
//!
//! # Order of stores
//!
//! 1. Erase the next bank if no slot of this boot's bank is free (flash only).
//! 2. Write the first program word of the slot alone.
//! 3. Write the rest of the content; the CRC is in its last word.
//! 4. Write the commit marker (flash only).
//! 5. Write the marker's confirmation (flash only).
//! 6. Flush.
//!
//! # Why it is safe
//!
//! - The newest slot with a correct CRC counts. A torn slot has a wrong CRC, so the previous value
//!   counts.
//! - On flash a CRC may be correct now and wrong at the next read, because words of it are
//!   unstable. If the commit marker was begun, the content is complete and stable. If the
//!   confirmation was begun, the marker itself is stable.
//! - A boot that does not find both words, or finds a torn slot or bank, is in doubt. It writes the
//!   value again to another bank before it returns it. The program acts only on a value that no
//!   later boot can judge differently.
//! - The bank to erase is never the newest one, nor the *base*: the newest bank whose content is
//!   certainly complete. If the newest slot proves unstable, the base still counts.
//! - A boot never appends to a bank of an earlier boot: a word that reads as erased may be half
//!   written. So the first `set` after a boot erases a bank, unless opening has already done so.
//! - A slot that was cut may read as valid later. Its sequence number must not be used again: the
//!   first write to a bank skips one number, and a boot that finds torn slots skips 64 more.
//!
//! docs/DESIGN.md explains why two banks, or one word fewer, do not suffice.

mod format;
mod scan;
mod slot;

use crate::describe::fingerprint;
use crate::device::Medium;
use crate::layout::{Layout, LayoutMismatch};
use crate::persist::{Plain, from_bytes};
use crate::planted;
use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;
use scan::{BankRecord, Banks, EmptyRange};
use slot::{Header, SlotSizes};

/// Why a record cannot be opened or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RecordError<E> {
    /// The medium's error. After a failed [`Record::set`], this run keeps the old value; after a
    /// reboot either the old or the new value counts.
    Medium(E),
    /// The range holds a record of another type. Nothing was written.
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
    medium: D,
    banks: Banks,
    value: T,
    fingerprint: u64,
    sequence: u16,
    /// The bank and slot for the next write, if this boot has erased that bank and it has a free
    /// slot.
    open: Option<(u32, u32)>,
    /// The bank that the next write erases and starts if `open` is `None`.
    next_bank: u32,
}

/// The first write after a boot skips this many sequence numbers if a torn slot may be newer than
/// the newest record.
const TORN_SKIP: u16 = 64;

/// What `open` found in the range.
enum State<T, Old> {
    Current(T, NewestRecord),
    Old(Old, NewestRecord),
    Formatting,
    Blank,
    OtherType(Header),
}

/// The newest record and where the next write goes.
struct NewestRecord {
    newest: BankRecord,
    next_bank: u32,
    doubt: bool,
    torn: bool,
}

impl<T: Plain, D: Medium> Record<T, D> {
    const LEN: u32 = {
        assert!(size_of::<T>() <= 0x8000, "a record holds up to 32 KiB");
        size_of::<T>() as u32
    };
    const SIZES: SlotSizes = SlotSizes::of(&D::CONTRACT);

    /// The smallest range, in bytes, whose banks hold `updates` updates each. On a medium without
    /// erase, the smallest range.
    ///
    /// **Panics** if `updates` is above 4096 or the range would exceed 32-bit offsets. In a
    /// constant this is a compile error.
    pub const fn bytes(updates: u32) -> u32 {
        Self::SIZES.range(Self::LEN, updates)
    }

    /// Opens the record in `range`, which nothing else uses. Formats a blank range with the value
    /// `initial`.
    ///
    /// **Power loss**: the record keeps its value, or gets `initial` if the range was blank; a
    /// format that was cut is repeated. **Cost**: reads the headers and a few slots. Writes one
    /// slot and erases one bank if the range is blank, or if a write to flash was cut; otherwise
    /// writes nothing. **Errors**: all of [`RecordError`].
    pub fn open(medium: D, range: Range<u32>, initial: T) -> Result<Self, RecordError<D::Error>> {
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
    ) -> Result<Self, RecordError<D::Error>> {
        Self::open_with::<Old>(medium, range, initial, Some(&mut migrate))
    }

    /// Reads the value without writing to the medium. `None` if the range is blank or a format was
    /// cut.
    ///
    /// On flash the next boot will *probably* find the same value: after a cut during a write it
    /// may read differently again. Display it, but do not act on it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for [`Record::open`].
    pub fn read(mut medium: D, range: Range<u32>) -> Result<Option<T>, RecordError<D::Error>> {
        let banks = Self::banks(&medium, &range)?;
        match read_state::<T, T, D>(&mut medium, &banks, false)? {
            State::Current(value, _) => Ok(Some(value)),
            State::Blank | State::Formatting => Ok(None),
            State::Old(..) => Err(RecordError::Damaged),
            State::OtherType(found) => Err(mismatch(&found, fingerprint::<T>()).into()),
        }
    }

    fn banks(medium: &D, range: &Range<u32>) -> Result<Banks, RecordError<D::Error>> {
        if range.end > medium.capacity()
            || range.start > range.end
            || !range.start.is_multiple_of(D::CONTRACT.alignment())
        {
            return Err(RecordError::BadRange);
        }
        Banks::new(Self::SIZES, range, Self::LEN).ok_or(RecordError::TooSmall {
            needed: Self::bytes(1),
        })
    }

    fn open_with<Old: Plain>(
        mut medium: D,
        range: Range<u32>,
        initial: T,
        migrate: Option<&mut dyn FnMut(Old) -> T>,
    ) -> Result<Self, RecordError<D::Error>> {
        let banks = Self::banks(&medium, &range)?;
        // One scan for both types: unstable words could make a second scan differ.
        let state = read_state::<T, Old, D>(&mut medium, &banks, migrate.is_some())?;
        let mut record = Record {
            medium,
            banks,
            value: initial,
            fingerprint: fingerprint::<T>(),
            sequence: 0,
            open: None,
            next_bank: 0,
        };
        match (state, migrate) {
            (State::Current(value, standing), _) => {
                record.value = value;
                record.continue_after(&standing);
                if standing.doubt {
                    record.store_value()?;
                }
            }
            (State::Old(value, standing), Some(migrate)) => {
                record.value = migrate(value);
                record.continue_after(&standing);
                record.store_value()?;
            }
            (State::Blank, _) => {
                if !planted!("nvmem/record-format-unmarked") {
                    record.write_format_marker().map_err(RecordError::Medium)?;
                }
                record.finish_format()?;
            }
            (State::Formatting, _) => record.finish_format()?,
            (State::Old(_, NewestRecord { newest, .. }), None) => {
                return Err(mismatch(&newest.header, record.fingerprint).into());
            }
            (State::OtherType(found), _) => return Err(mismatch(&found, record.fingerprint).into()),
        }
        Ok(record)
    }

    fn continue_after(&mut self, at: &NewestRecord) {
        self.sequence = at.newest.header.sequence;
        if at.torn && !planted!("nvmem/record-sequence-not-skipped") {
            // Higher than any torn slot, also those of earlier boots that were cut in this same
            // rewrite.
            self.sequence = self.sequence.wrapping_add(TORN_SKIP);
        }
        self.next_bank = at.next_bank;
        if planted!("nvmem/record-appends-after-boot") && !at.newest.torn_tail {
            self.open = Some((at.newest.bank, at.newest.slot + 1));
        }
    }

    /// The current value.
    #[inline]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Sets the value. When this returns, the value is on the medium.
    ///
    /// **Power loss**: the old value or the new one. **Cost**: writes one slot: the value, 20
    /// bytes, padding to the program word and, on flash, two more program words. One bank is erased
    /// every [`Record::updates_per_erase`] updates and at the first update of a boot. **Errors**:
    /// [`RecordError::Medium`]; the value in RAM is then the old one.
    pub fn set(&mut self, value: T) -> Result<(), RecordError<D::Error>> {
        let mut value = MaybeUninit::new(value);
        self.store(&mut value)?;
        // SAFETY: invariant "Plain is plain": initialised above; `store` clears its padding only.
        self.value = unsafe { value.assume_init() };
        Ok(())
    }

    /// How many updates fit into a bank before the next bank is erased; `u32::MAX` on a medium
    /// without erase. The three banks are erased in turn.
    pub fn updates_per_erase(&self) -> u32 {
        match self.banks.sizes.erase {
            Some(_) => self.banks.slots(Self::LEN),
            None => u32::MAX,
        }
    }

    /// Returns the medium.
    pub fn into_medium(self) -> D {
        self.medium
    }

    fn store_value(&mut self) -> Result<(), RecordError<D::Error>> {
        // SAFETY: invariant "Plain is plain": a copy of the bytes, never used as a `T`.
        let mut copy = unsafe { (&raw const self.value).cast::<MaybeUninit<T>>().read() };
        self.store(&mut copy)
    }

    /// Writes the bytes of an initialised value to the next slot.
    fn store(&mut self, value: &mut MaybeUninit<T>) -> Result<(), RecordError<D::Error>> {
        let flash = self.banks.sizes.erase.is_some();
        let slots = self.banks.slots(Self::LEN);
        let (bank, slot, step) = match self.open.take() {
            Some((bank, slot)) if slot < slots => (bank, slot, 1),
            _ => {
                if flash {
                    let from = self.banks.at(self.next_bank, 0, Self::LEN);
                    self.medium
                        .erase(from, from + self.banks.bank_bytes)
                        .map_err(RecordError::Medium)?;
                }
                // On flash a torn slot may read as valid later. This slot must be newer than it.
                let skip = flash && !planted!("nvmem/record-sequence-not-skipped");
                (self.next_bank, 0, if skip { 2 } else { 1 })
            }
        };
        let sequence = self.sequence.wrapping_add(step);
        let header = Header {
            magic: slot::RECORD,
            sequence,
            len: Self::LEN as u16,
            fingerprint: self.fingerprint,
        };
        // SAFETY: invariant "Padding is not read": `value` holds a `T`, whose bytes are all
        // initialised once its padding is cleared.
        let bytes = unsafe {
            T::clear_padding(value.as_mut_ptr().cast());
            core::slice::from_raw_parts(value.as_ptr().cast::<u8>(), size_of::<T>())
        };
        let at = self.banks.at(bank, slot, Self::LEN);
        slot::write(&mut self.medium, &self.banks.sizes, at, &header, bytes)
            .map_err(RecordError::Medium)?;
        self.sequence = sequence;
        self.next_bank = (bank + 1) % self.banks.count;
        self.open = flash.then_some((bank, slot + 1));
        Ok(())
    }
}

/// Scans the range once. Accepts a record of type `Old` only if `or_old`.
fn read_state<T: Plain, Old: Plain, D: Medium>(
    medium: &mut D,
    banks: &Banks,
    or_old: bool,
) -> Result<State<T, Old>, RecordError<D::Error>> {
    let mut new = (Buffer::<T>::new(), Buffer::<T>::new());
    let mut old = (Buffer::<Old>::new(), Buffer::<Old>::new());
    let (best, other) = if size_of::<Old>() > size_of::<T>() {
        (old.0.zeroed(), old.1.zeroed())
    } else {
        (new.0.zeroed(), new.1.zeroed())
    };
    let scan = scan::scan(medium, banks, best, other).map_err(RecordError::Medium)?;
    if scan.damaged {
        return Err(RecordError::Damaged);
    }
    let Some(newest) = scan.newest else {
        return match scan::classify_empty(medium, banks).map_err(RecordError::Medium)? {
            EmptyRange::Blank => Ok(State::Blank),
            EmptyRange::Formatting => Ok(State::Formatting),
            EmptyRange::Foreign => Err(RecordError::Foreign),
            EmptyRange::Damaged => Err(RecordError::Damaged),
        };
    };
    if planted!("nvmem/record-value-read-twice") {
        let at = banks.at(newest.bank, newest.slot, newest.header.len.into());
        slot::read(medium, &banks.sizes, at, banks.bank_bytes, best)
            .map_err(RecordError::Medium)?;
    }
    let standing = NewestRecord {
        newest,
        next_bank: scan.next_bank(banks),
        doubt: scan.in_doubt(),
        torn: scan.has_torn(),
    };
    let bytes = best.get(..newest.header.len.into());
    let bytes = bytes.ok_or(RecordError::Damaged);
    let stored = newest.header.fingerprint;
    if stored == fingerprint::<T>() {
        let value = from_bytes(bytes?).map_err(|_| RecordError::Damaged)?;
        Ok(State::Current(value, standing))
    } else if or_old && stored == fingerprint::<Old>() {
        let value = from_bytes(bytes?).map_err(|_| RecordError::Damaged)?;
        Ok(State::Old(value, standing))
    } else {
        Ok(State::OtherType(newest.header))
    }
}

/// A buffer for the bytes of a `T`.
struct Buffer<T>(MaybeUninit<T>);

impl<T> Buffer<T> {
    fn new() -> Self {
        Buffer(MaybeUninit::uninit())
    }

    fn zeroed(&mut self) -> &mut [u8] {
        let at = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: invariant "Parts are inside": `size_of::<T>()` bytes that are exclusively
        // borrowed and initialised here.
        unsafe {
            at.write_bytes(0, size_of::<T>());
            core::slice::from_raw_parts_mut(at, size_of::<T>())
        }
    }
}

fn layout(fingerprint: u64) -> Layout {
    Layout {
        kind: *b"RECD",
        version: 1,
        fingerprint,
    }
}

fn mismatch(stored: &Header, expected: u64) -> LayoutMismatch {
    LayoutMismatch {
        stored: layout(stored.fingerprint),
        expected: layout(expected),
    }
}

/// A slot as the inspector prints it.
pub(crate) struct SlotFacts {
    pub marker: bool,
    pub sequence: u16,
    pub layout: Layout,
    pub len: u16,
    /// The slot's size in bytes if its checksum is correct.
    pub size: Option<usize>,
}

/// Decodes the slot at the start of `bytes`. `None` if it does not begin with a slot's magic.
pub(crate) fn inspect_slot(bytes: &[u8], word: usize) -> Option<SlotFacts> {
    let header = Header::decode(bytes)?;
    Some(SlotFacts {
        marker: header.magic == slot::FORMAT_MARKER,
        sequence: header.sequence,
        layout: layout(header.fingerprint),
        len: header.len,
        size: slot::intact(bytes, word),
    })
}
