//! A temperature logger on an RP2350: the program of examples/logger, a `vnv-heap` on a serial
//! FRAM, with the chip's own thermometer.
#![no_std]
#![no_main]

use defmt::{Debug2Format, info};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_rp::adc::{Adc, Blocking, Channel};
use embassy_rp::gpio::{Level, Output};
use embassy_rp::spi::{self, Spi};
use embassy_time::{Delay, Duration, block_for};
use embedded_hal_bus::spi::ExclusiveDevice;
use example_logger::{RAM, Station};
use nvmem::Trusted;
use panic_probe as _;
use spi_fram::{Part, SpiFram};

/// The chip on the bus: 32 KiB or more.
const PART: Part = Part::MB85RS256B;
/// The logger's hour, short enough to watch.
const HOUR: Duration = Duration::from_secs(5);

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let p = embassy_rp::init(Default::default());
    let mut config = spi::Config::default();
    config.frequency = 20_000_000;
    let bus = Spi::new_blocking(p.SPI0, p.PIN_18, p.PIN_19, p.PIN_16, config);
    let select = Output::new(p.PIN_17, Level::High);
    let device = defmt::unwrap!(ExclusiveDevice::new(bus, select, Delay));
    let mut fram = SpiFram::new(device, PART);
    if let Err(e) = fram.init(&mut Delay) {
        defmt::panic!("{}", Debug2Format(&e));
    }
    // SAFETY: the chip has this bus for itself, nothing else writes to it, and its driver reports
    // what fails.
    let fram = unsafe { Trusted::new(fram) };

    let mut thermometer = Thermometer {
        adc: Adc::new_blocking(p.ADC, Default::default()),
        channel: Channel::new_temp_sensor(p.ADC_TEMP_SENSOR),
    };
    let mut ram = [0; RAM];
    match example_logger::log(fram, &mut ram, &mut thermometer, 1) {
        Ok(()) => info!("no more values"),
        Err(e) => defmt::panic!("{}", Debug2Format(&e)),
    }
}

struct Thermometer {
    adc: Adc<'static, Blocking>,
    channel: Channel<'static>,
}

impl Thermometer {
    /// In tenths of a degree Celsius: 0.706 V at 27 °C, 1.721 mV less for each degree.
    fn read(&mut self) -> i16 {
        // The conversion is not read when it has failed: the logger prefers a wrong value to none.
        let raw = i32::from(self.adc.blocking_read(&mut self.channel).unwrap_or(0));
        let microvolts = raw * 3_300 / 4 * 1_000 / 1_024;
        (270 - (microvolts - 706_000) * 10 / 1_721) as i16
    }
}

impl Station for Thermometer {
    fn opened(&mut self, values: u32) {
        info!("open, with {} values", values);
    }
    fn value(&mut self, hour: u32) -> Option<i16> {
        block_for(HOUR);
        let value = self.read();
        info!("value {}: {} tenths of a degree", hour, value);
        Some(value)
    }
    fn commit_begins(&mut self, _values: u32) {}
    fn commit_done(&mut self) {
        info!("stored");
    }
}
