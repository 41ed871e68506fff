//! The radio: a CC2500 at 250 kBaud.

use super::{Silent, Spi};
use nv_device::Restore;

/// Strobes and registers. A burst goes on with the next register; 0xC0 reads a status register.
const BURST: u8 = 0x40;
const SRES: u8 = 0x30;
const STX: u8 = 0x35;
const SFTX: u8 = 0x3B;
const SNOP: u8 = 0x3D;
const CHANNR: u8 = 0x0A;
const FIFO: u8 = 0x3F;
/// In the status that each byte brings: the state. 0 is IDLE.
const STATE: u8 = 0x70;
const UNDERFLOW: u8 = 0x70;

/// Registers 0x00 to 0x2E: 2433 MHz, MSK, 250 kBaud, packets of any length with a checksum, which
/// is what SmartRF Studio proposes. FS_AUTOCAL calibrates whenever IDLE is left.
const CONFIG: [u8; 47] = [
    0x29, 0x2E, 0x06, 0x07, 0xD3, 0x91, 0xFF, 0x04, 0x05, 0x00, 0x00, 0x0A, 0x00, 0x5D, 0x93, 0xB1,
    0x2D, 0x3B, 0x73, 0x22, 0xF8, 0x00, 0x07, 0x30, 0x18, 0x1D, 0x1C, 0xC7, 0x00, 0xB2, 0x87, 0x6B,
    0xF8, 0xB6, 0x10, 0xEA, 0x0A, 0x00, 0x11, 0x41, 0x00, 0x59, 0x7F, 0x3F, 0x88, 0x31, 0x0B,
];

/// What is sent: its number, by which a receiver knows it again, and a mean.
pub type Packet = [u16; 2];

/// The radio. Its context is its channel.
pub struct Radio<'b> {
    spi: &'b Spi,
}

impl<'b> Restore for Radio<'b> {
    type Context = u8;
    type Parts = &'b Spi;
    type Error = Silent;
    fn restore(spi: &mut &'b Spi, channel: &u8) -> Result<Self, Silent> {
        let radio = Radio { spi };
        radio.strobe(SRES)?;
        let chip = spi.select()?;
        chip.transfer(BURST);
        for byte in CONFIG {
            chip.transfer(byte);
        }
        drop(chip);
        let chip = spi.select()?;
        chip.transfer(CHANNR);
        chip.transfer(*channel);
        drop(chip);
        Ok(radio)
    }
}

impl Radio<'_> {
    /// Sends a packet. Returns when it is on the air, whole. **Errors**: it takes 10 ms, or the
    /// radio does not answer.
    pub fn send(&mut self, packet: Packet) -> Result<(), Silent> {
        let chip = self.spi.select()?;
        chip.transfer(FIFO | BURST);
        chip.transfer(2 * packet.len() as u8);
        for word in packet {
            let [low, high] = word.to_le_bytes();
            chip.transfer(low);
            chip.transfer(high);
        }
        drop(chip);
        self.strobe(STX)?;
        for _ in 0..2000 {
            match self.strobe(SNOP)? & STATE {
                0 => return Ok(()),
                UNDERFLOW => break,
                _ => {}
            }
        }
        self.strobe(SFTX)?;
        Err(Silent)
    }

    fn strobe(&self, strobe: u8) -> Result<u8, Silent> {
        Ok(self.spi.select()?.transfer(strobe))
    }
}
