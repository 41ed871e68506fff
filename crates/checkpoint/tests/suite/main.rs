//! The integration tests of `checkpoint`, with and without power cuts.

mod cost;
mod crash;
#[path = "../../../powerfail/tests/support/faulty.rs"]
mod faulty;
mod generated;
mod golden;
mod histories;
mod hole;
mod images;
mod log;
mod log_cost;
mod restore_cost;
mod retention;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod soundness;
mod support;
mod tracked;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
