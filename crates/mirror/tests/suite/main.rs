//! The integration tests of `nv-mirror`, with and without power cuts.

mod asynch;
mod basic;
mod costs;
mod crash;
mod generated;
mod golden;
mod hostile;
mod padding;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod support;
mod two;
