//! The logged data: a series in chunks of one day, and statistics that are updated with each value.

use nvmem::Persist;
use vnv_heap::collections::Chunked;

/// Values of a day, one per hour: one chunk of the series.
pub const DAY: usize = 24;

/// The capacity in days.
pub const DAYS: usize = 400;

/// The capacity in values.
pub const VALUES: usize = DAY * DAYS;

/// The root object.
#[derive(Persist)]
#[repr(C)]
pub struct Record<'h> {
    /// Statistics of all values so far.
    pub statistics: Statistics,
    /// All values so far; future values are 0.
    pub series: Chunked<'h, i16, DAY>,
    /// Reserved.
    pub spare: [u16; 2],
}

/// Statistics of the values.
#[derive(Persist, Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Statistics {
    /// The sum of the squares.
    pub squares: u64,
    /// The sum.
    pub sum: i32,
    /// The number of values.
    pub values: u32,
    /// The lowest.
    pub lowest: i16,
    /// The highest.
    pub highest: i16,
    /// The first hour of the lowest.
    pub lowest_at: u16,
    /// The first hour of the highest.
    pub highest_at: u16,
}

impl Statistics {
    /// Adds a value.
    pub fn add(&mut self, value: i16) {
        let hour = self.values as u16;
        if self.values == 0 || value < self.lowest {
            (self.lowest, self.lowest_at) = (value, hour);
        }
        if self.values == 0 || value > self.highest {
            (self.highest, self.highest_at) = (value, hour);
        }
        self.sum += i32::from(value);
        self.squares += u64::from(value.unsigned_abs()) * u64::from(value.unsigned_abs());
        self.values += 1;
    }

    /// The mean.
    pub fn mean(&self) -> f64 {
        f64::from(self.sum) / f64::from(self.values.max(1))
    }

    /// The mean squared deviation from the mean.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        self.squares as f64 / f64::from(self.values.max(1)) - mean * mean
    }
}
