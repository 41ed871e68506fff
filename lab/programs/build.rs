//! Sets `machine` where a port of the kernel runs the programs.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(machine)");
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let bare = of("CARGO_CFG_TARGET_OS") == "none";
    let port = matches!(&*of("CARGO_CFG_TARGET_ARCH"), "arm" | "riscv32" | "msp430");
    let host = !bare && std::env::var_os("CARGO_FEATURE_HOST").is_some();
    if bare && port || host {
        println!("cargo::rustc-cfg=machine");
    }
}
