//! The radio: a CC2500 at 250 kBaud.

use super::reg::Reg;
use super::{Silent, Spi};
use crate::start::{mark, phase};
use nv_device::nvmem::Persist;
use nv_device::{Apply, Restore};

/// Strobes and registers. A burst goes on with the next register; 0xC0 reads a status register.
const BURST: u8 = 0x40;
const SRES: u8 = 0x30;
const SCAL: u8 = 0x33;
const SRX: u8 = 0x34;
const STX: u8 = 0x35;
const SPWD: u8 = 0x39;
const SFTX: u8 = 0x3B;
const SNOP: u8 = 0x3D;
const READ: u8 = 0x80;
const IOCFG0: u8 = 0x02;
const CHANNR: u8 = 0x0A;
const MCSM1: u8 = 0x17;
const MCSM0: u8 = 0x18;
const FSCAL3: u8 = 0x23;
const TEST2: u8 = 0x2C;
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

/// P2.3: the radio's GDO0.
const P2IFG: Reg<u8> = Reg::at(0x021D);
const P2IE: Reg<u8> = Reg::at(0x021B);
const GDO0: u8 = 1 << 3;

/// What the radio does between two calls.
#[derive(Persist, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// It is ready to send.
    Idle,
    /// It sleeps.
    Asleep,
    /// It receives, and packets interrupt.
    Listens,
}

/// The radio's context. Both fit into one unit of the FRAM.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub struct Tuned {
    /// Its channel.
    pub channel: u8,
    /// What it does.
    pub mode: Mode,
}

impl Tuned {
    /// Ready on channel 7.
    pub const FIRST: Tuned = Tuned {
        channel: 7,
        mode: Mode::Idle,
    };
}

/// The radio.
pub struct Radio<'b> {
    spi: &'b Spi,
}

impl<'b> Restore for Radio<'b> {
    type Context = Tuned;
    type Parts = &'b Spi;
    type Error = Silent;
    fn restore(spi: &mut &'b Spi, tuned: &Tuned) -> Result<Self, Silent> {
        mark(phase::RADIO);
        let mut radio = Radio { spi };
        radio.strobe(SRES)?;
        radio.write(BURST, &CONFIG)?;
        radio.write(CHANNR, &[tuned.channel])?;
        match tuned.mode {
            Mode::Idle => {}
            Mode::Asleep => radio.sleep()?,
            Mode::Listens => radio.listen()?,
        }
        mark(phase::RADIO + 1);
        Ok(radio)
    }
    /// Sleep begins and ends. Another channel, and the way from and to listening, build it again.
    #[inline(always)]
    fn apply(&mut self, tuned: &Tuned) -> Result<Apply, Silent> {
        match tuned.mode {
            Mode::Asleep => self.sleep()?,
            Mode::Idle => self.wake()?,
            Mode::Listens => return Ok(Apply::Rebuild),
        }
        Ok(Apply::Done)
    }
}

impl Radio<'_> {
    /// Sleeps.
    pub fn sleep(&mut self) -> Result<(), Silent> {
        self.strobe(SPWD).map(drop)
    }

    /// Wakes. The configuration was kept but for the test registers.
    pub fn wake(&mut self) -> Result<(), Silent> {
        self.write(TEST2 | BURST, &CONFIG[TEST2.into()..])
    }

    /// Sends a packet. Returns when it is on the air, whole. **Errors**: it takes 10 ms, or the
    /// radio does not answer.
    pub fn send(&mut self, packet: Packet) -> Result<(), Silent> {
        let chip = self.spi.select()?;
        let [[a, b], [c, d]] = packet.map(u16::to_le_bytes);
        chip.write(&[FIFO | BURST, 4, a, b, c, d]);
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

    /// Calibrates the synthesizer, and says what it has found: FSCAL3, FSCAL2 and FSCAL1.
    ///
    /// **Errors**: it takes 10 ms, or the radio does not answer.
    pub fn calibrate(&mut self) -> Result<[u8; 3], Silent> {
        self.strobe(SCAL)?;
        let idle = (0..2000).any(|_| self.strobe(SNOP).is_ok_and(|s| s & STATE == 0));
        if !idle {
            return Err(Silent);
        }
        let chip = self.spi.select()?;
        chip.transfer(READ | BURST | FSCAL3);
        Ok([(); 3].map(|()| chip.transfer(0)))
    }

    /// Takes over a calibration. From now on there is none before a packet.
    pub fn calibrated(&mut self, found: [u8; 3]) -> Result<(), Silent> {
        self.write(FSCAL3 | BURST, &found)?;
        self.write(MCSM0, &[0x08])
    }

    /// Receives. GDO0 tells of packets, and the radio goes on with the next one by itself.
    fn listen(&mut self) -> Result<(), Silent> {
        self.write(IOCFG0, &[0x07])?;
        self.write(MCSM1, &[0x3C])?;
        P2IFG.off(GDO0);
        P2IE.on(GDO0);
        self.strobe(SRX).map(drop)
    }

    /// Whether a packet has arrived whose interrupt was not [seen](Self::seen).
    pub fn arrived(&self) -> bool {
        P2IFG.has(GDO0)
    }

    /// Takes a packet of one byte out of the radio. What comes behind it is its quality.
    pub fn receive(&mut self) -> Result<u8, Silent> {
        let chip = self.spi.select()?;
        chip.transfer(READ | BURST | FIFO);
        let length = chip.transfer(0);
        let byte = chip.transfer(0);
        for _ in 0..length + 1 {
            chip.transfer(0);
        }
        Ok(byte)
    }

    /// What the interrupt has told is kept.
    pub fn seen(&mut self) {
        P2IFG.off(GDO0)
    }

    fn write(&self, register: u8, values: &[u8]) -> Result<(), Silent> {
        let chip = self.spi.select()?;
        chip.transfer(register);
        chip.write(values);
        Ok(())
    }

    fn strobe(&self, strobe: u8) -> Result<u8, Silent> {
        Ok(self.spi.select()?.transfer(strobe))
    }
}
