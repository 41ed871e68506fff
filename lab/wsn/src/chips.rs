//! Models of a TMP102 on I2C and of an RFM69 on SPI, as far as their drivers use them.

use crate::supply::Clock;
use embedded_hal::{i2c, spi};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// A byte at 400 kHz, with its acknowledgement.
const I2C_BYTE: u64 = 23;
/// A byte at 8 MHz.
const SPI_BYTE: u64 = 1;
/// The radio's oscillator starts: data sheet, typical.
const RADIO_START: u64 = 250;
/// Preamble, sync word, 4 bytes and CRC at 55,555 bits in a second, and the transmitter's start.
const PACKET: u64 = 1700;

/// A thermometer that always reads 21.5 degrees.
#[derive(Clone, Copy)]
pub struct Bus<'c>(pub &'c Clock);

impl i2c::ErrorType for Bus<'_> {
    type Error = Infallible;
}

impl i2c::I2c for Bus<'_> {
    fn transaction(&mut self, _: u8, all: &mut [i2c::Operation<'_>]) -> Result<(), Infallible> {
        for operation in all {
            self.0.pass(I2C_BYTE);
            match operation {
                i2c::Operation::Write(bytes) => self.0.pass(bytes.len() as u64 * I2C_BYTE),
                i2c::Operation::Read(bytes) => {
                    for (to, from) in bytes.iter_mut().zip([0x15, 0x80]) {
                        self.0.pass(I2C_BYTE);
                        *to = from;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What a gateway has received.
#[derive(Default)]
pub struct Air {
    /// By number: the mean, in sixteenths of a degree.
    pub packets: BTreeMap<u16, u16>,
    /// Packets that came again.
    pub again: u32,
    arriving: RefCell<Vec<[u16; 2]>>,
}

impl Air {
    /// The packets of the last life are there.
    pub fn settled(mut self) -> Self {
        for [number, mean] in self.arriving.take() {
            let known = self.packets.insert(number, mean);
            assert!(
                known.is_none_or(|k| k == mean),
                "packet {number} has changed"
            );
            self.again += u32::from(known.is_some());
        }
        self
    }
}

/// The radio, which loses its registers with the power.
#[derive(Clone, Copy)]
pub struct Spi<'c> {
    clock: &'c Clock,
    air: &'c Air,
    chip: &'c RefCell<Chip>,
}

struct Chip {
    registers: [u8; 128],
    fifo: Vec<u8>,
    started: bool,
}

impl<'c> Spi<'c> {
    pub fn new(clock: &'c Clock, air: &'c Air) -> Self {
        let mut registers = [0; 128];
        registers[0x27] = 0x80;
        // One for each life of a run.
        let chip = Box::leak(Box::new(RefCell::new(Chip {
            registers,
            fifo: Vec::new(),
            started: false,
        })));
        Spi { clock, air, chip }
    }

    fn store(&self, register: u8, value: u8) {
        let chip = &mut *self.chip.borrow_mut();
        match register {
            0 => chip.fifo.push(value),
            0x28 => chip.fifo.clear(),
            _ => chip.registers[register as usize] = value,
        }
        if register == 1 && value & 0x1C == 0x0C {
            let bytes = core::mem::take(&mut chip.fifo);
            chip.registers[0x28] = 0x08;
            self.clock.pass(PACKET);
            if let (true, Ok(b)) = (self.clock.on(), <[u8; 4]>::try_from(&bytes[..])) {
                let packet = [
                    u16::from_le_bytes([b[0], b[1]]),
                    u16::from_le_bytes([b[2], b[3]]),
                ];
                self.air.arriving.borrow_mut().push(packet);
            }
        }
    }
}

impl spi::ErrorType for Spi<'_> {
    type Error = Infallible;
}

impl spi::SpiDevice for Spi<'_> {
    fn transaction(&mut self, all: &mut [spi::Operation<'_, u8>]) -> Result<(), Infallible> {
        if !core::mem::replace(&mut self.chip.borrow_mut().started, true) {
            self.clock.pass(RADIO_START);
        }
        let mut register = None;
        for operation in all {
            match operation {
                spi::Operation::Write(bytes) => {
                    for &byte in bytes.iter() {
                        self.clock.pass(SPI_BYTE);
                        match register {
                            None => register = Some(byte & 0x7F),
                            Some(r) => {
                                self.store(r, byte);
                                register = Some(if r == 0 { 0 } else { r + 1 });
                            }
                        }
                    }
                }
                spi::Operation::TransferInPlace(bytes) | spi::Operation::Read(bytes) => {
                    for byte in bytes.iter_mut() {
                        self.clock.pass(SPI_BYTE);
                        let r = register.unwrap_or(0);
                        *byte = self.chip.borrow().registers[r as usize];
                        register = Some(r + 1);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
