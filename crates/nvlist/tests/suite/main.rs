//! The integration tests of `nvlist`, with and without power cuts.

mod costs;
mod crash;
mod golden;
mod hostile;
mod model;
mod others;
mod soundness;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
