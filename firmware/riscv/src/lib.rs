//! Start-up of an RV32IMC core and the way to its scenarios. Empty on other targets.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", target_arch = "riscv32"))]
mod start;

#[cfg(all(target_os = "none", target_arch = "riscv32"))]
pub use start::clean;
