//! Start-up of an MSP430FR5994 and the way to its scenarios. Empty on other targets.
#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_arch = "msp430", feature(asm_experimental_arch))]

#[cfg(target_arch = "msp430")]
mod arithmetic;
#[cfg(target_arch = "msp430")]
mod start;

#[cfg(target_arch = "msp430")]
pub use start::clean;
