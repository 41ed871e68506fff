//! `cargo xtask demo checkpoint`: the programs of examples/queens on the board of
//! firmware/rig/src/demo. That links Unicorn, so it is a program of its own.

use crate::abi::ARM;
use crate::machine;
use crate::project::Project;
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

const PACKAGE: &str = "example-queens";
/// Modes, and their programs.
const MODES: [(&str, &str); 5] = [
    ("full", "queens-full"),
    ("split", "queens-split"),
    ("heap_tracker", "queens-heap-tracker"),
    ("copy_if_change", "queens-copy-if-change"),
    ("adaptive", "queens-adaptive"),
];

pub fn run(project: &Project, args: &[std::ffi::OsString]) -> Result<()> {
    crate::install::install_rig()?;
    let step = Step::alone(project.target.join("xtask/demo.log"), "demo");
    let mut c = command(project, &step)?;
    drop(step);
    let status = c.args(args).status().context("cannot start the demo")?;
    std::process::exit(status.code().unwrap_or(1));
}

/// The demo, with its programs, all built.
fn command(project: &Project, s: &Step) -> Result<Command> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--bins", "--profile", "firmware"])
        .args(["--target", ARM.target, "-p", PACKAGE]);
    s.run(c)?;
    let mut demo = Command::new(machine::programs(project, s)?.join("relume-demo"));
    let built = project.target.join(ARM.target).join("firmware");
    for (mode, program) in MODES {
        demo.arg(format!(
            "--program={mode}={}",
            built.join(program).display()
        ));
    }
    Ok(demo)
}

/// Boots in all that CI must see.
const BOOTS: f64 = 60.0;

/// The step of `cargo xtask ci`: with a smaller board, all modes come to the same result; with
/// hardly any power none comes anywhere, and says so.
pub fn check(project: &Project, s: &Step) -> Result<Outcome> {
    if let Some(how) = machine::missing() {
        return Ok(Outcome::Skipped(how));
    }
    let json = project.target.join("xtask/demo.json");
    let _ = std::fs::remove_file(&json);
    let mut demo = command(project, s)?;
    demo.args(["--queens=10", "--period=1500", "--json"])
        .arg(&json);
    let said = s.run(demo)?;
    ensure!(!said.contains('\r'), "progress without a terminal");
    let figures = crate::figures::read(&json)?;
    let of = |key: &str| {
        let key = format!("checkpoint_demo.{key}");
        figures
            .get(&key)
            .copied()
            .with_context(|| format!("no {key}"))
    };
    let mut boots = 0.0;
    for (mode, _) in MODES {
        boots += of(&format!("{mode}.boots"))?;
        let (cuts, taken) = (
            of(&format!("{mode}.cuts"))?,
            of(&format!("{mode}.checkpoints"))?,
        );
        ensure!(
            cuts > 0.0 && taken > 0.0,
            "{mode}: {cuts} cuts, {taken} checkpoints"
        );
        ensure!(of(&format!("{mode}.energy_uj"))? > 0.0, "{mode}: no energy");
    }
    let (same, modes) = (of("identical")?, of("modes")?);
    ensure!(
        same == modes && modes == MODES.len() as f64,
        "{same} of {modes} are identical"
    );
    ensure!(
        boots >= BOOTS,
        "{boots} boots, at least {BOOTS} are required"
    );
    let dear = of("full.energy_uj")? / of("adaptive.energy_uj")?;
    ensure!(dear > 2.0, "full takes {dear} times what adaptive takes");

    let mut short = command(project, s)?;
    short.args(["--queens=8", "--period=20"]);
    let Err(e) = s.run(short) else {
        bail!("with hardly any power it came to an end");
    };
    let why = format!("{e:#}");
    ensure!(why.contains("too short"), "with hardly any power: {why}");
    Ok(format!("{modes} modes, {boots} boots, all identical").into())
}
