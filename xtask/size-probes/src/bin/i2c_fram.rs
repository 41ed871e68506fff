//! A counter in a FRAM behind I2C: what the driver takes, without that of the bus.
#![cfg_attr(target_os = "none", no_std, no_main)]

use core::convert::Infallible;
use core::hint::black_box;
use embedded_hal::i2c::{ErrorType, I2c, Operation};

/// A bus that the optimizer knows nothing about.
#[cfg_attr(not(target_os = "none"), expect(dead_code))]
struct Bus;

impl ErrorType for Bus {
    type Error = Infallible;
}

impl I2c for Bus {
    fn transaction(
        &mut self,
        device: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), Infallible> {
        black_box((device, operations));
        Ok(())
    }
}

size_probes::probe!({
    let mut fram = i2c_fram::I2cFram::new(Bus, i2c_fram::Part::MB85RC256V);
    let mut boots = [0; 4];
    if fram.init().is_ok() && fram.read(0, &mut boots).is_ok() {
        let n = u32::from_le_bytes(boots).wrapping_add(1);
        black_box(fram.write(0, &n.to_le_bytes()).is_ok());
    }
});
