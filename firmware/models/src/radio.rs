//! A radio like TI's CC2500 behind SPI.
//!
//! From its data sheet (SWRS040): the first byte after chip select is a header, bit 7 reads, bit 6
//! is a burst, the rest an address; with each byte the chip sends its status, or what is read.
//! Addresses from 0x30 are command strobes, or with the burst bit status registers; 0x3E is the
//! table of output powers, 0x3F the FIFOs. In sleep the configuration stays; the FIFOs, the table
//! but for its first byte, and the test registers are lost.
//!
//! Left out: wake-on-radio, forward error correction, encryption of the air, frequencies.

use crate::Chip;
use std::collections::VecDeque;

/// Bytes of each FIFO.
pub const FIFO: usize = 64;
/// Of the crystal.
pub const CRYSTAL_HZ: u64 = 26_000_000;

/// Registers that a driver writes to.
#[allow(missing_docs)]
pub mod register {
    pub const IOCFG2: u8 = 0x00;
    pub const IOCFG0: u8 = 0x02;
    pub const SYNC1: u8 = 0x04;
    pub const PKTLEN: u8 = 0x06;
    pub const PKTCTRL1: u8 = 0x07;
    pub const PKTCTRL0: u8 = 0x08;
    pub const ADDR: u8 = 0x09;
    pub const CHANNR: u8 = 0x0A;
    pub const MDMCFG4: u8 = 0x10;
    pub const MDMCFG3: u8 = 0x11;
    pub const MDMCFG1: u8 = 0x13;
    pub const MCSM1: u8 = 0x17;
    pub const MCSM0: u8 = 0x18;
    pub const TEST0: u8 = 0x2E;
    pub const PARTNUM: u8 = 0x30;
    pub const VERSION: u8 = 0x31;
    pub const MARCSTATE: u8 = 0x35;
    pub const TXBYTES: u8 = 0x3A;
    pub const RXBYTES: u8 = 0x3B;
    pub const PATABLE: u8 = 0x3E;
    pub const FIFO: u8 = 0x3F;
}

/// Command strobes.
#[allow(missing_docs)]
pub mod strobe {
    pub const SRES: u8 = 0x30;
    pub const SFSTXON: u8 = 0x31;
    pub const SXOFF: u8 = 0x32;
    pub const SCAL: u8 = 0x33;
    pub const SRX: u8 = 0x34;
    pub const STX: u8 = 0x35;
    pub const SIDLE: u8 = 0x36;
    pub const SPWD: u8 = 0x39;
    pub const SFRX: u8 = 0x3A;
    pub const SFTX: u8 = 0x3B;
    pub const SNOP: u8 = 0x3D;
}

/// The registers after a reset, from 0x00 to 0x2E.
pub const RESET: [u8; 47] = [
    0x29, 0x2E, 0x3F, 0x07, 0xD3, 0x91, 0xFF, 0x04, 0x45, 0x00, 0x00, 0x0F, 0x00, 0x5E, 0xC4, 0xEC,
    0x8C, 0x22, 0x02, 0x22, 0xF8, 0x47, 0x07, 0x30, 0x04, 0x36, 0x6C, 0x03, 0x40, 0x91, 0x87, 0x6B,
    0xF8, 0x56, 0x10, 0xA9, 0x0A, 0x20, 0x0D, 0x41, 0x00, 0x59, 0x7F, 0x3F, 0x88, 0x31, 0x0B,
];

/// Nanoseconds that the chip takes, from its data sheet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// From power-on, from a reset, and out of sleep, until the crystal is stable.
    pub start_up_ns: u64,
    /// The synthesizer's start, without calibration.
    pub settle_ns: u64,
    /// A calibration.
    pub calibrate_ns: u64,
}

impl Timing {
    /// Those of the data sheet: 150 us, 88.4 us, 721 us.
    pub const DATA_SHEET: Timing = Timing {
        start_up_ns: 150_000,
        settle_ns: 88_400,
        calibrate_ns: 721_000,
    };
}

/// The states that a driver can tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The crystal is off: after SPWD or SXOFF.
    Sleep,
    /// The crystal starts: after power-on, SRES, or a chip select in sleep.
    Starts,
    /// It waits for a strobe.
    Idle,
    /// It calibrates, and then goes to a state.
    Calibrates(Target),
    /// The synthesizer starts.
    Settles(Target),
    /// The synthesizer runs: after SFSTXON.
    FastTxOn,
    /// It receives.
    Rx,
    /// It sends a packet.
    Tx,
    /// More bytes have arrived than there is room for.
    RxOverflow,
    /// A packet has ended too early.
    TxUnderflow,
}

/// Where a calibration, or a start of the synthesizer, leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Target {
    Idle,
    FastTxOn,
    Rx,
    Tx,
}

/// What the outside has received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The channel.
    pub channel: u8,
    /// The bytes after the length, if that varies.
    pub bytes: Vec<u8>,
}

/// The radio.
///
/// ```
/// use relume_models::{Chip, Radio, radio::{Timing, register, strobe}};
/// let mut radio = Radio::new(Timing::DATA_SHEET);
/// radio.reset();
/// radio.select(true);
/// while !radio.ready() {
///     radio.elapse(10_000); // the program waits for MISO
/// }
/// radio.transfer(register::FIFO | 0x40);
/// radio.transfer(2); // the length
/// radio.transfer(b'h');
/// radio.transfer(b'i');
/// radio.select(false);
/// radio.select(true);
/// radio.transfer(strobe::STX);
/// radio.select(false);
/// radio.elapse(100_000_000);
/// assert_eq!(radio.take_sent()[0].bytes, b"hi");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Radio {
    timing: Timing,
    registers: [u8; 47],
    powers: [u8; 8],
    power: usize,
    state: State,
    /// Nanoseconds until the state changes by itself.
    left: u64,
    tx: VecDeque<u8>,
    rx: VecDeque<u8>,
    selected: bool,
    /// What the bytes after the header do.
    access: Access,
    /// SPWD and SXOFF take effect when the chip is no longer selected.
    sleeps: bool,
    arrived: bool,
    /// A packet of the received FIFO is complete, and its first byte not read.
    complete: bool,
    sent: Vec<Packet>,
    mistake: Option<&'static str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    /// The next byte is a header.
    Header,
    Registers {
        at: u8,
        read: bool,
        burst: bool,
    },
    Status(u8),
    Powers {
        read: bool,
        burst: bool,
    },
    Fifo {
        read: bool,
        burst: bool,
    },
}

impl Radio {
    /// A radio without power: [`Chip::reset`] switches it on.
    pub fn new(timing: Timing) -> Self {
        Radio {
            timing,
            registers: RESET,
            powers: [0xC6, 0, 0, 0, 0, 0, 0, 0],
            power: 0,
            state: State::Starts,
            left: timing.start_up_ns,
            tx: VecDeque::new(),
            rx: VecDeque::new(),
            selected: false,
            access: Access::Header,
            sleeps: false,
            arrived: false,
            complete: false,
            sent: Vec::new(),
            mistake: None,
        }
    }

    /// Chip select: `true` is the low level of CSn.
    pub fn select(&mut self, on: bool) {
        if on == self.selected {
            return;
        }
        self.selected = on;
        (self.access, self.power) = (Access::Header, 0);
        if on && self.state == State::Sleep {
            self.go(State::Starts, self.timing.start_up_ns);
        }
        if !on && std::mem::take(&mut self.sleeps) {
            self.state = State::Sleep;
            self.tx.clear();
            self.rx.clear();
            self.complete = false;
            self.powers[1..].fill(0);
            self.registers[0x2C..].copy_from_slice(&RESET[0x2C..]);
        }
    }

    /// The level of MISO with the chip selected, before a byte: low means that the crystal is
    /// stable.
    pub fn ready(&self) -> bool {
        self.selected && !matches!(self.state, State::Starts | State::Sleep)
    }

    /// One byte on SPI, both ways.
    pub fn transfer(&mut self, byte: u8) -> u8 {
        if !self.selected {
            // Another chip's byte, or nobody's.
            return 0xFF;
        }
        if !self.ready() {
            self.wrong("the radio is spoken to before its crystal is stable");
            return 0x80;
        }
        match self.access {
            Access::Header => self.header(byte),
            Access::Registers { at, read, burst } => {
                let status = self.status(read);
                self.next(
                    burst,
                    Access::Registers {
                        at: at + 1,
                        read,
                        burst,
                    },
                );
                let Some(r) = self.registers.get_mut(usize::from(at)) else {
                    self.wrong("a burst beyond the radio's last register");
                    return status;
                };
                if read {
                    return *r;
                }
                *r = byte;
                status
            }
            Access::Status(at) => {
                self.access = Access::Header;
                self.status_register(at)
            }
            Access::Powers { read, burst } => {
                let status = self.status(read);
                let at = self.power & 7;
                self.power += 1;
                self.next(burst, Access::Powers { read, burst });
                if read {
                    return self.powers[at];
                }
                self.powers[at] = byte;
                status
            }
            Access::Fifo { read: false, burst } => {
                let status = self.status(false);
                self.next(burst, Access::Fifo { read: false, burst });
                if self.tx.len() == FIFO {
                    self.wrong("the radio's TX FIFO overflows");
                } else {
                    self.tx.push_back(byte);
                }
                status
            }
            Access::Fifo { read: true, burst } => {
                self.next(burst, Access::Fifo { read: true, burst });
                self.complete = false;
                match self.rx.pop_front() {
                    Some(b) => b,
                    None => {
                        self.wrong("the radio's RX FIFO is empty");
                        0
                    }
                }
            }
        }
    }

    /// The outside sends a packet. It arrives if the radio receives on that channel, and with the
    /// length before it if that varies.
    pub fn receive(&mut self, packet: &Packet) -> bool {
        if self.state != State::Rx || packet.channel != self.registers[0x0A] {
            return false;
        }
        let append = self.registers[0x07] & 4 != 0;
        let header = usize::from(self.variable());
        if self.rx.len() + header + packet.bytes.len() + 2 * usize::from(append) > FIFO {
            self.state = State::RxOverflow;
            return false;
        }
        if self.variable() {
            self.rx.push_back(packet.bytes.len() as u8);
        }
        self.rx.extend(&packet.bytes);
        if append {
            // RSSI, and the CRC is right.
            self.rx.extend([0x10, 0xB0]);
        }
        (self.complete, self.arrived) = (true, true);
        self.state = match self.registers[0x17] >> 2 & 3 {
            3 => State::Rx,
            1 => State::FastTxOn,
            _ => State::Idle,
        };
        true
    }

    /// The level of GDO0, for the functions 0x06 (high while a packet is sent), 0x07 (a packet has
    /// arrived, until its first byte is read), 0x29 (the crystal is not stable yet); bit 6 of
    /// IOCFG0 inverts it. With other functions it is low.
    pub fn gdo0(&self) -> bool {
        let configured = self.registers[0x02];
        let level = match configured & 0x3F {
            0x06 => self.state == State::Tx || self.arrived,
            0x07 => self.complete,
            0x29 => matches!(self.state, State::Starts | State::Sleep),
            _ => false,
        };
        level != (configured & 0x40 != 0)
    }

    /// The packets that the outside has received since the last call.
    pub fn take_sent(&mut self) -> Vec<Packet> {
        std::mem::take(&mut self.sent)
    }

    /// How many there are.
    pub fn sent(&self) -> &[Packet] {
        &self.sent
    }

    /// What it does.
    pub fn state(&self) -> State {
        self.state
    }

    /// A register's value, from 0x00 to 0x2E, without an access.
    pub fn register(&self, at: u8) -> u8 {
        self.registers.get(usize::from(at)).copied().unwrap_or(0)
    }

    /// The first byte of the table of output powers, without an access.
    pub fn power(&self) -> u8 {
        self.powers[0]
    }

    /// Nanoseconds of a packet of so many bytes on the air: preamble, sync word and CRC included.
    pub fn packet_ns(&self, bytes: usize) -> u64 {
        const PREAMBLE: [u64; 8] = [2, 3, 4, 6, 8, 12, 16, 24];
        let preamble = PREAMBLE[usize::from(self.registers[0x13] >> 4 & 7)];
        let sync = match self.registers[0x12] & 3 {
            0 => 0,
            3 => 4,
            _ => 2,
        };
        let crc = if self.registers[0x08] & 4 != 0 { 2 } else { 0 };
        let bits = 8 * (preamble + sync + crc + bytes as u64);
        let (m, e) = (self.registers[0x11], self.registers[0x10] & 0xF);
        let rate = (256 + u64::from(m)) << e;
        bits * ((1 << 28) * 1_000_000_000 / CRYSTAL_HZ) / rate
    }

    fn wrong(&mut self, what: &'static str) {
        self.mistake.get_or_insert(what);
    }

    fn variable(&self) -> bool {
        self.registers[0x08] & 3 == 1
    }

    fn go(&mut self, state: State, ns: u64) {
        (self.state, self.left) = (state, ns);
    }

    fn next(&mut self, burst: bool, next: Access) {
        self.access = if burst { next } else { Access::Header };
    }

    /// The status byte; with a read the bytes in the RX FIFO, else the room in the TX FIFO.
    fn status(&self, read: bool) -> u8 {
        let state = match self.state {
            State::Idle => 0,
            State::Rx => 1,
            State::Tx => 2,
            State::FastTxOn => 3,
            State::Calibrates(_) => 4,
            State::Settles(_) => 5,
            State::RxOverflow => 6,
            State::TxUnderflow => 7,
            State::Sleep | State::Starts => return 0x80,
        };
        let n = match read {
            true => self.rx.len(),
            false => FIFO - self.tx.len(),
        };
        state << 4 | n.min(15) as u8
    }

    fn header(&mut self, byte: u8) -> u8 {
        let (read, burst, at) = (byte & 0x80 != 0, byte & 0x40 != 0, byte & 0x3F);
        let status = self.status(read);
        match at {
            0x00..=0x2E => self.access = Access::Registers { at, read, burst },
            0x2F => self.wrong("the radio has no register 0x2F"),
            0x3E => self.access = Access::Powers { read, burst },
            0x3F => self.access = Access::Fifo { read, burst },
            _ if burst => self.access = Access::Status(at),
            _ => self.strobe(at),
        }
        status
    }

    fn status_register(&self, at: u8) -> u8 {
        match at {
            register::PARTNUM => 0x80,
            register::VERSION => 0x03,
            register::MARCSTATE => match self.state {
                State::Sleep | State::Starts => 0,
                State::Idle => 1,
                State::Calibrates(_) => 8,
                State::Settles(_) => 11,
                State::Rx => 13,
                State::RxOverflow => 17,
                State::FastTxOn => 18,
                State::Tx => 19,
                State::TxUnderflow => 22,
            },
            register::TXBYTES => {
                self.tx.len() as u8 | u8::from(self.state == State::TxUnderflow) << 7
            }
            register::RXBYTES => {
                self.rx.len() as u8 | u8::from(self.state == State::RxOverflow) << 7
            }
            _ => 0,
        }
    }

    fn strobe(&mut self, at: u8) {
        let from_idle = self.registers[0x18] >> 4 & 3 == 1;
        let t = self.timing;
        match (at, self.state) {
            (strobe::SRES, _) => {
                let (sent, selected) = (std::mem::take(&mut self.sent), self.selected);
                let mistake = self.mistake;
                *self = Radio {
                    sent,
                    selected,
                    mistake,
                    ..Radio::new(t)
                };
            }
            (strobe::SPWD | strobe::SXOFF, _) => self.sleeps = true,
            (strobe::SIDLE, State::RxOverflow | State::TxUnderflow) => {}
            (strobe::SIDLE, _) => self.state = State::Idle,
            (strobe::SCAL, State::Idle) => self.go(State::Calibrates(Target::Idle), t.calibrate_ns),
            (strobe::SFRX, State::Idle | State::RxOverflow) => {
                self.rx.clear();
                self.complete = false;
                self.state = State::Idle;
            }
            (strobe::SFTX, State::Idle | State::TxUnderflow) => {
                self.tx.clear();
                self.state = State::Idle;
            }
            (strobe::SFRX | strobe::SFTX, _) => {
                self.wrong("a FIFO of the radio is flushed while it is in use")
            }
            (strobe::SRX | strobe::STX | strobe::SFSTXON, state) => {
                let to = match at {
                    strobe::SRX => Target::Rx,
                    strobe::STX => Target::Tx,
                    _ => Target::FastTxOn,
                };
                match state {
                    State::Idle if from_idle => self.go(State::Calibrates(to), t.calibrate_ns),
                    State::Idle => self.go(State::Settles(to), t.settle_ns),
                    State::FastTxOn | State::Rx | State::Tx if to == Target::Tx => self.sends(),
                    State::FastTxOn | State::Tx if to == Target::Rx => self.state = State::Rx,
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// A packet begins.
    fn sends(&mut self) {
        let bytes = self.length();
        self.go(State::Tx, self.packet_ns(bytes));
    }

    /// Bytes of the FIFO that the next packet takes.
    fn length(&self) -> usize {
        match self.variable() {
            true => 1 + usize::from(self.tx.front().copied().unwrap_or(0)),
            false => self.registers[0x06].into(),
        }
    }

    fn arrive(&mut self, to: Target) {
        match to {
            Target::Idle => self.state = State::Idle,
            Target::FastTxOn => self.state = State::FastTxOn,
            Target::Rx => self.state = State::Rx,
            Target::Tx => self.sends(),
        }
    }

    /// A packet ends: only now the outside has it.
    fn ends(&mut self) {
        let n = self.length();
        if self.tx.len() < n || n == 0 {
            self.wrong("the radio has too few bytes to send");
            self.state = State::TxUnderflow;
            return;
        }
        let header = usize::from(self.variable());
        let bytes = self.tx.drain(..n).skip(header).collect();
        let channel = self.registers[0x0A];
        self.sent.push(Packet { channel, bytes });
        self.state = match self.registers[0x17] & 3 {
            3 => State::Rx,
            1 => State::FastTxOn,
            _ => State::Idle,
        };
    }
}

impl Chip for Radio {
    fn reset(&mut self) {
        let sent = std::mem::take(&mut self.sent);
        *self = Radio {
            sent,
            ..Radio::new(self.timing)
        };
    }

    fn elapse(&mut self, ns: u64) {
        let mut rest = ns;
        self.arrived = false;
        while matches!(
            self.state,
            State::Starts | State::Calibrates(_) | State::Settles(_) | State::Tx
        ) {
            if rest < self.left {
                self.left -= rest;
                return;
            }
            rest -= self.left;
            match self.state {
                State::Starts => self.state = State::Idle,
                State::Tx => self.ends(),
                State::Calibrates(to) if to != Target::Idle => {
                    self.go(State::Settles(to), self.timing.settle_ns)
                }
                State::Calibrates(to) | State::Settles(to) => self.arrive(to),
                _ => {}
            }
        }
    }

    fn mistake(&self) -> Option<&'static str> {
        self.mistake
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spi(radio: &mut Radio, bytes: &[u8]) -> Vec<u8> {
        radio.select(true);
        let out = bytes.iter().map(|b| radio.transfer(*b)).collect();
        radio.select(false);
        out
    }

    fn started() -> Radio {
        let mut r = Radio::new(Timing::DATA_SHEET);
        r.reset();
        r.elapse(150_000);
        r
    }

    #[test]
    fn it_takes_its_time_to_start() {
        let mut r = Radio::new(Timing::DATA_SHEET);
        r.reset();
        r.select(true);
        r.elapse(149_999);
        assert!(!r.ready());
        r.elapse(1);
        assert!(r.ready());
        assert_eq!(r.transfer(strobe::SNOP), 0x0F);
        assert_eq!(r.mistake(), None);
        r.reset();
        r.select(true);
        r.transfer(strobe::SNOP);
        assert!(r.mistake().is_some());
    }

    #[test]
    fn registers_and_bursts() {
        let mut r = started();
        assert_eq!(spi(&mut r, &[0x80 | register::PKTLEN, 0])[1], 0xFF);
        spi(&mut r, &[register::SYNC1 | 0x40, 1, 2, 3]);
        let read = spi(&mut r, &[0xC0 | register::SYNC1, 0, 0, 0]);
        assert_eq!(read[1..], [1, 2, 3]);
        assert_eq!(spi(&mut r, &[0xC0 | register::VERSION, 0])[1], 3);
        spi(&mut r, &[register::PATABLE | 0x40, 9, 8]);
        assert_eq!(spi(&mut r, &[0xC0 | register::PATABLE, 0, 0])[1..], [9, 8]);
    }

    #[test]
    fn sleep_keeps_the_configuration_and_a_reset_does_not() {
        let mut r = started();
        spi(&mut r, &[register::CHANNR, 7]);
        spi(&mut r, &[register::TEST0, 7]);
        spi(&mut r, &[register::FIFO, 7]);
        spi(&mut r, &[strobe::SPWD]);
        assert_eq!(r.state(), State::Sleep);
        r.select(true);
        r.elapse(150_000);
        r.select(false);
        assert_eq!(
            (r.register(register::CHANNR), r.register(register::TEST0)),
            (7, 0x0B)
        );
        assert_eq!(spi(&mut r, &[0xC0 | register::TXBYTES, 0])[1], 0);
        r.reset();
        assert_eq!(r.register(register::CHANNR), 0);
    }

    #[test]
    fn a_packet_has_left_when_it_is_complete() {
        let mut r = started();
        spi(&mut r, &[register::CHANNR, 3]);
        spi(&mut r, &[register::MCSM0, 0x14]);
        spi(&mut r, &[register::FIFO | 0x40, 2, 8, 9]);
        spi(&mut r, &[strobe::STX]);
        assert_eq!(r.state(), State::Calibrates(Target::Tx));
        r.elapse(721_000);
        assert_eq!(r.state(), State::Settles(Target::Tx));
        r.elapse(88_400);
        assert_eq!(r.state(), State::Tx);
        let air = r.packet_ns(3);
        // 4 bytes of preamble, 2 of the sync word, 3, and 2 of CRC at 115.051 kbit/s.
        assert!((764_000..766_000).contains(&air), "{air}");
        r.elapse(air - 1);
        assert!(r.sent().is_empty());
        // A cut now: nobody has received it.
        let mut cut = r.clone();
        cut.reset();
        cut.elapse(1_000_000_000);
        assert!(cut.sent().is_empty());
        r.elapse(1);
        let bytes = vec![8, 9];
        assert_eq!(r.take_sent(), [Packet { channel: 3, bytes }]);
        assert_eq!((r.state(), r.mistake()), (State::Idle, None));
    }

    #[test]
    fn too_few_bytes_are_no_packet() {
        let mut r = started();
        spi(&mut r, &[register::FIFO, 2]);
        spi(&mut r, &[strobe::STX]);
        r.elapse(1_000_000_000);
        assert_eq!(r.state(), State::TxUnderflow);
        assert!(r.sent().is_empty() && r.mistake().is_some());
        spi(&mut r, &[strobe::SFTX]);
        assert_eq!(r.state(), State::Idle);
    }

    #[test]
    fn a_packet_arrives_where_it_is_expected() {
        let mut r = started();
        let p = Packet {
            channel: 0,
            bytes: vec![1, 2],
        };
        assert!(!r.receive(&p));
        spi(&mut r, &[register::IOCFG0, 7]);
        spi(&mut r, &[strobe::SRX]);
        r.elapse(88_400);
        assert!(r.receive(&p) && r.gdo0());
        assert_eq!(spi(&mut r, &[0xC0 | register::RXBYTES, 0])[1], 5);
        assert_eq!(spi(&mut r, &[0xFF, 0, 0, 0])[1..], [2, 1, 2]);
        assert!(!r.gdo0());
    }
}
