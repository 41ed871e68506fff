//! The core emulator of the MSP430: compared with another one, and the images on it, killed and
//! started again.

use crate::abi::MSP430;
use crate::firmware;
use crate::project::{Project, has_program};
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result, bail};
use std::process::Command;

/// Instructions that must have been compared.
const COMPARED: u64 = 100_000;
/// Kills of each scenario.
const KILLS: u64 = 200;

/// A program of the emulator's crate with the images as its arguments, or the reason why it cannot
/// be built.
fn program(
    project: &Project,
    name: &str,
    s: &Step,
) -> Result<std::result::Result<Command, String>> {
    if let Some(how) = firmware::missing(&MSP430) {
        return Ok(Err(format!("needs: {how}")));
    }
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--release", "-p", "msp430-emu", "--bin", name]);
    s.run(c)?;
    let mut run = Command::new(project.target.join("release").join(name));
    for image in firmware::build(project, &MSP430, s)? {
        run.arg(format!("{}={}", image.path.display(), image.group));
    }
    Ok(Ok(run))
}

/// The number behind a key in `key value` lines.
fn figure(said: &str, key: &str) -> Result<u64> {
    let line = said.lines().find_map(|l| l.strip_prefix(key));
    let n = line.and_then(|l| l.trim().parse().ok());
    n.with_context(|| format!("no {key} in what it printed"))
}

/// The arithmetic of the ABI, as the images have it, against the host's.
pub fn arithmetic(project: &Project, s: &Step) -> Result<Outcome> {
    let c = match program(project, "arithmetic", s)? {
        Ok(c) => c,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let n = figure(&s.run(c)?, "msp430.arithmetic_calls")?;
    Ok(format!("{n} calls").into())
}

/// Random programs and the scenarios, instruction by instruction, against mspdebug's simulator. The
/// seed chooses the programs.
pub fn crosscheck(project: &Project, long: bool, s: &Step, seed: u64) -> Result<Outcome> {
    if !has_program("mspdebug") {
        let how = "mspdebug is not installed: cargo xtask ci --only crosscheck installs it";
        return Ok(Outcome::Skipped(how.into()));
    }
    let mut c = match program(project, "crosscheck", s)? {
        Ok(c) => c,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    c.args(["--seed", &first(seed).to_string()]);
    if long {
        c.args(["--programs", "2000", "--limit", "1000000"]);
    }
    let n = figure(&s.run(c)?, "msp430.crosscheck_instructions")?;
    if n < COMPARED {
        bail!("{n} instructions were compared, at least {COMPARED} are required");
    }
    Ok(format!("{n} instructions as in mspdebug").into())
}

/// The same, for the figures.
pub fn compared(project: &Project, s: &Step) -> Result<u64> {
    match program(project, "crosscheck", s)? {
        Ok(c) => figure(&s.run(c)?, "msp430.crosscheck_instructions"),
        Err(why) => bail!("{why}"),
    }
}

/// A program of the emulator's package, built.
pub fn emulator(project: &Project, name: &str, s: &Step) -> Result<Command> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--release", "-p", "msp430-emu", "--bin", name]);
    s.run(c)?;
    Ok(Command::new(project.target.join("release").join(name)))
}

/// A seed of the emulator's programs, which add small numbers to it; 1 is their default.
pub(crate) fn first(seed: u64) -> u64 {
    seed % (1 << 62) + 1
}

/// Whole systems: the timer's interrupt on, killed after numbers of instructions that follow from
/// the seed.
pub fn kills(project: &Project, long: bool, s: &Step, seed: u64) -> Result<Outcome> {
    let mut c = match program(project, "kills", s)? {
        Ok(c) => c,
        Err(why) => return Ok(Outcome::Skipped(why)),
    };
    let each = if long { 50 * KILLS } else { KILLS };
    c.args(["--kills", &each.to_string()])
        .args(["--seed", &first(seed).to_string()]);
    let said = s.run(c)?;
    let kills = figure(&said, "system.msp430.kills")?;
    let interrupts = figure(&said, "system.msp430.interrupts")?;
    if kills < KILLS || interrupts == 0 {
        bail!("{kills} kills and {interrupts} interrupts");
    }
    Ok(format!("{kills} kills, {interrupts} interrupts").into())
}
