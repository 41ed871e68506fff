//! A program that continues after a reset, on a Netduino Plus 2 (STM32F405): `nv-replay` in RAM
//! that start-up leaves alone.
//!
//! Each step counts, and sends the count to the serial port after its commit. After a reset the
//! program goes on in the step in which it was: no count is left out, none is counted twice. A
//! count may be sent again if the reset came before `nv-replay` marked it as sent.
//!
//! This RAM loses its content with the power. A product has FRAM there, or a battery.
#![no_std]
#![no_main]

use core::convert::Infallible;
use core::fmt::Write;
use cortex_m_rt::entry;
use nv_replay::nvmem::{InOrder32, Persist, Region};
use nv_replay::{Error, Message, NotNow, Options, Outlet, Port, Replay};
use panic_halt as _;
use stm32f4xx_hal::{pac, prelude::*, serial::Tx};

/// What the program keeps.
#[derive(Persist)]
#[repr(C)]
struct Work {
    count: u32,
}

/// Each new count.
static COUNTS: Port<u32> = Port::new(1);

unsafe extern "C" {
    static mut __nvm_start: u8;
    static mut __nvm_end: u8;
}

#[entry]
fn main() -> ! {
    let Some(p) = pac::Peripherals::take() else {
        panic!("main runs once")
    };
    let mut rcc = p.RCC.constrain();
    let pins = p.GPIOA.split(&mut rcc);
    let Ok(tx) = p.USART1.tx(pins.pa9, 115_200.bps(), &mut rcc) else {
        panic!("the clock is too slow for this baud rate")
    };
    let mut serial = Serial(tx);
    serial.line(format_args!("\r\nboot;"));

    // SAFETY: the memory between the symbols of memory.x is RAM that nothing else uses, and main
    // runs once. A core without a cache stores in order.
    let kept = unsafe { Region::<InOrder32>::from_raw(&raw mut __nvm_start, &raw mut __nvm_end) };
    let Ok(kept) = kept else {
        panic!("memory.x aligns it to 8")
    };
    let options = Options {
        outlet: Some(&mut serial),
        ..Options::default()
    };
    match Replay::open(kept, options, |_| Ok(Work { count: 0 })) {
        Ok(mut rt) => {
            let Err(e) = program(&mut rt);
            panic!("the program has stopped: {e}")
        }
        Err(e) => panic!("the memory cannot be opened: {e}"),
    }
}

fn program(rt: &mut Replay<'_, Work>) -> Result<Infallible, Error> {
    rt.forever(|rt, _| {
        rt.step((), |tx, work, ()| {
            let mut work = work.fields(tx);
            *work.count.get_mut()? += 1;
            tx.send(&COUNTS, *work.count.get())
        })?;
        Ok(())
    })
}

/// The serial port, as the program's way to the outside.
struct Serial(Tx<pac::USART1>);

impl Serial {
    /// Returns when the line has left.
    fn line(&mut self, text: core::fmt::Arguments<'_>) {
        // The serial port reports no errors.
        let _ = self.0.write_fmt(format_args!("{text}\r\n"));
        let _ = self.0.flush();
    }
}

impl Outlet for Serial {
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        if let Some(Ok(count)) = message.get(&COUNTS) {
            self.line(format_args!("count {count};"));
        }
        Ok(())
    }
}
