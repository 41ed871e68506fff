//! Each program in small: two rounds instead of its own number, two keys in a step, two messages.
//! It is cut at every event. Three programs are always cut a second time, at every event of the
//! life after that; two of these boot a sample of the states. The other programs take turns. A long
//! run makes two cuts in all of them, and boots all states.
//!
//! `cargo test -p lab-programs --test small -- --nocapture` prints the number of cuts.

#[path = "../../../crates/powerfail/tests/support/turns.rs"]
mod by_turns;

use by_turns::in_turn;
use lab_programs::cuts::*;
use lab_programs::support::ROUNDS;
use std::sync::atomic::Ordering;

macro_rules! tests {
    ($($test:ident: $program:ident, $depth:expr, $one_in:literal;)+) => {$(
        #[test]
        fn $test() {
            ROUNDS.store(2, Ordering::Relaxed);
            let s = $program::explore($depth, $one_in);
            println!("{}: {s}", stringify!($test));
            assert!(s.cuts > 100, "{s}");
        }
    )+};
}

tests! {
    bc: Bc, in_turn(1, 8), 1;
    mlp: Mlp, in_turn(2, 8), 1;
    sen: Sen, in_turn(3, 8), 1;
    etl: Etl, in_turn(4, 8), 1;
    pred: Pred, in_turn(5, 8), 1;
    stats: Stats, in_turn(6, 8), 1;
    em: Em, in_turn(7, 8), 1;
    mq: Mq, in_turn(8, 8), 1;
    // A step changes much through `&mut`: each cut in it leaves many states.
    kv: Kv, 2, 4;
    train: Train, 2, 16;
    ar: Ar, 2, 1;
}
