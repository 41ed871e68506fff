//! The smallest useful program: a super-loop that goes on where the power left off.
#![no_std]

use core::convert::Infallible;
use nv_replay::{Error, Port, Replay};
use nvmem::Persist;

/// What the device keeps.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Log {
    readings: u32,
    last: [i16; 24],
}

/// Where the number of readings is sent after each.
pub static RADIO: Port<u32> = Port::new(1);

/// Runs until the power goes, and after that, run again from here, goes on.
pub fn program(rt: &mut Replay<'_, Log>) -> Result<Infallible, Error> {
    rt.forever(|rt, hour| {
        let celsius = rt.record_with(thermometer)?; // an input: read once, and pinned
        rt.step((hour, celsius), |tx, log, (hour, celsius)| {
            let mut log = log.fields(tx); // a step: all of it happens, once, or nothing
            *log.last.at_mut(hour as usize % 24)? = celsius;
            *log.readings.get_mut()? += 1;
            tx.send(&RADIO, *log.readings.get()) // an output: leaves after the commit
        })?;
        Ok(())
    })
}

fn thermometer() -> i16 {
    21 // what your converter says
}
