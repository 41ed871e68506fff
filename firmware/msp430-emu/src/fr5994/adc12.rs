//! The converter with the temperature's sensor, and the reference.

use relume_models::{Adc, Chip};
use std::ops::RangeInclusive;

pub const REFCTL0: u16 = 0x01B0;
pub const REGISTERS: RangeInclusive<u16> = 0x0800..=0x08FF;
const CTL0: u16 = 0x0800;
const CTL1: u16 = 0x0802;
const CTL2: u16 = 0x0804;
const CTL3: u16 = 0x0806;
const IFGR0: u16 = 0x080C;
const MCTL0: u16 = 0x0820;
const MEM0: u16 = 0x0860;

const REFON: u16 = 0x0001;
const REFGENRDY: u16 = 0x1000;
/// REFON to settled: 80 us at the most. The sensor's samples take 30 us at least.
const SETTLE_NS: u64 = 80_000;
const SENSOR_NS: u64 = 30_000;
/// The converter's own oscillator, 4.8 MHz; a conversion takes 14 of its clocks.
const OSC_KHZ: u64 = 4_800;
const CONVERT: u64 = 14;
/// Clocks of a sample: SHT0.
const SAMPLES: [u64; 16] = [
    4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 512, 512, 512, 512, 512,
];

const ON: u16 = 0x0010;
const ENC: u16 = 0x0002;
const START: u16 = 0x0003;

/// ADC12_B with one memory, REF_A, and the sensor on channel 30.
#[derive(Clone)]
pub struct Adc12 {
    chip: Adc,
    ctl: [u16; 4],
    mctl0: u16,
    ref0: u16,
    /// Nanoseconds until the reference has settled.
    settles: u64,
}

impl Default for Adc12 {
    fn default() -> Self {
        let chip = Adc::new(0);
        Adc12 {
            chip,
            ctl: [0, 0, 0x20, 0],
            mctl0: 0,
            ref0: 0,
            settles: 0,
        }
    }
}

impl Adc12 {
    pub fn set_sensor(&mut self, millivolts: u16) {
        self.chip.set_level(0, millivolts);
    }

    pub fn reset(&mut self) {
        let mut chip = self.chip.clone();
        chip.reset();
        *self = Adc12 {
            chip,
            ..Adc12::default()
        };
    }

    pub fn elapse(&mut self, ns: u64) {
        self.settles = self.settles.saturating_sub(ns);
        self.chip.elapse(ns);
    }

    pub fn mistake(&self) -> Option<&'static str> {
        self.chip.mistake()
    }

    pub fn read(&mut self, at: u16) -> Option<u16> {
        Some(match at {
            REFCTL0 if self.ref0 & REFON != 0 && self.settles == 0 => self.ref0 | REFGENRDY,
            REFCTL0 => self.ref0,
            CTL0 if self.chip.busy() => self.ctl[0],
            CTL0 => self.ctl[0] & !1,
            CTL1 => self.ctl[1] | u16::from(self.chip.busy()),
            CTL2 | CTL3 => self.ctl[usize::from(at - CTL0) / 2],
            IFGR0 => self.chip.ready().into(),
            MCTL0 => self.mctl0,
            MEM0 => self.chip.result(),
            _ => return None,
        })
    }

    pub fn write(&mut self, at: u16, value: u16) -> Result<(), &'static str> {
        match at {
            REFCTL0 => {
                if value & REFON != 0 && self.ref0 & REFON == 0 {
                    self.settles = SETTLE_NS;
                }
                self.ref0 = value & !REFGENRDY;
            }
            CTL0 => {
                let begins = value & START == START && !self.chip.busy();
                self.ctl[0] = value;
                if begins {
                    self.begin()?;
                }
            }
            CTL1..=CTL3 | MCTL0 if self.ctl[0] & ENC != 0 => {
                return Err("the ADC is changed while conversions are enabled");
            }
            CTL1 | CTL2 | CTL3 => self.ctl[usize::from(at - CTL0) / 2] = value,
            MCTL0 => self.mctl0 = value,
            _ => return Err("a register of the ADC that is not modelled"),
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), &'static str> {
        // The sampling timer; its own oscillator, undivided; 12 bits; the sensor is on channel 30,
        // against the reference.
        let [ctl0, ctl1, ctl2, ctl3] = self.ctl;
        let known = (ctl1 & 0x7FF8, ctl2 & 0x30, ctl3 & 0x80) == (0x200, 0x20, 0x80);
        if ctl0 & ON == 0 || !known || self.mctl0 & 0x0F1F != 0x011E {
            return Err("a conversion that is not modelled");
        }
        if self.ref0 & REFON == 0 || self.settles > 0 {
            return Err("a conversion against a reference that has not settled");
        }
        let sample = SAMPLES[usize::from(ctl0 >> 8 & 15)];
        if sample * 1_000_000 / OSC_KHZ < SENSOR_NS {
            return Err("a sample of the sensor that is too short");
        }
        self.chip.conversion_ns = (sample + CONVERT) * 1_000_000 / OSC_KHZ;
        let millivolts = [1200, 2000, 2500, 2500][usize::from(self.ref0 >> 4 & 3)];
        self.chip.set_reference(millivolts);
        self.chip.start();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Adc12 {
        let mut a = Adc12::default();
        a.set_sensor(1000);
        for (at, value) in [
            (CTL1, 0x200),
            (CTL2, 0x20),
            (CTL3, 0x80),
            (MCTL0, 0x11E),
            (REFCTL0, 0x11),
        ] {
            assert_eq!(a.write(at, value), Ok(()));
        }
        a
    }

    #[test]
    fn a_reading_takes_its_time() {
        let mut a = ready();
        a.elapse(SETTLE_NS - 1);
        assert_eq!(a.read(REFCTL0), Some(0x11));
        a.elapse(1);
        assert_eq!(a.read(REFCTL0), Some(0x1011));
        assert_eq!(a.write(CTL0, 0x713), Ok(()));
        a.elapse(42_900);
        assert_eq!((a.read(IFGR0), a.read(CTL1)), (Some(0), Some(0x201)));
        assert!(a.write(MCTL0, 0).is_err(), "conversions are enabled");
        a.elapse(100);
        assert_eq!((a.read(IFGR0), a.read(MEM0)), (Some(1), Some(2048)));
        assert_eq!((a.read(IFGR0), a.mistake()), (Some(0), None));
    }

    #[test]
    fn what_the_guide_forbids() {
        let mut a = ready();
        assert!(a.write(CTL0, 0x713).is_err(), "not settled");
        let mut a = ready();
        a.elapse(SETTLE_NS);
        assert!(a.write(CTL0, 0x413).is_err(), "too short");
        let mut a = Adc12::default();
        assert!(a.write(CTL0, 0x713).is_err(), "not set up");
        a.reset();
        assert_eq!(a.read(CTL0), Some(0));
    }
}
