//! What the type rules refuse, and what the compiler says about it. The messages are pinned.
//!
//! They are those of the pinned toolchain; `TRYBUILD=overwrite cargo test -p nv-replay --test ui` writes new ones.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
