//! Apart from the suite: the compiler runs on each of these programs, with messages of its own.
//!
//! Programs that the type rules refuse, with the compiler's messages. The messages are pinned.
//!
//! They are those of the pinned toolchain; `TRYBUILD=overwrite cargo test -p nvlist --test ui`
//! writes new ones.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    let t = trybuild::TestCases::new();
    t.compile_fail("tests/ui/*.rs");
}
