//! The chip's own thermometer.

use embassy_rp::Peri;
use embassy_rp::adc::{Adc, Blocking, Channel};
use embassy_rp::peripherals::{ADC, ADC_TEMP_SENSOR};

/// The thermometer.
pub struct Thermometer {
    adc: Adc<'static, Blocking>,
    channel: Channel<'static>,
}

impl Thermometer {
    pub fn new(adc: Peri<'static, ADC>, sensor: Peri<'static, ADC_TEMP_SENSOR>) -> Self {
        Thermometer {
            adc: Adc::new_blocking(adc, Default::default()),
            channel: Channel::new_temp_sensor(sensor),
        }
    }

    /// In tenths of a degree Celsius: 0.706 V at 27 °C, 1.721 mV less for each degree.
    pub fn read(&mut self) -> i16 {
        // The conversion is not read when it has failed: a wrong value is better than none.
        let raw = i32::from(self.adc.blocking_read(&mut self.channel).unwrap_or(0));
        let microvolts = raw * 3_300 / 4 * 1_000 / 1_024;
        (270 - (microvolts - 706_000) * 10 / 1_721) as i16
    }
}
