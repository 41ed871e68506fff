//! eUSCI_B0 as the master of a bus of three wires.

use std::ops::RangeInclusive;

pub const REGISTERS: RangeInclusive<u16> = 0x0640..=0x066F;
const CTLW0: u16 = 0x0640;
const BRW: u16 = 0x0646;
const STATW: u16 = 0x0648;
const RXBUF: u16 = 0x064C;
const TXBUF: u16 = 0x064E;
const IE: u16 = 0x066A;
const IFG: u16 = 0x066C;

/// CTLW0: phase, bit order, master, mode, synchronous, SMCLK, reset.
const MODE: u16 = 0xF9C1;
const AS_WANTED: u16 = 0xA980;
const SWRST: u16 = 1;
const RXIFG: u16 = 1;
const TXIFG: u16 = 2;
/// The radio's limit for a burst is 6.5 MHz: at least so many units of 62.5 ns in a bit.
const LEAST: u64 = 3;

/// The bus.
#[derive(Clone, Copy)]
pub struct Spi {
    ctl: u16,
    divider: u16,
    ie: u16,
    ifg: u16,
    received: u8,
    /// The byte that is shifted out, and until when.
    shifts: Option<(u8, u64)>,
    /// The byte behind it.
    waits: Option<u8>,
    bit: u64,
}

impl Default for Spi {
    fn default() -> Self {
        Spi {
            ctl: 0x01C1,
            divider: 0,
            ie: 0,
            ifg: TXIFG,
            received: 0,
            shifts: None,
            waits: None,
            bit: 0,
        }
    }
}

impl Spi {
    /// When the byte that is shifted has ended.
    pub fn ends(&self) -> Option<u64> {
        self.shifts.map(|(_, end)| end)
    }

    /// That byte.
    pub fn shifted(&self) -> u8 {
        self.shifts.map_or(0xFF, |(byte, _)| byte)
    }

    /// What came meanwhile.
    pub fn received(&mut self, byte: u8) {
        let end = self.ends().unwrap_or_default();
        self.received = byte;
        self.ifg |= RXIFG;
        self.shifts = self.waits.take().map(|b| (b, end + 8 * self.bit));
        self.ifg |= TXIFG;
    }

    pub fn read(&mut self, at: u16) -> Option<u16> {
        Some(match at {
            CTLW0 => self.ctl,
            BRW => self.divider,
            STATW => self.shifts.is_some().into(),
            RXBUF => {
                self.ifg &= !RXIFG;
                self.received.into()
            }
            IE => self.ie,
            IFG => self.ifg,
            _ => return None,
        })
    }

    /// `pins`: they belong to the bus.
    pub fn write(
        &mut self,
        at: u16,
        value: u16,
        now: u64,
        period: u64,
        pins: bool,
    ) -> Result<(), &'static str> {
        match at {
            CTLW0 => {
                if value & SWRST != 0 {
                    (self.ifg, self.ie, self.shifts, self.waits) = (TXIFG, 0, None, None);
                }
                self.ctl = value;
            }
            BRW if self.ctl & SWRST == 0 => {
                return Err("the bus's rate is set while it works");
            }
            BRW => self.divider = value,
            TXBUF => {
                self.bit = u64::from(self.divider.max(1)) * period;
                if self.ctl & MODE != AS_WANTED || !pins {
                    return Err("the bus is used before it is set up");
                }
                if self.bit < LEAST {
                    return Err("the bus is too fast for the radio");
                }
                if self.shifts.is_none() {
                    self.shifts = Some((value as u8, now + 8 * self.bit));
                } else if self.waits.replace(value as u8).is_some() {
                    return Err("a byte for the bus is lost");
                } else {
                    self.ifg &= !TXIFG;
                }
            }
            IE => self.ie = value,
            IFG => self.ifg = value,
            _ => return Err("a register of the bus that is not modelled"),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Spi {
        let mut s = Spi::default();
        for (at, value) in [(CTLW0, 0xA981), (BRW, 3), (CTLW0, 0xA980)] {
            assert_eq!(s.write(at, value, 0, 1, true), Ok(()));
        }
        s
    }

    #[test]
    fn bytes_one_after_the_other() {
        let mut s = ready();
        assert_eq!(s.read(IFG), Some(TXIFG));
        assert_eq!(s.write(TXBUF, 0xAB, 100, 1, true), Ok(()));
        assert_eq!((s.ends(), s.shifted()), (Some(124), 0xAB));
        assert_eq!(s.write(TXBUF, 0xCD, 110, 1, true), Ok(()));
        assert_eq!(s.read(IFG), Some(0));
        assert!(s.write(TXBUF, 0xEF, 111, 1, true).is_err());
        s.received(0x0F);
        assert_eq!((s.ends(), s.read(IFG)), (Some(148), Some(3)));
        assert_eq!((s.read(RXBUF), s.read(IFG)), (Some(0x0F), Some(TXIFG)));
        s.received(0x1F);
        assert_eq!((s.ends(), s.read(STATW)), (None, Some(0)));
    }

    #[test]
    fn what_does_not_work() {
        assert!(Spi::default().write(TXBUF, 0, 0, 1, true).is_err(), "reset");
        assert!(ready().write(TXBUF, 0, 0, 1, false).is_err(), "no pins");
        assert!(ready().write(BRW, 1, 0, 1, true).is_err(), "it works");
        let mut s = Spi::default();
        for (at, value) in [(CTLW0, 0xA981), (BRW, 2), (CTLW0, 0xA980)] {
            assert_eq!(s.write(at, value, 0, 1, true), Ok(()));
        }
        assert!(s.write(TXBUF, 0, 0, 1, true).is_err(), "too fast");
    }
}
