//! Tells the linker where the memory of the machine lies for which the images are built.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let target = std::env::var("TARGET").unwrap_or_default();
    let machines = [
        ("thumb", "cortex-m"),
        ("riscv32imc", "riscv"),
        ("msp430", "msp430"),
    ];
    println!("cargo::rerun-if-changed=build.rs");
    for (_, machine) in machines.iter().filter(|m| target.starts_with(m.0)) {
        let script = format!("{dir}/../../firmware/{machine}/link.x");
        println!("cargo::rerun-if-changed={script}");
        println!("cargo::rustc-link-arg-bins=-T{script}");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=--nmagic");
    }
}
