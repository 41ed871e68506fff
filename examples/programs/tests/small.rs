//! Each program with two rounds, cut at every event, and some in the life after that, too.
//!
//! `cargo test -p example-programs --test small -- --nocapture` prints the number of cuts.

#[path = "../../../crates/powerfail/tests/support/turns.rs"]
mod by_turns;

use by_turns::in_turn;
use example_programs::cuts::*;
use example_programs::support::ROUNDS;
use std::sync::atomic::Ordering;

macro_rules! tests {
    ($($turn:literal $test:ident: $program:ident;)+) => {$(
        #[test]
        fn $test() {
            ROUNDS.store(2, Ordering::Relaxed);
            let s = $program::explore(in_turn($turn, 12));
            println!("{}: {s}", stringify!($test));
            assert!(s.cuts > 100, "{s}");
        }
    )+};
}

tests! {
    1 bc: Bc;
    2 mlp: Mlp;
    3 sen: Sen;
    4 kv: Kv;
    5 etl: Etl;
    6 pred: Pred;
    7 stats: Stats;
    8 train: Train;
    9 em: Em;
    10 ar: Ar;
}
