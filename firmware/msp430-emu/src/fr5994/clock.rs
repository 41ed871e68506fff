//! The clock system: the DCO and its divider.

use super::Width;
use std::ops::RangeInclusive;

/// CSCTL0 to CSCTL3.
pub const REGISTERS: RangeInclusive<u16> = 0x0160..=0x0166;
const CSCTL0: u16 = 0x0160;
const CSCTL1: u16 = 0x0162;
const CSCTL3: u16 = 0x0166;
/// The password, in the upper byte of CSCTL0.
const KEY: u8 = 0xA5;

/// The clock of the core.
#[derive(Clone, Copy, Default)]
pub struct Clock {
    open: bool,
    dco: u16,
    divider: u16,
    /// Units of time in a cycle, since a cycle and a time.
    period: u64,
    cycles: u64,
    time: u64,
}

impl Clock {
    /// After a reset: 8 MHz, and an eighth of it.
    pub fn new(cycles: u64, time: u64) -> Self {
        Clock {
            open: false,
            dco: 0x000C,
            divider: 0x0033,
            period: 16,
            cycles,
            time,
        }
    }

    /// The time of a cycle.
    #[inline]
    pub fn time(&self, cycles: u64) -> u64 {
        self.time + (cycles - self.cycles) * self.period
    }

    /// Units of time in a cycle.
    pub fn period(&self) -> u64 {
        self.period
    }

    /// Start-up has come to its end: 16 MHz.
    #[inline]
    pub fn fast(&self) -> bool {
        self.period == 1
    }

    pub fn read(&self, at: u16) -> u16 {
        match at {
            CSCTL0 => 0x9600,
            CSCTL1 => self.dco,
            CSCTL3 => self.divider,
            _ => 0x0033,
        }
    }

    pub fn write(&mut self, at: u16, value: u16, width: Width, now: u64) -> Result<(), String> {
        match (at, width) {
            (CSCTL0, Width::Word) => self.open = value >> 8 == KEY.into(),
            (0x0161, Width::Byte) => self.open = value == KEY.into(),
            _ if !self.open => return Err("a register of the clock system is locked".into()),
            (CSCTL1, Width::Word) => self.dco = value,
            (CSCTL3, Width::Word) => self.divider = value,
            _ => return Err(format!("a register of the clock system at {at:#06x}")),
        }
        let divider = 1 << (self.divider & 7);
        if self.divider >> 4 & 7 != self.divider & 7 {
            return Err("SMCLK is not as fast as MCLK".into());
        }
        // DCORSEL, and 4 or 6 in DCOFSEL: 16 MHz, 8 MHz.
        let period = match self.dco & 0x4E {
            0x48 => divider,
            0x0C | 0x46 => 2 * divider,
            other => return Err(format!("a clock that is not modelled: {other:#x}")),
        };
        // The last cycle at the old period is the one that stores.
        self.cycles += (now - self.time) / self.period;
        self.time = now;
        self.period = period;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_16_mhz() {
        let mut c = Clock::new(100, 1000);
        assert_eq!(c.time(110), 1160);
        assert!(c.write(CSCTL1, 0x48, Width::Word, 1160).is_err(), "locked");
        assert!(c.write(0x0161, 0xA5, Width::Byte, 1160).is_ok());
        assert!(c.write(CSCTL3, 0x22, Width::Word, 1160).is_ok());
        // 8 MHz over 4.
        assert_eq!(c.time(111), 1168);
        assert!(c.write(CSCTL1, 0x48, Width::Word, 1168).is_ok());
        assert_eq!(c.time(112), 1172);
        assert!(c.write(CSCTL3, 0, Width::Word, 1172).is_ok());
        assert!(c.fast());
        assert_eq!(c.time(113), 1173);
        assert!(c.write(CSCTL3, 0x10, Width::Word, 1173).is_err());
        assert!(c.write(CSCTL1, 0x4A, Width::Word, 1173).is_err());
    }
}
