//! The serial port of the nRF51, for which embassy-nrf has no driver: transmit only, 115,200 baud,
//! on the pin that leads to the micro:bit's USB chip.

use embassy_nrf::pac::{self, uart::vals};

/// P0.24.
const TX: u32 = 24;

pub struct Serial(pac::uart::Uart);

impl Serial {
    pub fn new() -> Self {
        let uart = pac::UART0;
        uart.pseltxd().write_value(TX);
        uart.baudrate()
            .write(|w| w.set_baudrate(vals::Baudrate::Baud115200));
        uart.enable().write(|w| w.set_enable(vals::Enable::Enabled));
        uart.tasks_starttx().write_value(1);
        Serial(uart)
    }
}

impl core::fmt::Write for Serial {
    fn write_str(&mut self, s: &str) -> core::fmt::Result {
        for byte in s.bytes() {
            self.0.events_txdrdy().write_value(0);
            self.0.txd().write(|w| w.set_txd(byte));
            while self.0.events_txdrdy().read() == 0 {}
        }
        Ok(())
    }
}
