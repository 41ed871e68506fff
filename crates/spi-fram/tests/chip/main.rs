//! The driver on a model of the chip that is accurate to the bit.

mod asynchronous;
mod behaviour;
mod bench;
mod faults;
mod model;
mod power;
mod traits;
