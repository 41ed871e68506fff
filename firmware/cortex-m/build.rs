//! Tells the linker where the memory lies, when it is this machine's image that is built.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo::rerun-if-changed=link.x");
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("TARGET").is_ok_and(|t| t.starts_with("thumb")) {
        println!("cargo::rustc-link-arg-bins=-T{dir}/link.x");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    }
}
