//! Apart from the suite: the compiler runs on each of these programs, with messages of its own.
//!
//! What the type rules refuse, and what the compiler says about it. The messages are pinned.
//!
//! They are those of the pinned toolchain; `TRYBUILD=overwrite cargo test -p vnv-heap --test ui`
//! writes new ones.

use std::path::Path;
use std::process::Command;

/// The folder of cases whose messages show the standard library's source, if that is installed:
/// assertions in constants.
fn by_rust_src() -> &'static str {
    let said = Command::new("rustc")
        .args(["--print", "sysroot"])
        .output()
        .unwrap();
    let root = String::from_utf8(said.stdout).unwrap();
    if Path::new(root.trim())
        .join("lib/rustlib/src/rust/library")
        .is_dir()
    {
        "tests/ui/with_rust_src/*.rs"
    } else {
        "tests/ui/without_rust_src/*.rs"
    }
}

#[test]
#[cfg_attr(miri, ignore = "starts the compiler")]
fn refused() {
    let t = trybuild::TestCases::new();
    t.compile_fail("tests/ui/*.rs");
    t.compile_fail(by_rust_src());
    // Built, not only checked, so that what is found late is found too.
    t.pass("tests/ui/support/compiles.rs");
}
