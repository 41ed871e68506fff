//! All builds of a program find what the plain reference finds, also through power cuts.

use example_programs::cuts::*;

macro_rules! tests {
    ($($test:ident: $program:ident, $cuts:literal, $events:literal;)+) => {$(
        #[test]
        fn $test() {
            let s = $program::cut($cuts, $events);
            println!("{s}");
            assert_eq!(s.cuts, $cuts);
        }
    )+};
}

tests! {
    mq: Mq, 200, 400;
    em: Em, 200, 400;
    bc: Bc, 200, 400;
    mlp: Mlp, 200, 400;
    sen: Sen, 200, 100;
    kv: Kv, 200, 100;
    etl: Etl, 200, 200;
    pred: Pred, 200, 400;
    stats: Stats, 200, 400;
    train: Train, 200, 200;
    ar: Ar, 20, 20000;
}
