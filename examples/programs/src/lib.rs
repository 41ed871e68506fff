#![doc = include_str!("../README.md")]
#![cfg_attr(target_os = "none", no_std)]

// The programs take the kernel from the module above them: lab/programs compiles the same files,
// also on another kernel.
#[cfg(machine)]
use ::nv_rtos;

#[cfg(all(not(target_os = "none"), feature = "host"))]
pub mod cuts;
#[cfg(machine)]
pub mod etl;
#[cfg(machine)]
pub mod hashes;
pub mod model;
#[cfg(machine)]
pub mod mq;
#[cfg(all(not(target_os = "none"), feature = "host"))]
pub mod program;
pub mod reference;
pub mod support;
