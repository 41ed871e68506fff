//! The driver, blocking and async from one source: a macro expands it with `.await` and without.

use crate::error::Error;
use crate::part::{DeviceId, Part};
use crate::wiring::{ID, Wiring, no_answer};
use embedded_hal::i2c::Operation;
use nvmem::planted;

macro_rules! driver {
    ($(#[$about:meta])* $Name:ident, $I2c:path, [$($fn:tt)*], [$($wait:tt)*]) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $Name<I2C> {
            i2c: I2C,
            wiring: Wiring,
        }

        impl<I2C> $Name<I2C> {
            /// Creates a driver for this part, whose address pins are low. Nothing goes on the bus.
            ///
            /// Call `init` before anything else, unless you know that the chip is the configured
            /// part.
            pub const fn new(i2c: I2C, part: Part) -> Self {
                $Name {
                    i2c,
                    wiring: Wiring::new(part),
                }
            }

            /// The levels of the address pins: bit 0 is A0, bit 2 is A2. Bits for which the part
            /// has no pin do not matter.
            pub const fn with_pins(mut self, pins: u8) -> Self {
                self.wiring.pins = pins;
                self
            }

            /// Limits the data of one transaction to this many bytes: for a bus driver with a
            /// limit, or to release a shared bus sooner. 0 counts as 1.
            ///
            /// **Power loss**: a write of several transactions still leaves a prefix. **Cost**:
            /// each transaction sends its addresses again: 2 or 3 bytes of a write, 3 or 4 of a
            /// read.
            pub const fn with_max_burst(mut self, bytes: u32) -> Self {
                self.wiring.burst = if bytes == 0 { 1 } else { bytes };
                self
            }

            /// The configured part.
            pub const fn part(&self) -> &Part {
                &self.wiring.part
            }

            /// The capacity in bytes.
            pub const fn capacity(&self) -> u32 {
                self.wiring.part.capacity()
            }

            /// Returns the bus.
            pub fn release(self) -> I2C {
                self.i2c
            }
        }

        impl<I2C: $I2c> $Name<I2C> {
            /// Checks that the chip answers, and compares its ID with the part's if that has one.
            ///
            /// **Power loss**: nothing is written. **Cost**: that of
            /// [`device_id`](Self::device_id), or of reading one byte. **Errors**:
            /// [`Error::NoAnswer`], [`Error::WrongDevice`], [`Error::Bus`].
            pub $($fn)* init(&mut self) -> Result<(), Error<I2C::Error>> {
                if self.wiring.part.identity().is_none() {
                    return self.read(0, &mut [0])$($wait)*.map_err(no_answer);
                }
                let id = self.device_id()$($wait)*.map_err(no_answer)?;
                self.wiring.check_id(&id)
            }

            /// Reads `buf.len()` bytes from address `at`.
            ///
            /// **Cost**: one transaction for each [`with_max_burst`](Self::with_max_burst) bytes, 3
            /// or 4 bytes longer than its data; none crosses a multiple of
            /// [`WordAddress::block`](crate::WordAddress::block). **Errors**:
            /// [`Error::OutOfRange`], before anything goes on the bus; [`Error::Bus`].
            pub $($fn)* read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Error<I2C::Error>> {
                self.wiring.check_inside(at, buf.len())?;
                let (mut at, mut remaining) = (at, buf);
                while !remaining.is_empty() {
                    let n = self.wiring.burst_len(at, remaining.len());
                    let (burst, later) = remaining.split_at_mut(n);
                    let to = self.wiring.target(at);
                    self.i2c.write_read(to.device, to.word(), burst)$($wait)*.map_err(Error::Bus)?;
                    (at, remaining) = (at + n as u32, later);
                }
                Ok(())
            }

            /// Writes `bytes` to address `at`. The chip stores each byte as it arrives, so there
            /// are no pages and there is no busy time.
            ///
            /// **Power loss**: a prefix of `bytes` is stored, up to the last byte that the chip
            /// acknowledged or one more; all other bytes keep their values. A dropped future and a
            /// bus error leave the same. **Cost**: one transaction for each
            /// [`with_max_burst`](Self::with_max_burst) bytes, 2 or 3 bytes longer than its data;
            /// none crosses a multiple of [`WordAddress::block`](crate::WordAddress::block).
            /// **Errors**: [`Error::OutOfRange`], before anything goes on the bus; [`Error::Bus`].
            pub $($fn)* write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Error<I2C::Error>> {
                self.wiring.check_inside(at, bytes.len())?;
                let (mut at, mut remaining) = (at, bytes);
                while !remaining.is_empty() {
                    let n = self.wiring.burst_len(at, remaining.len());
                    let (burst, later) = remaining.split_at(n);
                    let to = self.wiring.target(at);
                    // Two writes in a row are one to the chip: no start comes between them.
                    let mut both = [Operation::Write(to.word()), Operation::Write(burst)];
                    let done = self.i2c.transaction(to.device, &mut both)$($wait)*;
                    if !planted!("i2c-fram/bus-error-lost") {
                        done.map_err(Error::Bus)?;
                    }
                    if !planted!("i2c-fram/burst-address-stays") {
                        at += n as u32;
                    }
                    remaining = later;
                }
                Ok(())
            }

            /// Reads the device ID.
            ///
            /// **Cost**: a transaction of 6 bytes. The first one goes to the reserved address 7Ch.
            /// **Errors**: [`Error::Unsupported`] for a part without one; [`Error::Bus`].
            pub $($fn)* device_id(&mut self) -> Result<DeviceId, Error<I2C::Error>> {
                if self.wiring.part.identity().is_none() {
                    return Err(Error::Unsupported);
                }
                let mut id = DeviceId([0; 3]);
                let device = [self.wiring.device() << 1];
                self.i2c.write_read(ID, &device, &mut id.0)$($wait)*.map_err(Error::Bus)?;
                Ok(id)
            }
        }
    };
}

driver! {
    /// The blocking driver. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::Medium`], and with the feature `embedded-storage` `ReadStorage` and
    /// `Storage` of that crate.
    I2cFram, embedded_hal::i2c::I2c, [fn], []
}

#[cfg(feature = "async")]
driver! {
    /// The async driver: the same methods, as futures. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::device::AsyncMedium`]. A dropped future leaves the same prefix of a
    /// write as a power cut at that moment.
    AsyncI2cFram, embedded_hal_async::i2c::I2c, [async fn], [.await]
}
