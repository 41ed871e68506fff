//! Pauses that go on after a power cut, with Timer0_A.

use super::reg::Reg;
use crate::Memory;
use crate::start::sleep;
use core::convert::Infallible;
use nv_device::nvmem::Persist;
use nv_device::{Call, Device, Restore};

const TA0CTL: Reg<u16> = Reg::at(0x0340);
const TA0CCTL0: Reg<u16> = Reg::at(0x0342);
const TA0CCR0: Reg<u16> = Reg::at(0x0352);

/// SMCLK over 8, up mode, and a new period.
const START: u16 = 0x02D4;
const CCIE: u16 = 0x0010;

/// A timer whose period is a slice of a pause: a quarter of a millisecond.
#[derive(Default)]
pub struct Timer {
    runs: bool,
}

impl Timer {
    /// Slices in a millisecond, and counts of 2 MHz in a slice.
    pub const PER_MS: u8 = 4;
    const COUNTS: u16 = 2000 / Self::PER_MS as u16;

    /// Sleeps until the end of a slice. The first one begins now, the others where the last one has
    /// ended.
    pub fn slice(&mut self) {
        if !self.runs {
            TA0CCR0.set(Self::COUNTS - 1);
            TA0CCTL0.set(CCIE);
            TA0CTL.set(START);
            self.runs = true;
        }
        sleep();
    }

    /// There is no next slice.
    pub fn stop(&mut self) {
        TA0CTL.set(0);
        self.runs = false;
    }

    /// Sleeps for so many slices.
    pub fn pause(&mut self, slices: u16) {
        for _ in 0..slices {
            self.slice();
        }
        self.stop();
    }
}

/// How far a pause has come: which one it is, and how many slices are left. One unit, so a slice
/// costs one store.
#[derive(Persist, Clone, Copy)]
#[repr(transparent)]
pub struct Progress(u16);

impl Progress {
    /// Before the first pause, which must not have this number.
    pub const NONE: Progress = Progress::of(0xFF, 0);
    const fn of(number: u8, left: u8) -> Self {
        Progress((number as u16) << 8 | left as u16)
    }

    /// What is left of the pause of this number, if it has so many slices.
    fn left(&self, number: u8, slices: u8) -> u8 {
        match self.0 >> 8 == number.into() {
            true => self.0 as u8,
            false => slices,
        }
    }
}

/// The timer's driver, and a persistent count.
pub struct Pause<'m>(pub Device<'m, Timer, Memory>);

impl Restore for Timer {
    type Context = Progress;
    type Parts = ();
    type Error = Infallible;
    fn restore(_: &mut (), _: &Progress) -> Result<Self, Infallible> {
        Ok(Timer::default())
    }
}

impl Pause<'_> {
    /// Pauses for so many slices, at most 255. A pause and the next one have different numbers.
    ///
    /// **Power loss**: the pause of the same number goes on with the slice that was cut.
    /// **Cost**: a store for each slice.
    pub fn take(&mut self, number: u8, slices: u8) {
        while self.0.at_least_once((number, slices), slice) == Ok(true) {}
    }
}

/// Sleeps for the next slice of a pause. Returns false if there is none.
fn slice(
    timer: &mut Call<'_, Timer, Progress>,
    (number, slices): (u8, u8),
) -> Result<bool, Infallible> {
    let left = timer.context().left(number, slices);
    if left == 0 {
        timer.driver().stop();
        return Ok(false);
    }
    timer.driver().slice();
    *timer.context_mut() = Progress::of(number, left - 1);
    Ok(true)
}
