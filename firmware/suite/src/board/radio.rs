//! The radio on SPI. Its driver is written on embedded-hal, and knows nothing of power cuts.

use crate::Bench;
use crate::abi::bench::{CHANNEL, SELECT, SPI};
use core::convert::Infallible;
use embedded_hal::spi::{ErrorType, Operation, SpiDevice};
use nv_device::Restore;
use nv_device::nvmem::Persist;
use nv_replay::Config;

/// The bus with the radio.
pub(super) struct Bus<'d>(Bench<'d>);

impl Bus<'_> {
    fn byte(&mut self, out: u8) -> u8 {
        self.0.write(SPI, out.into());
        self.0.read(SPI) as u8
    }
}

impl ErrorType for Bus<'_> {
    type Error = Infallible;
}

impl SpiDevice for Bus<'_> {
    fn transaction(&mut self, all: &mut [Operation<'_, u8>]) -> Result<(), Infallible> {
        self.0.write(SELECT, 1);
        // The crystal.
        while self.0.read(SELECT) == 0 {}
        for operation in all {
            match operation {
                Operation::Write(out) => {
                    for b in out.iter() {
                        self.byte(*b);
                    }
                }
                Operation::TransferInPlace(both) => {
                    both.iter_mut().for_each(|b| *b = self.byte(*b))
                }
                // The driver does not use them.
                Operation::Read(_) | Operation::Transfer(..) | Operation::DelayNs(_) => {}
            }
        }
        self.0.write(SELECT, 0);
        Ok(())
    }
}

/// The driver.
pub(super) struct Cc2500<S> {
    spi: S,
}

/// The chip does not do what it is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Silent;

mod chip {
    pub const PKTLEN: u8 = 0x06;
    pub const PKTCTRL0: u8 = 0x08;
    pub const CHANNR: u8 = 0x0A;
    pub const SRES: u8 = 0x30;
    pub const STX: u8 = 0x35;
    pub const SRX: u8 = 0x34;
    pub const SFRX: u8 = 0x3A;
    pub const SFTX: u8 = 0x3B;
    pub const RXBYTES: u8 = 0x3B | 0xC0;
    pub const FIFO_READ: u8 = 0x3F | 0x80;
    pub const MARCSTATE: u8 = 0x35 | 0xC0;
    pub const PATABLE: u8 = 0x3E;
    pub const FIFO_BURST: u8 = 0x7F;
    /// In MARCSTATE.
    pub const IDLE: u8 = 1;
    pub const RX: u8 = 13;
}

impl<S: SpiDevice> Cc2500<S> {
    /// A chip that was reset.
    fn new(spi: S) -> Result<Self, Silent> {
        let mut radio = Cc2500 { spi };
        radio.write(&[chip::SRES])?;
        // Packets of variable length, with a check.
        radio.write(&[chip::PKTCTRL0, 0x05])?;
        radio.write(&[chip::PKTLEN, 60])?;
        Ok(radio)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Silent> {
        self.spi.write(bytes).map_err(|_| Silent)
    }

    fn set_channel(&mut self, channel: u8) -> Result<(), Silent> {
        self.write(&[chip::CHANNR, channel])
    }

    fn set_power(&mut self, power: u8) -> Result<(), Silent> {
        self.write(&[chip::PATABLE, power])
    }

    /// Sends a packet, and waits until it has left.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), Silent> {
        self.write(&[chip::SFTX])?;
        let header = [chip::FIFO_BURST, bytes.len() as u8];
        let mut all = [Operation::Write(&header), Operation::Write(bytes)];
        self.spi.transaction(&mut all).map_err(|_| Silent)?;
        self.write(&[chip::STX])?;
        self.wait_for(chip::IDLE)
    }

    /// Listens.
    pub fn listen(&mut self) -> Result<(), Silent> {
        self.write(&[chip::SRX])?;
        self.wait_for(chip::RX)
    }

    /// The packet that has arrived, if it has so many bytes. The chip does not listen any more.
    pub fn receive<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Silent> {
        let mut bytes = [0; N];
        if self.read(chip::RXBYTES)? == 0 {
            return Ok(None);
        }
        let length = usize::from(self.read(chip::FIFO_READ)?);
        for b in &mut bytes {
            *b = self.read(chip::FIFO_READ)?;
        }
        // What the chip appends, too.
        self.write(&[chip::SFRX])?;
        Ok((length == N).then_some(bytes))
    }

    fn read(&mut self, register: u8) -> Result<u8, Silent> {
        let mut both = [register, 0];
        let done = self.spi.transfer_in_place(&mut both);
        done.map(|()| both[1]).map_err(|_| Silent)
    }

    /// Waits for a state of the chip: one call must fit one life.
    fn wait_for(&mut self, state: u8) -> Result<(), Silent> {
        for _ in 0..100 {
            if self.read(chip::MARCSTATE)? == state {
                return Ok(());
            }
        }
        Err(Silent)
    }
}

/// What the application wants of the radio.
#[derive(Persist, Clone, Copy)]
#[repr(C)]
pub(super) struct Settings {
    pub channel: u8,
    pub power: u8,
    /// For a length of two units on a 16-bit machine.
    pub spare: u16,
}

/// The radio, restored.
pub(super) struct Radio<'d>(pub Cc2500<Bus<'d>>);

impl<'d> Restore for Radio<'d> {
    type Context = Settings;
    /// The bench; and for a planted bug, whether the radio is taken to be configured.
    type Parts = (Bench<'d>, bool);
    type Error = Silent;
    fn restore((bench, configured): &mut Self::Parts, s: &Settings) -> Result<Self, Silent> {
        let mut radio = Cc2500::new(Bus(*bench))?;
        if !*configured {
            radio.set_channel(s.channel)?;
            radio.set_power(s.power)?;
        }
        Ok(Radio(radio))
    }
}

/// The table of programs that send.
pub(super) const TABLE: Config = Config {
    bytes: 128,
    outbox_bytes: 32,
    seq_bits: 4,
};

/// What a radio is set to first.
pub(super) const FIRST: Settings = Settings {
    channel: CHANNEL,
    power: 0xC6,
    spare: 0,
};
