//! An MSP430FR5994 as the firmware sees it: what a power cut takes, the timer, the mailbox.

use crate::cpu::{Cpu, Fault, PC, SR, Stop};
use crate::flag;
use crate::image::Image;
use crate::interrupt::Timer;
use crate::random::Random;
use crate::watch::{Observer, Store};
use relume_suite::abi::{self, MSP430, cell};
use std::ops::{ControlFlow, Range};

/// Timer0_A: control, and the period less 1.
const TA0CTL: u16 = 0x0340;
const TA0CCR0: u16 = 0x0352;
/// Its vector.
const TA0_VECTOR: u16 = 0xffea;
/// Up mode, in the control register.
const UP: u16 = 0x0010;
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

/// Ends the run when the timer is started.
struct TimerStart;

impl Observer for TimerStart {
    #[inline]
    fn store(&mut self, s: &Store) -> ControlFlow<()> {
        match s.address == TA0CTL && s.new & UP != 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
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
        self.cpu.set_timer(None);
        self.cpu.reset();
    }

    /// Runs at most so many instructions. The timer interrupts as the program has set it.
    pub fn run(&mut self, mut limit: u64) -> Ended {
        loop {
            let before = self.cpu.instructions;
            let stop = self.cpu.run(limit, &mut TimerStart);
            limit -= (self.cpu.instructions - before).min(limit);
            match stop {
                Stop::Limit => return Ended::Cut,
                Stop::Off => return Ended::Status(self.read_cell(cell::STATUS)),
                Stop::Fault(f) => return Ended::Fault(f),
                Stop::Observer => {
                    let period = u64::from(self.cpu.word(TA0CCR0)) + 1;
                    self.cpu.set_timer(Some(Timer {
                        period,
                        vector: TA0_VECTOR,
                        due: self.cpu.cycles + period,
                    }));
                }
            }
        }
    }

    /// Whether an interrupt is being served: the program runs with interrupts on otherwise.
    pub fn in_interrupt(&self) -> bool {
        self.cpu.timer().is_some() && self.cpu.regs[SR] & flag::GIE == 0
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
