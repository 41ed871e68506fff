//! Formatting: makes a record of a blank range, or of any range on request.
//!
//! ```text
//! 1  write the format marker at the end of the range   ("RLF1" header, in the last bank)
//! 2  write the first slot into bank 0
//! 3  erase the format marker
//! ```
//!
//! A cut after step 1 leaves a blank range plus a complete or torn marker, which `open` formats
//! again. A cut after step 2 leaves a record, and the marker no longer counts.

use super::scan::{self, Banks};
use super::slot::{self, Header};
use super::{Buffer, Record, RecordError};
use crate::device::Medium;
use crate::persist::Plain;
use crate::planted;
use core::ops::Range;

impl<T: Plain, D: Medium> Record<T, D> {
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
    pub fn format(
        mut medium: D,
        range: Range<u32>,
        initial: T,
    ) -> Result<Self, RecordError<D::Error>> {
        let banks = Self::banks(&medium, &range)?;
        let (mut best, mut other) = (Buffer::<T>::new(), Buffer::<T>::new());
        let found = scan::scan(&mut medium, &banks, best.zeroed(), other.zeroed())
            .map_err(RecordError::Medium)?;
        // The bank of the newest value is blanked last, so that a cut never leaves only an older
        // value.
        let newest = found.newest.map_or(0, |f| f.bank);
        let first = if planted!("nvmem/record-format-newest-first") {
            0
        } else {
            1
        };
        for i in first..first + banks.count {
            blank_bank(&mut medium, &banks, (newest + i) % banks.count)
                .map_err(RecordError::Medium)?;
        }
        Self::open(medium, range, initial)
    }

    /// Writes the format marker at the end of the range. Foreign data that begins at the start of
    /// the range stays recognisable.
    pub(super) fn write_format_marker(&mut self) -> Result<(), D::Error> {
        let (from, to) = (self.banks.format_marker(), self.banks.end());
        self.medium.erase(from, to)?;
        let sizes = &self.banks.sizes;
        slot::write(&mut self.medium, sizes, from, &Header::FORMATTING, &[])
    }

    pub(super) fn finish_format(&mut self) -> Result<(), RecordError<D::Error>> {
        self.store_value()?;
        let (from, to) = (self.banks.format_marker(), self.banks.end());
        if self.banks.sizes.erase.is_some() {
            self.medium.erase(from, to)
        } else {
            let word = self.banks.sizes.word as usize;
            self.medium.write(from, &[0; 256][..word])
        }
        .map_err(RecordError::Medium)
    }
}

/// Erases a bank, or fills it with zeros on a medium without erase.
fn blank_bank<D: Medium>(medium: &mut D, banks: &Banks, bank: u32) -> Result<(), D::Error> {
    let from = banks.at(bank, 0, 0);
    let to = from + banks.bank_bytes;
    if banks.sizes.erase.is_some() {
        return medium.erase(from, to);
    }
    let zeros = [0; 256];
    let step = zeros.len() as u32 / banks.sizes.word * banks.sizes.word;
    let mut at = from;
    while at < to {
        let n = step.min(to - at);
        medium.write(at, &zeros[..n as usize])?;
        at += n;
    }
    medium.flush()
}
