//! Several threads on one pool under power cuts: each cut, at each schedule with one preemption.
//!
//! `cargo test -p nv-replay --test suite threads:: -- --nocapture` prints the number of cuts.

mod boxes;
mod kept;
pub mod kit;
mod outboxes;
