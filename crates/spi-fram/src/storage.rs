//! The traits of `embedded-storage` for memory without erase.

use crate::driver::SpiFram;
use crate::error::Error;
use embedded_hal::spi::SpiDevice;
use embedded_storage::{ReadStorage, Storage};

impl<SPI: SpiDevice> ReadStorage for SpiFram<SPI> {
    type Error = Error<SPI::Error>;

    fn read(&mut self, offset: u32, bytes: &mut [u8]) -> Result<(), Self::Error> {
        SpiFram::read(self, offset, bytes)
    }

    /// Saturates on targets with 16-bit pointers.
    fn capacity(&self) -> usize {
        usize::try_from(SpiFram::capacity(self)).unwrap_or(usize::MAX)
    }
}

/// A write only writes: no read or erase of other bytes. **Power loss**: a prefix is stored.
impl<SPI: SpiDevice> Storage for SpiFram<SPI> {
    fn write(&mut self, offset: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        SpiFram::write(self, offset, bytes)
    }
}
