//! The temperature: ADC12_B, its reference, and the sensor on the chip.

use super::Silent;
use super::reg::Reg;
use crate::start::{mark, phase};
use nv_device::Restore;

const REFCTL0: Reg<u16> = Reg::at(0x01B0);
const ADC12CTL0: Reg<u16> = Reg::at(0x0800);
const ADC12CTL1: Reg<u16> = Reg::at(0x0802);
const ADC12CTL2: Reg<u16> = Reg::at(0x0804);
const ADC12CTL3: Reg<u16> = Reg::at(0x0806);
const ADC12IFGR0: Reg<u16> = Reg::at(0x080C);
const ADC12MCTL0: Reg<u16> = Reg::at(0x0820);
const ADC12MEM0: Reg<u16> = Reg::at(0x0860);

/// REFCTL0: the reference is on; it is settled.
const REFON: u16 = 1;
const REFGENRDY: u16 = 0x1000;
/// ADC12CTL0: on; conversions are enabled, and one starts.
const ON: u16 = 0x0010;
const START: u16 = 0x0003;
const ENC: u16 = 0x0002;
/// Samples of the sensor take 30 us and more: 192 clocks of the converter's own oscillator.
const SAMPLE: u16 = 0x0700;
/// ADC12CTL1: the sampling timer. ADC12CTL2: 12 bits. ADC12CTL3: the sensor is on channel 30.
const TIMER: u16 = 0x0200;
const BITS_12: u16 = 0x0020;
const SENSOR: u16 = 0x0080;
/// ADC12MCTL0: channel 30, against the reference.
const CHANNEL: u16 = 0x0100 | 30;

/// The converter. Its context is the voltage of the reference: 0 to 2 for 1.2, 2.0 and 2.5 V.
pub struct Adc {
    reference: u16,
}

impl Restore for Adc {
    type Context = u8;
    type Parts = ();
    type Error = Silent;
    fn restore(_: &mut (), reference: &u8) -> Result<Self, Silent> {
        mark(phase::ADC);
        ADC12CTL0.set(SAMPLE | ON);
        ADC12CTL1.set(TIMER);
        ADC12CTL2.set(BITS_12);
        ADC12CTL3.set(SENSOR);
        ADC12MCTL0.set(CHANNEL);
        mark(phase::ADC + 1);
        Ok(Adc {
            reference: u16::from(*reference) << 4,
        })
    }
}

impl Adc {
    /// One conversion. The reference is on for no longer. **Errors**: it takes a millisecond.
    pub fn read(&mut self) -> Result<u16, Silent> {
        REFCTL0.set(self.reference | REFON);
        wait(|| REFCTL0.has(REFGENRDY))?;
        ADC12CTL0.set(SAMPLE | ON | START);
        wait(|| ADC12IFGR0.has(1))?;
        ADC12CTL0.off(ENC);
        REFCTL0.set(self.reference);
        Ok(ADC12MEM0.get())
    }
}

fn wait(is: impl Fn() -> bool) -> Result<(), Silent> {
    for _ in 0..2000 {
        if is() {
            return Ok(());
        }
    }
    Err(Silent)
}
