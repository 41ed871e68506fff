#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod arithmetic;
mod board;
mod cpu;
pub mod crosscheck;
mod cycles;
mod decode;
mod disassemble;
mod energy;
mod execute;
pub mod fr5994;
mod image;
mod interrupt;
mod mpy32;
mod operands;
mod random;
mod table;
mod timer_a;
mod watch;

pub use board::{Board, Ended};
pub use cpu::{Cpu, Event, Fault, FaultKind, PC, SP, SR, Stop};
pub use cycles::{ACCEPT, Accesses, Timing, Waits, cycles};
pub use decode::{Condition, Double, Instruction, Operand, Single, decode};
pub use disassemble::{Disassembled, disassemble};
pub use energy::Energy;
pub use image::{Image, ImageError};
pub use random::Random;
pub use timer_a::TimerA;
pub use watch::{Load, Observer, Store, Unobserved, Watch, Width};

/// The bits of the status register.
pub mod flag {
    /// Carry.
    pub const C: u16 = 1 << 0;
    /// Zero.
    pub const Z: u16 = 1 << 1;
    /// Negative.
    pub const N: u16 = 1 << 2;
    /// General interrupt enable.
    pub const GIE: u16 = 1 << 3;
    /// The CPU is off until an interrupt.
    pub const CPUOFF: u16 = 1 << 4;
    /// System clock generator 0; the one bit that the acceptance of an interrupt leaves.
    pub const SCG0: u16 = 1 << 6;
    /// Overflow.
    pub const V: u16 = 1 << 8;
    /// What arithmetic sets.
    pub const ARITHMETIC: u16 = C | Z | N | V;
}
