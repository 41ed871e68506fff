//! An MSP430FR5994 as the firmware sees it: what a power cut takes, the timer, the mailbox.

use crate::cpu::{Cpu, Fault, FaultKind, PC, SR, Stop};
use crate::flag;
use crate::image::Image;
use crate::random::Random;
use crate::timer_a::TimerA;
use crate::watch::Unobserved;
use relume_suite::abi::{self, MSP430, cell};
use std::ops::Range;

/// The registers of the peripherals: plain memory here.
const PERIPHERALS: Range<usize> = 0..0x1000;
const RAM: Range<usize> = MSP430.ram as usize..(MSP430.ram + MSP430.ram_len) as usize;
const NVM: Range<usize> = MSP430.nvm as usize..(MSP430.nvm + MSP430.nvm_len) as usize;

/// A machine that can be switched off at any instruction.
#[derive(Clone, Debug)]
pub struct Board {
    /// The core. What it holds in NVM and in the mailbox survives; everything else does not.
    pub cpu: Cpu,
}

/// Why the power went off, or was left on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The instructions asked for were executed.
    Cut,
    /// The program stopped the machine; this is the status in the mailbox.
    Status(u16),
    /// An instruction that cannot be executed.
    Fault(Fault),
}

impl Board {
    /// A machine with a program, a blank memory and an empty mailbox, switched off.
    pub fn new(image: &Image) -> Self {
        let mut cpu = Cpu::new();
        image.load(&mut cpu);
        let last = MSP430.code + (MSP430.code_len - 1);
        cpu.set_executable(MSP430.code as u16, last as u16);
        Board { cpu }
    }

    /// Blanks the NVM and clears the mailbox.
    pub fn blank(&mut self) {
        self.cpu.mem[NVM].fill(0);
        let mailbox = MSP430.mailbox as usize;
        self.cpu.mem[mailbox..mailbox + 2 * usize::from(cell::COUNT)].fill(0);
    }

    /// What a cell of the mailbox says.
    pub fn read_cell(&self, cell: u16) -> u16 {
        self.cpu.word(MSP430.mailbox as u16 + 2 * cell)
    }

    /// Writes to a cell of the mailbox.
    pub fn write_cell(&mut self, cell: u16, value: u16) {
        self.cpu.set_word(MSP430.mailbox as u16 + 2 * cell, value);
    }

    /// The non-volatile memory.
    pub fn nvm(&self) -> &[u8] {
        &self.cpu.mem[NVM]
    }

    /// Switches the power on: garbage from the seed in RAM and registers, peripherals as after a
    /// reset.
    pub fn power_on(&mut self, garbage: u64) {
        let mut rng = Random::new(garbage);
        rng.fill(&mut self.cpu.mem[RAM]);
        self.cpu.mem[PERIPHERALS].fill(0);
        for r in &mut self.cpu.regs {
            *r = rng.next_u16() & !1;
        }
        self.cpu.regs[3] = 0;
        self.cpu.set_timer(Some(TimerA::ta0()));
        self.cpu.set_multiplier(true);
        self.cpu.reset();
    }

    /// Runs at most so many instructions. The timer interrupts as the program has set it.
    pub fn run(&mut self, limit: u64) -> Ended {
        let stop = self.cpu.run(limit, &mut Unobserved);
        if let Some(what) = self.cpu.misused() {
            return Ended::Fault(Fault {
                pc: self.cpu.regs[PC],
                kind: FaultKind::Misused(what),
            });
        }
        match stop {
            Stop::Limit | Stop::Observer => Ended::Cut,
            Stop::Off => Ended::Status(self.read_cell(cell::STATUS)),
            Stop::Fault(f) => Ended::Fault(f),
        }
    }

    /// Whether an interrupt is being served: the program runs with interrupts on otherwise.
    pub fn in_interrupt(&self) -> bool {
        self.cpu.timer_runs() && self.cpu.regs[SR] & flag::GIE == 0
    }

    /// A sentence about a run that should not have ended so: the failure in the mailbox, or the
    /// fault.
    pub fn failure(&self, ended: Ended, image: &Image) -> String {
        let pc = self.cpu.regs[PC];
        let at = image.line(&self.cpu, pc);
        match ended {
            Ended::Fault(f) => format!("{f}\n  {at}"),
            Ended::Cut => format!("it does not come to its end\n  {at}"),
            Ended::Status(status) => {
                let code = self.read_cell(cell::FAILURE);
                match abi::source_line(code) {
                    Some((file, line)) if status == abi::FAILED => {
                        format!("failed at {file}:{line}")
                    }
                    _ => format!("status {status}, failure {code:#x}\n  {at}"),
                }
            }
        }
    }
}
