//! The traits of `nvmem`: a byte device on which a cut leaves a prefix of the write. Those of
//! `embedded-storage` for memory without erase.

use crate::driver::I2cFram;
use crate::error::Error;
use embedded_hal::i2c::I2c;
use nvmem::device::{Contract, Medium, Torn};

const CONTRACT: Contract = Contract {
    name: "i2c-fram",
    read_size: 1,
    write_size: 1,
    unit: 1,
    torn: Torn::Prefix,
    erase: None,
};

impl<I2C: I2c> Medium for I2cFram<I2C> {
    type Error = Error<I2C::Error>;
    const CONTRACT: Contract = CONTRACT;

    fn capacity(&self) -> u32 {
        I2cFram::capacity(self)
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        I2cFram::read(self, at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        I2cFram::write(self, at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        check_nothing_to_erase(from, to, self.capacity()).ok_or(Error::OutOfRange)
    }
}

#[cfg(feature = "async")]
impl<I2C: embedded_hal_async::i2c::I2c> nvmem::device::AsyncMedium
    for crate::driver::AsyncI2cFram<I2C>
{
    type Error = Error<I2C::Error>;
    const CONTRACT: Contract = CONTRACT;

    fn capacity(&self) -> u32 {
        Self::capacity(self)
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        Self::read(self, at, buf).await
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        Self::write(self, at, bytes).await
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        check_nothing_to_erase(from, to, self.capacity()).ok_or(Error::OutOfRange)
    }
}

/// FRAM needs no erase: only the range is checked.
fn check_nothing_to_erase(from: u32, to: u32, capacity: u32) -> Option<()> {
    (from <= to && to <= capacity).then_some(())
}

#[cfg(feature = "embedded-storage")]
impl<I2C: I2c> embedded_storage::ReadStorage for I2cFram<I2C> {
    type Error = Error<I2C::Error>;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        I2cFram::read(self, offset, bytes)
    }

    /// Saturates on targets with 16-bit pointers.
    fn capacity(&self) -> usize {
        usize::try_from(I2cFram::capacity(self)).unwrap_or(usize::MAX)
    }
}

/// A write only writes: no read or erase of other bytes. **Power loss**: a prefix is stored.
#[cfg(feature = "embedded-storage")]
impl<I2C: I2c> embedded_storage::Storage for I2cFram<I2C> {
    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        I2cFram::write(self, offset, bytes)
    }
}
