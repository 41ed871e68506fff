//! `cargo xtask inspect`: starts the package `xtask/inspect`, which cargo compiles only then.

use crate::evaluate::package;
use anyhow::{Context, Result};
use std::ffi::OsString;

/// Prints what a memory dump holds
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// The dump, and options; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

pub fn run(a: Args) -> Result<()> {
    let status = package("relume-inspect").arg("--").args(a.args).status();
    let status = status.context("cannot start the package relume-inspect")?;
    std::process::exit(status.code().unwrap_or(1));
}
