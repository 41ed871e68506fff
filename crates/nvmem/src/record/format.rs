//! From a blank range, or from any other, to a record.

use super::scan::{self, Place};
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
        let place = Self::place(&medium, &range)?;
        let (mut best, mut other) = (Buffer::<T>::new(), Buffer::<T>::new());
        let found = scan::scan(&mut medium, &place, best.zeroed(), other.zeroed())
            .map_err(RecordError::Medium)?;
        // The newest value goes last: an older one must not be what is left.
        let newest = found.newest.map_or(0, |f| f.bank);
        let first = if planted!("nvmem/record-format-newest-first") {
            0
        } else {
            1
        };
        for i in first..first + place.banks {
            wipe(&mut medium, &place, (newest + i) % place.banks).map_err(RecordError::Medium)?;
        }
        Self::open(medium, range, initial)
    }

    /// Marks the range as being formatted, at its end, where nobody's data is that begins at its start.
    pub(super) fn mark(&mut self) -> Result<(), D::Error> {
        let (from, to) = (self.place.marker(), self.place.end());
        self.medium.erase(from, to)?;
        let words = &self.place.words;
        slot::write(&mut self.medium, words, from, &Header::FORMATTING, &[])
    }

    pub(super) fn end_format(&mut self) -> Result<(), RecordError<D::Error>> {
        self.store_value()?;
        let (from, to) = (self.place.marker(), self.place.end());
        if self.place.words.erase.is_some() {
            self.medium.erase(from, to)
        } else {
            let word = self.place.words.word as usize;
            self.medium.write(from, &[0; 256][..word])
        }
        .map_err(RecordError::Medium)
    }
}

/// Leaves a bank blank.
fn wipe<D: Medium>(medium: &mut D, place: &Place, bank: u32) -> Result<(), D::Error> {
    let from = place.at(bank, 0, 0);
    let to = from + place.bank;
    if place.words.erase.is_some() {
        return medium.erase(from, to);
    }
    let zeros = [0; 256];
    let step = zeros.len() as u32 / place.words.word * place.words.word;
    let mut at = from;
    while at < to {
        let n = step.min(to - at);
        medium.write(at, &zeros[..n as usize])?;
        at += n;
    }
    medium.flush()
}
