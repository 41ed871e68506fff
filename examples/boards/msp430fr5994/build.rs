//! Tells the linker where link.x is.

fn main() {
    println!("cargo::rerun-if-changed=link.x");
    println!("cargo::rerun-if-changed=build.rs");
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rustc-link-arg-bins=-T{dir}/link.x");
}
