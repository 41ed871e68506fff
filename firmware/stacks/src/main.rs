//! Threads that overflow their stacks on purpose. Each overflow must be named, and what the thread
//! has committed before must count in the next boot.
//!
//! ```text
//!  boot 1   a thread commits a step, and overflows in its next one    its name goes to a cell
//!  boot 2   the cell names it: it does not overflow any more          both threads end well
//! ```
//!
//! `cargo xtask ci --only stacks` runs it: on a Cortex-M4, a Cortex-M33 and an RV32 core in QEMU,
//! and on the emulator of the MSP430; in the profiles dev and release.
#![cfg_attr(target_os = "none", no_std, no_main)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

#[cfg(target_arch = "arm")]
#[path = "arm.rs"]
mod machine;
#[cfg(target_arch = "msp430")]
#[path = "msp430.rs"]
mod machine;
#[cfg(target_arch = "riscv32")]
#[path = "riscv.rs"]
mod machine;
#[cfg(target_os = "none")]
mod program;

// Without a core it is an empty program.
#[cfg(not(target_os = "none"))]
fn main() {}
