//! What a campaign refuses, and what the compiler says about it. The messages are pinned.
//!
//! They are those of the pinned toolchain; `TRYBUILD=overwrite cargo test -p powerfail --test ui`
//! writes new ones.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    let t = trybuild::TestCases::new();
    t.compile_fail("tests/ui/*.rs");
}
