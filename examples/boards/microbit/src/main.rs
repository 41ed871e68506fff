//! A counter that no reset sets back, on a micro:bit v1 (nRF51822): `nvmem`'s `Record` in the
//! internal flash.
//!
//! It counts as fast as the flash can be written, which wears the flash out in hours: this program
//! is to be tried in QEMU, where flash does not wear.
#![no_std]
#![no_main]

mod flash;
mod nvm;
mod serial;

use core::fmt::Write;
use cortex_m_rt::entry;
use flash::Flash;
use nvmem::Record;
use nvmem::adapter::FromNor;
use panic_halt as _;
use serial::Serial;

#[entry]
fn main() -> ! {
    embassy_nrf::init(Default::default());
    let mut serial = Serial::new();
    // The serial port reports no errors.
    let _ = write!(serial, "\r\nboot;\r\n");

    let mut flash = Flash::new();
    flash.erase_unprogrammed(nvm::range());
    match Record::open(FromNor::new(flash), nvm::range(), 0u32) {
        Ok(mut count) => loop {
            let _ = write!(serial, "count {};\r\n", count.get());
            if let Err(e) = count.set(count.get() + 1) {
                stop(serial, e)
            }
        },
        Err(e) => stop(serial, e),
    }
}

fn stop(mut serial: Serial, e: impl core::fmt::Display) -> ! {
    let _ = write!(serial, "stopped: {e};\r\n");
    panic!()
}
