//! Tells the port for Cortex-M whether the core has a limit of the process stack, PSPLIM: ARMv8-M
//! with the main extension. The compiler has no stable `cfg` for this.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(psplim)");
    let target = std::env::var("TARGET").unwrap_or_default();
    if target.starts_with("thumbv8m.main") {
        println!("cargo::rustc-cfg=psplim");
    }
}
