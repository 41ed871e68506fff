//! A node of three async tasks that continue after power cuts, on an nRF52840: the tasks of
//! examples/node under embassy's executor, over a mirror in the internal flash.
//!
//! Each boot that measures erases two pages. So this suits a node that runs long between two power
//! cuts; one that boots for each value wants FRAM.
#![no_std]
#![no_main]

#[path = "../nvm.rs"]
mod nvm;

use core::cell::RefCell;
use defmt::{Debug2Format, info};
use defmt_rtt as _;
use embassy_embedded_hal::adapter::BlockingAsync;
use embassy_executor::Spawner;
use embassy_nrf::nvmc::Nvmc;
use embassy_nrf::{bind_interrupts, temp};
use example_node::{
    Averaged, Memory, Radioed, Report, Runtime, Sensed, Station, Uptime, WINDOW,
};
use nv_replay::Error;
use nvmem::adapter::FromNor;
use panic_probe as _;
use static_cell::StaticCell;

/// The internal flash. The core stands still while it works, so no task needs to wait for it.
type Flash = FromNor<BlockingAsync<Nvmc<'static>>>;

static MEMORY: Memory<Flash> = Memory::new();
static BOARD: StaticCell<Board> = StaticCell::new();

bind_interrupts!(struct Interrupts {
    TEMP => temp::InterruptHandler;
});

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let p = embassy_nrf::init(Default::default());
    let flash = FromNor::new(BlockingAsync::new(Nvmc::new(p.NVMC)));
    let board = BOARD.init(Board(RefCell::new(temp::Temp::new(p.TEMP, Interrupts))));
    let region = nvm::node();
    let range = region.start..region.start + const { Memory::<Flash>::RANGE };
    defmt::assert!(range.end <= region.end, "NODE in memory.x is too small");
    let booted = match MEMORY.boot(flash, range, board).await {
        Ok(booted) => booted,
        Err(e) => defmt::panic!("{}", Debug2Format(&e)),
    };
    spawner.spawn(defmt::unwrap!(sensor(booted.sensor)));
    spawner.spawn(defmt::unwrap!(average(booted.average)));
    spawner.spawn(defmt::unwrap!(radio(booted.radio)));
}

#[embassy_executor::task]
async fn sensor(mut rt: Runtime<Sensed, Board, Flash>) {
    stopped("sensor", example_node::sensor(&mut rt, u32::MAX).await);
}

#[embassy_executor::task]
async fn average(mut rt: Runtime<Averaged, Board, Flash>) {
    let windows = u32::MAX / WINDOW;
    stopped("average", example_node::average(&mut rt, windows).await);
}

#[embassy_executor::task]
async fn radio(mut rt: Runtime<Radioed, Board, Flash>) {
    let windows = u32::MAX / WINDOW;
    stopped("radio", example_node::radio(&mut rt, windows).await);
}

/// A task has come to its end, or failed.
fn stopped(task: &str, why: Result<(), Error>) {
    defmt::error!("{} has stopped: {}", task, Debug2Format(&why));
}

/// The chip's thermometer, and the debug probe as the radio.
struct Board(RefCell<temp::Temp<'static>>);

impl Station for Board {
    type Clock = Uptime;
    /// A second.
    const PERIOD: u64 = 1_000;

    fn clock(&self) -> Uptime {
        Uptime
    }

    /// In quarters of a degree Celsius.
    #[allow(clippy::await_holding_refcell_ref)] // Only the sensor's task measures.
    async fn measure(&self, _n: u32) -> i16 {
        self.0.borrow_mut().read().await.to_bits() as i16
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
