//! What steps need besides cargo, and how it is installed.

use crate::ci::deny;
use crate::ci::packages::{TOOLS, oldest};
use crate::project::{
    BARE, Project, has_miri, has_program, has_sources, has_target, nightly, version,
};
use crate::qemu;
use crate::run::{Step, cargo};
use anyhow::{Result, bail};
use std::process::Command;

/// The version that is installed where there is none.
const CARGO_FUZZ: (&str, &str) = ("cargo-fuzz", "0.13.2");
const LLVM_COV: (&str, &str) = ("cargo-llvm-cov", "0.9.1");

/// Something that a step needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// The bare targets of the pinned toolchain, and its library sources.
    Targets,
    /// A nightly with library sources.
    Nightly,
    Miri,
    CargoFuzz,
    /// cargo-llvm-cov, and the tools that it calls.
    LlvmCov,
    CargoDeny,
    /// The compilers that published crates promise to build with.
    Oldest,
    /// cargo-hack and cargo-machete.
    Choices,
    Valgrind,
    Mspdebug,
    Qemu,
    /// What the rig's build calls besides Rust.
    Rig,
}

impl Need {
    /// Installs it where it is missing.
    ///
    /// **Errors**: it cannot be installed from here; the message is what a person must type.
    pub fn install(self) -> Result<()> {
        match self {
            Need::Targets => targets(),
            Need::Nightly => nightly_with_sources(),
            Need::Miri if has_miri("nightly") => Ok(()),
            Need::Miri => {
                nightly_with_sources()?;
                get(rustup(&[
                    "component",
                    "add",
                    "miri",
                    "--toolchain",
                    "nightly",
                ]))
            }
            Need::CargoFuzz => tool(CARGO_FUZZ),
            Need::LlvmCov => {
                nightly_with_sources()?;
                get(rustup(&[
                    "component",
                    "add",
                    "llvm-tools",
                    "--toolchain",
                    "nightly",
                ]))?;
                tool(LLVM_COV)
            }
            Need::Choices => TOOLS.into_iter().try_for_each(tool),
            Need::CargoDeny if has_program("cargo-deny") => Ok(()),
            Need::CargoDeny => get(deny::install()),
            Need::Oldest => {
                for v in oldest(&Project::load()?)? {
                    if version(&v).is_none() || BARE.iter().any(|t| !has_target(&v, t)) {
                        let mut c = rustup(&["toolchain", "install", &v, "--profile", "minimal"]);
                        c.args(BARE.iter().flat_map(|t| ["-t", *t]));
                        get(c)?;
                    }
                }
                Ok(())
            }
            Need::Valgrind => program("valgrind", "valgrind"),
            Need::Mspdebug => program("mspdebug", "mspdebug"),
            Need::Qemu => {
                let mut all = qemu::programs();
                all.try_for_each(|(name, package)| program(name, package))
            }
            Need::Rig => rig_needs().into_iter().try_for_each(apt),
        }
    }

    /// Its name in a list.
    pub fn name(self) -> &'static str {
        match self {
            Need::Targets => "bare targets",
            Need::Nightly => "nightly",
            Need::Miri => "Miri",
            Need::CargoFuzz => "cargo-fuzz",
            Need::LlvmCov => "cargo-llvm-cov",
            Need::CargoDeny => "cargo-deny",
            Need::Oldest => "older compilers",
            Need::Choices => "cargo-hack, cargo-machete",
            Need::Valgrind => "valgrind",
            Need::Mspdebug => "mspdebug",
            Need::Qemu => "QEMU",
            Need::Rig => "cmake, libclang",
        }
    }
}

fn tool((name, version): (&str, &str)) -> Result<()> {
    match has_program(name) {
        true => Ok(()),
        false => get(unoptimised(name, version)),
    }
}

fn program(name: &str, package: &str) -> Result<()> {
    match has_program(name) {
        true => Ok(()),
        false => apt(package),
    }
}

/// What the rig's build calls besides Rust.
pub fn rig_needs() -> Vec<&'static str> {
    let mut out = Vec::new();
    if !has_program("cmake") {
        out.push("cmake");
    }
    if !has_libclang() {
        out.push("libclang-dev");
    }
    out
}

/// Whether a library of that name is where bindgen looks for it.
fn has_libclang() -> bool {
    let named = |dir: &std::path::Path| {
        let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let mut names = files.filter_map(|f| f.file_name().into_string().ok());
        // libclang-cpp.so is another library.
        let named = |n: &str| n.starts_with("libclang") && !n.starts_with("libclang-cpp");
        names.any(|n| named(&n) && (n.contains(".so") || n.ends_with(".dylib")))
    };
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        return named(path.as_ref());
    }
    let versions = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let mut dirs: Vec<_> = versions
        .filter(|d| d.file_name().to_string_lossy().starts_with("llvm"))
        .map(|d| d.path().join("lib"))
        .collect();
    let fixed = [
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
    ];
    dirs.extend(fixed.map(Into::into));
    dirs.iter().any(|d| named(d))
}

/// The targets and components with which images and the rig are built.
///
/// **Errors**: as [`Need::install`].
pub fn install_rig() -> Result<()> {
    install_rust()?;
    Need::Rig.install()
}

/// The targets and components with which images are built.
///
/// **Errors**: as [`Need::install`].
pub fn install_rust() -> Result<()> {
    targets()?;
    nightly_with_sources()
}

fn targets() -> Result<()> {
    let bare = BARE.iter().copied().chain(crate::boards::targets());
    for t in bare.filter(|t| !has_target("", t)) {
        get(rustup(&["target", "add", t]))?;
    }
    // As in rust-toolchain.toml, which rustup may have been told not to act upon.
    if !has_sources("") {
        get(rustup(&["component", "add", "rust-src"]))?;
    }
    Ok(())
}

fn nightly_with_sources() -> Result<()> {
    if nightly().is_none() {
        get(rustup(&[
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
        ]))?;
    }
    if !has_sources("nightly") {
        get(rustup(&[
            "component",
            "add",
            "rust-src",
            "--toolchain",
            "nightly",
        ]))?;
    }
    Ok(())
}

fn rustup(args: &[&str]) -> Command {
    let mut c = Command::new("rustup");
    c.args(args);
    // The pinned toolchain of the repository is the one that gets the targets.
    c.current_dir(crate::project::root());
    c
}

/// How a tool that reads rather than computes is installed: without optimisation, which takes less
/// than half of the time.
pub fn unoptimised(tool: &str, version: &str) -> Command {
    let mut c = cargo();
    c.args(["install", tool, "--version", version, "--locked"])
        .args(["--debug", "--config", "profile.dev.debug=false"]);
    c
}

/// Runs one installing command.
fn get(c: Command) -> Result<()> {
    if c.get_program() == "rustup" && !has_program("rustup") {
        bail!(
            "rustup is not installed; type:\n  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"
        );
    }
    let shown = crate::run::show(&c);
    let log = std::env::temp_dir().join(format!("xtask-install-{}.log", std::process::id()));
    println!("installing: {shown}");
    let done = Step::alone(log.clone(), "install").run(c);
    let _ = std::fs::remove_file(log);
    match done {
        Ok(_) => Ok(()),
        Err(e) => bail!("{e:#}\n\nthis is needed and could not be installed; type:\n  {shown}"),
    }
}

/// A package of the system: by apt-get where there is one, as root or with a sudo that asks for
/// nothing.
fn apt(package: &str) -> Result<()> {
    let typed = format!("sudo apt-get install -y {package}");
    if !has_program("apt-get") {
        bail!(
            "{package} is needed; install it with your system's package manager (on Debian: {typed})"
        );
    }
    let quiet =
        |c: &mut Command| crate::run::capture(std::mem::replace(c, Command::new("true"))).ok();
    let mut id = Command::new("id");
    id.arg("-u");
    let root = quiet(&mut id).is_some_and(|s| s.trim() == "0");
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]);
    if !root && quiet(&mut sudo).is_none() {
        bail!("{package} is needed; type:\n  {typed}");
    }
    let apt_get = |args: &[&str]| {
        let mut c = Command::new(if root { "apt-get" } else { "sudo" });
        if !root {
            c.args(["-n", "apt-get"]);
        }
        c.args(args).env("DEBIAN_FRONTEND", "noninteractive");
        c
    };
    if get(apt_get(&["install", "-y", package])).is_err() {
        get(apt_get(&["update"]))?;
        get(apt_get(&["install", "-y", package]))?;
    }
    Ok(())
}
