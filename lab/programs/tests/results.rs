//! All builds of a program find what the plain reference finds, also through power cuts: no message
//! is lost in `etl`, `train` comes to its end, no round of `ar` is wrong.

use lab_programs::cuts::*;

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
    sen: Sen, 200, 200;
    kv: Kv, 200, 200;
    etl: Etl, 200, 500;
    pred: Pred, 200, 400;
    stats: Stats, 200, 400;
    train: Train, 200, 300;
    ar: Ar, 20, 20000;
}

/// Pipelines that begin anew on a blank memory whenever they have come to their end: no message is
/// lost, and none comes twice. With `POWERFAIL_SAMPLE=all`, as in long runs, 100,000 cuts of each.
#[test]
fn pipelines_endure() {
    let long = std::env::var("POWERFAIL_SAMPLE").is_ok_and(|s| s == "all");
    let cuts = if long { 100_000 } else { 1000 };
    for s in [Etl::cut(cuts, 300), Pred::cut(cuts, 300)] {
        println!("{s}");
        assert_eq!(s.cuts, cuts);
    }
}
