//! A node of three async tasks that continue after power cuts, on an ESP32-C3: the tasks of
//! examples/node under embassy's executor, over a mirror on a serial FRAM.
#![no_std]
#![no_main]

use embassy_executor::Spawner;
use embassy_time::Delay;
use embedded_hal_bus::spi::ExclusiveDevice;
use esp_backtrace as _;
use esp_hal::Async;
use esp_hal::gpio::{Level, Output, OutputConfig};
use esp_hal::spi::Mode;
use esp_hal::spi::master::{Config, Spi};
use esp_hal::time::Rate;
use esp_hal::timer::timg::TimerGroup;
use esp_hal::tsens::TemperatureSensor;
use esp_println::println;
use example_node::{
    Averaged, Memory, Radioed, Report, Runtime, Sensed, Station, Uptime, WINDOW,
};
use nv_replay::Error;
use spi_fram::{AsyncSpiFram, Part};
use static_cell::StaticCell;

esp_bootloader_esp_idf::esp_app_desc!();

/// The chip on the bus: 32 KiB or more.
const PART: Part = Part::MB85RS256B;
type Fram = AsyncSpiFram<ExclusiveDevice<Spi<'static, Async>, Output<'static>, Delay>>;

static MEMORY: Memory<Fram> = Memory::new();
static BOARD: StaticCell<Board> = StaticCell::new();

#[esp_rtos::main]
async fn main(spawner: Spawner) {
    let p = esp_hal::init(esp_hal::Config::default());
    esp_rtos::start(TimerGroup::new(p.TIMG0).timer0, p.FROM_CPU_INTR0);
    let config = Config::default()
        .with_frequency(Rate::from_mhz(20))
        .with_mode(Mode::_0);
    let bus = Spi::new(p.SPI2, config)
        .expect("20 MHz is possible")
        .with_sck(p.GPIO6)
        .with_mosi(p.GPIO7)
        .with_miso(p.GPIO2)
        .into_async();
    let select = Output::new(p.GPIO10, Level::High, OutputConfig::default());
    let device = ExclusiveDevice::new(bus, select, Delay).expect("pins do not fail");
    let mut fram = AsyncSpiFram::new(device, PART);
    fram.init(&mut Delay).await.expect("the chip answers");

    let thermometer = TemperatureSensor::new(p.TSENS, Default::default()).expect("the default range");
    let board = BOARD.init(Board(thermometer));
    let range = 0..const { Memory::<Fram>::RANGE };
    let booted = MEMORY.boot(fram, range, board).await;
    let booted = booted.expect("the node opens");
    spawner.spawn(sensor(booted.sensor).expect("the first one"));
    spawner.spawn(average(booted.average).expect("the first one"));
    spawner.spawn(radio(booted.radio).expect("the first one"));
}

#[embassy_executor::task]
async fn sensor(mut rt: Runtime<Sensed, Board, Fram>) {
    stopped("sensor", example_node::sensor(&mut rt, u32::MAX).await);
}

#[embassy_executor::task]
async fn average(mut rt: Runtime<Averaged, Board, Fram>) {
    let windows = u32::MAX / WINDOW;
    stopped("average", example_node::average(&mut rt, windows).await);
}

#[embassy_executor::task]
async fn radio(mut rt: Runtime<Radioed, Board, Fram>) {
    let windows = u32::MAX / WINDOW;
    stopped("radio", example_node::radio(&mut rt, windows).await);
}

/// A task has come to its end, or failed.
fn stopped(task: &str, why: Result<(), Error>) {
    println!("{task} has stopped: {why:?}");
}

/// The chip's thermometer, and the serial port as the radio.
struct Board(TemperatureSensor<'static>);

impl Station for Board {
    type Clock = Uptime;
    /// A second.
    const PERIOD: u64 = 1_000;

    fn clock(&self) -> Uptime {
        Uptime
    }

    /// In tenths of a degree Celsius.
    async fn measure(&self, _n: u32) -> i16 {
        (self.0.get_temperature().to_celsius() * 10.0) as i16
    }

    async fn send(&self, number: u32, report: Report) {
        let Report {
            sum,
            lowest,
            highest,
            ..
        } = report;
        println!("report {number}: sum {sum}, {lowest} to {highest}");
    }
}
