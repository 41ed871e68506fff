//! Steps about what users get from a registry: the oldest compiler, the packages themselves, the
//! oldest dependencies, each choice of features.

use super::Ctx;
use super::checks::{at_root, select};
use crate::project::{BARE, Package, Project, has_program, has_target, version};
use crate::run::{Outcome, Step, cargo, cargo_nightly};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The tools that only `choices` needs, and their versions.
pub const TOOLS: [(&str, &str); 2] = [("cargo-hack", "0.6.46"), ("cargo-machete", "0.9.2")];

/// The older compilers that published crates promise to build with. The crates that promise the
/// one of rust-toolchain.toml are left out: every other step tests them.
///
/// **Errors**: a manifest promises none, or a newer one than that.
pub fn oldest(project: &Project) -> Result<BTreeSet<String>> {
    let file = std::fs::read_to_string(project.root.join("rust-toolchain.toml"))?;
    let pinned: toml::Table = file.parse()?;
    let pinned = pinned["toolchain"]["channel"].as_str().unwrap_or_default();
    let minor = |v: &str| v.split('.').nth(1).and_then(|n| n.parse::<u32>().ok());
    let mut all = BTreeSet::new();
    for p in project.published() {
        let v = p.rust_version.as_deref();
        let v = v.with_context(|| format!("{}: no rust-version in its manifest", p.name))?;
        if minor(v) > minor(pinned) {
            bail!("{}: rust-version {v}, but only {pinned} is tested", p.name);
        }
        if minor(v) != minor(pinned) {
            all.insert(v.to_owned());
        }
    }
    Ok(all)
}

/// `cargo check` with the oldest compilers: all features on the host, none on the bare targets.
pub fn msrv(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let mut said = Vec::new();
    let all = ctx.project.published().count();
    let mut older = 0;
    for oldest in oldest(&ctx.project)? {
        if version(&oldest).is_none() || BARE.iter().any(|t| !has_target(&oldest, t)) {
            return Ok(Outcome::Skipped(format!(
                "needs: rustup toolchain install {oldest} --profile minimal -t {}",
                BARE.join(" -t ")
            )));
        }
        let n = check_with(ctx, s, &oldest)?;
        said.push(format!("{n} crates with Rust {oldest}"));
        older += n;
    }
    said.push(format!("{} with the pinned one", all - older));
    Ok(said.join(", ").into())
}

/// How many crates promise this compiler and build with it.
fn check_with(ctx: &Ctx, s: &Step, oldest: &str) -> Result<usize> {
    let promise = |p: &&Package| p.rust_version.as_deref() == Some(oldest);
    // A folder of its own, so that nothing of the pinned compiler is built again.
    let built = ctx.project.target.join("msrv");
    let check = |args: &[&str]| {
        let mut c = cargo();
        c.current_dir(&ctx.project.root)
            .arg(format!("+{oldest}"))
            .args(["check", "--lib", "--target-dir"])
            .arg(&built)
            .args(args);
        c
    };
    let mut c = check(&["--all-features"]);
    let n = select(&mut c, ctx.project.published().filter(promise));
    s.run(c)?;
    for t in BARE {
        let mut c = check(&["--no-default-features", "--target", t]);
        if select(&mut c, ctx.project.embedded().filter(promise)) > 0 {
            s.run(c)?;
        }
    }
    Ok(n)
}

/// Makes the packages, builds each from its package alone, and stops before the upload.
pub fn publish(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let built = ctx.project.target.join("publish");
    forget(&ctx.project, &built)?;
    let args = ["publish", "--workspace", "--dry-run", "--allow-dirty"];
    let mut c = at_root(ctx, cargo(), &args);
    c.arg("--target-dir").arg(&built);
    let said = s.run(c)?;
    let mut verified = 0;
    for p in ctx.project.published() {
        for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
            if !p.dir.join(file).is_file() {
                bail!("{}: no {file}", p.name);
            }
        }
        if !said.contains(&format!("Verifying {} v", p.name)) {
            bail!("{}: the package was not built", p.name);
        }
        verified += 1;
    }
    Ok(format!("{verified} packages").into())
}

/// Removes what an earlier dry run has built and unpacked: cargo takes a package of the same number
/// to be the same package.
fn forget(project: &Project, built: &Path) -> Result<()> {
    let remove = |dir: &Path| match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != ErrorKind::NotFound => {
            Err(e).with_context(|| dir.display().to_string())
        }
        _ => Ok(()),
    };
    remove(built)?;
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home
        .map(|h| h.join("registry/src"))
        .and_then(|d| d.read_dir().ok());
    for registry in sources.into_iter().flatten().flatten() {
        // The registry of a dry run is a folder, so its name begins where a host's name would end.
        if registry.file_name().to_string_lossy().starts_with('-') {
            for p in project.published() {
                remove(&registry.path().join(format!("{}-{}", p.name, p.version)))?;
            }
        }
    }
    Ok(())
}

/// The oldest dependencies that the manifests allow, each set of features, and dependencies that
/// nothing uses.
pub fn choices(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() {
        let how = "needs: rustup toolchain install nightly --profile minimal";
        return Ok(Outcome::Skipped(how.into()));
    }
    if let Some((tool, version)) = TOOLS.iter().find(|(tool, _)| !has_program(tool)) {
        let how = format!("needs: cargo install {tool} --version {version} --locked");
        return Ok(Outcome::Skipped(how));
    }
    let dir = ctx.project.target.join("minimal");
    std::fs::create_dir_all(&dir)?;
    let lock = dir.join("Cargo.lock");
    let _ = std::fs::remove_file(&lock);
    let minimal = |args: &[&str]| -> Command {
        let mut c = at_root(ctx, cargo_nightly(), args);
        c.arg("--config")
            .arg(format!("resolver.lockfile-path={:?}", lock.display()));
        c
    };
    s.run(minimal(&["update", "-Zdirect-minimal-versions"]))?;
    let mut c = minimal(&["check", "--locked", "--lib", "--all-features"]);
    c.arg("--target-dir").arg(&dir);
    let n = select(&mut c, ctx.project.published());
    s.run(c)?;

    let args = ["hack", "check", "--lib", "--feature-powerset"];
    let mut c = at_root(ctx, cargo(), &args);
    // A folder of its own: other steps that run do not wait for it.
    c.arg("--target-dir")
        .arg(ctx.project.target.join("choices"));
    // `sabotage` adds the same macro in each crate; `default` is the name of a set that is tried.
    c.args(["--exclude-features", "sabotage,media,default"]);
    select(
        &mut c,
        ctx.project.published().filter(|p| !p.features.is_empty()),
    );
    let sets = s.run(c)?.matches("info: running").count();
    if sets == 0 {
        bail!("cargo-hack checked no set of features");
    }
    s.run(at_root(ctx, cargo(), &["machete"]))?;
    Ok(format!("{n} crates with their oldest dependencies, {sets} sets of features").into())
}
