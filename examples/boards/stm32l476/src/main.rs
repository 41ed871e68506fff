//! A long computation that continues after a power cut, on an STM32L476: `checkpoint` in the
//! internal flash.
//!
//! It counts the ways to put 14 queens on a board, by plain recursion. Every few seconds it saves
//! its memory, wherever the recursion is. After a cut it goes on from there.
//!
//! A restore brings back the drivers' memory, not the registers of the peripherals. So each boot
//! sets up clock and serial port in the same way *before* it restores.
#![no_std]
#![no_main]

mod nvm;

use checkpoint::{Checkpointer, Error, Images, Outcome, Slots, Split};
use core::fmt::Write;
use core::mem::MaybeUninit;
use cortex_m::peripheral::SCB;
use cortex_m_rt::{entry, exception};
use embassy_stm32::flash::{Blocking, Flash};
use embassy_stm32::mode;
use embassy_stm32::usart::UartTx;
use nvmem::adapter::FromNor;
use panic_halt as _;

type Store = Slots<FromNor<Flash<'static, Blocking>>, Split, 3>;

/// Outside of all segments: `.uninit` of cortex-m-rt.
#[unsafe(link_section = ".uninit.checkpointer")]
static mut CHECKPOINTER: MaybeUninit<Checkpointer<Store>> = MaybeUninit::uninit();

/// Another one for each build whose memory differs: a checkpoint of another build is refused.
const BUILD: u64 = 1;
const QUEENS: u32 = 14;
/// Boards between two checkpoints: some seconds at 4 MHz. Three slots whose pages are good for
/// 10,000 erases last for 30,000 checkpoints.
const PERIOD: u32 = 250_000;

#[entry]
fn main() -> ! {
    let p = embassy_stm32::init(Default::default());
    let Ok(tx) = UartTx::new_blocking(p.USART2, p.PA2, Default::default()) else {
        panic!("the default baud rate is possible")
    };
    let mut serial = Serial(tx);
    let flash = FromNor::new(Flash::new_blocking(p.FLASH));
    let images = match Images::<_, 3>::open(flash, nvm::range(), BUILD) {
        Ok(images) => images,
        Err(e) => stop(&mut serial, e),
    };
    // SAFETY: the symbols of cortex-m-rt and of memory.x; this is the only stack.
    let segments = unsafe {
        checkpoint::segments!(statics: __sdata..__ebss, heap: __sheap.._heap_end, stack: _stack_end.._stack_start)
    };
    // SAFETY: main runs once.
    let place = unsafe { &mut *(&raw mut CHECKPOINTER) };
    let ck = Checkpointer::init(place, Slots::new(images, Split), segments, SCB::sys_reset);

    // SAFETY: no interrupt is enabled that uses the segments, and `BUILD` is this build's number.
    match unsafe { ck.restore() } {
        Error::NoImage => line(&mut serial, format_args!("a new search")),
        e => stop(&mut serial, e),
    }
    let mut search = Search {
        ck,
        serial,
        boards: 0,
        solutions: 0,
    };
    search.place(0, 0, 0);
    let found = search.solutions;
    line(
        &mut search.serial,
        format_args!("{QUEENS} queens: {found} solutions"),
    );
    loop {
        cortex_m::asm::wfi();
    }
}

struct Search {
    ck: &'static mut Checkpointer<Store>,
    serial: Serial,
    boards: u32,
    solutions: u32,
}

impl Search {
    /// Puts a queen on each free square of the next row. The bits are the columns that the queens
    /// so far attack: straight, and by the two diagonals.
    fn place(&mut self, columns: u32, left: u32, right: u32) {
        const ALL: u32 = (1 << QUEENS) - 1;
        if columns == ALL {
            self.solutions += 1;
            return;
        }
        self.boards += 1;
        if self.boards.is_multiple_of(PERIOD) {
            self.checkpoint();
        }
        let mut free = ALL & !(columns | left | right);
        while free != 0 {
            let queen = free & free.wrapping_neg();
            free ^= queen;
            self.place(columns | queen, (left | queen) << 1, (right | queen) >> 1);
        }
    }

    #[inline(never)]
    fn checkpoint(&mut self) {
        // SAFETY: no DMA and no interrupt that writes to the segments; clock and serial port were
        // set up before the restore.
        let outcome = unsafe { self.ck.checkpoint() };
        let how = match outcome {
            Ok(Outcome::Taken) => "saved",
            Ok(Outcome::Restored(_)) => "restored",
            Err(e) => stop(&mut self.serial, e),
        };
        let (boards, solutions) = (self.boards, self.solutions);
        line(
            &mut self.serial,
            format_args!("{how}: {boards} boards, {solutions} solutions"),
        );
    }
}

struct Serial(UartTx<'static, mode::Blocking>);

impl Write for Serial {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        self.0
            .blocking_write(s.as_bytes())
            .map_err(|_| core::fmt::Error)
    }
}

fn line(serial: &mut Serial, text: core::fmt::Arguments<'_>) {
    // The serial port reports no errors.
    let _ = write!(serial, "{text}\r\n");
    let _ = serial.0.blocking_flush();
}

fn stop(serial: &mut Serial, e: impl core::fmt::Display) -> ! {
    line(serial, format_args!("stopped: {e}"));
    panic!()
}

/// A word of flash whose programming was cut may have more wrong bits than its check bits can
/// correct. Reading it raises this exception. The word is read as it is: `checkpoint` expects any
/// value there.
#[exception]
unsafe fn NonMaskableInt() {
    let register = embassy_stm32::pac::FLASH.eccr();
    if !register.read().eccd() {
        panic!("an exception that is not the flash's")
    }
    // Cleared by writing a one.
    register.modify(|w| w.set_eccd(true));
}
