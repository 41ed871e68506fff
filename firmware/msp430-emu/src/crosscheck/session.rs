//! One program: our core runs it, and a script for the simulator is written on the way.

use super::deviation::{self, Accesses, DEVIATIONS, Deviation};
use super::{Failure, Plant, Report, simulator};
use crate::cpu::{Cpu, Event, PC, SP, SR};
use crate::decode::{Instruction, Operand, decode};
use crate::flag;
use crate::image::Image;
use std::fmt::Write;

/// Below are the peripherals, which the simulator handles apart.
pub(super) const MEMORY: u16 = 0x200;

/// The instruction that a command steps.
#[derive(Clone, Copy)]
pub(super) struct Stepped {
    pub pc: u16,
    /// As it was then; a program may overwrite itself.
    pub words: [u16; 3],
    /// The address of what it stored.
    pub stored: Option<u16>,
}

/// What the registers must be after a command that prints them.
pub(super) struct Expected {
    /// `None` after a `set`.
    pub stepped: Option<Stepped>,
    pub regs: [u16; 16],
    /// Bits that count, of each register.
    pub mask: [u16; 16],
}

pub(super) struct Session {
    pub cpu: Cpu,
    pub counts: Report,
    pub script: String,
    pub expected: Vec<Expected>,
    /// The memory at the start, from [`MEMORY`].
    pub memory: Vec<u8>,
    plant: Option<Plant>,
}

impl Session {
    pub fn new(plant: Option<Plant>) -> Self {
        Session {
            cpu: Cpu::new(),
            counts: Report::default(),
            script: String::new(),
            expected: Vec::new(),
            memory: Vec::new(),
            plant,
        }
    }

    /// The state of our core becomes the simulator's.
    pub fn start(&mut self) {
        self.memory = self.cpu.mem[usize::from(MEMORY)..].to_vec();
        for r in 0..16 {
            self.resync(r);
        }
    }

    /// Sets a register of the simulator to our value.
    pub fn resync(&mut self, r: usize) {
        writeln!(self.script, "set {r} 0x{:04x}", self.cpu.regs[r]).expect("a string");
        // It prints the registers: what this sets is seen after the next step.
        self.expected.push(Expected {
            stepped: None,
            regs: self.cpu.regs,
            mask: [0; 16],
        });
    }

    /// Writes a word to both memories.
    pub fn poke(&mut self, address: u16, value: u16) {
        self.cpu.set_word(address, value);
        let [low, high] = value.to_le_bytes();
        let at = address & !1;
        writeln!(self.script, "mw 0x{at:04x} {low:02x} {high:02x}").expect("a string");
    }

    /// Executes the next instruction in both. False: there is none, or an interrupt comes, or the
    /// CPU is off.
    pub fn step(&mut self) -> bool {
        self.step_if(|_, _| true)
    }

    /// As [`step`](Self::step), if it is accepted; otherwise nothing has happened.
    pub fn step_if(&mut self, accept: impl Fn(&Accesses, Option<Deviation>) -> bool) -> bool {
        let pc = self.cpu.regs[PC];
        let Some(i) = decode(self.cpu.word(pc)) else {
            return false;
        };
        let words = [0, 2, 4].map(|n| self.cpu.word(pc.wrapping_add(n)));
        let (regs, cycles) = (self.cpu.regs, self.cpu.cycles);
        let mut a = Accesses::default();
        let event = self.cpu.step(&mut a);
        let after = self.cpu.regs;
        // In front of the instruction, for a look.
        self.cpu.regs = regs;
        for s in a.stores.iter().rev() {
            match s.width {
                crate::Width::Byte => self.cpu.mem[usize::from(s.address)] = s.old as u8,
                crate::Width::Word => self.cpu.set_word(s.address, s.old),
            }
        }
        if event != Ok(Event::Executed) {
            // The simulator accepts no interrupt: the comparison ends in front of it.
            return false;
        }
        let d = deviation::find(&self.cpu, i, &a);
        if deviation::spreads(i) || !accept(&a, d) {
            self.cpu.cycles = cycles;
            self.cpu.instructions -= 1;
            return false;
        }
        self.cpu.regs = after;
        for s in &a.stores {
            match s.width {
                crate::Width::Byte => self.cpu.mem[usize::from(s.address)] = s.new as u8,
                crate::Width::Word => self.cpu.set_word(s.address, s.new),
            }
        }
        if let Some(plant) = self.plant {
            plant(&mut self.cpu, i);
        }
        self.counts.instructions += 1;
        self.expect((pc, words), i, d, &a);
        true
    }

    fn expect(
        &mut self,
        (pc, words): (u16, [u16; 3]),
        i: Instruction,
        d: Option<Deviation>,
        a: &Accesses,
    ) {
        self.script.push_str("step\n");
        let mut mask = [0xffff; 16];
        // The simulator keeps what is written to R3, and reads it as 0.
        mask[3] = 0;
        let mut again = Vec::new();
        match d {
            Some(Deviation::OddLoad | Deviation::Digits | Deviation::Timer) => {
                again.push(SR);
                if let Instruction::Double {
                    dst: Operand::Register(r),
                    ..
                }
                | Instruction::Single {
                    operand: Operand::Register(r),
                    ..
                } = i
                {
                    again.push(usize::from(r));
                }
                if matches!(i, Instruction::Single { .. } | Instruction::Reti) {
                    again.push(PC);
                }
                for &r in &again {
                    mask[r] = 0;
                }
            }
            Some(Deviation::PopByte) => {
                // It may go to PC, too.
                mask[SP] = 0;
                mask[PC] = !1;
                again.extend([PC, SP]);
            }
            Some(Deviation::OddRegister) => {
                mask[PC] = !1;
                mask[SP] = !1;
                again.extend([PC, SP]);
            }
            Some(Deviation::PushSp | Deviation::PushByte) | None => {}
        }
        self.expected.push(Expected {
            stepped: Some(Stepped {
                pc,
                words,
                stored: a.stores.first().map(|s| s.address),
            }),
            regs: self.cpu.regs,
            mask,
        });
        if let Some(d) = d {
            let n = DEVIATIONS.iter().position(|(x, _)| *x == d);
            self.counts.deviations[n.expect("all are listed")] += 1;
            for s in &a.stores {
                let now = self.cpu.word(s.address);
                self.poke(s.address, now);
            }
        }
        for r in again {
            self.resync(r);
        }
    }

    /// Clears CPUOFF in both, so that they go on.
    pub fn wake(&mut self) {
        if self.cpu.regs[SR] & flag::CPUOFF != 0 {
            self.cpu.regs[SR] &= !flag::CPUOFF;
            self.resync(SR);
        }
    }

    /// Runs the script and compares.
    pub fn finish(self, name: &str, image: &Image) -> Result<Report, Failure> {
        simulator::compare(&self, name, image)?;
        Ok(self.counts)
    }
}
