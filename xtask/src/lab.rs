//! The lab, `lab/`: a workspace of its own. It measures the crates, repeats papers, and depends on
//! the crates. Nothing here depends on it: what is needed of it is built and run by cargo.

use crate::ci::Ctx;
use crate::machine;
use crate::project::Project;
use crate::run::{Outcome, Step, passed};
use anyhow::{Result, ensure};
use std::process::Command;

/// `cargo run` on a package of the lab, in the folder in which this was called. After `--` come the
/// program's arguments.
pub fn package(lab: &Project, name: &str) -> Command {
    let mut c = crate::run::cargo();
    c.args(["run", "--package", name, "--manifest-path"])
        .arg(lab.root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&lab.target);
    c
}

/// The lab's own checks: its formatting, clippy, its tests, and its scenarios in the rig.
///
/// **Errors**: one of them fails.
pub fn check(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let lab = ctx.project.lab()?;
    let command = |args: &[&str]| {
        let mut c = lab.cargo();
        c.args(args);
        c
    };
    s.run(command(&["fmt", "--all", "--check"]))?;
    s.run(command(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ]))?;
    let mut c = command(&["test", "--workspace", "--no-fail-fast"]);
    if ctx.all {
        c.env("POWERFAIL_SAMPLE", "all");
    }
    let n = passed(&s.run(c)?);
    ensure!(n > 0, "no test of the lab ran");
    Ok(match machine::check_lab(&ctx.project, ctx.all, s)? {
        Outcome::Passed(said) => format!("{n} tests; {said}").into(),
        skipped => skipped,
    })
}
