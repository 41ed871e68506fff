//! All builds of a program find what the plain reference finds, also through power cuts.

use example_programs::cuts::{Em, Mq, Program};

#[test]
fn mq() {
    let s = Mq::cut(200, 400);
    println!("{s}");
    assert_eq!(s.cuts, 200);
}

#[test]
fn em() {
    let s = Em::cut(200, 400);
    println!("{s}");
    assert_eq!(s.cuts, 200);
}
