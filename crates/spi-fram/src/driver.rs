//! The driver, blocking and async from one source: the macro's body is instantiated with `.await` and without.

use crate::command::{Known, RDID, RDSR, READ, SLEEP, WRDI, WREN, WRITE, WRSR};
use crate::error::Error;
use crate::id::DeviceId;
use crate::part::{Identity, Part};
use crate::status::{Protection, Status};
use embedded_hal::spi::Operation;
use nvmem::planted;

macro_rules! driver {
    (
        $(#[$about:meta])*
        $Name:ident, $SpiDevice:path, $DelayNs:path, [$($fn:tt)*], [$($wait:tt)*]
    ) => {
        $(#[$about])*
        #[derive(Debug)]
        pub struct $Name<SPI> {
            spi: SPI,
            known: Known,
        }

        impl<SPI> $Name<SPI> {
            /// A driver for this part. Nothing goes on the bus.
            ///
            /// `spi` is SPI mode 0 or 3, most significant bit first, with the chip select of this chip. Call `init`
            /// before anything else, unless it is certain that the chip is what it should be, is awake and protects
            /// no block.
            pub const fn new(spi: SPI, part: Part) -> Self {
                $Name {
                    spi,
                    known: Known::new(part),
                }
            }

            /// With at most this many bytes of data in one transaction, for a DMA or driver with a limit, or so that
            /// others on the bus do not wait for long. 0 counts as 1.
            ///
            /// **Power loss**: a write of several transactions still leaves a prefix. **Cost**: each transaction
            /// sends its opcodes and address, 4 or 5 bytes of a write and 3 or 4 of a read.
            pub const fn with_max_burst(mut self, bytes: u32) -> Self {
                self.known.burst = if bytes == 0 { 1 } else { bytes };
                self
            }

            /// The part that was configured.
            pub const fn part(&self) -> &Part {
                &self.known.part
            }

            /// The capacity in bytes.
            pub const fn capacity(&self) -> u32 {
                self.known.part.capacity()
            }

            /// Gives the bus back.
            pub fn release(self) -> SPI {
                self.spi
            }
        }

        impl<SPI: $SpiDevice> $Name<SPI> {
            /// Wakes the chip, compares its ID with the part's, and asks which blocks it protects.
            ///
            /// Needed when only the processor was reset: the chip may sleep still.
            ///
            /// **Power loss**: nothing is written. **Cost**: what [`wake`](Self::wake),
            /// [`device_id`](Self::device_id) and [`status`](Self::status) cost; the first two only for parts that
            /// have these commands. **Errors**: [`Error::WrongDevice`], [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* init<D: $DelayNs + ?Sized>(&mut self, delay: &mut D) -> Result<(), Error<SPI::Error>> {
                self.wake(delay)$($wait)*?;
                if self.known.part.identity() != Identity::None {
                    let id = self.device_id()$($wait)*?;
                    self.known.recognise(&id)?;
                }
                self.status()$($wait)*?;
                Ok(())
            }

            /// Reads `buf.len()` bytes from address `at`.
            ///
            /// **Cost**: one transaction for each [`with_max_burst`](Self::with_max_burst) bytes, 3 or 4 bytes longer.
            /// **Errors**: [`Error::OutOfRange`] and [`Error::Asleep`] before anything goes on the bus; [`Error::Bus`].
            pub $($fn)* read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Error<SPI::Error>> {
                self.known.readable(at, buf.len())?;
                let (mut at, mut rest) = (at, buf);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at_mut(self.known.piece(rest.len()));
                    let next = at + now.len() as u32;
                    let head = self.known.head(READ, at);
                    let mut both = [Operation::Write(head.bytes()), Operation::Read(now)];
                    self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                    (at, rest) = (next, later);
                }
                Ok(())
            }

            /// Writes `bytes` to address `at`. The chip stores each byte as it arrives; there is nothing to wait for.
            ///
            /// **Power loss**: a prefix of `bytes` is stored; the rest, and all else, is as before. A dropped future
            /// and a bus error leave the same. **Cost**: for each [`with_max_burst`](Self::with_max_burst) bytes a
            /// transaction of one byte, and one that is 3 or 4 bytes longer than its data.
            /// **Errors**: [`Error::OutOfRange`], [`Error::Protected`] and [`Error::Asleep`] before anything goes on
            /// the bus; [`Error::Bus`].
            pub $($fn)* write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Error<SPI::Error>> {
                self.known.writable(at, bytes.len())?;
                let (mut to, mut rest) = (at, bytes);
                while !rest.is_empty() {
                    let (now, later) = rest.split_at(self.known.piece(rest.len()));
                    // The chip forgets the permission at the end of each write.
                    if !(planted!("spi-fram/no-write-enable")
                        || planted!("spi-fram/write-enable-once") && to != at)
                    {
                        self.spi.write(&[WREN])$($wait)*.map_err(Error::Bus)?;
                    }
                    let head = self.known.head(WRITE, to);
                    let mut both = [Operation::Write(head.bytes()), Operation::Write(now)];
                    let done = self.spi.transaction(&mut both)$($wait)*;
                    if !planted!("spi-fram/bus-error-lost") {
                        done.map_err(Error::Bus)?;
                    }
                    if !planted!("spi-fram/burst-address-stays") {
                        to += now.len() as u32;
                    }
                    rest = later;
                }
                Ok(())
            }

            /// Reads the status register.
            ///
            /// **Cost**: a transaction of 2 bytes. **Errors**: [`Error::Asleep`], [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* status(&mut self) -> Result<Status, Error<SPI::Error>> {
                self.known.awake()?;
                let mut read = [0];
                let mut both = [Operation::Write(&[RDSR]), Operation::Read(&mut read)];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                let [read] = read;
                self.known.learn(read)
            }

            /// Protects these blocks from now on, over power cuts too, until it is called again. With `pin_locks` the
            /// chip refuses to change that, and `pin_locks` itself, while its pin WP is low.
            ///
            /// **Power loss**: the old protection or the new one. **Cost**: transactions of 2, 1, 2 and 2 bytes.
            /// **Errors**: [`Error::Protected`] when the chip did not take it over, because the pin locks it;
            /// [`Error::Asleep`], [`Error::NoAnswer`], [`Error::Bus`].
            pub $($fn)* protect(
                &mut self,
                blocks: Protection,
                pin_locks: bool,
            ) -> Result<(), Error<SPI::Error>> {
                let new = self.status()$($wait)*?.with(blocks, pin_locks);
                self.spi.write(&[WREN])$($wait)*.map_err(Error::Bus)?;
                self.spi.write(&[WRSR, new])$($wait)*.map_err(Error::Bus)?;
                let now = self.status()$($wait)*?;
                let same = (now.protection(), now.pin_locks()) == (blocks, pin_locks);
                if !same && !planted!("spi-fram/protection-not-verified") {
                    return Err(Error::Protected);
                }
                Ok(())
            }

            /// Clears the write enable latch, which a write that failed on the bus may leave set. The end of the next
            /// write clears it as well.
            ///
            /// **Cost**: a transaction of 1 byte. **Errors**: [`Error::Asleep`], [`Error::Bus`].
            pub $($fn)* write_disable(&mut self) -> Result<(), Error<SPI::Error>> {
                self.known.awake()?;
                self.spi.write(&[WRDI])$($wait)*.map_err(Error::Bus)
            }

            /// Reads the device ID. A part that has none answers anything.
            ///
            /// **Cost**: a transaction of 10 bytes. **Errors**: [`Error::Asleep`], [`Error::Bus`].
            pub $($fn)* device_id(&mut self) -> Result<DeviceId, Error<SPI::Error>> {
                self.known.awake()?;
                let mut id = DeviceId([0; DeviceId::LEN]);
                let mut both = [Operation::Write(&[RDID]), Operation::Read(&mut id.0)];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                Ok(id)
            }

            /// Sends the chip to sleep, where it draws a few microamperes and ignores everything but `wake`.
            ///
            /// The driver remembers it, and refuses all else meanwhile. **Power loss**: it is awake after it; the
            /// memory is not touched. **Cost**: a transaction of 1 byte. **Errors**: [`Error::Unsupported`] for a part
            /// without sleep; [`Error::Asleep`]; [`Error::Bus`], after which `wake` is needed.
            pub $($fn)* sleep(&mut self) -> Result<(), Error<SPI::Error>> {
                if self.known.part.recovery_us().is_none() {
                    return Err(Error::Unsupported);
                }
                self.known.awake()?;
                // Set before, so that a future which is dropped leaves it set.
                self.known.asleep = true;
                self.spi.write(&[SLEEP])$($wait)*.map_err(Error::Bus)
            }

            /// Wakes the chip by selecting it, and waits until it is ready. An awake chip stays awake; a part
            /// without sleep is left alone.
            ///
            /// **Power loss**: nothing is written. **Cost**: a transaction of 2 bytes and [`Part::recovery_us`].
            /// **Errors**: [`Error::Bus`]; the chip counts as asleep then.
            pub $($fn)* wake<D: $DelayNs + ?Sized>(&mut self, delay: &mut D) -> Result<(), Error<SPI::Error>> {
                let Some(us) = self.known.part.recovery_us() else {
                    return Ok(());
                };
                self.known.asleep = true;
                // Not an empty transaction, for which some bus drivers do not select. A sleeping chip ignores the
                // opcode, an awake one answers what nobody looks at.
                let mut both = [Operation::Write(&[RDSR]), Operation::Read(&mut [0])];
                self.spi.transaction(&mut both)$($wait)*.map_err(Error::Bus)?;
                if !planted!("spi-fram/no-recovery-time") {
                    delay.delay_us(us.into())$($wait)*;
                }
                self.known.asleep = false;
                Ok(())
            }
        }
    };
}

driver! {
    /// The blocking driver. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::Medium`], and with the feature `embedded-storage` that crate's `ReadStorage` and
    /// `Storage`.
    SpiFram, embedded_hal::spi::SpiDevice, embedded_hal::delay::DelayNs, [fn], []
}

#[cfg(feature = "async")]
driver! {
    /// The async driver: the same calls, which wait. See the [crate's page](crate).
    ///
    /// It implements [`nvmem::device::AsyncMedium`]. A future that is dropped leaves what a power cut at that moment
    /// would leave of the write.
    AsyncSpiFram, embedded_hal_async::spi::SpiDevice, embedded_hal_async::delay::DelayNs,
    [async fn], [.await]
}
