//! Shared by the blocking and the async driver: addresses, and checks before anything goes on the
//! bus.
//!
//! ```text
//! write   | start | 1010 A2 A1 A0, W | address, 1 or 2 bytes | data to the chip ...   | stop |
//! read    | start | 1010 A2 A1 A0, W | address, 1 or 2 bytes |
//!         | start | 1010 A2 A1 A0, R | data from the chip ...                         | stop |
//! ```
//!
//! A0 to A2 are the levels of pins. Where the address bytes do not reach all of the chip, the
//! lowest of them are address bits instead. Some data sheets let the chip's counter run from one
//! such block to the next, others say nothing about it. So no transaction leaves its block.

use crate::error::Error;
use crate::part::{DeviceId, Part, WordAddress};
use embedded_hal::i2c::ErrorKind;
use nvmem::planted;

/// The device address of a chip whose pins are low.
const DEVICE: u8 = 0x50;
/// The reserved address of the device ID: F8h with the direction bit.
pub const ID: u8 = 0x7C;

// INVARIANT "Inside before the start": a range outside the chip causes no clock; the chip itself
// would continue at its start. `Wiring::check_inside` keeps it.
// Noticed by: planted `range-one-too-long` in tests/suite/chip/behaviour.rs; tests/suite/bus.rs.

// INVARIANT "One block, one transaction": no transaction crosses what one device address reaches,
// so it does not matter where the chip's counter goes on. `Wiring::burst_len` keeps it.
// Noticed by: planted `burst-leaves-its-block` and `block-bits-lost` in
// tests/suite/chip/behaviour.rs, which tries all parts at all edges of blocks, with a counter that
// goes on and one that does not.

/// The configured part, its pins, and the longest transaction.
#[derive(Debug, Clone)]
pub struct Wiring {
    pub part: Part,
    /// The levels of A2, A1 and A0.
    pub pins: u8,
    /// The maximum number of data bytes in one transaction; never 0.
    pub burst: u32,
}

/// The start of a transaction: device address, and address bytes. With one address byte, the first
/// of the two is unused.
pub struct Target {
    pub device: u8,
    word: [u8; 2],
    address: WordAddress,
}

impl Target {
    pub fn word(&self) -> &[u8] {
        match self.address {
            WordAddress::One if planted!("i2c-fram/address-too-long") => &self.word,
            WordAddress::One => &self.word[1..],
            WordAddress::Two => &self.word,
        }
    }
}

impl Wiring {
    pub const fn new(part: Part) -> Self {
        Wiring {
            part,
            pins: 0,
            burst: u32::MAX,
        }
    }

    /// The device address of the first block.
    pub fn device(&self) -> u8 {
        DEVICE | self.pins & 7 & !self.part.block_bits()
    }

    /// Where a transaction at `at` begins.
    pub fn target(&self, at: u32) -> Target {
        let address = self.part.address();
        let mut block = (at / address.block()) as u8;
        if planted!("i2c-fram/block-bits-lost") {
            block = 0;
        }
        Target {
            device: self.device() | block & self.part.block_bits(),
            word: (at as u16).to_be_bytes(),
            address,
        }
    }

    /// Checks that `len` bytes at `at` are inside. The chip itself would continue at address 0
    /// after its end.
    pub fn check_inside<E>(&self, at: u32, len: usize) -> Result<(), Error<E>> {
        let mut end = self.part.capacity();
        if planted!("i2c-fram/range-one-too-long") {
            end += 1;
        }
        nvmem::device::check_range(at, len, 1, end).map_err(|_| Error::OutOfRange)
    }

    /// The number of bytes in the next transaction if `len` bytes remain.
    pub fn burst_len(&self, at: u32, len: usize) -> usize {
        let block = self.part.address().block();
        let mut most = self.burst.min(block - at % block);
        if planted!("i2c-fram/burst-leaves-its-block") {
            most = self.burst;
        }
        usize::try_from(most).map_or(len, |most| len.min(most))
    }

    /// Checks that the ID belongs to the part.
    pub fn check_id<E>(&self, id: &DeviceId) -> Result<(), Error<E>> {
        if self.part.accepts(id) {
            Ok(())
        } else {
            Err(Error::WrongDevice)
        }
    }
}

/// The error of the first access: if no chip acknowledges its address, there is none.
pub fn no_answer<E: embedded_hal::i2c::Error>(e: Error<E>) -> Error<E> {
    match &e {
        Error::Bus(bus) if matches!(bus.kind(), ErrorKind::NoAcknowledge(_)) => Error::NoAnswer,
        _ => e,
    }
}
