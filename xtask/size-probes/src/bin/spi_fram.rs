//! A counter in a serial FRAM: what the driver takes, without that of the bus.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::convert::Infallible;
use core::hint::black_box;
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};

/// A bus that the optimizer knows nothing about.
#[cfg_attr(not(target_os = "none"), expect(dead_code))]
struct Bus;

impl ErrorType for Bus {
    type Error = Infallible;
}

impl SpiDevice for Bus {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        black_box(operations);
        Ok(())
    }
}

impl DelayNs for Bus {
    fn delay_ns(&mut self, ns: u32) {
        black_box(ns);
    }
}

size_probes::probe!({
    let mut fram = spi_fram::SpiFram::new(Bus, spi_fram::Part::MB85RS4MT);
    let mut boots = [0; 4];
    if fram.init(&mut Bus).is_ok() && fram.read(0, &mut boots).is_ok() {
        let n = u32::from_le_bytes(boots).wrapping_add(1);
        black_box(fram.write(0, &n.to_le_bytes()).is_ok());
    }
});
