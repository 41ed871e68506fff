//! An MSP430FR5994 on a board: its clock, ports, converter and serial bus, with a radio, LEDs and
//! buttons, and a supply that ends after a given time.
//!
//! ```text
//!  P1.1, P1.2   buttons, low when pressed       P2.2         UCB0CLK
//!  P1.3         the radio's chip select         P2.3         the radio's GDO0
//!  P1.6, P1.7   UCB0SIMO, UCB0SOMI              P3.0 - P3.7  LEDs
//!                                               P4           pins for a logic analyser
//! ```
//!
//! Registers and their bits are those of SLAU367 (MSP430FR58xx, FR59xx, FR6xx Family User's Guide):
//! chapters "Clock System", "Digital I/O", "REF_A", "ADC12_B", "eUSCI - SPI Mode". Addresses,
//! vectors and times are those of SLASE54 (MSP430FR5994). The chips are those of `relume-models`.
//!
//! Time has a unit of 62.5 ns, a period of 16 MHz. The core begins at 1 MHz. SMCLK is taken to be
//! as fast as MCLK. What a program does that the guide forbids is a [mistake](Node::mistake).

mod adc12;
mod clock;
mod port;
mod spi;

use crate::cpu::{Cpu, Event, PC, SR};
use crate::flag;
use crate::image::Image;
use crate::random::Random;
use crate::timer_a::TimerA;
use crate::watch::{Load, Observer, Store, Width};
use adc12::Adc12;
use clock::Clock;
use port::Port;
use relume_models::radio::{Packet, Timing};
use relume_models::{Buttons, Chip, Leds, Radio};
use spi::Spi;
use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};

/// Units of time in a millisecond.
pub const MS: u64 = 16_000;
/// From the supply to the first instruction: 1.24 ms, which the Sytare paper has measured.
pub const BOOT: u64 = 124 * MS / 100;

/// Nanoseconds of so many units of time.
const fn ns(time: u64) -> u64 {
    time * 125 / 2
}

const PERIPHERALS: Range<usize> = 0..0x1000;
const RAM: Range<usize> = 0x1C00..0x3C00;
/// The last byte in front of the vectors.
const CODE_END: u16 = 0xFF7F;

/// Vectors.
const PORT1: u16 = 0xFFDE;
const PORT2: u16 = 0xFFD8;
/// PM5CTL0, with LOCKLPM5: until it is cleared, no port drives a pin.
const PM5CTL0: u16 = 0x0130;
const LOCKLPM5: u16 = 1;

/// Port 4 shows where a program is, as its author would measure it.
const P4OUT: u16 = 0x0223;

const SELECT: u8 = 1 << 3;
const SOMI: u8 = 1 << 7;
const BUTTONS: u8 = 3 << 1;
const GDO0: u8 = 1 << 3;

/// Something from outside.
#[derive(Clone, Debug)]
pub enum Outside {
    /// A button is pressed: 0 or 1.
    Press(u8),
    /// It is let go.
    Release(u8),
    /// A packet arrives, if the radio receives.
    Packet(Packet),
}

/// How a life ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The supply ended.
    Cut,
    /// The program stopped the core.
    Stopped,
    /// It does what a program must not do.
    Wrong(String),
}

/// The chips and the peripherals, as the core's accesses see them.
#[derive(Clone)]
struct Bus {
    /// Since the supply came on.
    now: u64,
    /// Until when the chips have run.
    seen: u64,
    clock: Clock,
    locked: bool,
    ports: [Port; 3],
    adc: Adc12,
    spi: Spi,
    radio: Radio,
    leds: Leds,
    buttons: Buttons,
    /// A register was accessed: what interrupts may have changed.
    touched: bool,
    mistake: Option<String>,
    /// What port 4 has shown, and when.
    marks: Vec<(u64, u8)>,
    /// What the program keeps: its non-volatile memory, as the image says.
    fram: Range<u16>,
    /// The end of what the program has used of it.
    kept: u16,
    /// A planted fault: the last stores to it, each with what was there, for a memory that loses
    /// one.
    last: Option<VecDeque<(u16, u16)>>,
}

/// So many stores a memory of that kind has under way.
const UNDER_WAY: usize = 8;

impl Bus {
    #[inline]
    fn keeps(&mut self, address: u16) {
        if self.fram.contains(&address) && address >= self.kept {
            self.kept = (address | 1) + 1;
        }
    }

    fn wrong(&mut self, what: impl Into<String>) {
        self.mistake.get_or_insert(what.into());
    }

    /// The chips run until now.
    fn sync(&mut self) {
        while let Some(end) = self.spi.ends().filter(|end| *end <= self.now) {
            self.elapse(end.max(self.seen));
            let byte = self.spi.shifted();
            let answer = self.radio.transfer(byte);
            self.spi.received(answer);
        }
        self.elapse(self.now);
        // The pins.
        let [p1, p2, _] = &mut self.ports;
        let ready = self.radio.ready();
        let down = (self.buttons.input() & 3) << 1;
        p1.drive(
            SOMI | BUTTONS,
            if ready { 0 } else { SOMI } | !down & BUTTONS,
        );
        p2.drive(GDO0, if self.radio.gdo0() { GDO0 } else { 0 });
    }

    fn elapse(&mut self, until: u64) {
        let passed = ns(until) - ns(self.seen);
        self.radio.elapse(passed);
        self.adc.elapse(passed);
        self.seen = until;
    }

    /// A register of a port was written.
    fn pins(&mut self) {
        let [p1, _, p3] = &mut self.ports;
        if self.locked {
            return;
        }
        let selected = p1.drives(SELECT) == Some(false);
        self.radio.select(selected);
        self.leds.set_direction(p3.direction());
        self.leds.write(p3.output());
        self.buttons.enable((p1.enabled() & BUTTONS) >> 1);
        let gone = p1.take_cleared() & BUTTONS;
        self.buttons.clear(gone >> 1);
    }

    fn read(&mut self, at: u16) -> Option<u8> {
        if let Some((port, register)) = Port::find(at) {
            let value = self.ports[port].read(register);
            self.pins();
            return Some(value);
        }
        None
    }

    fn read_word(&mut self, at: u16) -> Option<u16> {
        match at {
            PM5CTL0 => Some(self.locked.into()),
            _ if clock::REGISTERS.contains(&at) => Some(self.clock.read(at)),
            _ if adc12::REGISTERS.contains(&at) || at == adc12::REFCTL0 => self.adc.read(at),
            _ if spi::REGISTERS.contains(&at) => self.spi.read(at),
            _ => None,
        }
    }

    fn write(&mut self, at: u16, value: u16, width: Width) {
        if let Some((port, register)) = Port::find(at) {
            self.ports[port].write(register, value as u8);
            if width == Width::Word
                && let Some((port, register)) = Port::find(at + 1)
            {
                self.ports[port].write(register, (value >> 8) as u8);
            }
            return self.pins();
        }
        match at {
            P4OUT => self.marks.push((self.now, value as u8)),
            PM5CTL0 => {
                self.locked = value & LOCKLPM5 != 0;
                self.pins();
            }
            _ if clock::REGISTERS.contains(&(at & !1)) => {
                if let Err(e) = self.clock.write(at, value, width, self.now) {
                    self.wrong(e)
                }
            }
            _ if adc12::REGISTERS.contains(&at) || at == adc12::REFCTL0 => {
                if let Err(e) = self.adc.write(at, value) {
                    self.wrong(e)
                }
            }
            _ if spi::REGISTERS.contains(&at) => {
                let [p1, p2, _] = &self.ports;
                let pins = p1.selected() & 0xC0 == 0xC0 && p2.selected() & 4 != 0;
                if let Err(e) = self
                    .spi
                    .write(at, value, self.now, self.clock.period(), pins)
                {
                    self.wrong(e)
                }
            }
            _ => {}
        }
    }
}

impl Observer for Bus {
    #[inline]
    fn store(&mut self, s: &Store) -> ControlFlow<()> {
        if PERIPHERALS.contains(&s.address.into()) {
            self.touched = true;
            self.sync();
            self.write(s.address, s.new, s.width);
            self.sync();
        } else {
            self.keeps(s.address);
            if let Some(last) = &mut self.last
                && self.fram.contains(&s.address)
                && s.width == Width::Word
            {
                last.push_front((s.address, s.old));
                last.truncate(UNDER_WAY);
            }
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn supply(&mut self, load: &Load) -> Option<u16> {
        let (address, width) = (load.address, load.width);
        if !PERIPHERALS.contains(&address.into()) {
            self.keeps(address);
            return None;
        }
        self.touched = true;
        self.sync();
        if let Some(byte) = self.read(address) {
            return Some(byte.into());
        }
        let word = self.read_word(address & !1)?;
        Some(match width {
            Width::Byte if address & 1 == 1 => word >> 8,
            _ => word,
        })
    }
}

/// The board.
#[derive(Clone)]
pub struct Node {
    cpu: Cpu,
    bus: Bus,
    /// What happens outside, and when in this life.
    outside: VecDeque<(u64, Outside)>,
    /// The deepest stack so far, in bytes.
    stack: u16,
}

impl Node {
    /// A board with this program and a blank memory, switched off. What the program keeps lies
    /// from `_fram` to `_fram_end`, its code behind that, and from `_information` to
    /// `_information_end`, if it has these.
    pub fn new(image: &Image) -> Self {
        let mut cpu = Cpu::new();
        image.load(&mut cpu);
        let fram = image.address("_fram").zip(image.address("_fram_end"));
        let fram = fram.map_or(0x4000..0x5000, |(begin, end)| begin..end);
        cpu.set_executable(fram.end, CODE_END);
        let more = image.address("_information");
        if let Some((begin, end)) = more.zip(image.address("_information_end")) {
            cpu.set_executable_too(begin, end - 1);
        }
        Node {
            cpu,
            bus: Bus {
                now: 0,
                seen: 0,
                clock: Clock::default(),
                locked: true,
                ports: Default::default(),
                adc: Adc12::default(),
                spi: Spi::default(),
                radio: Radio::new(Timing::DATA_SHEET),
                leds: Leds::default(),
                buttons: Buttons::default(),
                touched: false,
                mistake: None,
                marks: Vec::new(),
                kept: fram.start,
                fram,
                last: None,
            },
            outside: VecDeque::new(),
            stack: 0,
        }
    }

    /// The core.
    pub fn cpu(&self) -> &Cpu {
        &self.cpu
    }

    /// The radio.
    pub fn radio(&self) -> &Radio {
        &self.bus.radio
    }

    /// The LEDs.
    pub fn leds(&self) -> &Leds {
        &self.bus.leds
    }

    /// The buttons.
    pub fn buttons(&self) -> &Buttons {
        &self.bus.buttons
    }

    /// What the non-volatile memory holds.
    pub fn fram(&self) -> &[u8] {
        let fram = &self.bus.fram;
        &self.cpu.mem[fram.start.into()..fram.end.into()]
    }

    /// Bytes of it that the program has used so far.
    pub fn kept(&self) -> u16 {
        self.bus.kept - self.bus.fram.start
    }

    /// Writes a word of non-volatile memory from outside, before the supply comes on.
    pub fn set_word(&mut self, address: u16, value: u16) {
        self.cpu.set_word(address, value);
    }

    /// Plants a fault: at a cut, the memory loses one of the last stores, but keeps later ones.
    pub fn lose_stores(&mut self) {
        self.bus.last = Some(VecDeque::new());
    }

    /// The voltage of the temperature's sensor, in millivolts.
    pub fn set_sensor(&mut self, millivolts: u16) {
        self.bus.adc.set_sensor(millivolts);
    }

    /// Something happens outside, at this time of this life.
    pub fn plan(&mut self, at: u64, what: Outside) {
        self.outside.push_back((at, what));
        self.outside.make_contiguous().sort_by_key(|e| e.0);
    }

    /// What port 4 has shown in this life, and when.
    pub fn marks(&self) -> &[(u64, u8)] {
        &self.bus.marks
    }

    /// The time in this life.
    pub fn now(&self) -> u64 {
        self.bus.now
    }

    /// What a driver has done that a chip or the guide forbids, in this life.
    pub fn mistake(&self) -> Option<String> {
        let bus = &self.bus;
        let chips = [bus.radio.mistake(), bus.adc.mistake()];
        let chip = chips.into_iter().flatten().next();
        let of_core = chip.or(self.cpu.misused());
        bus.mistake.clone().or(of_core.map(str::to_owned))
    }

    /// The supply comes on: garbage from the seed in RAM and registers, all else as after a reset.
    pub fn power_on(&mut self, garbage: u64) {
        let (cpu, bus) = (&mut self.cpu, &mut self.bus);
        let mut rng = Random::new(garbage);
        if let Some(last) = &mut bus.last {
            let n = Random::new(!garbage).below(UNDER_WAY as u64);
            if let Some((address, old)) = last.get(n as usize) {
                cpu.set_word(*address, *old);
            }
            last.clear();
        }
        rng.fill(&mut cpu.mem[RAM]);
        cpu.mem[PERIPHERALS].fill(0);
        for r in &mut cpu.regs {
            *r = rng.next_u16() & !1;
        }
        cpu.regs[3] = 0;
        cpu.set_timer(Some(TimerA::ta0()));
        cpu.set_multiplier(true);
        cpu.reset();
        bus.radio.reset();
        bus.leds.reset();
        bus.buttons.reset();
        bus.adc.reset();
        (bus.spi, bus.ports) = (Spi::default(), Default::default());
        (bus.locked, bus.mistake) = (true, None);
        (bus.now, bus.seen, bus.touched) = (BOOT, BOOT, false);
        bus.clock = Clock::new(cpu.cycles, BOOT);
        bus.marks.clear();
        self.outside.clear();
        self.stack = RAM.end as u16;
    }

    /// Runs until the supply has been on for so long. `each` sees the board after each access to a
    /// peripheral.
    pub fn run(&mut self, end: u64, mut each: impl FnMut(&mut Node)) -> Ended {
        loop {
            let (cpu, bus) = (&mut self.cpu, &mut self.bus);
            bus.now = bus.clock.time(cpu.cycles);
            if bus.now >= end {
                return Ended::Cut;
            }
            let next = self.outside.front().map_or(u64::MAX, |e| e.0);
            if next <= bus.now
                && let Some((_, what)) = self.outside.pop_front()
            {
                bus.sync();
                match what {
                    Outside::Press(n) => bus.buttons.press(1 << (n & 1)),
                    Outside::Release(n) => bus.buttons.release(1 << (n & 1)),
                    Outside::Packet(p) => drop(bus.radio.receive(&p)),
                }
                bus.sync();
                bus.touched = true;
            }
            if std::mem::take(&mut bus.touched) {
                cpu.pend(PORT1, bus.ports[0].interrupts());
                cpu.pend(PORT2, bus.ports[1].interrupts());
                each(self);
                if let Some(what) = self.mistake() {
                    return Ended::Wrong(format!("{what}, at {:#06x}", self.cpu.last()));
                }
            }
            let (cpu, bus) = (&mut self.cpu, &mut self.bus);
            if cpu.regs[SR] & flag::CPUOFF != 0 && !cpu.is_pending() && cpu.cycles < cpu.due {
                let due = match cpu.due {
                    u64::MAX => u64::MAX,
                    due => bus.clock.time(due),
                };
                if cpu.regs[SR] & flag::GIE == 0 {
                    return Ended::Stopped;
                }
                let next = self.outside.front().map_or(u64::MAX, |e| e.0);
                let until = due.min(next).min(end);
                cpu.cycles += (until - bus.now).div_ceil(bus.clock.period()).max(1);
                continue;
            }
            match cpu.step(bus) {
                Ok(Event::Executed | Event::Off) => {}
                // What the vector's flags still ask for is pending again.
                Ok(Event::Interrupt) => bus.touched = true,
                Err(f) => return Ended::Wrong(f.to_string()),
            }
            let sp = cpu.regs[crate::cpu::SP];
            if sp < self.stack && sp as usize >= RAM.start && bus.clock.fast() {
                self.stack = sp;
            }
        }
    }

    /// The deepest stack of this life, in bytes.
    pub fn stack(&self) -> u16 {
        RAM.end as u16 - self.stack
    }

    /// Where the program is.
    pub fn line(&self, image: &Image) -> String {
        image.line(&self.cpu, self.cpu.regs[PC])
    }
}
