//! The integration tests of `nv-rtos`, with and without power cuts.

mod crash;
mod generated;
mod golden;
mod hostile;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod support;
mod system;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
