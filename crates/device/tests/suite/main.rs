//! The integration tests of `nv-device`, with and without power cuts.

mod crash;
mod devices;
mod generated;
mod golden;
mod hostile;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
