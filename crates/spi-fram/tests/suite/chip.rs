//! The driver on a bit-accurate model of the chip.

mod asynchronous;
mod behaviour;
pub mod bench;
mod faults;
mod power;
mod traits;
