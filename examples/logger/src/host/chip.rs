//! A simulated MB85RS256B: 32 KiB of FRAM behind SPI. Its power is cut after a number of bytes on
//! the bus, also inside a burst.

use embedded_hal::spi::{ErrorKind, ErrorType, Operation, SpiDevice};
use spi_fram::Part;

/// The simulated part.
pub const PART: Part = Part::MB85RS256B;

const SIZE: usize = PART.capacity() as usize;
const WREN: u8 = 0x06;
const WRITE: u8 = 0x02;
const READ: u8 = 0x03;
const RDSR: u8 = 0x05;
const RDID: u8 = 0x9F;
const ID: [u8; 4] = [0x04, 0x7F, 0x05, 0x09];
const WEL: u8 = 0x02;

/// The power is off: the chip neither stores nor answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PowerGone;

impl embedded_hal::spi::Error for PowerGone {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Other
    }
}

/// The chip and its power supply.
pub struct Chip {
    cells: Vec<u8>,
    latch: bool,
    /// Bytes on the bus until the power is cut.
    left: u64,
    written: u64,
    clocked: u64,
}

impl Default for Chip {
    fn default() -> Self {
        Chip {
            cells: vec![0; SIZE],
            latch: false,
            left: u64::MAX,
            written: 0,
            clocked: 0,
        }
    }
}

impl Chip {
    /// Switches the chip on for this many bytes on the bus. Volatile state is reset.
    pub fn power_on(&mut self, bytes: u64) {
        self.latch = false;
        self.left = bytes;
    }

    /// Whether the power was cut since then.
    pub fn is_dead(&self) -> bool {
        self.left == 0
    }

    /// Bytes stored since the chip was created.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes on the bus since the chip was created.
    pub fn clocked(&self) -> u64 {
        self.clocked
    }

    fn byte(&mut self, s: &mut Selection, sent: u8) -> Result<u8, PowerGone> {
        if self.left == 0 {
            return Err(PowerGone);
        }
        // A byte is stored at its last clock.
        self.left -= 1;
        if self.left == 0 {
            return Err(PowerGone);
        }
        self.clocked += 1;
        let n = s.bytes;
        s.bytes += 1;
        let mut answer = 0xFF;
        match (n, s.opcode) {
            (0, _) => s.opcode = sent,
            (1 | 2, READ | WRITE) => s.at = s.at << 8 | usize::from(sent),
            (_, READ) => {
                answer = self.cells[s.at % SIZE];
                s.at += 1;
            }
            (_, WRITE) if self.latch => {
                self.cells[s.at % SIZE] = sent;
                self.written += 1;
                s.at += 1;
            }
            (_, RDSR) => answer = if self.latch { WEL } else { 0 },
            (1..=4, RDID) => answer = ID[n - 1],
            _ => {}
        }
        Ok(answer)
    }

    fn deselect(&mut self, s: &Selection) {
        match s.opcode {
            WREN if s.bytes == 1 => self.latch = true,
            WRITE => self.latch = false,
            _ => {}
        }
    }
}

/// One selection of the chip.
#[derive(Default)]
struct Selection {
    bytes: usize,
    opcode: u8,
    at: usize,
}

/// The chip on its bus.
pub struct Bus<'c>(pub &'c mut Chip);

impl ErrorType for Bus<'_> {
    type Error = PowerGone;
}

impl SpiDevice for Bus<'_> {
    fn transaction(&mut self, operations: &mut [Operation<'_, u8>]) -> Result<(), PowerGone> {
        let mut s = Selection::default();
        let chip = &mut *self.0;
        for op in operations {
            match op {
                Operation::Read(buf) => {
                    for b in buf.iter_mut() {
                        *b = chip.byte(&mut s, 0)?;
                    }
                }
                Operation::Write(bytes) => {
                    for b in bytes.iter() {
                        chip.byte(&mut s, *b)?;
                    }
                }
                Operation::Transfer(buf, bytes) => {
                    for i in 0..buf.len().max(bytes.len()) {
                        let got = chip.byte(&mut s, bytes.get(i).copied().unwrap_or(0))?;
                        if let Some(b) = buf.get_mut(i) {
                            *b = got;
                        }
                    }
                }
                Operation::TransferInPlace(buf) => {
                    for b in buf.iter_mut() {
                        *b = chip.byte(&mut s, *b)?;
                    }
                }
                Operation::DelayNs(_) => {}
            }
        }
        chip.deselect(&s);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spi_fram::SpiFram;

    #[test]
    fn a_burst_that_is_cut_leaves_its_first_bytes() {
        let mut chip = Chip::default();
        let mut fram = SpiFram::new(Bus(&mut chip), PART);
        fram.write(7, &[1; 8]).unwrap();
        let mut read = [0; 8];
        fram.read(7, &mut read).unwrap();
        assert_eq!(read, [1; 8]);
        assert_eq!(chip.written(), 8);
        // Write enable, opcode and address, four bytes, and the incomplete one.
        chip.power_on(1 + 3 + 4 + 1);
        assert!(
            SpiFram::new(Bus(&mut chip), PART)
                .write(7, &[2; 8])
                .is_err()
        );
        assert!(chip.is_dead());
        assert_eq!(chip.cells[7..15], [2, 2, 2, 2, 1, 1, 1, 1]);
        let mut dead = SpiFram::new(Bus(&mut chip), PART);
        assert!(dead.read(7, &mut read).is_err() && dead.write(7, &[3]).is_err());
        chip.power_on(u64::MAX);
        SpiFram::new(Bus(&mut chip), PART)
            .read(7, &mut read)
            .unwrap();
        assert_eq!(read[3..5], [2, 1]);
    }
}
