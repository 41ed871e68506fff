//! The integration tests of `pmem-tx`, with and without power cuts.

mod basic;
mod costs;
mod crash;
mod golden;
mod hostile;
mod markers;
mod misuse;
mod model;
mod preempt;
mod rest;
mod rounds;
mod shared;
mod sharing;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
