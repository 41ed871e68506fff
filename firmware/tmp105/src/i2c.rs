//! I2C by hand: the bus of mps2-an386 is two pins in a register (Arm's SBCon).
//!
//! ```text
//! 0x4002A000  read    the levels: bit 0 clock, bit 1 data
//!             write   the pins of the bits that are set become high: open drain
//! 0x4002A004  write   the pins of the bits that are set become low
//! ```
//!
//! A simulated bus needs no delays.

use embedded_hal::i2c::{Error, ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};

const LEVELS: *mut u32 = 0x4002_A000 as *mut u32;
const LOW: *mut u32 = 0x4002_A004 as *mut u32;
const CLOCK: u32 = 1;
const DATA: u32 = 2;

/// The bus. Copies are the same bus: one transaction at a time.
#[derive(Clone, Copy)]
pub struct Bus(());

/// Nobody has acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct NoAcknowledge(NoAcknowledgeSource);

impl Error for NoAcknowledge {
    fn kind(&self) -> ErrorKind {
        ErrorKind::NoAcknowledge(self.0)
    }
}

impl Bus {
    /// The bus, free: a device that a power cut of this core has met in the middle of a byte gets
    /// its clocks, and a stop.
    pub fn free() -> Self {
        let bus = Bus(());
        bus.pin(DATA, true);
        for _ in 0..9 {
            bus.clock();
        }
        bus.stop();
        bus
    }

    fn pin(self, pin: u32, high: bool) {
        let register = if high { LEVELS } else { LOW };
        // SAFETY: registers of the machine, which only this file uses.
        unsafe { register.write_volatile(pin) }
    }

    /// One clock. The level of data during it.
    fn clock(self) -> bool {
        self.pin(CLOCK, true);
        // SAFETY: as above.
        let data = unsafe { LEVELS.read_volatile() } & DATA != 0;
        self.pin(CLOCK, false);
        data
    }

    /// A start, also a repeated one. The clock is low afterwards.
    fn start(self) {
        self.pin(DATA, true);
        self.pin(CLOCK, true);
        self.pin(DATA, false);
        self.pin(CLOCK, false);
    }

    fn stop(self) {
        self.pin(DATA, false);
        self.pin(CLOCK, true);
        self.pin(DATA, true);
    }

    /// Sends a byte. Whether it was acknowledged.
    fn send(self, byte: u8) -> bool {
        for bit in (0..8).rev() {
            self.pin(DATA, byte >> bit & 1 != 0);
            self.clock();
        }
        self.pin(DATA, true);
        !self.clock()
    }

    /// Receives a byte, and acknowledges it if `more` shall come.
    fn receive(self, more: bool) -> u8 {
        let byte = (0..8).fold(0, |byte, _| byte << 1 | u8::from(self.clock()));
        self.pin(DATA, !more);
        self.clock();
        self.pin(DATA, true);
        byte
    }

    fn operations(self, address: u8, all: &mut [Operation<'_>]) -> Result<(), NoAcknowledge> {
        let mut reads_before = None;
        for i in 0..all.len() {
            let reads_next = matches!(all.get(i + 1), Some(Operation::Read(_)));
            let reads = matches!(all[i], Operation::Read(_));
            if reads_before != Some(reads) {
                self.start();
                if !self.send(address << 1 | u8::from(reads)) {
                    return Err(NoAcknowledge(NoAcknowledgeSource::Address));
                }
                reads_before = Some(reads);
            }
            match &mut all[i] {
                Operation::Read(bytes) => {
                    let last = bytes.len().saturating_sub(1);
                    for (n, byte) in bytes.iter_mut().enumerate() {
                        *byte = self.receive(n < last || reads_next);
                    }
                }
                Operation::Write(bytes) => {
                    if !bytes.iter().all(|byte| self.send(*byte)) {
                        return Err(NoAcknowledge(NoAcknowledgeSource::Data));
                    }
                }
            }
        }
        Ok(())
    }
}

impl ErrorType for Bus {
    type Error = NoAcknowledge;
}

impl I2c for Bus {
    fn transaction(
        &mut self,
        address: u8,
        operations: &mut [Operation<'_>],
    ) -> Result<(), NoAcknowledge> {
        let done = self.operations(address, operations);
        self.stop();
        done
    }
}
