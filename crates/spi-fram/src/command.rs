//! Shared by the blocking and the async driver: opcodes, checks before a command, and the driver's
//! knowledge of the chip.
//!
//! ```text
//! read    | READ  0x03 | address, 2 or 3 bytes | data from the chip ... |
//! write   | WREN  0x06 |   chip select high
//!         | WRITE 0x02 | address, 2 or 3 bytes | data to the chip ...   |   clears WEL again
//! ```
//!
//! The chip gives no error: it wraps at its end, drops writes to protected blocks and ignores
//! commands while it sleeps. `ChipInfo` checks each of these before anything goes on the bus.

use crate::error::Error;
use crate::id::DeviceId;
use crate::part::{AddressWidth, Part};
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

// INVARIANT "Inside before the bus": a range outside the chip causes no clock; the chip itself
// would continue at its start. `ChipInfo::check_readable` keeps it.
// Noticed by: planted `range-one-too-long` in tests/suite/chip/behaviour.rs; tests/suite/bus.rs.

// INVARIANT "Nothing is dropped silently": an operation that the chip would ignore (asleep,
// protected, locked by its pin) is an error. `ChipInfo::check_awake`, `ChipInfo::check_writable`
// and `protect` in driver.rs keep it.
// Noticed by: planted `sleep-forgotten`, `protection-ignored` and `protection-not-verified` in
// tests/suite/chip.rs.

/// The configured part, and what the driver remembers of the chip's state.
#[derive(Debug, Clone)]
pub struct ChipInfo {
    pub part: Part,
    /// The maximum number of data bytes in one transaction; never 0.
    pub burst: u32,
    /// Unprotected bytes from address 0, as last read from the chip.
    pub writable: u32,
    pub asleep: bool,
}

impl ChipInfo {
    pub const fn new(part: Part) -> Self {
        ChipInfo {
            writable: part.capacity(),
            part,
            burst: u32::MAX,
            asleep: false,
        }
    }

    /// Checks that the ID belongs to the part.
    pub fn check_id<E>(&self, id: &DeviceId) -> Result<(), Error<E>> {
        if self.part.accepts(id) {
            Ok(())
        } else if id.0 == [0xFF; DeviceId::LEN] || id.0 == [0; DeviceId::LEN] {
            // The data line is not driven.
            Err(Error::NoAnswer)
        } else {
            Err(Error::WrongDevice)
        }
    }

    /// Checks that the chip is not asleep.
    pub fn check_awake<E>(&self) -> Result<(), Error<E>> {
        if self.asleep && !planted!("spi-fram/sleep-forgotten") {
            return Err(Error::Asleep);
        }
        Ok(())
    }

    /// Checks that `len` bytes at `at` can be read. The chip itself would continue at address 0
    /// after its end.
    pub fn check_readable<E>(&self, at: u32, len: usize) -> Result<(), Error<E>> {
        let mut end = self.part.capacity();
        if planted!("spi-fram/range-one-too-long") {
            end += 1;
        }
        if nvmem::device::check_range(at, len, 1, end).is_err() {
            return Err(Error::OutOfRange);
        }
        self.check_awake()
    }

    /// Checks that `len` bytes at `at` can be written.
    pub fn check_writable<E>(&self, at: u32, len: usize) -> Result<(), Error<E>> {
        self.check_readable(at, len)?;
        // The range was checked, so the sum is at most the capacity.
        if len > 0 && at + len as u32 > self.writable && !planted!("spi-fram/protection-ignored") {
            return Err(Error::Protected);
        }
        Ok(())
    }

    /// The number of bytes in the next transaction if `len` bytes remain.
    pub fn burst_len(&self, len: usize) -> usize {
        match usize::try_from(self.burst) {
            Ok(burst) => len.min(burst),
            Err(_) => len,
        }
    }

    /// A command's opcode and address.
    pub fn header(&self, opcode: u8, at: u32) -> CommandHeader {
        let [_, a, b, c] = at.to_be_bytes();
        match self.part.address() {
            AddressWidth::Two => CommandHeader([0, opcode, b, c], true),
            AddressWidth::Three if planted!("spi-fram/address-of-two-bytes") => {
                CommandHeader([opcode, 0, b, c], false)
            }
            AddressWidth::Three => CommandHeader([opcode, a, b, c], false),
        }
    }

    /// Checks a status register value, and remembers which blocks it protects.
    pub fn update_status<E>(&mut self, read: u8) -> Result<Status, Error<E>> {
        let status = Status(read);
        if !status.is_valid() {
            return Err(Error::NoAnswer);
        }
        self.writable = status.protection().writable(self.part.capacity());
        Ok(status)
    }
}

/// The opcode and address of a command. With two address bytes, the first of the four bytes is
/// unused.
pub struct CommandHeader([u8; 4], bool);

impl CommandHeader {
    pub fn bytes(&self) -> &[u8] {
        if self.1 { &self.0[1..] } else { &self.0 }
    }
}
