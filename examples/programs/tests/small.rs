//! Each program with two rounds, cut at every event, and some in the life after that, too.
//!
//! `cargo test -p example-programs --test small -- --nocapture` prints the number of cuts.

#[path = "../../../crates/powerfail/tests/support/turns.rs"]
mod by_turns;

use by_turns::{deep, in_turn};
use example_programs::cuts::*;
use example_programs::support::ROUNDS;
use std::sync::atomic::Ordering;

macro_rules! tests {
    ($($test:ident: $program:ident, $depth:expr;)+) => {$(
        #[test]
        fn $test() {
            ROUNDS.store(2, Ordering::Relaxed);
            let start = std::time::Instant::now();
            let s = $program::explore($depth);
            println!("{}: {s} {:?}", stringify!($test), start.elapsed());
            assert!(s.cuts > 100, "{s}");
        }
    )+};
}

tests! {
    bc: Bc, in_turn(1, 7);
    mlp: Mlp, in_turn(2, 7);
    sen: Sen, in_turn(3, 7);
    etl: Etl, in_turn(4, 7);
    pred: Pred, in_turn(5, 7);
    stats: Stats, in_turn(6, 7);
    em: Em, in_turn(7, 7);
    mq: Mq, in_turn(7, 7);
    kv: Kv, 2;
    train: Train, 2;
    ar: Ar, 2;
}
mod preempted {
    use super::*;
macro_rules! preempted {
    ($($test:ident: $program:ident, $depth:expr;)+) => {$(
        #[test]
        fn $test() {
            ROUNDS.store(2, Ordering::Relaxed);
            let start = std::time::Instant::now();
            let s = $program::preempt($depth);
            println!("{}: {s} {:?} points {} schedules {}", stringify!($test), start.elapsed(), s.points, s.schedules);
            assert!(s.cuts > 100, "{s}");
        }
    )+};
}
preempted! {
    sen: Sen, 1;
    etl: Etl, 1;
    pred: Pred, 1;
    stats: Stats, 1;
    em: Em, 1;
    mq: Mq, 1;
    kv: Kv, 1;
    train: Train, 1;
}
}
