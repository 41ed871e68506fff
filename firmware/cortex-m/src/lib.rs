//! Start-up of a Cortex-M4 and the way to its scenarios. Empty on other targets.
#![cfg_attr(target_os = "none", no_std)]

#[cfg(all(target_os = "none", target_arch = "arm"))]
mod start;

#[cfg(all(target_os = "none", target_arch = "arm"))]
pub use start::{Vector, clean, no_threads, vectors};
