//! The state of the machine, and stepping it.

use crate::cycles::{FRCTL0, Timing, Waits};
use crate::flag;
use crate::mpy32::Mpy32;
use crate::table::{TABLE, Table};
use crate::timer_a::TimerA;
use crate::watch::{Observer, Store, Width};

/// The program counter's place in the registers.
pub const PC: usize = 0;
/// The stack pointer's.
pub const SP: usize = 1;
/// The status register's.
pub const SR: usize = 2;

/// Where the address of the first instruction is.
const RESET: u16 = 0xfffe;

/// The CPU and 64 KiB of memory, all of it read and written alike; there are no peripherals but a
/// [`TimerA`], if one is connected.
#[derive(Clone)]
pub struct Cpu {
    /// R0 to R15. PC and SP are kept even by what the CPU does; a value set here should be.
    pub regs: [u16; 16],
    /// The memory, low byte first.
    pub mem: Box<[u8; 0x10000]>,
    /// Cycles so far.
    pub cycles: u64,
    /// Instructions finished so far; an accepted interrupt is none.
    pub instructions: u64,
    /// Whose cycles are counted.
    pub timing: Timing,
    /// The wait states of FRAM, which are counted, too.
    pub waits: Waits,
    table: &'static Table,
    /// The address of the last instruction.
    last: u16,
    /// Where instructions may lie: first address and length less 1.
    executable: (u16, u16),
    /// More of it.
    executable_too: Option<(u16, u16)>,
    pub(crate) pending: u64,
    pub(crate) timer: Option<TimerA>,
    pub(crate) multiplier: Option<Mpy32>,
    pub(crate) due: u64,
    /// The number of the instruction that comes after the one that has set GIE.
    pub(crate) enabled_at: u64,
    /// An observer has asked for an end.
    pub(crate) asked: bool,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// One instruction.
    Executed,
    /// The acceptance of an interrupt; its first instruction is next.
    Interrupt,
    /// Nothing: CPUOFF is set, and nothing is pending that may end it. With a timer and GIE, the
    /// time passed until it was due.
    Off,
}

/// An instruction that cannot be executed. The CPU is as before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its address.
    pub pc: u16,
    /// Why.
    pub kind: FaultKind,
}

/// Why an instruction cannot be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// This word begins no instruction.
    Undefined(u16),
    /// Outside of [`Cpu::set_executable`].
    NotExecutable,
    /// It uses the multiplier as it must not be used.
    Misused(&'static str),
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.kind {
            FaultKind::Undefined(w) => write!(f, "no instruction: 0x{w:04x} at 0x{:04x}", self.pc),
            FaultKind::NotExecutable => write!(f, "no code at 0x{:04x}", self.pc),
            FaultKind::Misused(what) => write!(f, "{what}, before 0x{:04x}", self.pc),
        }
    }
}

impl core::error::Error for Fault {}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The instructions asked for were executed.
    Limit,
    /// CPUOFF, and nothing is left that could end it.
    Off,
    /// The observer asked for it.
    Observer,
    /// An instruction that cannot be executed.
    Fault(Fault),
}

impl Cpu {
    /// Registers and memory zero.
    pub fn new() -> Self {
        let mem: Box<[u8]> = vec![0; 0x10000].into();
        Cpu {
            regs: [0; 16],
            mem: mem.try_into().expect("64 KiB"),
            cycles: 0,
            instructions: 0,
            timing: Timing::default(),
            waits: Waits::default(),
            table: &TABLE,
            last: 0,
            executable: (0, 0xffff),
            executable_too: None,
            pending: 0,
            timer: None,
            multiplier: None,
            due: u64::MAX,
            enabled_at: u64::MAX,
            asked: false,
        }
    }

    /// Starts at the reset vector: SR is cleared, the other registers and the memory stay, nothing
    /// is pending.
    pub fn reset(&mut self) {
        self.regs[PC] = self.word(RESET) & !1;
        self.regs[SR] = 0;
        self.pending = 0;
        self.enabled_at = u64::MAX;
        self.asked = false;
        self.waits.reset();
    }

    /// An access to memory: it may have to wait.
    #[inline]
    pub(crate) fn wait(&mut self, address: u16, write: bool) {
        if self.waits.on() {
            self.cycles += self.waits.access(address, write);
        }
    }

    /// An instruction outside of `first..=last` is a fault from now on.
    pub fn set_executable(&mut self, first: u16, last: u16) {
        self.executable = (first, last.saturating_sub(first));
    }

    /// But not in this range: there may be instructions, too.
    pub fn set_executable_too(&mut self, first: u16, last: u16) {
        self.executable_too = Some((first, last.saturating_sub(first)));
    }

    fn is_executable_too(&self, pc: u16) -> bool {
        let range = self.executable_too;
        range.is_some_and(|(first, more)| pc.wrapping_sub(first) <= more)
    }

    /// The address of the last instruction that was executed.
    pub fn last(&self) -> u16 {
        self.last
    }

    /// The word at an address; bit 0 of the address does not count, as on the bus.
    #[inline]
    pub fn word(&self, address: u16) -> u16 {
        let a = usize::from(address & !1);
        u16::from_le_bytes([self.mem[a], self.mem[a | 1]])
    }

    /// Writes a word from outside: no observer sees it.
    #[inline]
    pub fn set_word(&mut self, address: u16, value: u16) {
        let a = usize::from(address & !1);
        [self.mem[a], self.mem[a | 1]] = value.to_le_bytes();
    }

    /// A store by the CPU.
    #[inline]
    pub(crate) fn store<O: Observer>(
        &mut self,
        address: u16,
        byte: bool,
        value: u16,
        pc: u16,
        o: &mut O,
    ) {
        self.wait(address, true);
        self.before_timer(address);
        let (address, width, old, new) = if byte {
            let cell = &mut self.mem[usize::from(address)];
            let old = std::mem::replace(cell, value as u8);
            (address, Width::Byte, u16::from(old), value & 0xff)
        } else {
            let old = self.word(address);
            self.set_word(address, value);
            (address & !1, Width::Word, old, value)
        };
        self.after_timer(address, true);
        self.after_multiplier(address, byte);
        if address & !1 == FRCTL0 {
            let reads = self.waits.control(self.word(FRCTL0));
            self.set_word(FRCTL0, reads);
        }
        let store = Store {
            address,
            width,
            old,
            new,
            pc,
            instruction: self.instructions,
            cycle: self.cycles,
        };
        if o.store(&store).is_break() {
            self.asked = true;
        }
    }

    #[inline]
    pub(crate) fn see_load<O: Observer>(&mut self, address: u16, width: Width, o: &mut O) {
        if o.load(address, width).is_break() {
            self.asked = true;
        }
    }

    /// Executes one instruction, or accepts one interrupt.
    ///
    /// **Errors**: the instruction cannot be executed; then nothing has changed.
    #[inline]
    pub fn step<O: Observer>(&mut self, o: &mut O) -> Result<Event, Fault> {
        if self.cycles >= self.due {
            self.tick();
        }
        if self.pending != 0 && self.accept(o) {
            return Ok(Event::Interrupt);
        }
        if self.regs[SR] & flag::CPUOFF != 0 {
            // Nothing is executed that an interrupt would have to wait for.
            self.enabled_at = u64::MAX;
            if self.may_wake() && self.pending == 0 && self.due != u64::MAX {
                self.cycles = self.cycles.max(self.due);
            }
            return Ok(Event::Off);
        }
        let pc = self.regs[PC];
        let (first, more) = self.executable;
        if pc.wrapping_sub(first) > more && !self.is_executable_too(pc) {
            let kind = FaultKind::NotExecutable;
            return Err(Fault { pc, kind });
        }
        let word = self.word(pc);
        let entry = &self.table[usize::from(word)];
        let cycles = entry.cycles[self.timing as usize];
        if cycles == 0 {
            let kind = FaultKind::Undefined(word);
            return Err(Fault { pc, kind });
        }
        self.last = pc;
        self.wait(pc, false);
        self.regs[PC] = pc.wrapping_add(2);
        self.execute(entry.instruction, pc, o);
        self.cycles += u64::from(cycles);
        self.instructions += 1;
        Ok(Event::Executed)
    }

    /// Runs at most `limit` instructions.
    pub fn run<O: Observer>(&mut self, limit: u64, o: &mut O) -> Stop {
        let end = self.instructions.saturating_add(limit);
        self.asked = false;
        while self.instructions < end {
            match self.step(o) {
                Ok(Event::Executed | Event::Interrupt) => {}
                Ok(Event::Off) if self.may_wake() => {}
                Ok(Event::Off) => return Stop::Off,
                Err(f) => return Stop::Fault(f),
            }
            if self.asked {
                return Stop::Observer;
            }
        }
        Stop::Limit
    }

    fn may_wake(&self) -> bool {
        let due = self.due != u64::MAX && self.timer_runs();
        self.regs[SR] & flag::GIE != 0 && (due || self.pending != 0)
    }
}

impl core::fmt::Debug for Cpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut s = f.debug_struct("Cpu");
        s.field("regs", &self.regs).field("cycles", &self.cycles);
        s.field("instructions", &self.instructions)
            .finish_non_exhaustive()
    }
}

impl Default for Cpu {
    fn default() -> Self {
        Self::new()
    }
}
