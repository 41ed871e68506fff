//! A simulated serial FRAM chip, clocked bit by bit, after the data sheets of both makers: for
//! tests on a host.
//!
//! Non-volatile: the cells and the status register, each a byte device. Volatile: the write enable
//! latch, the sleep state, and the command being shifted in. After a power cut the chip ignores the
//! bus until it is switched on again.
//!
//! ```
//! use core::cell::RefCell;
//! use spi_fram::{Part, SpiFram, sim::{self, Wires}};
//!
//! let chip = RefCell::new(sim::chip::<8192>(Part::MB85RS64T));
//! let mut fram = SpiFram::new(Wires(&chip), Part::MB85RS64T);
//!
//! // WREN, then WRITE with its address are 8 + 24 clocks; the power goes in the third data byte.
//! chip.borrow_mut().cut_after(8 + 24 + 20);
//! assert!(fram.write(0, b"abcd").is_err());
//!
//! // The next boot finds a prefix of the bytes.
//! chip.borrow_mut().power_cycle();
//! let mut stored = [0; 4];
//! fram.read(0, &mut stored)?;
//! assert_eq!(stored, *b"ab\0\0");
//! # Ok::<(), spi_fram::Error<spi_fram::sim::PowerOff>>(())
//! ```

use crate::{AddressWidth, Identity, Part};
use core::cell::RefCell;
use embedded_hal::delay::DelayNs;
use embedded_hal::spi::{Error, ErrorKind, ErrorType, Operation, SpiDevice};
use nvmem::Medium;
use nvmem::ram::RamFram;

/// The properties of a chip.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Size, address width and sleep.
    pub part: Part,
    /// What it answers to the command RDID.
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

/// A chip whose cells and status register are in the media `M` and `S`. [`chip`] makes one in RAM;
/// media of `powerfail` make one whose power is cut everywhere.
pub struct Chip<M, S> {
    /// Which chip it is.
    pub kind: Kind,
    /// The memory.
    pub cells: M,
    /// One byte: the non-volatile bits of the status register.
    pub status: S,
    /// The level of the pin WP.
    pub wp_high: bool,
    /// Nanoseconds since power-up. [`Wires`] advance it.
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

/// A chip whose `N` bytes are in RAM.
pub type RamChip<const N: usize> = Chip<RamFram<N>, RamFram<1>>;

/// A chip of this part in RAM, switched on, with all cells zero.
///
/// **Panics** if `N` is not the part's capacity.
pub fn chip<const N: usize>(part: Part) -> RamChip<N> {
    assert_eq!(part.capacity() as usize, N, "the part's size");
    Chip::new(Kind::of(part), RamFram::filled(0), RamFram::filled(0))
}

impl<M: Medium, S: Medium> Chip<M, S> {
    /// A chip with this memory, switched on.
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

    /// Cuts the power after so many more clocks.
    pub fn cut_after(&mut self, clocks: u64) {
        self.fuse = Some(clocks);
    }

    /// Whether the power is on.
    pub fn powered(&self) -> bool {
        self.powered
    }

    /// The write enable latch.
    pub fn latch(&self) -> bool {
        self.latch
    }

    /// Whether it sleeps.
    pub fn sleeps(&self) -> bool {
        self.asleep
    }

    /// A byte of the memory, not by the bus; 0 outside of it.
    pub fn cell(&mut self, at: u32) -> u8 {
        let mut b = [0];
        let _ = self.cells.read(at, &mut b);
        b[0]
    }

    fn size(&self) -> u32 {
        self.cells.capacity()
    }

    /// The non-volatile bits of the status register.
    pub fn status_bits(&mut self) -> u8 {
        let mut b = [0];
        let _ = self.status.read(0, &mut b);
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
            // A part without sleep never fell asleep.
            let us = self.kind.part.recovery_us().unwrap_or(0);
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
                    let _ = self.cells.write(c.at, &[c.shift]);
                }
                c.at = (c.at + 1) % self.size();
            }
            0x01 if n == 2 => {
                let locked = self.status_bits() & WPEN != 0 && !self.wp_high;
                if self.latch && !locked {
                    let new = c.shift & STORED;
                    let _ = self.status.write(0, &[new]);
                }
            }
            0x05 => c.out = self.status_bits() | if self.latch { WEL } else { 0 },
            0x9F if n <= 9 && self.kind.part.identity() != Identity::None => {
                c.out = self.kind.id.get(n as usize - 1).copied().unwrap_or(0xFF);
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

/// The power is off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerOff;

impl Error for PowerOff {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// The wires to a chip: an `SpiDevice` at 1 MHz, and a delay on the chip's clock.
///
/// When the chip has no power, a transfer ends with [`PowerOff`]: there the program's run ends.
pub struct Wires<'c, M, S>(pub &'c RefCell<Chip<M, S>>);

impl<M, S> ErrorType for Wires<'_, M, S> {
    type Error = PowerOff;
}

impl<M: Medium, S: Medium> Wires<'_, M, S> {
    fn byte(&self, out: u8) -> Result<u8, PowerOff> {
        let mut chip = self.0.borrow_mut();
        let mut read = 0;
        for i in (0..8).rev() {
            read = read << 1 | u8::from(chip.clock(out >> i & 1 != 0));
        }
        chip.now += 8_000;
        if chip.powered() {
            Ok(read)
        } else {
            Err(PowerOff)
        }
    }

    fn operation(&self, operation: &mut Operation<'_, u8>) -> Result<(), PowerOff> {
        match operation {
            Operation::Read(bytes) => bytes.iter_mut().try_for_each(|b| {
                *b = self.byte(0)?;
                Ok(())
            }),
            Operation::Write(bytes) => bytes.iter().try_for_each(|b| self.byte(*b).map(drop)),
            Operation::Transfer(read, write) => {
                for i in 0..read.len().max(write.len()) {
                    let got = self.byte(write.get(i).copied().unwrap_or(0))?;
                    read.iter_mut().skip(i).take(1).for_each(|b| *b = got);
                }
                Ok(())
            }
            Operation::TransferInPlace(bytes) => bytes.iter_mut().try_for_each(|b| {
                *b = self.byte(*b)?;
                Ok(())
            }),
            Operation::DelayNs(ns) => {
                self.0.borrow_mut().now += u64::from(*ns);
                Ok(())
            }
        }
    }
}

impl<M: Medium, S: Medium> SpiDevice for Wires<'_, M, S> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), PowerOff> {
        self.0.borrow_mut().select();
        let result = operations.iter_mut().try_for_each(|op| self.operation(op));
        self.0.borrow_mut().deselect();
        result
    }
}

impl<M, S> DelayNs for Wires<'_, M, S> {
    fn delay_ns(&mut self, ns: u32) {
        self.0.borrow_mut().now += u64::from(ns);
    }
}
