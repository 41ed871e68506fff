//! A crash-atomic record: settings, counters, calibration, on any [`Medium`], without a pool.
//!
//! [`Record::set`] happens wholly or not at all. A value once seen, by [`Record::get`] or as the result of `set`, is
//! never taken back by a later boot, not even on flash whose half-written words read differently each time.
//!
//! On a medium without erase the range holds two slots that are written in turn. On flash it holds three banks, each of
//! whole erase units; updates are appended to a bank, [`Record::updates_per_erase`] of them, before the next one is
//! erased. A boot never appends to what an earlier boot began, because a word that looks erased may not be it: the first
//! `set` after a boot erases a bank. docs/DESIGN.md says why neither can be had for less.

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
    /// The medium's error. After one from [`Record::set`] the old value still counts in this run, and either may
    /// count after a reboot.
    Medium(E),
    /// The range holds a record of another type. Nothing was written.
    Layout(LayoutMismatch),
    /// The range holds something that is no record. Nothing was written. [`Record::format`] makes it one.
    Foreign,
    /// The range holds a record that is not intact, which no power cut can cause. Nothing was written.
    /// [`Record::format`] gives it up.
    Damaged,
    /// The range has fewer bytes than this record needs.
    TooSmall {
        /// The least that does.
        needed: u32,
    },
    /// The range does not begin at a multiple of [`Contract::alignment`](crate::device::Contract::alignment), or lies outside of the medium.
    BadRange,
}

impl<E: fmt::Debug> fmt::Display for RecordError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Medium(e) => write!(f, "the medium failed: {e:?}"),
            RecordError::Layout(e) => write!(f, "{e}"),
            RecordError::Foreign => f.write_str("the range holds something that is no record"),
            RecordError::Damaged => f.write_str("the record is damaged"),
            RecordError::TooSmall { needed } => write!(f, "the range needs {needed} bytes"),
            RecordError::BadRange => {
                f.write_str("the range is misaligned or outside of the medium")
            }
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
/// The value is also kept in RAM: reading it costs nothing.
#[derive(Debug)]
pub struct Record<T, D> {
    medium: D,
    banks: Banks,
    value: T,
    fingerprint: u64,
    sequence: u16,
    /// The bank and the slot that the next write takes, when this boot has erased that bank.
    open: Option<(u32, u32)>,
    /// The bank that is erased and written when there is no such slot.
    next_bank: u32,
}

/// By how much the sequence jumps when something that was cut may be newer than the newest record.
const TORN_SKIP: u16 = 64;

/// What opening found.
enum State<T, Old> {
    Current(T, NewestRecord),
    Old(Old, NewestRecord),
    Formatting,
    Blank,
    OtherType(Header),
}

/// Where the newest record stands.
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

    /// The size of the smallest range in which a bank takes `updates` updates between two erases; on a medium
    /// without erase, the smallest range.
    ///
    /// **Panics** when no range is large enough: a bank takes 4096 updates at most, and an offset has 32 bits. In a constant the program does
    /// not compile.
    pub const fn bytes(updates: u32) -> u32 {
        Self::SIZES.range(Self::LEN, updates)
    }

    /// Opens the record in a range that it has for itself; a blank range is formatted with `initial`.
    ///
    /// **Power loss**: the record has its old value, or `initial` when it was blank; a format that was cut is
    /// repeated. **Cost**: reads the headers and a few slots; writes nothing unless the range is blank or the last
    /// boot was cut in a write to flash, then one slot and one erase. **Errors**: all of [`RecordError`].
    pub fn open(medium: D, range: Range<u32>, initial: T) -> Result<Self, RecordError<D::Error>> {
        Self::open_with::<T>(medium, range, initial, None)
    }

    /// As [`Record::open`]; a record of the type `Old`, from an earlier version of the program, becomes what `migrate`
    /// makes of it.
    ///
    /// **Power loss**: the old value or the new one, whole; a migration that was cut is repeated, so `migrate` has no
    /// effect but its result. **Cost**, **Errors**: as for `open`; a migration writes one slot.
    pub fn open_or_migrate<Old: Plain>(
        medium: D,
        range: Range<u32>,
        initial: T,
        mut migrate: impl FnMut(Old) -> T,
    ) -> Result<Self, RecordError<D::Error>> {
        Self::open_with::<Old>(medium, range, initial, Some(&mut migrate))
    }

    /// The value, without a write to the medium; `None` when there is none yet.
    ///
    /// On flash the value is what the next boot will *probably* find: after a cut in the middle of a write it may read
    /// differently again. Show it, do not act upon it.
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
        // One look for both types: a second one might see something else.
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
            // Beyond what was cut, and beyond what earlier boots wrote again and were cut in.
            self.sequence = self.sequence.wrapping_add(TORN_SKIP);
        }
        self.next_bank = at.next_bank;
        if planted!("nvmem/record-appends-after-boot") && !at.newest.torn_tail {
            self.open = Some((at.newest.bank, at.newest.slot + 1));
        }
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Changes the value. It is on the medium when this returns.
    ///
    /// **Power loss**: the old value or the new one. **Cost**: one slot, that is the value, 20 bytes and padding to
    /// the program word, on flash two program words more; one erase every [`Record::updates_per_erase`] updates and with
    /// the first one of a boot. **Errors**: [`RecordError::Medium`]; the value in RAM is then the old one.
    pub fn set(&mut self, value: T) -> Result<(), RecordError<D::Error>> {
        let mut value = MaybeUninit::new(value);
        self.store(&mut value)?;
        // SAFETY: invariant "Plain is plain": initialised above; `store` clears its padding only.
        self.value = unsafe { value.assume_init() };
        Ok(())
    }

    /// How many updates a bank takes before the next one is erased; `u32::MAX` on a medium without erase. The three banks
    /// are erased in turn.
    pub fn updates_per_erase(&self) -> u32 {
        match self.banks.sizes.erase {
            Some(_) => self.banks.slots(Self::LEN),
            None => u32::MAX,
        }
    }

    /// The medium back.
    pub fn into_medium(self) -> D {
        self.medium
    }

    fn store_value(&mut self) -> Result<(), RecordError<D::Error>> {
        // SAFETY: invariant "Plain is plain": a copy of the bytes, which nobody uses as a `T`.
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
                        .erase(from, from + self.banks.bank)
                        .map_err(RecordError::Medium)?;
                }
                // On flash a record that was cut may appear later: this one is newer than that.
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
        // SAFETY: invariant "Padding is not read": `value` holds a `T`, whose bytes are all initialised once its padding is cleared.
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

/// Looks at the range once. An `Old` is looked for only with `or_old`.
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
        slot::read(medium, &banks.sizes, at, banks.bank, best).map_err(RecordError::Medium)?;
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

/// Room for the bytes of a `T`.
struct Buffer<T>(MaybeUninit<T>);

impl<T> Buffer<T> {
    fn new() -> Self {
        Buffer(MaybeUninit::uninit())
    }

    fn zeroed(&mut self) -> &mut [u8] {
        let at = self.0.as_mut_ptr().cast::<u8>();
        // SAFETY: invariant "Parts are inside": `size_of::<T>()` bytes that are exclusively borrowed and initialised here.
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

/// What an inspector says of a slot.
pub(crate) struct SlotFacts {
    pub marker: bool,
    pub sequence: u16,
    pub layout: Layout,
    pub len: u16,
    /// Its bytes, when its checksum is right.
    pub size: Option<usize>,
}

/// The slot at the start of `bytes`, if there is one.
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
