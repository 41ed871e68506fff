//! The integration tests of `checkpoint`, with and without power cuts.

mod cost;
mod crash;
#[path = "../../../powerfail/tests/support/faulty.rs"]
mod faulty;
#[path = "../../../powerfail/tests/support/generated.rs"]
mod generate;
mod generated;
mod golden;
mod histories;
mod hole;
mod images;
mod log;
mod log_cost;
mod restore_cost;
mod retention;
mod soundness;
mod support;
mod tracked;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
