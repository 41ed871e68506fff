//! A converter of 12 bits with eight inputs.

use crate::Chip;

/// A converter from voltage to number. It is off after a reset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Adc {
    /// Nanoseconds that a conversion takes.
    pub conversion_ns: u64,
    levels: [u16; 8],
    reference: u16,
    input: u8,
    left: Option<u64>,
    result: Option<u16>,
    conversions: u32,
    mistake: Option<&'static str>,
}

impl Adc {
    /// A converter that takes so long, with all inputs at 0 mV.
    pub fn new(conversion_ns: u64) -> Self {
        Adc {
            conversion_ns,
            levels: [0; 8],
            reference: 0,
            input: 0,
            left: None,
            result: None,
            conversions: 0,
            mistake: None,
        }
    }

    /// The outside puts so many millivolts to an input.
    pub fn set_level(&mut self, input: u8, millivolts: u16) {
        self.levels[usize::from(input & 7)] = millivolts;
    }

    /// Sets the voltage that reads as 4095; 0 switches the converter off.
    pub fn set_reference(&mut self, millivolts: u16) {
        self.reference = millivolts;
        if millivolts == 0 {
            (self.left, self.result) = (None, None);
        }
    }

    /// Reads it back.
    pub fn reference(&self) -> u16 {
        self.reference
    }

    /// Chooses the input.
    pub fn set_input(&mut self, input: u8) {
        self.input = input & 7;
    }

    /// Reads it back.
    pub fn input(&self) -> u8 {
        self.input
    }

    /// Starts a conversion.
    pub fn start(&mut self) {
        if self.reference == 0 {
            self.mistake
                .get_or_insert("the ADC converts while it is off");
            return;
        }
        self.left = Some(self.conversion_ns);
        self.result = None;
    }

    /// Whether a conversion runs.
    pub fn busy(&self) -> bool {
        self.left.is_some()
    }

    /// Whether there is a result that was not read.
    pub fn ready(&self) -> bool {
        self.result.is_some()
    }

    /// Reads the result.
    pub fn result(&mut self) -> u16 {
        match self.result.take() {
            Some(r) => r,
            None => {
                self.mistake
                    .get_or_insert("the ADC's result is read, and there is none");
                0
            }
        }
    }

    /// Conversions that have ended since the reset.
    pub fn conversions(&self) -> u32 {
        self.conversions
    }
}

impl Chip for Adc {
    fn reset(&mut self) {
        let (ns, levels) = (self.conversion_ns, self.levels);
        *self = Adc::new(ns);
        self.levels = levels;
    }

    fn elapse(&mut self, ns: u64) {
        match self.left {
            Some(left) if left > ns => self.left = Some(left - ns),
            Some(_) => {
                let level = u32::from(self.levels[usize::from(self.input)]);
                let read = (level * 4095 + u32::from(self.reference) / 2)
                    / u32::from(self.reference.max(1));
                self.left = None;
                self.result = Some(read.min(4095) as u16);
                self.conversions += 1;
            }
            None => {}
        }
    }

    fn mistake(&self) -> Option<&'static str> {
        self.mistake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversion_takes_its_time_and_follows_the_reference() {
        let mut adc = Adc::new(1000);
        adc.set_level(3, 1000);
        adc.set_reference(2000);
        adc.set_input(3);
        adc.start();
        adc.elapse(999);
        assert!(adc.busy() && !adc.ready());
        adc.elapse(1);
        assert_eq!((adc.busy(), adc.result()), (false, 2048));
        adc.set_reference(1200);
        adc.start();
        adc.elapse(5000);
        assert_eq!(adc.result(), 3413);
        assert_eq!(adc.mistake(), None);
        adc.reset();
        adc.start();
        assert!(adc.mistake().is_some() && !adc.busy());
    }
}
