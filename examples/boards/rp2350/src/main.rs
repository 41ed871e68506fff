//! A temperature logger on an RP2350: the program of examples/logger, a `vnv-heap` on a serial
//! FRAM, with the chip's own thermometer.
#![no_std]
#![no_main]

mod thermometer;

use defmt::{Debug2Format, info};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::spi::{self, Spi};
use embassy_time::{Delay, Duration, block_for};
use embedded_hal_bus::spi::ExclusiveDevice;
use example_logger::{RAM, Station};
use nvmem::Trusted;
use panic_probe as _;
use spi_fram::{Part, SpiFram};
use thermometer::Thermometer;

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

    let mut thermometer = Thermometer::new(p.ADC, p.ADC_TEMP_SENSOR);
    let mut ram = [0; RAM];
    match example_logger::log(fram, &mut ram, &mut thermometer, 1) {
        Ok(()) => info!("no more values"),
        Err(e) => defmt::panic!("{}", Debug2Format(&e)),
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
