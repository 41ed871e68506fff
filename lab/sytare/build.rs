//! Tells the linker where link.x is.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=link.x");
    if target.starts_with("msp430") {
        println!("cargo::rustc-link-arg-bins=-T{dir}/link.x");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    }
}
