//! `cargo xtask demo`.

use crate::project::{Project, root};
use crate::run::cargo;
use anyhow::{Result, bail};
use std::io::IsTerminal;

/// Activity recognition on motion recordings, without cuts and through thousands of power cuts.
#[derive(clap::Args)]
#[command(after_help = "\
What follows `demo` goes to the example as it is:
  --train CSV        recordings to learn from
  --recognize CSV    recordings to recognise; alone, it trains on the whole default file
  --cut-every N      cut the power after every N stores; may be given several times
  --json PATH        the figures, as one flat JSON object
  --plot SVG         the timeline of recognised activities, with the cuts marked

The default recordings are in examples/activity/.")]
pub struct Args {
    /// Arguments of the example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    if project.package("example-activity").is_none() {
        bail!("this checkout has no examples/activity (package example-activity)");
    }
    let mut c = cargo();
    c.args(["run", "--release"]);
    if !std::io::stderr().is_terminal() {
        c.arg("--quiet");
    }
    c.arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .args(["--package", "example-activity", "--bin", "activity", "--"])
        .args(a.args);
    let status = c.status()?;
    std::process::exit(status.code().unwrap_or(1));
}
