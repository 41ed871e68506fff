//! `cargo xtask evaluate`: starts the package `evaluation` of the lab, which cargo compiles only
//! then.

use crate::lab;
use crate::project::{Project, root};
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::process::Command;

/// Measures costs and speeds, and writes the tables and plots of lab/
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The arguments of the evaluation; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// `cargo run` on a package of this workspace. After `--` come the program's arguments.
pub fn package(name: &str) -> Command {
    let mut c = cargo();
    c.args(["run", "--quiet", "--package", name])
        .arg("--manifest-path")
        .arg(root().join("Cargo.toml"));
    c
}

fn evaluation() -> Result<Command> {
    let mut c = lab::package(&Project::load()?.lab()?, "evaluation");
    c.arg("--quiet");
    Ok(c)
}

pub fn run(a: Args) -> Result<()> {
    let mut c = evaluation()?;
    let status = c.arg("--").args(a.args).status();
    let status = status.context("cannot start the evaluation")?;
    std::process::exit(status.code().unwrap_or(1));
}

/// The step of `cargo xtask ci`: the documents are those of the committed figures, and no exact
/// figure got worse.
pub fn check(s: &Step) -> Result<Outcome> {
    let mut c = evaluation()?;
    c.args(["--", "--check"]);
    let output = s.run(c)?;
    Ok(output.lines().last().unwrap_or_default().into())
}
