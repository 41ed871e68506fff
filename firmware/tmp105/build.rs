//! Tells the linker where the memory of the Cortex-M4 lies.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    println!("cargo::rerun-if-changed=build.rs");
    if target.starts_with("thumb") {
        let script = format!("{dir}/../cortex-m/link.x");
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-link-arg-bins=-T{script}");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    }
}
