//! A temperature logger on an ESP32-C3: the program of examples/logger, a `vnv-heap` on a serial
//! FRAM, with the chip's own thermometer.
#![no_std]
#![no_main]

use embedded_hal_bus::spi::ExclusiveDevice;
use esp_backtrace as _;
use esp_hal::delay::Delay;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::spi::Mode;
use esp_hal::spi::master::{Config, Spi};
use esp_hal::time::Rate;
use esp_hal::tsens::TemperatureSensor;
use esp_println::println;
use example_logger::{RAM, Station};
use nvmem::Trusted;
use spi_fram::{Part, SpiFram};

esp_bootloader_esp_idf::esp_app_desc!();

/// The chip on the bus: 32 KiB or more.
const PART: Part = Part::MB85RS256B;
/// The logger's hour, short enough to watch.
const HOUR_MS: u32 = 5_000;

#[esp_hal::main]
fn main() -> ! {
    let p = esp_hal::init(esp_hal::Config::default());
    let config = Config::default()
        .with_frequency(Rate::from_mhz(20))
        .with_mode(Mode::_0);
    let bus = Spi::new(p.SPI2, config)
        .expect("20 MHz is possible")
        .with_sck(p.GPIO6)
        .with_mosi(p.GPIO7)
        .with_miso(p.GPIO2);
    let select = Output::new(p.GPIO10, Level::High, OutputConfig::default());
    let device = ExclusiveDevice::new(bus, select, Delay::new()).expect("pins do not fail");
    let mut fram = SpiFram::new(device, PART);
    fram.init(&mut Delay::new()).expect("the chip answers");
    // SAFETY: the chip has this bus for itself, nothing else writes to it, and its driver reports
    // what fails.
    let fram = unsafe { Trusted::new(fram) };

    let sensor = TemperatureSensor::new(p.TSENS, Default::default()).expect("the default range");
    let mut ram = [0; RAM];
    match example_logger::log(fram, &mut ram, &mut Thermometer(sensor), 1) {
        Ok(()) => println!("no more values"),
        Err(e) => println!("stopped: {e:?}"),
    }
    loop {
        Delay::new().delay_millis(1_000);
    }
}

struct Thermometer(TemperatureSensor<'static>);

impl Station for Thermometer {
    fn opened(&mut self, values: u32) {
        println!("open, with {values} values");
    }
    fn value(&mut self, hour: u32) -> Option<i16> {
        Delay::new().delay_millis(HOUR_MS);
        let value = (self.0.get_temperature().to_celsius() * 10.0) as i16;
        println!("value {hour}: {value} tenths of a degree");
        Some(value)
    }
    fn commit_begins(&mut self, _values: u32) {}
    fn commit_done(&mut self) {
        println!("stored");
    }
}
