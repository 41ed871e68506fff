//! An async bus with the chip on it, and a medium of any size.

use embedded_hal::i2c::{ErrorType, Operation};
use i2c_fram::sim::{Chip, Fault};
use nvmem::device::{Contract, Medium, Misuse};
use std::cell::RefCell;

/// Yields to the executor once for each byte. A transaction that is dropped ends with a stop.
pub struct Slow<'c, M>(pub &'c RefCell<Chip<M>>);

impl<M> ErrorType for Slow<'_, M> {
    type Error = Fault;
}

struct Stop<'c, M: Medium>(&'c RefCell<Chip<M>>);

impl<M: Medium> Drop for Stop<'_, M> {
    fn drop(&mut self) {
        self.0.borrow_mut().stop();
    }
}

impl<M: Medium> Slow<'_, M> {
    async fn send(&self, byte: u8) -> Result<(), Fault> {
        embassy_futures::yield_now().await;
        let mut chip = self.0.borrow_mut();
        match chip.receive(byte) {
            true => Ok(()),
            false if chip.powered() => Err(Fault::NoAcknowledge),
            false => Err(Fault::PowerOff),
        }
    }
}

impl<M: Medium> embedded_hal_async::i2c::I2c for Slow<'_, M> {
    async fn transaction(
        &mut self,
        device: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), Fault> {
        let _stop = Stop(self.0);
        let mut last = None;
        for op in operations {
            let read = matches!(op, Operation::Read(_));
            if last.replace(read) != Some(read) {
                self.0.borrow_mut().start();
                self.send(device << 1 | u8::from(read)).await?;
            }
            match op {
                Operation::Write(bytes) => {
                    for b in bytes.iter() {
                        self.send(*b).await?;
                    }
                }
                Operation::Read(bytes) => {
                    for b in bytes.iter_mut() {
                        embassy_futures::yield_now().await;
                        let mut chip = self.0.borrow_mut();
                        *b = chip.send();
                        if !chip.powered() {
                            return Err(Fault::PowerOff);
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Cells of any number.
pub struct Cells(pub Vec<u8>);

impl Medium for Cells {
    type Error = Misuse;
    const CONTRACT: Contract = nvmem::ram::RamFram::<1>::CONTRACT;
    fn capacity(&self) -> u32 {
        self.0.len() as u32
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Misuse> {
        buf.copy_from_slice(&self.0[at as usize..][..buf.len()]);
        Ok(())
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Misuse> {
        self.0[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
    fn erase(&mut self, _: u32, _: u32) -> Result<(), Misuse> {
        Ok(())
    }
}
