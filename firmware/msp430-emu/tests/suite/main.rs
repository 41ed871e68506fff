//! The integration tests of the emulator.

mod crosscheck;
mod cycles;
mod disassemble;
mod fr5994;
mod instructions;
mod interrupts;
mod modes;
mod support;
mod timer_a;
