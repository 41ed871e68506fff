//! Models of chips behind I2C and SPI. Each byte on a bus is a point where the power may be cut.
//!
//! The chips are volatile: a boot begins with their registers after power-up. The clock has a
//! battery, so its registers are part of the world.

use crate::crash::world::Outside;
use core::cell::{Cell, RefCell};
use core::convert::Infallible;
use embedded_hal::{i2c, spi};
use powerfail::World;

/// Addresses on the I2C bus.
pub const TMP: u8 = 0x48;
pub const SECOND: u8 = 0x49;
pub const PCF: u8 = 0x20;
pub const LIS: u8 = 0x19;
pub const RTC: u8 = 0x68;

/// A transaction that the bus did not acknowledge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nak;
impl i2c::Error for Nak {
    fn kind(&self) -> i2c::ErrorKind {
        i2c::ErrorKind::NoAcknowledge(i2c::NoAcknowledgeSource::Unknown)
    }
}

/// All chips of a board, in one boot.
pub struct Board<'w, 'r> {
    pub world: &'w World<'r, Outside>,
    pub tmp: RefCell<[u16; 4]>,
    pub second: RefCell<[u16; 4]>,
    pub lis: RefCell<[u8; 64]>,
    pub lamps: Cell<u8>,
    pub radio: RefCell<Radio>,
    /// Temperatures that were read in this boot: no two are equal.
    pub readings: Cell<u16>,
    /// Transactions on the I2C bus until one fails; 0: none does.
    pub fails_in: Cell<u32>,
    /// The clock of the bus, which its driver sets.
    pub bus_rate: Cell<u32>,
}

/// An RFM69: registers, and what is in its FIFO.
pub struct Radio {
    pub regs: [u8; 128],
    fifo: Vec<u8>,
}

impl<'w, 'r> Board<'w, 'r> {
    pub fn new(world: &'w World<'r, Outside>) -> Self {
        let mut lis = [0; 64];
        lis[0x0F] = 0x33;
        lis[0x20] = 0x07;
        let mut regs = [0; 128];
        regs[0x01] = 0x04;
        regs[0x27] = 0x80;
        Board {
            world,
            tmp: RefCell::new([0, 0x60A0, 0x4B00, 0x5000]),
            second: RefCell::new([0, 0x60A0, 0x4B00, 0x5000]),
            lis: RefCell::new(lis),
            lamps: Cell::new(0xFF),
            radio: RefCell::new(Radio {
                regs,
                fifo: Vec::new(),
            }),
            readings: Cell::new(0),
            fails_in: Cell::new(0),
            bus_rate: Cell::new(0),
        }
    }

    /// One byte has passed on a bus.
    fn byte(&self) {
        self.world.update(|_| {})
    }

    fn write(&self, to: u8, bytes: &[u8]) -> Result<(), Nak> {
        self.byte(); // the address
        let Some((&pointer, data)) = bytes.split_first() else {
            return Ok(());
        };
        match to {
            PCF => {
                for &b in bytes {
                    self.lamps.set(b);
                    self.world.update(|w| w.lamps_show(b));
                }
                return Ok(());
            }
            TMP | SECOND | LIS | RTC => self.byte(), // the pointer
            _ => return Err(Nak),
        }
        match to {
            TMP | SECOND if data.len() >= 2 => {
                self.byte();
                self.byte();
                let value = u16::from_be_bytes([data[0], data[1]]);
                if to == TMP {
                    self.tmp.borrow_mut()[pointer as usize & 3] = value
                } else {
                    self.second.borrow_mut()[pointer as usize & 3] = value
                }
            }
            LIS => {
                for (i, &b) in data.iter().enumerate() {
                    self.byte();
                    self.lis.borrow_mut()[(pointer as usize + i) & 63] = b
                }
            }
            RTC => {
                for (i, &b) in data.iter().enumerate() {
                    self.world.update(|w| w.rtc_write(pointer as usize + i, b))
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn read(&self, from: u8, pointer: u8, bytes: &mut [u8]) {
        let at = pointer as usize;
        if (from == TMP || from == SECOND) && at == 0 {
            let n = self.readings.get() + 1;
            self.readings.set(n);
            // Degrees, as both chips have them.
            self.tmp.borrow_mut()[0] = n << 8;
            self.second.borrow_mut()[0] = n << 8;
        }
        for (i, b) in bytes.iter_mut().enumerate() {
            self.byte();
            *b = match from {
                TMP => self.tmp.borrow()[at & 3].to_be_bytes()[i & 1],
                SECOND => self.second.borrow()[at & 3].to_be_bytes()[i & 1],
                LIS => self.lis.borrow()[(at + i) & 63],
                RTC => self.world.with(|w| w.rtc[(at + i) % 19]),
                _ => self.lamps.get(),
            };
        }
    }
}

/// A bus that drivers share: each has a copy.
#[derive(Clone, Copy)]
pub struct I2c<'b>(pub &'b Board<'b, 'b>);

impl i2c::ErrorType for I2c<'_> {
    type Error = Nak;
}

impl i2c::I2c for I2c<'_> {
    fn transaction(&mut self, to: u8, ops: &mut [i2c::Operation<'_>]) -> Result<(), Nak> {
        let Board { fails_in, .. } = self.0;
        if fails_in.get() > 0 {
            fails_in.set(fails_in.get() - 1);
            if fails_in.get() == 0 {
                self.0.byte();
                return Err(Nak);
            }
        }
        let mut pointer = 0;
        for op in ops {
            match op {
                i2c::Operation::Write(bytes) => {
                    pointer = bytes.first().copied().unwrap_or(0);
                    // The chip knows a bit for automatic increments.
                    if to == LIS {
                        pointer &= 0x7F
                    }
                    let mut bytes = bytes.to_vec();
                    if let Some(first) = bytes.first_mut()
                        && to != PCF
                    {
                        *first = pointer
                    }
                    self.0.write(to, &bytes)?
                }
                i2c::Operation::Read(bytes) => self.0.read(to, pointer, bytes),
            }
        }
        Ok(())
    }
}

/// The radio behind SPI.
#[derive(Clone, Copy)]
pub struct Spi<'b>(pub &'b Board<'b, 'b>);

impl spi::ErrorType for Spi<'_> {
    type Error = Infallible;
}

impl Spi<'_> {
    fn set(&self, at: u8, value: u8) {
        let mut radio = self.0.radio.borrow_mut();
        self.0.byte();
        match at {
            0 => radio.fifo.push(value),
            // An overrun flag that is written clears the FIFO.
            0x28 => {
                radio.fifo.clear();
                radio.regs[0x28] = 0
            }
            0x01 if value & 0x1C == 0x0C => {
                radio.regs[1] = value;
                radio.regs[0x28] = 0x08;
                let packet = core::mem::take(&mut radio.fifo);
                let channel = radio.regs[0x39];
                self.0.world.update(|w| w.receive(channel, &packet));
            }
            _ => radio.regs[at as usize & 127] = value,
        }
    }
}

impl spi::SpiDevice for Spi<'_> {
    fn transaction(&mut self, ops: &mut [spi::Operation<'_, u8>]) -> Result<(), Infallible> {
        let (mut at, mut first, mut writes) = (0u8, true, false);
        for op in ops {
            match op {
                spi::Operation::Write(bytes) => {
                    for &b in bytes.iter() {
                        if first {
                            self.0.byte();
                            (at, writes, first) = (b & 0x7F, b & 0x80 != 0, false);
                        } else if writes {
                            self.set(at, b);
                            at += u8::from(at != 0);
                        }
                    }
                }
                spi::Operation::TransferInPlace(bytes) | spi::Operation::Read(bytes) => {
                    for b in bytes.iter_mut() {
                        self.0.byte();
                        *b = self.0.radio.borrow().regs[at as usize & 127];
                        at += u8::from(at != 0);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}
