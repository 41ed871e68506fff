//! A model of a serial FRAM chip, clocked bit by bit, after the data sheets of both makers.
//!
//! Non-volatile: the cells and the status register, each a byte device. Volatile: the write enable
//! latch, the sleep state, and the command being shifted in. After a power cut the chip ignores the
//! bus until it is switched on again.

use nvmem::Medium;
use spi_fram::{AddressWidth, Identity, Part};

/// The properties of the chip.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    pub part: Part,
    pub id: [u8; 9],
}

impl Kind {
    /// The chip that the part describes.
    pub fn of(part: Part) -> Kind {
        let log = part.capacity().ilog2() as u8;
        let id = match part.identity() {
            Identity::None => [0xFF; 9],
            // After its four bytes the last bit stays on the line.
            Identity::Fujitsu(density) => [4, 0x7F, 0x20 | density[0], 3, 255, 255, 255, 255, 255],
            Identity::Cypress => [0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0x7F, 0xC2, 0x21 + log - 14, 8],
        };
        Kind { part, id }
    }
}

/// Bits of the status register that WRSR changes: the defined ones, and those that Fujitsu stores
/// without a meaning.
const STORED: u8 = 0xFC;
const WEL: u8 = 0x02;
const WPEN: u8 = 0x80;

/// A command being shifted in while the chip is selected.
#[derive(Debug, Clone, Copy, Default)]
struct Command {
    /// Clocks since the selection.
    clocks: u64,
    shift: u8,
    out: u8,
    opcode: u8,
    at: u32,
    /// The chip ignores this command.
    deaf: bool,
}

pub struct Chip<M, S> {
    pub kind: Kind,
    pub cells: M,
    pub status: S,
    /// The level of the pin WP.
    pub wp_high: bool,
    /// Nanoseconds since power-up; the test bench advances it.
    pub now: u64,
    powered: bool,
    latch: bool,
    asleep: bool,
    /// The end of the recovery from sleep.
    awake_at: u64,
    command: Option<Command>,
    /// Clocks until the power is cut.
    pub fuse: Option<u64>,
    /// The total number of clocks.
    pub clocks: u64,
    /// Set by a violation of the data sheet: a selection during the recovery from sleep.
    pub forbidden: u32,
}

impl<M: Medium, S: Medium> Chip<M, S> {
    pub fn new(kind: Kind, cells: M, status: S) -> Self {
        Chip {
            kind,
            cells,
            status,
            wp_high: true,
            now: 0,
            powered: true,
            latch: false,
            asleep: false,
            awake_at: 0,
            command: None,
            fuse: None,
            clocks: 0,
            forbidden: 0,
        }
    }

    /// Power off and on: volatile state is reset.
    pub fn power_cycle(&mut self) {
        self.powered = true;
        self.latch = false;
        self.asleep = false;
        self.awake_at = 0;
        self.command = None;
        self.fuse = None;
    }

    pub fn powered(&self) -> bool {
        self.powered
    }

    pub fn latch(&self) -> bool {
        self.latch
    }

    pub fn sleeps(&self) -> bool {
        self.asleep
    }

    pub fn cell(&mut self, at: u32) -> u8 {
        let mut b = [0];
        self.cells.read(at, &mut b).expect("inside");
        b[0]
    }

    fn size(&self) -> u32 {
        self.cells.capacity()
    }

    pub fn status_bits(&mut self) -> u8 {
        let mut b = [0];
        self.status.read(0, &mut b).expect("one byte");
        b[0] & STORED
    }

    /// The falling edge of chip select.
    pub fn select(&mut self) {
        if !self.powered {
            return;
        }
        let mut deaf = false;
        if self.asleep {
            self.asleep = false;
            let us = self.kind.part.recovery_us().expect("it fell asleep");
            self.awake_at = self.now + u64::from(us) * 1000;
            deaf = true;
        } else if self.now < self.awake_at {
            self.forbidden += 1;
            deaf = true;
        }
        self.command = Some(Command {
            deaf,
            out: 0xFF,
            ..Command::default()
        });
    }

    /// The rising edge of chip select.
    pub fn deselect(&mut self) {
        let Some(c) = self.command.take() else { return };
        if !self.powered || c.deaf || c.clocks < 8 {
            return;
        }
        let exact = c.clocks == 8;
        match c.opcode {
            0x06 if exact => self.latch = true,
            0x04 if exact => self.latch = false,
            0xB9 if exact && self.kind.part.recovery_us().is_some() => self.asleep = true,
            // A write or a status write clears the latch, whether or not it changed anything.
            0x01 | 0x02 => self.latch = false,
            _ => {}
        }
    }

    /// One clock: one bit in, one bit out. The line is pulled up where the chip does not drive it.
    pub fn clock(&mut self, si: bool) -> bool {
        if let Some(fuse) = &mut self.fuse {
            if *fuse == 0 {
                self.powered = false;
                self.command = None;
            } else {
                *fuse -= 1;
            }
        }
        if !self.powered {
            return true;
        }
        self.clocks += 1;
        let Some(mut c) = self.command.take() else {
            return true;
        };
        let so = c.deaf || c.out & 0x80 != 0;
        c.out = c.out << 1 | 1;
        c.shift = c.shift << 1 | si as u8;
        c.clocks += 1;
        if c.clocks.is_multiple_of(8) && !c.deaf {
            self.byte(&mut c);
        }
        self.command = Some(c);
        so
    }

    /// The eighth clock of a byte.
    fn byte(&mut self, c: &mut Command) {
        let n = c.clocks / 8;
        if n == 1 {
            c.opcode = c.shift;
        }
        let head = match self.kind.part.address() {
            AddressWidth::Two => 3,
            AddressWidth::Three => 4,
        };
        let data = n > head;
        match c.opcode {
            0x02 | 0x03 if n > 1 && !data => {
                c.at = c.at << 8 | u32::from(c.shift);
                if n == head {
                    // Address bits beyond the memory are ignored.
                    c.at %= self.size();
                    if c.opcode == 0x03 {
                        c.out = self.cell(c.at);
                    }
                }
            }
            0x03 if data => {
                c.at = (c.at + 1) % self.size();
                c.out = self.cell(c.at);
            }
            0x02 if data => {
                if self.latch && c.at < self.writable() {
                    self.cells.write(c.at, &[c.shift]).expect("inside");
                }
                c.at = (c.at + 1) % self.size();
            }
            0x01 if n == 2 => {
                let locked = self.status_bits() & WPEN != 0 && !self.wp_high;
                if self.latch && !locked {
                    let new = c.shift & STORED;
                    self.status.write(0, &[new]).expect("one byte");
                }
            }
            0x05 => c.out = self.status_bits() | if self.latch { WEL } else { 0 },
            0x9F if n <= 9 && self.kind.part.identity() != Identity::None => {
                c.out = self.kind.id[n as usize - 1];
            }
            _ => {}
        }
    }

    /// Where the protected blocks begin.
    fn writable(&mut self) -> u32 {
        let size = self.size();
        match self.status_bits() >> 2 & 3 {
            0 => size,
            1 => size / 4 * 3,
            2 => size / 2,
            _ => 0,
        }
    }
}
