//! The smallest useful program: a super-loop that continues where power left off.
#![no_std]

use core::convert::Infallible;
use embedded_hal::i2c::I2c;
use nv_replay::{Error, Message, NotNow, Outlet, Port, Replay};
use nvmem::{InOrder32, Persist};

/// The device's persistent data.
#[derive(Persist, Default)]
#[repr(C)]
pub struct Log {
    readings: u32,
    last: [i16; 24],
}

/// The port to which the number of readings is sent after each reading.
pub static RADIO: Port<u32> = Port::new(1);

/// The device's drivers. They are volatile: each boot sets them up again.
pub struct Board<I, O> {
    /// The bus with the thermometer.
    pub i2c: I,
    /// The radio.
    pub radio: O,
}

impl<I, O: Outlet> Outlet for Board<I, O> {
    fn send(&mut self, message: &Message<'_>) -> Result<(), NotNow> {
        self.radio.send(message)
    }
}

/// Runs until power fails. Called again after power-up, it continues.
pub fn program<I: I2c, O: Outlet>(
    rt: &mut Replay<'_, Log, InOrder32, Board<I, O>>,
) -> Result<Infallible, Error> {
    rt.forever(|rt, hour| {
        let celsius = rt.input(|board| thermometer(&mut board.i2c))?; // read once, recorded
        rt.step((hour, celsius), |tx, log, (hour, celsius)| {
            let mut log = log.fields(tx); // a step: happens once, all or nothing
            *log.last.at_mut(hour as usize % 24)? = celsius;
            *log.readings.get_mut()? += 1;
            tx.send(&RADIO, *log.readings.get()) // a message: sent after the commit
        })?;
        Ok(())
    })
}

/// Reads an LM75, and again until it answers.
fn thermometer<I: I2c>(i2c: &mut I) -> i16 {
    let mut raw = [0; 2];
    while i2c.write_read(0x48, &[0], &mut raw).is_err() {}
    i16::from_be_bytes(raw) >> 8
}
