//! The programs find what the plain reference finds, also through power cuts: no message is lost,
//! and none comes twice. lab/programs cuts them at every event, and in every schedule of their
//! threads.

use example_programs::cuts::{Etl, Mq, Program};

#[test]
fn mq() {
    assert_eq!(Mq::cut(200, 400).cuts, 200);
}

/// It begins anew on a blank memory whenever it has come to its end.
#[test]
fn etl() {
    assert_eq!(Etl::cut(1000, 300).cuts, 1000);
}
