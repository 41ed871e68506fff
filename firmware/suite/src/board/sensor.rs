//! A sensor at the ADC.

use crate::Bench;
use crate::abi::bench::{CONVERT, REFERENCE, RESULT, SOURCE};
use nv_device::Restore;
use nv_device::nvmem::Persist;

/// What the application wants of the ADC: two units on a 16-bit machine.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub(super) struct Range {
    /// The reference in millivolts.
    pub reference: u16,
    /// The input.
    pub input: u16,
}

/// The driver of the ADC.
pub(super) struct Sensor<'d>(Bench<'d>);

/// A conversion does not end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hangs;

/// Polls after which a conversion must have ended: one call must fit one life.
const POLLS: u8 = 50;

impl Sensor<'_> {
    /// A reading.
    pub fn read(&mut self) -> Result<u16, Hangs> {
        self.0.write(CONVERT, 1);
        for _ in 0..POLLS {
            if self.0.read(CONVERT) == 0 {
                return Ok(self.0.read(RESULT));
            }
        }
        Err(Hangs)
    }
}

impl<'d> Restore for Sensor<'d> {
    type Context = Range;
    type Parts = Bench<'d>;
    type Error = Hangs;
    fn restore(bench: &mut Bench<'d>, range: &Range) -> Result<Self, Hangs> {
        bench.write(REFERENCE, range.reference);
        bench.write(SOURCE, range.input);
        Ok(Sensor(*bench))
    }
}
