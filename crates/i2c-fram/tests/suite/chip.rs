//! The driver on a model of the chip.

mod behaviour;
mod bench;
mod faults;
mod power;
