//! Apart from the suite: the compiler runs on each of these programs, with messages of its own.
//!
//! Misuse that the type rules refuse, with the compiler's messages.
//!
//! The messages are those of the pinned toolchain.
//! `TRYBUILD=overwrite cargo test -p nv-device --test ui` writes new ones.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
