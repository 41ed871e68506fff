//! Tells the linker where the memory of the machine lies, and the program whether the core is
//! ARMv8-M.

use std::path::{Path, PathBuf};

/// The program of the guide's chapter on threads, as it stands there.
fn guide(dir: &str, out: &Path) {
    let chapter = format!("{dir}/../../docs/guide/threads.md");
    println!("cargo::rerun-if-changed={chapter}");
    let text = std::fs::read_to_string(chapter).unwrap_or_default();
    let program = text
        .split_once("```rust,ignore\n")
        .map_or("", |(_, rest)| rest);
    let program = program
        .split_once("\n```")
        .map_or("", |(program, _)| program);
    // A part of a crate has no attributes of one.
    let program = program
        .split_once("no_std)]\n")
        .map_or("", |(_, rest)| rest);
    let _ = std::fs::write(out.join("guide.rs"), program);
}

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(armv8m)");
    let arm = |code: &str, ram: &str| {
        let memory = format!(
            "MEMORY {{ FLASH : ORIGIN = {code}, LENGTH = 512K  RAM : ORIGIN = {ram}, LENGTH = 64K }}"
        );
        let _ = std::fs::write(out.join("memory.x"), memory);
        println!("cargo::rustc-link-search={}", out.display());
        guide(&dir, &out);
        println!("cargo::rustc-link-arg-bins=-Tlink.x");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    };
    let own = |script: &str| {
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-link-arg-bins=-T{script}");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    };
    if target.starts_with("thumbv8m") {
        // QEMU's mps2-an505: secure memory.
        println!("cargo::rustc-cfg=armv8m");
        arm("0x10000000", "0x38000000");
    } else if target.starts_with("thumb") {
        // QEMU's mps2-an386.
        arm("0x00000000", "0x20000000");
    } else if target.starts_with("riscv32") {
        own(&format!("{dir}/../riscv/link.x"));
    } else if target.starts_with("msp430") {
        own(&format!("{dir}/../../examples/boards/msp430fr5994/link.x"));
    }
}
