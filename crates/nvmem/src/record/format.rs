//! From a blank range, or from any other, to a record.

use super::scan::{self, Banks};
use super::slot::{self, Header};
use super::{Buffer, Record, RecordError};
use crate::device::Medium;
use crate::persist::Plain;
use crate::planted;
use core::ops::Range;

impl<T: Plain, D: Medium> Record<T, D> {
    /// Gives up **whatever the range holds** and makes it a record with the value `initial`.
    ///
    /// [`Record::open`] formats a blank range by itself and nothing else. This is for a range that it refuses, as
    /// [`RecordError::Foreign`] or [`RecordError::Damaged`], when the caller knows that nothing in it is worth keeping; and for a
    /// device that is handed on. There is one way to a foreign range without anybody's data: three power cuts within the
    /// very first format on flash, described in docs/DESIGN.md.
    ///
    /// **Power loss**: the value from before, a range that `open` refuses or finds blank, or `initial`; never an older
    /// value. The caller calls it again unless it has returned. **Cost**: an erase of the whole range, on a medium without
    /// erase a write of all of it, and that of a format by `open`. **Errors**: [`RecordError::Medium`],
    /// [`RecordError::TooSmall`], [`RecordError::BadRange`].
    pub fn format(
        mut medium: D,
        range: Range<u32>,
        initial: T,
    ) -> Result<Self, RecordError<D::Error>> {
        let banks = Self::banks(&medium, &range)?;
        let (mut best, mut other) = (Buffer::<T>::new(), Buffer::<T>::new());
        let found = scan::scan(&mut medium, &banks, best.zeroed(), other.zeroed())
            .map_err(RecordError::Medium)?;
        // The newest value goes last: an older one must not be what is left.
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

    /// Marks the range as being formatted, at its end, where nobody's data is that begins at its start.
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

/// Leaves a bank blank.
fn blank_bank<D: Medium>(medium: &mut D, banks: &Banks, bank: u32) -> Result<(), D::Error> {
    let from = banks.at(bank, 0, 0);
    let to = from + banks.bank;
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
