//! What is the same for the blocking and the async driver: opcodes, checks, and what is known of the chip.

use crate::error::Error;
use crate::id::DeviceId;
use crate::part::{Address, Part};
use crate::status::Status;
use nvmem::planted;

pub const WRSR: u8 = 0x01;
pub const WRITE: u8 = 0x02;
pub const READ: u8 = 0x03;
pub const WRDI: u8 = 0x04;
pub const RDSR: u8 = 0x05;
pub const WREN: u8 = 0x06;
pub const RDID: u8 = 0x9F;
pub const SLEEP: u8 = 0xB9;

/// The part, and what is known of the chip without asking.
#[derive(Debug, Clone)]
pub struct Known {
    pub part: Part,
    /// Bytes in one transaction at most; never 0.
    pub burst: u32,
    /// Bytes from the start that the chip does not protect, as far as is known.
    pub writable: u32,
    pub asleep: bool,
}

impl Known {
    pub const fn new(part: Part) -> Self {
        Known {
            writable: part.capacity(),
            part,
            burst: u32::MAX,
            asleep: false,
        }
    }

    /// Compares the ID with the part's.
    pub fn recognise<E>(&self, id: &DeviceId) -> Result<(), Error<E>> {
        if self.part.accepts(id) {
            Ok(())
        } else if id.0 == [0xFF; DeviceId::LEN] || id.0 == [0; DeviceId::LEN] {
            // A line that nothing drives.
            Err(Error::NoAnswer)
        } else {
            Err(Error::WrongDevice)
        }
    }

    /// Whether the chip listens.
    pub fn awake<E>(&self) -> Result<(), Error<E>> {
        if self.asleep && !planted!("spi-fram/sleep-forgotten") {
            return Err(Error::Asleep);
        }
        Ok(())
    }

    /// Whether `len` bytes at `at` can be read. A chip would go on at address 0 behind its end.
    pub fn readable<E>(&self, at: u32, len: usize) -> Result<(), Error<E>> {
        let end = self.part.capacity() + planted!("spi-fram/range-one-too-long") as u32;
        if nvmem::device::check_range(at, len, 1, end).is_err() {
            return Err(Error::OutOfRange);
        }
        self.awake()
    }

    /// Whether they can be written.
    pub fn writable<E>(&self, at: u32, len: usize) -> Result<(), Error<E>> {
        self.readable(at, len)?;
        // In the range, so the sum is not above the capacity.
        if len > 0 && at + len as u32 > self.writable && !planted!("spi-fram/protection-ignored") {
            return Err(Error::Protected);
        }
        Ok(())
    }

    /// How many of `len` bytes go into the next transaction.
    pub fn piece(&self, len: usize) -> usize {
        match usize::try_from(self.burst) {
            Ok(burst) => len.min(burst),
            Err(_) => len,
        }
    }

    /// Opcode and address.
    pub fn head(&self, opcode: u8, at: u32) -> Head {
        let [_, a, b, c] = at.to_be_bytes();
        match self.part.address() {
            Address::Two => Head([0, opcode, b, c], true),
            Address::Three if planted!("spi-fram/address-of-two-bytes") => {
                Head([opcode, 0, b, c], false)
            }
            Address::Three => Head([opcode, a, b, c], false),
        }
    }

    /// Looks at a status that was read, and remembers what it protects.
    pub fn learn<E>(&mut self, read: u8) -> Result<Status, Error<E>> {
        let status = Status(read);
        if !status.is_possible() {
            return Err(Error::NoAnswer);
        }
        self.writable = status.protection().writable(self.part.capacity());
        Ok(status)
    }
}

/// The first bytes of a command with an address; of four bytes the first is not used where addresses have two.
pub struct Head([u8; 4], bool);

impl Head {
    pub fn bytes(&self) -> &[u8] {
        if self.1 { &self.0[1..] } else { &self.0 }
    }
}
