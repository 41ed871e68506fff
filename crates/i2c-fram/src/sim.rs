//! A simulated chip on an I2C bus, clocked byte by byte, after the data sheets of both makers: for
//! tests on a host.
//!
//! Non-volatile: the cells, a byte device. Volatile: the address counter and the state of the bus.
//! A byte that the chip receives has nine clocks. It is stored at the eighth, and acknowledged at
//! the ninth. After a power cut the chip ignores the bus until it is switched on again.
//!
//! ```
//! use core::cell::RefCell;
//! use i2c_fram::{I2cFram, Part, sim::{self, Wires}};
//!
//! let chip = RefCell::new(sim::chip::<32768>(Part::MB85RC256V));
//! let mut fram = I2cFram::new(Wires(&chip), Part::MB85RC256V);
//!
//! // Device address and address are 27 clocks; the power goes in the third data byte.
//! chip.borrow_mut().cut_after(27 + 2 * 9 + 4);
//! assert!(fram.write(0, b"abcd").is_err());
//!
//! // The next boot finds a prefix of the bytes.
//! chip.borrow_mut().power_cycle();
//! let mut stored = [0; 4];
//! fram.read(0, &mut stored)?;
//! assert_eq!(stored, *b"ab\0\0");
//! # Ok::<(), i2c_fram::Error<i2c_fram::sim::Fault>>(())
//! ```

use crate::{Maker, Part, WordAddress};
use core::cell::RefCell;
use embedded_hal::i2c::{Error, ErrorKind, ErrorType, I2c, NoAcknowledgeSource, Operation};
use nvmem::Medium;
use nvmem::ram::RamFram;

/// What the chip does with the next byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It waits for a start.
    Idle,
    /// A start came: the next byte is a device address.
    Addressed,
    /// This many more address bytes come, and then data.
    Write(u8),
    Read,
    /// The next byte says whose device ID is asked for.
    IdOf,
    /// Its ID is asked for; a start and the reserved address follow.
    IdAsked,
    /// The next byte of the ID.
    Id(u8),
}

/// A chip whose cells are in the medium `M`. [`chip`] makes one in RAM; a medium of `powerfail`
/// makes one whose power is cut everywhere.
pub struct Chip<M> {
    /// Size, addresses and ID.
    pub part: Part,
    /// The levels of its address pins.
    pub pins: u8,
    /// What it answers as its device ID.
    pub id: [u8; 3],
    /// The memory.
    pub cells: M,
    /// The level of the pin WP: while it is high, the chip stores nothing.
    pub wp_high: bool,
    /// The address counter wraps at the end of the device address's block. Not all data sheets say
    /// that it continues in the next block.
    pub counter_stays_in_block: bool,
    /// Device addresses, acknowledged or not, that the chip has received.
    pub starts: u32,
    /// The total number of clocks.
    pub clocks: u64,
    powered: bool,
    /// Clocks until the power is cut.
    fuse: Option<u64>,
    state: State,
    at: u32,
}

/// A chip of this part in RAM, switched on, with all cells zero.
///
/// **Panics** if `N` is not the part's capacity.
pub fn chip<const N: usize>(part: Part) -> Chip<RamFram<N>> {
    assert_eq!(part.capacity() as usize, N, "the part's size");
    Chip::new(part, RamFram::filled(0))
}

impl<M: Medium> Chip<M> {
    /// A chip with this memory, switched on, with the ID of its part and pins that are low.
    pub fn new(part: Part, cells: M) -> Self {
        let log = part.capacity().checked_ilog2().unwrap_or(0) as u8;
        let id = match part.identity() {
            Some(Maker::Fujitsu) => [0x00, 0xA0 | log.saturating_sub(10), 0x58],
            Some(Maker::Cypress) => [0x00, 0x40 | log.saturating_sub(13), 0x00],
            None => [0xFF; 3],
        };
        Chip {
            part,
            pins: 0,
            id,
            cells,
            wp_high: false,
            counter_stays_in_block: false,
            starts: 0,
            clocks: 0,
            powered: true,
            fuse: None,
            state: State::Idle,
            at: 0,
        }
    }

    /// Power off and on: volatile state is reset.
    pub fn power_cycle(&mut self) {
        self.powered = true;
        self.fuse = None;
        self.state = State::Idle;
        self.at = 0;
    }

    /// Cuts the power after so many more clocks.
    pub fn cut_after(&mut self, clocks: u64) {
        self.fuse = Some(clocks);
    }

    /// Whether the power is on.
    pub fn powered(&self) -> bool {
        self.powered
    }

    /// A byte of the memory, not by the bus; 0 outside of it.
    pub fn cell(&mut self, at: u32) -> u8 {
        let mut b = [0];
        let _ = self.cells.read(at, &mut b);
        b[0]
    }

    /// The master's start, or repeated start.
    pub fn start(&mut self) {
        if self.powered {
            // The ID needs a repeated start between its two parts.
            if self.state != State::IdAsked {
                self.state = State::Addressed;
            }
        }
    }

    /// The master's stop.
    pub fn stop(&mut self) {
        self.state = State::Idle;
    }

    /// Lets this many clocks pass. Returns whether the power lasts.
    fn pass(&mut self, clocks: u64) -> bool {
        let left = self.fuse.unwrap_or(u64::MAX);
        if self.powered && left < clocks {
            self.powered = false;
            self.clocks += left;
        }
        if !self.powered {
            return false;
        }
        self.clocks += clocks;
        self.fuse = self.fuse.map(|left| left - clocks);
        true
    }

    /// A byte from the master. Returns whether the chip acknowledges it; never without power.
    pub fn receive(&mut self, byte: u8) -> bool {
        if !self.pass(8) {
            return false;
        }
        let acknowledged = self.byte(byte);
        self.pass(1) && acknowledged
    }

    /// A byte to the master; ones if the chip does not drive the line.
    pub fn send(&mut self) -> u8 {
        if !self.pass(9) {
            return 0xFF;
        }
        match self.state {
            State::Read => {
                let b = self.cell(self.at);
                self.at = self.next();
                b
            }
            State::Id(i) => {
                self.state = State::Id((i + 1) % 3);
                self.id.get(usize::from(i)).copied().unwrap_or(0xFF)
            }
            _ => 0xFF,
        }
    }

    fn next(&self) -> u32 {
        let size = self.part.capacity();
        let block = self.part.address().block().min(size);
        if self.counter_stays_in_block {
            self.at / block * block + (self.at + 1) % block
        } else {
            (self.at + 1) % size
        }
    }

    /// Whether this device address is the chip's, apart from the direction.
    fn is_mine(&self, byte: u8) -> bool {
        let pins = 7 & !self.part.block_bits();
        byte >> 4 == 0b1010 && (byte >> 1 ^ self.pins) & pins == 0
    }

    /// The eighth clock of a byte from the master.
    fn byte(&mut self, byte: u8) -> bool {
        let read = byte & 1 != 0;
        let has_id = self.part.identity().is_some();
        match self.state {
            State::Addressed | State::IdAsked => {
                self.starts += 1;
                let asked = self.state == State::IdAsked;
                self.state = State::Idle;
                if byte == 0xF8 && has_id {
                    self.state = State::IdOf;
                } else if byte == 0xF9 && asked {
                    self.state = State::Id(0);
                } else if self.is_mine(byte) {
                    let block = u32::from(byte >> 1 & self.part.block_bits());
                    let size = self.part.address().block();
                    if read {
                        self.state = State::Read;
                    } else {
                        self.at = block * size;
                        let bytes = match self.part.address() {
                            WordAddress::One => 1,
                            WordAddress::Two => 2,
                        };
                        self.state = State::Write(bytes);
                    }
                }
                self.state != State::Idle
            }
            State::IdOf => {
                self.state = State::Idle;
                if self.is_mine(byte) {
                    self.state = State::IdAsked;
                }
                self.state == State::IdAsked
            }
            State::Write(0) => {
                if !self.wp_high {
                    let _ = self.cells.write(self.at, &[byte]);
                }
                self.at = self.next();
                true
            }
            State::Write(n) => {
                self.at |= u32::from(byte) << (8 * (n - 1));
                // Address bits beyond the memory are ignored.
                self.at %= self.part.capacity().max(1);
                self.state = State::Write(n - 1);
                true
            }
            State::Idle | State::Read | State::Id(_) => false,
        }
    }
}

/// What the master notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The power is off.
    PowerOff,
    /// No chip has this device address.
    NoDevice,
    /// The chip did not acknowledge a byte.
    NoAcknowledge,
}

impl Error for Fault {
    fn kind(&self) -> ErrorKind {
        match self {
            Fault::PowerOff => ErrorKind::Other,
            Fault::NoDevice => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Address),
            Fault::NoAcknowledge => ErrorKind::NoAcknowledge(NoAcknowledgeSource::Data),
        }
    }
}

/// The wires to a chip: an `I2c`.
///
/// When the chip has no power, a transfer ends with [`Fault::PowerOff`]: there the program's run
/// ends.
pub struct Wires<'c, M>(pub &'c RefCell<Chip<M>>);

impl<M> ErrorType for Wires<'_, M> {
    type Error = Fault;
}

impl<M: Medium> Wires<'_, M> {
    fn send(&self, byte: u8, refused: Fault) -> Result<(), Fault> {
        let mut chip = self.0.borrow_mut();
        if chip.receive(byte) {
            Ok(())
        } else if chip.powered() {
            Err(refused)
        } else {
            Err(Fault::PowerOff)
        }
    }

    fn operation(&self, device: u8, op: &mut Operation<'_>, start: bool) -> Result<(), Fault> {
        if start {
            self.0.borrow_mut().start();
            let read = matches!(op, Operation::Read(_));
            self.send(device << 1 | u8::from(read), Fault::NoDevice)?;
        }
        match op {
            Operation::Write(bytes) => {
                (bytes.iter()).try_for_each(|b| self.send(*b, Fault::NoAcknowledge))
            }
            Operation::Read(bytes) => bytes.iter_mut().try_for_each(|b| {
                let mut chip = self.0.borrow_mut();
                *b = chip.send();
                if chip.powered() {
                    Ok(())
                } else {
                    Err(Fault::PowerOff)
                }
            }),
        }
    }
}

impl<M: Medium> I2c for Wires<'_, M> {
    fn transaction(&mut self, device: u8, operations: &mut [Operation<'_>]) -> Result<(), Fault> {
        let mut last = None;
        let result = operations.iter_mut().try_for_each(|op| {
            let read = matches!(op, Operation::Read(_));
            let start = last.replace(read) != Some(read);
            self.operation(device, op, start)
        });
        self.0.borrow_mut().stop();
        result
    }
}
