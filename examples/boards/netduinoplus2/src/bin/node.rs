//! A node of three async tasks that continue after a reset, on a Netduino Plus 2 (STM32F405): the
//! tasks of examples/node under embassy's executor, over a mirror on a flash.
//!
//! The flash is a model in RAM that start-up leaves alone, because QEMU has none for this chip. It
//! programs a word in two halves and erases a page in pieces, and lets the other tasks run between
//! them. So a reset leaves half-programmed words and half-erased pages.
//!
//! Each report goes to the serial port: `count`, which report, the sum of its readings, the lowest
//! and the highest one. Resets before a report do not change it.
#![no_std]
#![no_main]

#[path = "../flash.rs"]
mod flash;
#[path = "../systick.rs"]
mod systick;

use core::cell::RefCell;
use core::fmt::Write;
use core::mem::MaybeUninit;
use embassy_executor::Spawner;
use embassy_futures::yield_now;
use example_node::{
    Averaged, Booted, Memory, Radioed, Report, Runtime, Sensed, Station, Uptime, WINDOW,
};
use flash::{BYTES, Flash, Pages};
use nv_replay::Error;
use panic_halt as _;
use static_cell::StaticCell;
use stm32f4xx_hal::{pac, prelude::*, serial::Tx};

/// The pages of the flash. Start-up neither clears nor fills them.
#[unsafe(link_section = ".uninit.FLASH")]
static mut PAGES: MaybeUninit<Pages> = MaybeUninit::uninit();

static MEMORY: Memory<Flash> = Memory::new();
static BOARD: StaticCell<Board> = StaticCell::new();

#[embassy_executor::main]
async fn main(spawner: Spawner) {
    let (Some(p), Some(core)) = (pac::Peripherals::take(), cortex_m::Peripherals::take()) else {
        panic!("main runs once")
    };
    let mut rcc = p.RCC.constrain();
    let pins = p.GPIOA.split(&mut rcc);
    let Ok(tx) = p.USART1.tx(pins.pa9, 115_200.bps(), &mut rcc) else {
        panic!("the clock is too slow for this baud rate")
    };
    systick::tick_every_ms(core.SYST, rcc.clocks.sysclk().raw());
    let board = BOARD.init(Board(RefCell::new(tx)));
    board.line(format_args!("\r\nboot;"));

    let pages = &raw mut PAGES;
    // SAFETY: main runs once and nothing else uses the pages. Any bytes are pages.
    let pages = unsafe { (*pages).assume_init_mut() };
    let booted = MEMORY.boot(Flash::new(pages), 0..BYTES, board).await;
    let spawned = booted.map(|tasks: Tasks| {
        spawner.spawn(sensor(board, tasks.sensor)?);
        spawner.spawn(average(board, tasks.average)?);
        spawner.spawn(radio(board, tasks.radio)?);
        Ok::<_, embassy_executor::SpawnError>(())
    });
    if !matches!(spawned, Ok(Ok(()))) {
        board.line(format_args!("stopped: {spawned:?};"));
    }
}

type Tasks = Booted<Board, Flash>;

#[embassy_executor::task]
async fn sensor(board: &'static Board, mut rt: Runtime<Sensed, Board, Flash>) {
    board.stopped(example_node::sensor(&mut rt, u32::MAX).await);
}

#[embassy_executor::task]
async fn average(board: &'static Board, mut rt: Runtime<Averaged, Board, Flash>) {
    board.stopped(example_node::average(&mut rt, u32::MAX / WINDOW).await);
}

#[embassy_executor::task]
async fn radio(board: &'static Board, mut rt: Runtime<Radioed, Board, Flash>) {
    board.stopped(example_node::radio(&mut rt, u32::MAX / WINDOW).await);
}

/// The serial port as the radio, and a sensor whose readings can be foretold.
struct Board(RefCell<Tx<pac::USART1>>);

impl Board {
    /// Returns when the line has left.
    fn line(&self, text: core::fmt::Arguments<'_>) {
        let mut serial = self.0.borrow_mut();
        // The serial port reports no errors.
        let _ = serial.write_fmt(format_args!("{text}\r\n"));
        let _ = serial.flush();
    }

    /// A task has come to its end, or failed.
    fn stopped(&self, why: Result<(), Error>) {
        self.line(format_args!("stopped: {why:?};"));
    }
}

impl Station for Board {
    type Clock = Uptime;
    const PERIOD: u64 = 1;

    fn clock(&self) -> Uptime {
        Uptime
    }

    async fn measure(&self, n: u32) -> i16 {
        yield_now().await;
        (n.wrapping_mul(2_654_435_761) >> 16) as i16
    }

    async fn send(&self, number: u32, report: Report) {
        // Other tasks run before a line, which keeps the core busy.
        yield_now().await;
        let Report {
            window,
            sum,
            lowest,
            highest,
        } = report;
        let count = number + 1;
        self.line(format_args!(
            "count {count} {window} {sum} {lowest} {highest};"
        ));
    }
}
