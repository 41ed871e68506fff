//! Several threads on one pool under power cuts: each cut, at each schedule with one preemption.
//!
//! `cargo test -p nv-replay --test threads -- --nocapture` prints the number of cuts.

#[path = "../../powerfail/tests/support/turns.rs"]
mod turns;

mod threads {
    mod boxes;
    mod kept;
    pub mod kit;
    mod outboxes;
}
