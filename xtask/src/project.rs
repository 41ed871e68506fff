//! The packages of the workspace, from `cargo metadata`, and the installed tools.

use crate::run::{capture, cargo};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The targets without an operating system on which every published crate must build with the
/// stable toolchain.
pub const BARE: [&str; 3] = [
    "thumbv6m-none-eabi",
    "thumbv7em-none-eabihf",
    "riscv32imc-unknown-none-elf",
];

/// One package of the workspace.
pub struct Package {
    /// Its name in the manifest.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The folder of its manifest.
    pub dir: PathBuf,
    /// Goes to a registry.
    pub published: bool,
    /// Runs on a host only: a proc macro, or `powerfail`.
    pub host_only: bool,
    /// The names of its features.
    pub features: Vec<String>,
    /// The oldest compiler that the manifest promises.
    pub rust_version: Option<String>,
    /// `(name, kind, required features)` of each target.
    pub targets: Vec<(String, String, Vec<String>)>,
}

impl Package {
    /// Whether it has the feature.
    pub fn has(&self, feature: &str) -> bool {
        self.features.iter().any(|f| f == feature)
    }
}

/// A workspace: that of the repository's root, or the lab.
pub struct Project {
    /// The root folder of the repository, or of the lab.
    pub root: PathBuf,
    /// The folder of what cargo builds.
    pub target: PathBuf,
    /// Its packages, by name.
    pub packages: Vec<Package>,
}

/// The root folder of the repository that this program was built from.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

impl Project {
    /// Asks cargo.
    ///
    /// **Errors**: cargo does not understand a manifest.
    pub fn load() -> Result<Self> {
        Self::at(root())
    }

    /// The lab, whose folder of what is built lies in this one's.
    ///
    /// **Errors**: as above.
    pub fn lab(&self) -> Result<Self> {
        let target = self.target.join("lab");
        Ok(Project {
            target,
            ..Self::at(self.root.join("lab"))?
        })
    }

    fn at(root: PathBuf) -> Result<Self> {
        let mut c = cargo();
        c.current_dir(&root)
            .args(["metadata", "--format-version=1", "--no-deps"]);
        let v: Value = serde_json::from_str(&capture(c)?).context("cargo metadata")?;
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
        let mut packages = Vec::new();
        for p in list(&v["packages"]) {
            let targets: Vec<_> = list(&p["targets"])
                .iter()
                .map(|t| {
                    let need = list(&t["required-features"]).iter().map(text).collect();
                    (text(&t["name"]), text(&t["kind"][0]), need)
                })
                .collect();
            let name = text(&p["name"]);
            packages.push(Package {
                dir: PathBuf::from(text(&p["manifest_path"]))
                    .parent()
                    .map(Path::to_path_buf)
                    .unwrap_or_default(),
                version: text(&p["version"]),
                published: p["publish"].is_null(),
                host_only: name == "powerfail" || targets.iter().any(|t| t.1 == "proc-macro"),
                features: p["features"]
                    .as_object()
                    .map(|m| m.keys().cloned().collect())
                    .unwrap_or_default(),
                rust_version: p["rust_version"].as_str().map(str::to_owned),
                targets,
                name,
            });
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Project {
            root,
            target: PathBuf::from(text(&v["target_directory"])),
            packages,
        })
    }

    /// `cargo` in this workspace.
    pub fn cargo(&self) -> Command {
        self.with(cargo())
    }

    /// Another `cargo` in this workspace.
    pub fn with(&self, mut cargo: Command) -> Command {
        cargo
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target);
        cargo
    }

    /// The package of that name.
    pub fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|p| p.name == name)
    }

    /// The packages that go to a registry.
    pub fn published(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|p| p.published)
    }

    /// `package/sabotage` for each package that plants bugs, for `--features`.
    pub fn sabotage(&self) -> String {
        self.packages_with("sabotage")
    }

    /// `package/media` for each package whose suite leaves out media without it, for `--features`.
    pub fn media(&self) -> String {
        self.packages_with("media")
    }

    fn packages_with(&self, feature: &str) -> String {
        let having = self.packages.iter().filter(|p| p.has(feature));
        let all: Vec<_> = having.map(|p| format!("{}/{feature}", p.name)).collect();
        all.join(",")
    }

    /// The published crates that run on a device.
    pub fn embedded(&self) -> impl Iterator<Item = &Package> {
        self.published().filter(|p| !p.host_only)
    }

    /// The examples whose library runs on a device, as it says in its first lines, and the
    /// functions that show what docs/matrix.toml says.
    pub fn embedded_examples(&self) -> impl Iterator<Item = &Package> {
        let says = |p: &Package| std::fs::read_to_string(p.dir.join("src/lib.rs"));
        let bare = move |p: &&Package| says(p).is_ok_and(|s| s.contains("#![no_std]"));
        let examples = self.packages.iter().filter(|p| !p.published);
        examples
            .filter(|p| p.dir.starts_with(self.root.join("examples")) || p.name == "matrix-probes")
            .filter(bare)
    }
}

/// What `rustc +nightly --version` says, if there is a toolchain of that name.
pub fn nightly() -> Option<String> {
    version("nightly")
}

/// The same of any toolchain.
pub fn version(toolchain: &str) -> Option<String> {
    let mut c = Command::new("rustc");
    c.args([&format!("+{toolchain}"), "--version"]);
    capture(c).ok().map(|s| s.trim().to_owned())
}

/// The file names in `<sysroot>/lib/rustlib` of a toolchain: its targets, and the manifests of its
/// components.
pub fn has_target(toolchain: &str, target: &str) -> bool {
    sysroot(toolchain).is_some_and(|s| s.join("lib/rustlib").join(target).join("lib").is_dir())
}

/// Whether a toolchain has the library sources (component rust-src).
pub fn has_sources(toolchain: &str) -> bool {
    sysroot(toolchain).is_some_and(|s| s.join("lib/rustlib/src/rust/library/core").is_dir())
}

/// Whether a toolchain has Miri.
pub fn has_miri(toolchain: &str) -> bool {
    sysroot(toolchain).is_some_and(|s| s.join("bin/miri").is_file())
}

/// The linker that a toolchain brings along.
pub fn linker(toolchain: &str) -> Option<PathBuf> {
    let hosts = std::fs::read_dir(sysroot(toolchain)?.join("lib/rustlib")).ok()?;
    let of = |host: std::io::Result<std::fs::DirEntry>| {
        let path = host.ok()?.path().join("bin/gcc-ld/ld.lld");
        path.is_file().then_some(path)
    };
    hosts.filter_map(of).next()
}

fn sysroot(toolchain: &str) -> Option<PathBuf> {
    let mut c = Command::new("rustc");
    if !toolchain.is_empty() {
        c.arg(format!("+{toolchain}"));
    }
    c.current_dir(root()).args(["--print", "sysroot"]);
    capture(c).ok().map(|s| PathBuf::from(s.trim()))
}

/// Whether a program can be started.
pub fn has_program(name: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|p| std::env::split_paths(&p).any(|d| d.join(name).is_file()))
}

/// Whether this is the run that a CI service makes.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|v| v == "true" || v == "1")
}
