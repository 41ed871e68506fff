//! Start-up of an MSP430FR5994 and the way to its scenarios. Empty on other targets.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

// A user's program on this board has the same. The crate itself would bring start-up.
#[cfg(target_arch = "msp430")]
#[path = "../../../crates/rtos/src/msp430fr5994/arithmetic.rs"]
mod arithmetic;
#[cfg(target_arch = "msp430")]
#[macro_use]
#[path = "../../../crates/rtos/src/msp430fr5994/ram.rs"]
mod ram;
#[cfg(target_arch = "msp430")]
mod multiply;
#[cfg(target_arch = "msp430")]
mod one_core;
#[cfg(target_arch = "msp430")]
mod start;

#[cfg(target_arch = "msp430")]
pub use start::clean;
