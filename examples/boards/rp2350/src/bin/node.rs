//! A node of three async tasks that continue after power cuts, on an RP2350: the tasks of
//! examples/node under embassy's executor, over a mirror on a serial FRAM.
#![no_std]
#![no_main]

#[path = "../thermometer.rs"]
mod thermometer;

use core::cell::RefCell;
use defmt::{Debug2Format, info};
use defmt_rtt as _;
use embassy_executor::Spawner;
use embassy_rp::gpio::{Level, Output};
use embassy_rp::peripherals::{DMA_CH0, DMA_CH1, SPI0};
use embassy_rp::spi::{self, Async, Spi};
use embassy_rp::{bind_interrupts, dma};
use embassy_time::Delay;
use embedded_hal_bus::spi::ExclusiveDevice;
use example_node::{
    Averaged, Memory, Radioed, Report, Runtime, Sensed, Station, Uptime, WINDOW,
};
use nv_replay::Error;
use panic_probe as _;
use spi_fram::{AsyncSpiFram, Part};
use static_cell::StaticCell;
use thermometer::Thermometer;

/// The chip on the bus: 32 KiB or more.
const PART: Part = Part::MB85RS256B;
type Fram = AsyncSpiFram<ExclusiveDevice<Spi<'static, SPI0, Async>, Output<'static>, Delay>>;

static MEMORY: Memory<Fram> = Memory::new();
static BOARD: StaticCell<Board> = StaticCell::new();

bind_interrupts!(struct Interrupts {
    DMA_IRQ_0 => dma::InterruptHandler<DMA_CH0>, dma::InterruptHandler<DMA_CH1>;
});

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let p = embassy_rp::init(Default::default());
    let mut config = spi::Config::default();
    config.frequency = 20_000_000;
    let bus = Spi::new(
        p.SPI0, p.PIN_18, p.PIN_19, p.PIN_16, p.DMA_CH0, p.DMA_CH1, Interrupts, config,
    );
    let select = Output::new(p.PIN_17, Level::High);
    let device = defmt::unwrap!(ExclusiveDevice::new(bus, select, Delay));
    let mut fram = AsyncSpiFram::new(device, PART);
    if let Err(e) = fram.init(&mut Delay).await {
        defmt::panic!("{}", Debug2Format(&e));
    }
    let thermometer = Thermometer::new(p.ADC, p.ADC_TEMP_SENSOR);
    let board = BOARD.init(Board(RefCell::new(thermometer)));
    let range = 0..const { Memory::<Fram>::RANGE };
    let booted = match MEMORY.boot(fram, range, board).await {
        Ok(booted) => booted,
        Err(e) => defmt::panic!("{}", Debug2Format(&e)),
    };
    spawner.spawn(defmt::unwrap!(sensor(booted.sensor)));
    spawner.spawn(defmt::unwrap!(average(booted.average)));
    spawner.spawn(defmt::unwrap!(radio(booted.radio)));
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
    defmt::error!("{} has stopped: {}", task, Debug2Format(&why));
}

/// The chip's thermometer, and the debug probe as the radio.
struct Board(RefCell<Thermometer>);

impl Station for Board {
    type Clock = Uptime;
    /// A second.
    const PERIOD: u64 = 1_000;

    fn clock(&self) -> Uptime {
        Uptime
    }

    /// In tenths of a degree Celsius.
    async fn measure(&self, _n: u32) -> i16 {
        self.0.borrow_mut().read()
    }

    async fn send(&self, number: u32, report: Report) {
        let Report {
            sum,
            lowest,
            highest,
            ..
        } = report;
        info!("report {}: sum {}, {} to {}", number, sum, lowest, highest);
    }
}
