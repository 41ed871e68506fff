//! An async task that continues after a reset, on a Netduino Plus 2 (STM32F405): `nv-replay` under
//! embassy's executor, in RAM that start-up leaves alone.
//!
//! Each iteration sleeps, counts in a step, and sends the count to the serial port. After a reset
//! the task waits, or goes on, where it was: no count is left out, none is counted twice. A count
//! may be sent again if the reset came before `nv-replay` marked it as sent.
#![no_std]
#![no_main]

#[path = "../systick.rs"]
mod systick;

use core::convert::Infallible;
use core::fmt::Write;
use embassy_executor::Spawner;
use embassy_futures::yield_now;
use example_node::Uptime;
use nv_replay::nvmem::{InOrder32, Persist, Region};
use nv_replay::{Error, Message, NotNow, Options, Outlet, Port, Replay};
use panic_halt as _;
use stm32f4xx_hal::{pac, prelude::*, serial::Tx};

/// What the task keeps.
#[derive(Persist)]
#[repr(C)]
struct Work {
    count: u32,
}

/// Each new count.
static COUNTS: Port<u32> = Port::new(1);
type Runtime<'m> = Replay<'m, Work, InOrder32, Serial>;

unsafe extern "C" {
    static mut __nvm_start: u8;
    static mut __nvm_end: u8;
}

#[embassy_executor::main]
async fn main(_spawner: Spawner) {
    let (Some(p), Some(core)) = (pac::Peripherals::take(), cortex_m::Peripherals::take()) else {
        panic!("main runs once")
    };
    let mut rcc = p.RCC.constrain();
    let pins = p.GPIOA.split(&mut rcc);
    let Ok(tx) = p.USART1.tx(pins.pa9, 115_200.bps(), &mut rcc) else {
        panic!("the clock is too slow for this baud rate")
    };
    systick::tick_every_ms(core.SYST, rcc.clocks.sysclk().raw());
    let mut serial = Serial(tx);
    serial.line(format_args!("\r\nboot;"));

    // SAFETY: the memory between the symbols of memory.x is RAM that nothing else uses, and main
    // runs once. A core without a cache stores in order.
    let kept = unsafe { Region::<InOrder32>::from_raw(&raw mut __nvm_start, &raw mut __nvm_end) };
    let Ok(kept) = kept else {
        panic!("memory.x aligns it to 8")
    };
    match Replay::open_with(kept, Options::default(), serial, |_| Ok(Work { count: 0 })) {
        Ok(mut rt) => {
            let Err(e) = task(&mut rt).await;
            panic!("the task has stopped: {e}")
        }
        Err(e) => panic!("the memory cannot be opened: {e}"),
    }
}

async fn task(rt: &mut Runtime<'_>) -> Result<Infallible, Error> {
    // What waits since before the reset.
    send(rt).await;
    rt.forever_async(async |rt, _| {
        rt.sleep(Uptime, 3).await?;
        rt.step((), |tx, work, ()| {
            let mut work = work.fields(tx);
            *work.count.get_mut()? += 1;
            tx.send(&COUNTS, *work.count.get())
        })?;
        send(rt).await;
        Ok(())
    })
    .await
}

async fn send(rt: &mut Runtime<'_>) {
    // The serial port takes each line.
    let _ = rt
        .drain_async(async |serial, message| serial.send(message).await)
        .await;
}

/// The serial port, as the task's way to the outside.
struct Serial(Tx<pac::USART1>);

impl Serial {
    /// Returns when the line has left.
    fn line(&mut self, text: core::fmt::Arguments<'_>) {
        // The serial port reports no errors.
        let _ = self.0.write_fmt(format_args!("{text}\r\n"));
        let _ = self.0.flush();
    }

    async fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        // Other tasks run before a line, which keeps the core busy.
        yield_now().await;
        if let Some(Ok(count)) = message.get(&COUNTS) {
            self.line(format_args!("count {count};"));
        }
        Ok(())
    }
}

/// Leaves all messages to `drain_async`.
impl Outlet for Serial {
    fn send(&mut self, _: &Message<'_>) -> Result<(), NotNow> {
        Err(NotNow)
    }
}
