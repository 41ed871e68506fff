//! The traits of `nvmem`: a byte device on which a cut leaves a prefix of the write.

use crate::driver::SpiFram;
use crate::error::Error;
use embedded_hal::spi::SpiDevice;
use nvmem::device::{Contract, Medium, Torn, check_range};

const CONTRACT: Contract = Contract {
    name: "spi-fram",
    read_size: 1,
    write_size: 1,
    unit: 1,
    torn: Torn::Prefix,
    erase: None,
};

/// FRAM needs no erase: only the range is checked.
fn check_erase_range<E>(from: u32, to: u32, capacity: u32) -> Result<(), Error<E>> {
    let len = to.checked_sub(from).ok_or(Error::OutOfRange)?;
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    check_range(from, len, 1, capacity).map_err(|_| Error::OutOfRange)
}

impl<SPI: SpiDevice> Medium for SpiFram<SPI> {
    type Error = Error<SPI::Error>;
    const CONTRACT: Contract = CONTRACT;

    fn capacity(&self) -> u32 {
        SpiFram::capacity(self)
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        SpiFram::read(self, at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        SpiFram::write(self, at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        check_erase_range(from, to, self.capacity())
    }
}

#[cfg(feature = "async")]
impl<SPI: embedded_hal_async::spi::SpiDevice> nvmem::device::AsyncMedium
    for crate::driver::AsyncSpiFram<SPI>
{
    type Error = Error<SPI::Error>;
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
        check_erase_range(from, to, self.capacity())
    }
}
