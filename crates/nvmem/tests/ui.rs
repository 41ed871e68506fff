//! Apart from the suite: the compiler runs on each of these programs, with messages of its own.
//!
//! Types that cannot be persistent, and the compiler's messages for them. Each message names the
//! remedy.
//!
//! The expected messages are those of the pinned toolchain. To update them, run
//! `TRYBUILD=overwrite cargo test -p nvmem --test ui`. Errors that depend on the value of a type
//! parameter, such as `Last<u128>`, are in the README of `nvmem-derive`.

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    trybuild::TestCases::new().compile_fail("tests/ui/*.rs");
}
