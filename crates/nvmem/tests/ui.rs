//! What cannot be persistent, and what the compiler says about it. The messages are pinned: each names the remedy.
//!
//! They are those of the pinned toolchain; `TRYBUILD=overwrite cargo test -p nvmem --test ui` writes new ones.
//! What is known only when a type parameter is, such as `Last<u128>`, is in the README of `nvmem-derive`.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
