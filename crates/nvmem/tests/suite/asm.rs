//! Checks the assembly of the store module on each target: stores through a loan keep their order,
//! and without `instrument` the module adds no instruction.
#![cfg(not(miri))]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A target and its assembly syntax.
struct Target {
    triple: &'static str,
    /// The registers of a function's first two arguments, as the base of an address.
    base: [&'static str; 2],
    store: fn(&str) -> bool,
    /// Instructions that every function has: frame and return.
    frame: &'static [&'static str],
    /// The instruction that drains a store buffer.
    fence: &'static [&'static str],
}

const TARGETS: [Target; 4] = [
    Target {
        triple: "x86_64-unknown-linux-gnu",
        base: ["(%rdi)", "(%rsi)"],
        store: |i| i.starts_with("mov") && i.ends_with(')'),
        frame: &["ret"],
        fence: &["mfence", "lock"],
    },
    Target {
        triple: "thumbv6m-none-eabi",
        base: ["[r0]", "[r1]"],
        store: |i| i.starts_with("str"),
        frame: &[
            "push\t{r7, lr}",
            "add\tr7, sp",
            "mov\tr7, sp",
            "pop\t{r7, pc}",
            "bx\tlr",
        ],
        fence: &["dmb"],
    },
    Target {
        triple: "thumbv7em-none-eabihf",
        base: ["[r0]", "[r1]"],
        store: |i| i.starts_with("str"),
        frame: &[
            "push\t{r7, lr}",
            "add\tr7, sp",
            "mov\tr7, sp",
            "pop\t{r7, pc}",
            "bx\tlr",
        ],
        fence: &["dmb"],
    },
    Target {
        triple: "riscv32imc-unknown-none-elf",
        base: ["0(a0)", "0(a1)"],
        store: |i| i.starts_with("sw"),
        frame: &["ret"],
        fence: &["fence"],
    },
];

const MSP430: Target = Target {
    triple: "msp430-none-elf",
    base: ["0(r12)", "0(r13)"],
    store: |i| i.starts_with("mov") && i.ends_with(')'),
    frame: &["ret"],
    fence: &[],
};

fn run(c: &mut Command) -> String {
    let out = c.output().unwrap_or_else(|e| panic!("{c:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{c:?}\n{said}");
    String::from_utf8_lossy(&out.stdout).into_owned()
}

fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rustc() -> Command {
    let mut c = Command::new("rustc");
    c.current_dir(crate_dir());
    // Remove Cargo's variables: they are for the build of this test.
    c.env_remove("RUSTFLAGS");
    c
}

fn missing(triple: &str, how: &str) {
    // The step `msp430` of `cargo xtask ci` requires all targets.
    assert!(
        std::env::var_os("RELUME_ALL_TOOLS").is_none(),
        "{triple} is not installed: {how}"
    );
    println!("SKIPPED {triple}: {how}");
}

/// The probe's assembly, with the crate as any user builds it: optimised and without dev features.
fn assembly(t: &Target) -> Option<String> {
    let libs = run(rustc().args(["--print", "target-libdir", "--target", t.triple]));
    if !Path::new(libs.trim()).exists() {
        missing(t.triple, &format!("rustup target add {}", t.triple));
        return None;
    }
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(t.triple);
    std::fs::create_dir_all(&out).unwrap();
    let common = |c: &mut Command| {
        c.args(["--edition", "2024", "-Copt-level=3", "-Cpanic=abort"]);
        c.args(["--cap-lints", "allow", "--target", t.triple, "--out-dir"]);
        c.arg(&out);
    };
    let mut lib = rustc();
    common(&mut lib);
    lib.args([
        "--crate-name",
        "nvmem",
        "--crate-type",
        "rlib",
        "src/lib.rs",
    ]);
    run(&mut lib);
    let mut probe = rustc();
    common(&mut probe);
    probe.args([
        "--crate-type",
        "rlib",
        "--emit",
        "asm",
        "tests/asm/probe.rs",
    ]);
    probe.arg("--extern");
    probe.arg(format!("nvmem={}", out.join("libnvmem.rlib").display()));
    run(&mut probe);
    Some(std::fs::read_to_string(out.join("probe.s")).unwrap())
}

/// The instructions of a function: no labels, directives, comments.
fn function<'a>(asm: &'a str, name: &str) -> Vec<&'a str> {
    let label = format!("{name}:");
    let body = asm
        .lines()
        .skip_while(|l| *l != label)
        .skip(1)
        .map(str::trim)
        .take_while(|l| !l.starts_with(".Lfunc_end") && !l.starts_with(".size"));
    let is_code =
        |l: &&str| !l.is_empty() && !l.ends_with(':') && !l.starts_with(['.', '#', '@', ';', '/']);
    let body: Vec<_> = body.filter(is_code).collect();
    assert!(!body.is_empty(), "no function {name}");
    body
}

/// For each store in order, the argument that is its address: 0 or 1.
fn stores(t: &Target, body: &[&str]) -> Vec<usize> {
    body.iter()
        .filter(|i| (t.store)(i))
        .filter_map(|i| t.base.iter().position(|b| i.ends_with(b)))
        .collect()
}

fn check(t: &Target, asm: &str) {
    let shown = |name| format!("{} {name}:\n{}", t.triple, function(asm, name).join("\n"));
    let is_frame = |i: &str| t.frame.iter().any(|f| i.starts_with(f));
    // How many instructions are not in the list of frame and return.
    let work = |name| function(asm, name).iter().filter(|i| !is_frame(i)).count();

    // 1. Stores of the user, the library and the user again: all three, in this order.
    let right = function(asm, "with_pointer");
    assert_eq!(stores(t, &right), [0, 1, 0], "{}", shown("with_pointer"));
    // A barrier without the pointer does not keep the first store.
    let plain = function(asm, "with_plain_barrier");
    let kept = stores(t, &plain);
    assert_eq!(kept.iter().filter(|b| **b == 1).count(), 1);
    assert_eq!(
        kept.iter().filter(|b| **b == 0).count(),
        1,
        "a plain barrier suffices here: {}",
        shown("with_plain_barrier")
    );

    // 2. One store is one instruction, two are two, and nothing is added.
    for (name, n) in [("one_store", 1), ("two_stores", 2)] {
        let body = function(asm, name);
        assert_eq!(stores(t, &body), vec![0; n], "{}", shown(name));
        assert_eq!(work(name), n, "{}", shown(name));
    }
    for name in ["loan", "fence_in_order"] {
        assert_eq!(work(name), 0, "{}", shown(name));
    }

    // 3. A fence is an instruction only where the medium needs it.
    let fence = function(asm, "fence_buffered");
    let is_fence = |i: &&str| t.fence.iter().any(|f| i.starts_with(f));
    assert!(
        t.fence.is_empty() || fence.iter().any(is_fence),
        "{}",
        shown("fence_buffered")
    );
}

#[test]
fn loans_order_and_stores_cost_nothing() {
    let mut checked = 0;
    for t in &TARGETS {
        if let Some(asm) = assembly(t) {
            check(t, &asm);
            checked += 1;
        }
    }
    // At least the host is tested.
    assert!(checked > 0);
}

/// MSP430 has no prebuilt `core`: a nightly compiler builds it from source.
#[test]
fn msp430() {
    let nightly = Command::new("rustc")
        .args(["+nightly", "--print", "sysroot"])
        .output();
    let sysroot = nightly
        .ok()
        .filter(|o| o.status.success())
        .map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned());
    let sources = "lib/rustlib/src/rust/library/core";
    if !sysroot.is_some_and(|s| Path::new(&s).join(sources).exists()) {
        missing(
            MSP430.triple,
            "rustup toolchain install nightly -c rust-src",
        );
        return;
    }
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("msp430-probe");
    std::fs::create_dir_all(&dir).unwrap();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"probe\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [lib]\npath = {:?}\n[dependencies]\nnvmem = {{ path = {:?}, default-features = false }}\n",
        crate_dir().join("tests/asm/probe.rs"),
        crate_dir(),
    );
    std::fs::write(dir.join("Cargo.toml"), manifest).unwrap();
    let locked = crate_dir().join("../../Cargo.lock");
    if locked.exists() {
        std::fs::copy(locked, dir.join("Cargo.lock")).unwrap();
    }
    let mut c = Command::new("cargo");
    c.current_dir(&dir).args(["+nightly", "rustc", "--release"]);
    c.args(["-Zbuild-std=core", "--target", MSP430.triple]);
    c.args(["--target-dir", "target", "--", "--emit", "asm"]);
    for v in [
        "RUSTUP_TOOLCHAIN",
        "CARGO",
        "RUSTC",
        "RUSTFLAGS",
        "CARGO_TARGET_DIR",
    ] {
        c.env_remove(v);
    }
    run(&mut c);
    let deps = dir.join("target/msp430-none-elf/release/deps");
    let asm = std::fs::read_dir(deps)
        .unwrap()
        .flatten()
        .map(|e| e.path())
        .filter(|p| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("probe-") && name.ends_with(".s")
        })
        .max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok())
        .expect("assembly of the probe");
    check(&MSP430, &std::fs::read_to_string(asm).unwrap());
}
