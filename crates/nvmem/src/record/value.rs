//! [`Record`]: the value and its slots.

use super::Medium;
use super::ring::Ring;
use crate::describe::fingerprint;
use crate::persist::{Plain, from_bytes};
use crate::planted;
use crate::record::format::{Content, Newest, Sizes};
use crate::record::{RecordError, mismatch};
use core::mem::MaybeUninit;
use core::ops::Range;

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
    /// slot if the range is blank, if a write was cut, or if a bank holds no slot yet: the first
    /// two opens after a format. Otherwise it writes nothing. On flash that write erases a bank,
    /// unless [`Contract::overwrites`](crate::device::Contract::overwrites) and a slot is free. On
    /// a medium without erase that writes in order, it writes only if the range is blank.
    /// **Errors**: all of [`RecordError`].
    pub fn open(medium: D, range: Range<u32>, initial: T) -> output!(Result<Self, D>) {
        steps!({
            wait!(Self::open_with::<T>(
                medium,
                range,
                initial,
                None::<fn(T) -> T>
            ))
        })
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
        migrate: impl FnMut(Old) -> T,
    ) -> output!(Result<Self, D>) {
        steps!({
            wait!(Self::open_with::<Old>(
                medium,
                range,
                initial,
                Some(migrate)
            ))
        })
    }

    /// Reads the value without writing to the medium. `None` if the range is blank or a format was
    /// cut.
    ///
    /// On flash the next boot will *probably* find the same value: after a cut during a write it
    /// may read differently again. Display it, but do not act on it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for [`Record::open`].
    pub fn read(medium: D, range: Range<u32>) -> output!(Result<Option<T>, D>) {
        steps!({
            let mut ring = Self::ring(medium, &range)?;
            let Some(newest) = wait!(newest(&mut ring, false))? else {
                return Ok(None);
            };
            if newest.header.fingerprint != ring.fingerprint {
                return Err(mismatch(2, newest.header.fingerprint, ring.fingerprint).into());
            }
            wait!(value(&mut ring, &newest)).map(Some)
        })
    }

    /// Deletes **all content of the range** and creates a record with the value `initial`.
    ///
    /// [`Record::open`] formats a blank range by itself, but no other. Use this for a range that
    /// `open` refuses as [`RecordError::Foreign`] or [`RecordError::Damaged`], if nothing in it is
    /// worth keeping, or to reset a device to factory settings. Three power cuts within the very
    /// first format on flash can also leave a range that `open` refuses as foreign;
    /// docs/failure-model/nvmem.md describes how.
    ///
    /// **Power loss**: the previous value, a range that `open` refuses or finds blank, or
    /// `initial`; on flash also an older value whose slot was in the bank of the newest. If a cut
    /// prevented it from returning, call it again.
    /// **Cost**: erases the whole range (writes all of it on a medium without erase), then the cost
    /// of a format by `open`. **Errors**: [`RecordError::Medium`], [`RecordError::TooSmall`],
    /// [`RecordError::BadRange`].
    pub fn format(medium: D, range: Range<u32>, initial: T) -> output!(Result<Self, D>) {
        steps!({
            let mut ring = Self::ring(medium, &range)?;
            wait!(ring.clear()).map_err(RecordError::Medium)?;
            wait!(Self::open(ring.medium, range, initial))
        })
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
        migrate: Option<impl FnMut(Old) -> T>,
    ) -> output!(Result<Self, D>) {
        steps!({
            let mut ring = Self::ring(medium, &range)?;
            let found = wait!(newest(&mut ring, true))?;
            let Some(newest) = found else {
                let mut record = Record {
                    ring,
                    value: initial,
                };
                wait!(record.store_value())?;
                wait!(record.ring.remove_format_marker()).map_err(RecordError::Medium)?;
                return Ok(record);
            };
            let stored = newest.header.fingerprint;
            let mut write = ring.resume(&newest);
            let value = if stored == ring.fingerprint {
                wait!(value(&mut ring, &newest))?
            } else if let Some(mut migrate) = migrate
                && stored == fingerprint::<Old>()
            {
                write = true;
                migrate(wait!(value(&mut ring, &newest))?)
            } else {
                return Err(mismatch(2, stored, ring.fingerprint).into());
            };
            let mut record = Record { ring, value };
            if write {
                wait!(record.store_value())?;
            }
            Ok(record)
        })
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
    pub fn set(&mut self, value: T) -> output!(Result<(), D>) {
        steps!({
            let mut value = MaybeUninit::new(value);
            wait!(self.store(&mut value))?;
            // SAFETY: invariant "Plain is plain": initialised above; `store` clears its padding
            // only.
            self.value = unsafe { value.assume_init() };
            Ok(())
        })
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

    fn store_value(&mut self) -> output!(Result<(), D>) {
        steps!({
            // SAFETY: invariant "Plain is plain": a copy of the bytes, never used as a `T`.
            let mut copy = unsafe { (&raw const self.value).cast::<MaybeUninit<T>>().read() };
            wait!(self.store(&mut copy))
        })
    }

    /// Writes the bytes of an initialised value to the next slot.
    fn store(&mut self, value: &mut MaybeUninit<T>) -> output!(Result<(), D>) {
        steps!({
            // SAFETY: invariant "Padding is not read": `value` holds a `T`, whose bytes are all
            // initialised once its padding is cleared.
            let bytes = unsafe {
                T::clear_padding(value.as_mut_ptr().cast());
                core::slice::from_raw_parts(value.as_ptr().cast::<u8>(), size_of::<T>())
            };
            wait!(self.ring.write(bytes)).map_err(RecordError::Medium)
        })
    }
}

/// The newest record of a range. `None` if there is none and the range can be formatted; with
/// `format`, the format marker is then on the medium.
fn newest<D: Medium>(ring: &mut Ring<D>, format: bool) -> output!(Result<Option<Newest>, D>) {
    steps!({
        match wait!(ring.scan()).map_err(RecordError::Medium)? {
            Content::Record(newest) => Ok(Some(newest)),
            Content::Blank if format && !planted!("nvmem/record-format-unmarked") => {
                wait!(ring.write_format_marker()).map_err(RecordError::Medium)?;
                Ok(None)
            }
            Content::Blank | Content::Formatting => Ok(None),
            Content::Old(stored) => Err(mismatch(1, stored, ring.fingerprint).into()),
            Content::Foreign => Err(RecordError::Foreign),
            Content::Damaged => Err(RecordError::Damaged),
        }
    })
}

/// Reads the value of the newest record.
fn value<V: Plain, D: Medium>(ring: &mut Ring<D>, newest: &Newest) -> output!(Result<V, D>) {
    steps!({
        let mut value = MaybeUninit::<V>::uninit();
        let at = value.as_mut_ptr().cast::<u8>();
        // SAFETY: invariant "Parts are inside": `size_of::<V>()` bytes that are exclusively
        // borrowed and initialised here.
        let bytes = unsafe {
            at.write_bytes(0, size_of::<V>());
            core::slice::from_raw_parts_mut(at, size_of::<V>())
        };
        let intact = wait!(ring.value(newest, bytes)).map_err(RecordError::Medium)?;
        from_bytes(bytes)
            .ok()
            .filter(|_| intact)
            .ok_or(RecordError::Damaged)
    })
}
