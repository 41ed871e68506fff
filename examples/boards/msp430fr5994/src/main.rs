//! Two threads of `nv-rtos` on an MSP430FR5994: one samples, the other one filters and reports.
//!
//! ```text
//!  sampler  a reading each 2 ticks ----> READINGS ----> filter  a moving mean, to the serial port
//! ```
//!
//! A reading is sent, and the mean has changed, if and only if the step has committed. So after a
//! power cut no reading is left out and none counts twice. A line may be printed again, if the cut
//! came before the next step had committed.
#![no_std]
#![no_main]

mod serial;

// Its critical section.
use msp430 as _;
use nv_rtos::msp430fr5994::{Board, Fram, Msp430, Stack, stop};
use nv_rtos::{Error, Thread};

nv_rtos::system! {
    /// The threads and what they share.
    Plan on Fram;
    table { bytes: 32, outbox_bytes: 0, seq_bits: 8 }
    objects {
        READINGS: Queue<[u16; 2], 4>;
        PAUSE: Semaphore = (0, 1);
    }
    threads {
        sampler([u16; 2] = [0; 2]): 2;
        filter([u16; 2] = [0; 2]): 1;
    }
}

nv_rtos::msp430fr5994::entry!(main);

/// A tick each 10 ms, of a clock of 1 MHz.
const TICK: u32 = 10_000;

fn main(board: Board) {
    serial::begin();
    serial::text("\r\nboot;\r\n");
    let Ok((kernel, mut threads)) = Plan::open(board.fram) else {
        serial::text("stopped: the memory cannot be opened;\r\n");
        return;
    };
    let Ok((places, _)) = threads.share() else {
        return;
    };
    let mut stacks = [const { Stack::<1024>::NEW }; 2];
    let mut port = Msp430::new(&mut stacks);
    Plan::spawn(&kernel, places, &mut port, sampler, filter);
    port.run(&kernel, Some(TICK));
    serial::text("stopped: a thread has ended;\r\n");
}

fn sampler(th: &mut Thread<Plan, [u16; 2]>) -> Result<(), Error> {
    let Err(e) = th.forever_step((), |sys, sent, _, ()| {
        // Nobody gives it: that is a pause.
        PAUSE.take_timeout(sys, 2)?;
        let [n, _] = *sent.get(sys);
        READINGS.send(sys, [n, reading(n)])?;
        sent.get_mut(sys)?[0] = n.wrapping_add(1);
        Ok(())
    });
    Err(e)
}

/// A reading. A product asks its ADC; this one is the same in each run.
fn reading(n: u16) -> u16 {
    n.wrapping_mul(7919) >> 6
}

fn filter(th: &mut Thread<Plan, [u16; 2]>) -> Result<(), Error> {
    let Err(e) = th.forever_step((), |sys, mean, _, ()| {
        // The turn before has committed.
        let [n, m] = *mean.get(sys);
        serial::text("count ");
        serial::number(n);
        serial::text(" ");
        serial::number(m);
        serial::text(";\r\n");
        let [number, value] = READINGS.receive(sys)?;
        if number != n {
            serial::text("stopped: a reading is missing;\r\n");
        }
        *mean.get_mut(sys)? = [n.wrapping_add(1), m - m / 8 + value / 8];
        Ok(())
    });
    Err(e)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    serial::text("stopped: a panic;\r\n");
    stop()
}
