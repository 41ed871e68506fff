//! The integration tests of `nv-replay`, with and without power cuts.

mod asynch;
mod basic;
mod costs;
mod crash;
mod endure;
mod environment;
#[path = "../../../powerfail/tests/support/faulty.rs"]
mod faulty;
mod generated;
mod golden;
mod hostile;
mod identity;
mod migrate;
mod mirrored;
mod model;
mod postcard;
#[path = "../../../powerfail/tests/support/runs.rs"]
mod runs;
mod several;
mod soundness;
mod steps;
mod threads;
#[path = "../../../powerfail/tests/support/turns.rs"]
mod turns;
mod updates;
mod view;
