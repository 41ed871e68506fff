//! The driver on a bit-accurate model of the chip.

mod asynchronous;
mod behaviour;
mod bench;
mod faults;
mod power;
mod traits;
