//! `cargo deny`: the licences, banned crates and sources of deny.toml, held against the lock files
//! of the repository.

use super::Ctx;
use crate::install::unoptimised;
use crate::project::has_program;
use crate::run::{Outcome, Step, cargo, show};
use anyhow::{Result, ensure};
use std::process::Command;

/// The version that is installed where there is none.
const VERSION: &str = "0.20.2";

/// The workspaces, each with its own lock file.
const WORKSPACES: [&str; 4] = [".", "fuzz", "firmware/rig", "lab"];

/// What one workspace does not need, another does. So a line of deny.toml that is not used is no
/// finding.
const UNUSED: [&str; 3] = [
    "unused-wrapper",
    "license-exception-not-encountered",
    "license-not-encountered",
];

/// How it is installed.
pub fn install() -> Command {
    unoptimised("cargo-deny", VERSION)
}

/// Advisories are left out: their database is on the network.
pub fn deny(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if !has_program("cargo-deny") {
        let how = format!("needs cargo-deny: {}", show(&install()));
        return Ok(Outcome::Skipped(how));
    }
    let root = &ctx.project.root;
    for w in WORKSPACES {
        let mut c = cargo();
        c.current_dir(root).args(["deny", "--locked", "--config"]);
        c.arg(root.join("deny.toml")).arg("--manifest-path");
        c.arg(root.join(w).join("Cargo.toml")).arg("check");
        c.args(UNUSED.iter().flat_map(|lint| ["--allow", *lint]));
        c.args(["licenses", "bans", "sources"]);
        let said = s.run(c)?;
        ensure!(
            said.contains("bans ok, licenses ok, sources ok"),
            "cargo-deny did not judge {w}"
        );
    }
    Ok(format!(
        "licences, bans and sources of {} lock files",
        WORKSPACES.len()
    )
    .into())
}
