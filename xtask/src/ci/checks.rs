//! Steps that need the stable toolchain only, and the one that builds for MSP430.

use super::Ctx;
use crate::project::{BARE, Package, has_sources, has_target};
use crate::run::{Outcome, Step, cargo, cargo_nightly, passed};
use crate::{docs, sizes};
use anyhow::{Result, bail, ensure};
use std::process::Command;

pub fn at_root(ctx: &Ctx, mut c: Command, args: &[&str]) -> Command {
    c.current_dir(&ctx.project.root).args(args);
    c
}

/// `-p` for each package.
pub fn select<'a>(c: &mut Command, packages: impl Iterator<Item = &'a Package>) -> usize {
    let mut n = 0;
    for p in packages {
        c.args(["-p", &p.name]);
        n += 1;
    }
    n
}

/// `package/feature` for each package that has the feature.
fn enable<'a>(packages: impl Iterator<Item = &'a Package>, feature: &str) -> String {
    let all: Vec<_> = packages
        .filter(|p| p.has(feature))
        .map(|p| format!("{}/{feature}", p.name))
        .collect();
    all.join(",")
}

pub fn fmt(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    s.run(at_root(ctx, cargo(), &["fmt", "--all", "--check"]))?;
    for apart in ["fuzz/Cargo.toml", "firmware/rig/Cargo.toml"] {
        let manifest = ctx.project.root.join(apart);
        let mut c = cargo();
        c.args(["fmt", "--check", "--manifest-path"]).arg(manifest);
        s.run(c)?;
    }
    Ok("".into())
}

pub fn links(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    s.says("links, columns and names in documents and sources");
    Ok(docs::check(&ctx.project)?.into())
}

/// What users get without a choice, with all targets; then each crate with all its features.
pub fn clippy(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    s.run(denied(at_root(
        ctx,
        cargo(),
        &["clippy", "--workspace", "--all-targets"],
    )))?;
    let mut c = at_root(ctx, cargo(), &["clippy", "--lib", "--all-features"]);
    let n = select(&mut c, ctx.project.published());
    s.run(denied(c))?;
    Ok(format!("the workspace, and {n} crates with all features").into())
}

/// No feature, and each feature alone, for all crates that have it.
pub fn features(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let args = ["clippy", "--lib", "--no-default-features"];
    let mut c = at_root(ctx, cargo(), &args);
    select(&mut c, ctx.project.published());
    s.run(denied(c))?;
    let all = every_feature(ctx);
    for feature in &all {
        let mut c = at_root(ctx, cargo(), &args);
        c.args(["--features", &enable(ctx.project.published(), feature)]);
        select(&mut c, ctx.project.published().filter(|p| p.has(feature)));
        s.run(denied(c))?;
    }
    Ok(format!("none, {}", all.join(", ")).into())
}

/// Warnings of clippy are errors.
fn denied(mut c: Command) -> Command {
    c.args(["--", "-D", "warnings"]);
    c
}

/// The names of all the features that a published crate has, but `default`.
fn every_feature(ctx: &Ctx) -> Vec<String> {
    let mut all: Vec<_> = ctx
        .project
        .published()
        .flat_map(|p| p.features.clone())
        .collect();
    all.retain(|f| f != "default");
    all.sort();
    all.dedup();
    all
}

/// Modules of the suites that need a feature. Without it they would be empty.
const WITH_A_FEATURE: [&str; 3] = ["adapter::", "asynch::", "postcard::"];

/// The first of these modules of which no test ran.
fn without_feature(said: &str) -> Option<&'static str> {
    let mut modules = WITH_A_FEATURE.into_iter();
    modules.find(|m| !said.contains(&format!("\ntest {m}")))
}

/// A file of tests in which there was none to run.
fn empty(said: &str) -> Option<&str> {
    let mut file = None;
    for line in said.lines() {
        if let Some(at) = line.trim_start().strip_prefix("Running ") {
            file = at.strip_prefix("tests/").and(at.split(' ').next());
        } else if line == "running 0 tests" && file.is_some() {
            return file;
        }
    }
    None
}

/// `cargo test` of the programs of these packages, and not of their documents.
fn programs(ctx: &Ctx, packages: &[&str]) -> Command {
    let mut c = at_root(ctx, cargo(), &["test", "--no-fail-fast"]);
    c.args(["--lib", "--bins", "--tests", "--examples"]);
    c.args(packages);
    c
}

/// What it says. **Errors**: it fails, or a file of tests has none to run.
fn ran(s: &Step, c: Command) -> Result<String> {
    let said = s.run(c)?;
    match empty(&said) {
        Some(file) => bail!("{file}: no test ran"),
        None => Ok(said),
    }
}

/// With the features `sabotage`, and no bug chosen: the step `sabotage` runs the same programs, and
/// building them twice takes ten minutes. With `--all` as the crates are shipped, three cuts in a
/// row, and no campaign takes a sample.
pub fn tests(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let (kit, crates) = if ctx.all {
        // The kit's own tests are about campaigns of a given depth.
        let kit = ran(s, programs(ctx, &["-p", "powerfail"]))?;
        let mut c = programs(ctx, &["--workspace", "--exclude", "powerfail"]);
        c.args(["--features", &ctx.project.media()]);
        c.env("POWERFAIL_DEPTH", "3").env("POWERFAIL_SAMPLE", "all");
        if let Some(shard) = ctx.shard {
            c.env("POWERFAIL_SHARD", shard.to_string());
        }
        (passed(&kit), ran(s, c)?)
    } else {
        let mut c = programs(ctx, &["--workspace", "--features", &ctx.project.sabotage()]);
        seeded(&mut c, ctx.seed("test"));
        (0, ran(s, c)?)
    };
    if let Some(module) = without_feature(&crates) {
        bail!("no test of {module} ran: its feature is off");
    }
    let n = kit + passed(&crates);
    ensure!(n > 0, "no test ran");
    Ok(format!("{n} tests").into())
}

/// The programs of a suite on the media that `cargo xtask test` leaves out, with samples of their
/// campaigns.
pub fn media(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let having = ctx.project.packages.iter().filter(|p| p.has("media"));
    let packages: Vec<_> = having.flat_map(|p| ["-p", &p.name]).collect();
    let mut c = programs(ctx, &packages);
    c.args(["--features", &ctx.project.media()]);
    seeded(&mut c, ctx.seed("media"));
    let n = passed(&ran(s, c)?);
    ensure!(n > 0, "no test ran");
    Ok(format!("{n} tests").into())
}

/// Tests of the suites that need a tool: without it they pass in `cargo xtask test`, and fail here.
/// How many there are.
///
/// **Errors**: one fails, or none has this in its name.
pub fn with_tools(ctx: &Ctx, s: &Step, filter: &str) -> Result<u64> {
    let mut c = at_root(ctx, cargo(), &["test", "--workspace", "--test", "suite"]);
    // What the step `test` has built.
    c.args(["--features", &ctx.project.sabotage(), "--", filter]);
    c.env("RELUME_ALL_TOOLS", "1");
    let n = passed(&s.run(c)?);
    ensure!(n > 0, "no test of {filter} ran");
    Ok(n)
}

/// What chooses samples of campaigns, and random inputs. A failure's line has them.
pub fn seeded(c: &mut Command, seed: u64) {
    c.env("POWERFAIL_SAMPLE", seed.to_string());
    c.env("PROPTEST_RNG_SEED", seed.to_string());
}

pub fn doctests(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let mut c = at_root(ctx, cargo(), &["test", "--workspace", "--doc"]);
    if !ctx.all {
        // The libraries that the tests have built.
        c.args(["--features", &ctx.project.sabotage()]);
    }
    let n = passed(&s.run(c)?);
    if n == 0 {
        bail!("no documentation test ran");
    }
    Ok(format!("{n} code blocks").into())
}

/// The documentation of the published crates, twice: with private items for their links, then as
/// users see it. A public item must not link to a private one, which only the second run notices.
pub fn rustdoc(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let doc = ctx.project.target.join("doc");
    let libraries = ctx.project.published().flat_map(|p| &p.targets);
    let libraries = libraries.filter(|t| t.1 == "lib" || t.1 == "proc-macro");
    let crates: Vec<_> = libraries.map(|t| t.0.replace('-', "_")).collect();
    let mut n = 0;
    for private in [true, false] {
        for name in &crates {
            // Pages of items that are gone would stay. The folder itself tells rustdoc that the
            // crate's pages will be there, even if it documents another crate first.
            let _ = std::fs::remove_dir_all(doc.join(name));
            std::fs::create_dir_all(doc.join(name))?;
        }
        let mut c = at_root(
            ctx,
            cargo(),
            &["doc", "--no-deps", "--all-features", "--keep-going"],
        );
        if private {
            c.arg("--document-private-items");
        } else {
            // cargo removes the folder of a crate for a moment, and rustdoc of another crate would
            // then not link to it.
            c.arg("--jobs=1");
        }
        n = select(&mut c, ctx.project.published());
        c.env(
            "RUSTDOCFLAGS",
            "-D warnings -D rustdoc::broken_intra_doc_links -D rustdoc::private_intra_doc_links",
        );
        s.run(c)?;
    }
    let links = docs::rendered::check(&doc, &crates)?;
    // These pages, too, are of the second run.
    let functions = docs::errors::check(&doc, &crates)?;
    Ok(format!("{n} crates, {links} links, {functions} functions that say their errors").into())
}

/// Features that are for tests on a host.
const ON_A_HOST: [&str; 4] = ["host", "instrument", "media", "sabotage"];

pub fn bare(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let missing: Vec<_> = BARE.iter().filter(|t| !has_target("", t)).collect();
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|t| t.to_string()).collect();
        return Ok(Outcome::Skipped(format!(
            "rustup target add {}",
            names.join(" ")
        )));
    }
    let (mut n, mut examples) = (0, 0);
    for t in BARE {
        let mut c = at_root(
            ctx,
            cargo(),
            &["build", "--lib", "--no-default-features", "--target", t],
        );
        n = select(&mut c, ctx.project.embedded());
        s.run(c)?;
        // Apart: what an example turns on in a crate would be on above, too.
        let mut c = at_root(ctx, cargo(), &["build", "--lib", "--target", t]);
        c.arg("--no-default-features");
        examples = select(&mut c, ctx.project.embedded_examples());
        s.run(c)?;
        let with: Vec<_> = every_feature(ctx)
            .iter()
            .filter(|f| !ON_A_HOST.contains(&f.as_str()))
            .map(|f| enable(ctx.project.embedded(), f))
            .filter(|f| !f.is_empty())
            .collect();
        let with = with.join(",");
        let mut c = at_root(ctx, cargo(), &["build", "--lib", "--target", t]);
        if !with.is_empty() {
            c.args(["--features", &with]);
        }
        select(&mut c, ctx.project.embedded());
        s.run(c)?;
    }
    let on = BARE.join(", ");
    Ok(
        format!("{n} crates and {examples} examples on {on}, the crates with their features too")
            .into(),
    )
}

pub fn msp430(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() || !has_sources("nightly") {
        let how = "needs a nightly with rust-src: rustup toolchain install nightly -c rust-src";
        return Ok(Outcome::Skipped(how.into()));
    }
    let args = [
        "build",
        "--lib",
        "--no-default-features",
        "-Zbuild-std=core",
        "--target",
        "msp430-none-elf",
    ];
    let mut c = at_root(ctx, cargo_nightly(), &args);
    let n = select(&mut c, ctx.project.embedded());
    s.run(c)?;
    // What there is on this target only.
    let mut c = at_root(ctx, cargo_nightly(), &args);
    c.args(["-p", "nv-rtos", "--features", "msp430fr5994"]);
    s.run(c)?;
    let tests = with_tools(ctx, s, "asm::")?;
    Ok(
        format!("{n} crates, nv-rtos with its port and its board, too; {tests} tests of assembly")
            .into(),
    )
}

pub fn sizes(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    sizes::check(&ctx.project, s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_tests_is_named() {
        let said = |n: u8| {
            format!(
                "     Running unittests src/lib.rs (a)\n\nrunning 0 tests\n     Running tests/values.rs (b)\n\nrunning {n} tests\n"
            )
        };
        assert_eq!(empty(&said(0)), Some("tests/values.rs"));
        assert_eq!(empty(&said(1)), None);
    }
}
