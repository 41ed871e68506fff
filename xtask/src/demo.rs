//! `cargo xtask demo`.

mod checkpoint;

use crate::project::{Project, root};
use crate::run::cargo;
use anyhow::{Result, bail};
use std::io::IsTerminal;

pub use checkpoint::check;

/// Activity recognition through thousands of power cuts; `demo heap`: a year of temperatures, likewise; `demo checkpoint`: an ordinary
/// program in an emulated Cortex-M, in every mode of checkpoints
#[derive(clap::Args)]
#[command(after_help = "\
What follows `demo` goes to the example as it is:
  --train CSV        recordings to learn from
  --recognize CSV    recordings to recognise; alone, it trains on the whole default file
  --cut-every N      cut the power after every N stores; may be given several times
  --json PATH        the figures, as one flat JSON object
  --plot SVG         the timeline of recognised activities, with the cuts marked

And what follows `demo heap`:
  --data CSV         what is logged: hour,tenths_f
  --commit-every N   a commit every N values
  --seed N           when the power goes
  --json PATH        the figures, as one flat JSON object

And what follows `demo checkpoint`:
  --queens N         queens to place, 4 to 11
  --period MS        how long the power lasts, in the mean
  --seed N           how long exactly is random
  --json PATH        the figures, as one flat JSON object

The default recordings are in examples/activity/ and examples/logger/.")]
pub struct Args {
    /// `heap` or `checkpoint`, then arguments of the example
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Folder, package and program of an example.
const ACTIVITY: [&str; 3] = ["examples/activity", "example-activity", "activity"];
const LOGGER: [&str; 3] = ["examples/logger", "example-logger", "logger"];

pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    if let Some((first, rest)) = a.args.split_first()
        && first == "checkpoint"
    {
        return checkpoint::run(&project, rest);
    }
    let ([folder, package, program], args) = match a.args.split_first() {
        Some((first, rest)) if first == "heap" => (LOGGER, rest),
        _ => (ACTIVITY, &a.args[..]),
    };
    if project.package(package).is_none() {
        bail!("this checkout has no {folder} (package {package})");
    }
    let mut c = cargo();
    c.args(["run", "--release"]);
    if !std::io::stderr().is_terminal() {
        c.arg("--quiet");
    }
    c.arg("--manifest-path")
        .arg(root().join("Cargo.toml"))
        .args(["--package", package, "--bin", program, "--"])
        .args(args);
    let status = c.status()?;
    std::process::exit(status.code().unwrap_or(1));
}
