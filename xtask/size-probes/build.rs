//! Lays the sections of an MSP430 program out: its target has no default for that.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=msp430.x");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("TARGET").is_ok_and(|t| t.starts_with("msp430")) {
        println!("cargo::rustc-link-arg-bins=-T{dir}/msp430.x");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
    }
}
