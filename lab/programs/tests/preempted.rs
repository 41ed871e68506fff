//! Each program of several threads with one round, one key in a step, one message: in each schedule
//! that leaves the default one once. Another thread comes in between before a store, a read or a
//! loan, or at the end of a section. By turns, one of them is also cut at every event of each of
//! these runs, and the life after the cut has each schedule, too. In long runs all are.
//!
//! `cargo test -p lab-programs --test preempted -- --nocapture` prints the numbers.

#[path = "../../../crates/powerfail/tests/support/turns.rs"]
mod by_turns;

use by_turns::is_chosen;
use lab_programs::cuts::*;
use lab_programs::support::ROUNDS;
use std::sync::atomic::Ordering;

macro_rules! tests {
    ($($test:ident: $program:ident, $points:literal, $turn:literal, $one_in:literal;)+) => {
        /// How many there are.
        const ALL: u64 = [$($turn),+].len() as u64;
        $(
            #[test]
            fn $test() {
                ROUNDS.store(1, Ordering::Relaxed);
                let is_cut = is_chosen($turn, ALL);
                let s = $program::preempt(is_cut.into(), $one_in);
                println!("{}: {s}", stringify!($test));
                assert!(s.points >= $points, "{s}");
                // In a sample, one of so many.
                let [cuts, boots] = [s.cuts, s.boots].map(|n| n * $one_in);
                assert!(!is_cut || cuts > s.points && boots > 100, "{s}");
            }
        )+
    };
}

tests! {
    // Priorities leave `etl` and `sen` few points.
    etl: Etl, 4, 0, 1;
    sen: Sen, 1, 1, 1;
    kv: Kv, 500, 2, 64;
    train: Train, 200, 3, 16;
    em: Em, 100, 4, 1;
    mq: Mq, 100, 5, 1;
    pred: Pred, 100, 6, 1;
    stats: Stats, 100, 7, 1;
}
