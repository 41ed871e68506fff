//! The smallest useful program: a super-loop that continues where power left off.
#![no_std]

use core::convert::Infallible;
use nv_replay::{Error, Port, Replay};
use nvmem::Persist;

/// The device's persistent data.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Log {
    readings: u32,
    last: [i16; 24],
}

/// The port to which the number of readings is sent after each reading.
pub static RADIO: Port<u32> = Port::new(1);

/// Runs until power fails. Called again after power-up, it continues.
pub fn program(rt: &mut Replay<'_, Log>) -> Result<Infallible, Error> {
    rt.forever(|rt, hour| {
        let celsius = rt.record_with(thermometer)?; // an input: read once, recorded
        rt.step((hour, celsius), |tx, log, (hour, celsius)| {
            let mut log = log.fields(tx); // a step: happens once, all or nothing
            *log.last.at_mut(hour as usize % 24)? = celsius;
            *log.readings.get_mut()? += 1;
            tx.send(&RADIO, *log.readings.get()) // a message: sent after the commit
        })?;
        Ok(())
    })
}

fn thermometer() -> i16 {
    21 // your converter's value
}
