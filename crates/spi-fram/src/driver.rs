//! The driver, blocking and async from one source: a macro expands it with `.await` and without.

use crate::command::{ChipInfo, RDID, RDSR, READ, SLEEP, WRDI, WREN, WRITE, WRSR};
use crate::error::Error;
use crate::id::DeviceId;
use crate::part::{Identity, Part};
use crate::status::{Protection, Status};
use embedded_hal::spi::Operation;
use nvmem::planted;

// INVARIANT "Each write is permitted": every burst of a write has its own WREN immediately before
// it.
// Noticed by: planted `no-write-enable` and `write-enable-once` in tests/suite/chip/power.rs.

// INVARIANT "Asleep when in doubt": after a sleep or wake that failed or was dropped, the chip
// counts as asleep. `sleep` and `wake` keep it.
// Noticed by: tests/suite/chip/asynchronous.rs; tests/suite/chip/faults.rs.

macro_rules! driver {
    (
        $(#[$about:meta])*
        $Name:ident, $SpiDevice:path, $DelayNs:path, [$($fn:tt)*], [$($wait:tt)*]
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $Name<SPI> {
            spi: SPI,
            chip: ChipInfo,
        }

        impl<SPI> $Name<SPI> {
            /// Creates a driver for this part. Nothing goes on the bus.
            ///
            /// `spi` is SPI mode 0 or 3, most significant bit first, with the chip select of this
            /// chip. Call `init` before anything else, unless you know that the chip is the
            /// configured part, is awake and protects no block.
            pub const fn new(spi: SPI, part: Part) -> Self {
                $Name {
                    spi,
                    chip: ChipInfo::new(part),
                }
            }

            /// Limits the data of one transaction to this many bytes: for a DMA or a driver with a
            /// limit, or to release a shared bus sooner. 0 counts as 1.
            ///
            /// **Power loss**: a write of several transactions still leaves a prefix. **Cost**:
            /// each transaction sends its opcodes and address again: 4 or 5 bytes of a write, 3 or
            /// 4 of a read.
            pub const fn with_max_burst(mut self, bytes: u32) -> Self {
                self.chip.burst = if bytes == 0 { 1 } else { bytes };
                self
            }

            /// The configured part.
            pub const fn part(&self) -> &Part {
                &self.chip.part
            }

            /// The capacity in bytes.
            pub const fn capacity(&self) -> u32 {
                self.chip.part.capacity()
            }

            /// Returns the SPI device.
            pub fn release(self) -> SPI {
                self.spi
            }
        }

        impl<SPI: $SpiDevice> $Name<SPI> {
            /// Wakes the chip, compares its ID with the part's, and reads which blocks it protects.
            ///
            /// Also needed after a reset of the processor alone: the chip may still sleep.
            ///
            /// **Power loss**: nothing is written. **Cost**: the sum of [`wake`](Self::wake),
            /// [`device_id`](Self::device_id) and [`status`](Self::status); the first two only for
            /// parts that have these commands. **Errors**: [`Error::WrongDevice`],
            /// [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* init<D: $DelayNs + ?Sized>(&mut self, delay: &mut D) -> Result<(), Error<SPI::Error>> {
                self.wake(delay)$($wait)*?;
                if self.chip.part.identity() != Identity::None {
                    let id = self.device_id()$($wait)*?;
                    self.chip.check_id(&id)?;
                }
                self.status()$($wait)*?;
                Ok(())
            }

            /// Reads `buf.len()` bytes from address `at`.
            ///
            /// **Cost**: one transaction for each [`with_max_burst`](Self::with_max_burst) bytes, 3
            /// or 4 bytes longer than its data. **Errors**: [`Error::OutOfRange`] and
            /// [`Error::Asleep`], before anything goes on the bus; [`Error::Bus`].
            pub $($fn)* read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Error<SPI::Error>> {
                self.chip.check_readable(at, buf.len())?;
                let (mut at, mut remaining) = (at, buf);
                while !remaining.is_empty() {
                    let (burst, later) = remaining.split_at_mut(self.chip.burst_len(remaining.len()));
                    let next = at + burst.len() as u32;
                    let header = self.chip.header(READ, at);
                    let mut both = [Operation::Write(header.bytes()), Operation::Read(burst)];
                    self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                    (at, remaining) = (next, later);
                }
                Ok(())
            }

            /// Writes `bytes` to address `at`. The chip stores each byte as it arrives, so there is
            /// no busy time.
            ///
            /// **Power loss**: a prefix of `bytes` is stored; all other bytes keep their values. A
            /// dropped future and a bus error leave the same. **Cost**: for each
            /// [`with_max_burst`](Self::with_max_burst) bytes a transaction of one byte, and one
            /// that is 3 or 4 bytes longer than its data. **Errors**: [`Error::OutOfRange`],
            /// [`Error::Protected`] and [`Error::Asleep`], before anything goes on the bus;
            /// [`Error::Bus`].
            pub $($fn)* write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Error<SPI::Error>> {
                self.chip.check_writable(at, bytes.len())?;
                let (mut to, mut remaining) = (at, bytes);
                while !remaining.is_empty() {
                    let (burst, later) = remaining.split_at(self.chip.burst_len(remaining.len()));
                    // The chip clears the write enable latch at the end of each write.
                    let skip = to != at && planted!("spi-fram/write-enable-once");
                    let skip = skip || planted!("spi-fram/no-write-enable");
                    if !skip {
                        self.spi.write(&[WREN])$($wait)*.map_err(Error::Bus)?;
                    }
                    let header = self.chip.header(WRITE, to);
                    let mut both = [Operation::Write(header.bytes()), Operation::Write(burst)];
                    let done = self.spi.transaction(&mut both)$($wait)*;
                    if !planted!("spi-fram/bus-error-lost") {
                        done.map_err(Error::Bus)?;
                    }
                    if !planted!("spi-fram/burst-address-stays") {
                        to += burst.len() as u32;
                    }
                    remaining = later;
                }
                Ok(())
            }

            /// Reads the status register.
            ///
            /// **Cost**: a transaction of 2 bytes. **Errors**: [`Error::Asleep`],
            /// [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* status(&mut self) -> Result<Status, Error<SPI::Error>> {
                self.chip.check_awake()?;
                let mut read = [0];
                let mut both = [Operation::Write(&[RDSR]), Operation::Read(&mut read)];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                let [read] = read;
                self.chip.update_status(read)
            }

            /// Protects these blocks until the next call, also over power cuts. With `pin_locks`
            /// the chip refuses to change the protection and `pin_locks` itself while its pin WP is
            /// low.
            ///
            /// **Power loss**: the old protection or the new one. **Cost**: transactions of 2, 1, 2
            /// and 2 bytes. **Errors**: [`Error::Protected`] if the chip kept its old setting
            /// because the pin locks it; [`Error::Asleep`], [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* protect(
                &mut self,
                blocks: Protection,
                pin_locks: bool,
            ) -> Result<(), Error<SPI::Error>> {
                let new = self.status()$($wait)*?.with_protection(blocks, pin_locks);
                self.spi.write(&[WREN])$($wait)*.map_err(Error::Bus)?;
                self.spi.write(&[WRSR, new])$($wait)*.map_err(Error::Bus)?;
                let now = self.status()$($wait)*?;
                let same = (now.protection(), now.pin_locks()) == (blocks, pin_locks);
                if !same && !planted!("spi-fram/protection-not-verified") {
                    return Err(Error::Protected);
                }
                Ok(())
            }

            /// Clears the write enable latch. A write that failed on the bus may leave it set; the
            /// end of the next write clears it too.
            ///
            /// **Cost**: a transaction of 1 byte. **Errors**: [`Error::Asleep`], [`Error::Bus`].
            pub $($fn)* write_disable(&mut self) -> Result<(), Error<SPI::Error>> {
                self.chip.check_awake()?;
                self.spi.write(&[WRDI])$($wait)*.map_err(Error::Bus)
            }

            /// Reads the device ID. A part without an ID answers with arbitrary bytes.
            ///
            /// **Cost**: a transaction of 10 bytes. **Errors**: [`Error::Asleep`], [`Error::Bus`].
            pub $($fn)* device_id(&mut self) -> Result<DeviceId, Error<SPI::Error>> {
                self.chip.check_awake()?;
                let mut id = DeviceId([0; DeviceId::LEN]);
                let mut both = [Operation::Write(&[RDID]), Operation::Read(&mut id.0)];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                Ok(id)
            }

            /// Puts the chip to sleep: it draws a few microamperes and ignores every command but
            /// `wake`.
            ///
            /// The driver remembers this and refuses all other calls. **Power loss**: the chip is
            /// awake after power-up; its memory is unchanged. **Cost**: a transaction of 1 byte.
            /// **Errors**: [`Error::Unsupported`] for a part without sleep; [`Error::Asleep`];
            /// [`Error::Bus`], after which `wake` is needed.
            pub $($fn)* sleep(&mut self) -> Result<(), Error<SPI::Error>> {
                if self.chip.part.recovery_us().is_none() {
                    return Err(Error::Unsupported);
                }
                self.chip.check_awake()?;
                // Set first, so that it stays set if the future is dropped.
                self.chip.asleep = true;
                self.spi.write(&[SLEEP])$($wait)*.map_err(Error::Bus)
            }

            /// Wakes the chip by selecting it, and waits until it is ready. An awake chip stays
            /// awake. For a part without sleep this does nothing.
            ///
            /// **Power loss**: nothing is written. **Cost**: a transaction of 2 bytes and
            /// [`Part::recovery_us`]. **Errors**: [`Error::Bus`]; the driver then assumes that the
            /// chip sleeps.
            pub $($fn)* wake<D: $DelayNs + ?Sized>(&mut self, delay: &mut D) -> Result<(), Error<SPI::Error>> {
                let Some(us) = self.chip.part.recovery_us() else {
                    return Ok(());
                };
                self.chip.asleep = true;
                // Some bus drivers do not assert chip select for an empty transaction, so send an
                // opcode. A sleeping chip ignores it; the answer of an awake chip is dropped.
                let mut answer = [0];
                let mut both = [Operation::Write(&[RDSR]), Operation::Read(&mut answer)];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                if !planted!("spi-fram/no-recovery-time") {
                    delay.delay_us(us.into())$($wait)*;
                }
                self.chip.asleep = false;
                Ok(())
            }
        }
    };
}

driver! {
    /// The blocking driver. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::Medium`], and with the feature `embedded-storage` `ReadStorage` and
    /// `Storage` of that crate.
    SpiFram, embedded_hal::spi::SpiDevice, embedded_hal::delay::DelayNs, [fn], []
}

#[cfg(feature = "async")]
driver! {
    /// The async driver: the same methods, as futures. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::device::AsyncMedium`]. A dropped future leaves the same prefix of a
    /// write as a power cut at that moment.
    AsyncSpiFram, embedded_hal_async::spi::SpiDevice, embedded_hal_async::delay::DelayNs,
    [async fn], [.await]
}
