//! The papers' programs as images for an MSP430, on the emulated board.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use xtask::build_for_msp430;
use xtask::project::Project;
use xtask::run::Step;

/// Programs of the Sytare paper. They are optimised for speed: they are small.
const SYTARE: (&str, &str) = ("lab-sytare", "2");
/// Programs of the kernel. They are optimised for size: otherwise fewer would fit.
const PROGRAMS: (&str, &str) = ("lab-programs-msp430", "\"s\"");

/// The programs of the Sytare paper with a supply that ends again and again: what the emulator has
/// printed.
///
/// **Errors**: something does not build, or a program came to a wrong end.
pub fn yields(project: &Project, s: &Step) -> Result<String> {
    let lab = project.lab()?;
    let mut run = emulated(&lab, "yields", s)?;
    let (dir, wrong) = build_for_msp430(&lab, SYTARE.0, SYTARE.1, s)?;
    wrong.map_or(Ok(()), Err)?;
    run.arg(dir);
    s.run(run)
}

/// A program that runs images on the emulated board, built.
fn emulated(lab: &Project, name: &str, s: &Step) -> Result<Command> {
    let mut c = lab.cargo();
    c.args(["build", "--release", "-p", "lab-emulated", "--bin", name]);
    s.run(c)?;
    Ok(Command::new(lab.target.join("release").join(name)))
}

/// The programs of `lab/programs` without protection, with it, and with cuts: what the emulator has
/// printed, and by how many bytes a build does not fit.
///
/// **Errors**: as above. A program that does not fit is none.
pub fn programs(project: &Project, s: &Step) -> Result<String> {
    let lab = project.lab()?;
    let (dir, too_large) = build_programs(&lab, s)?;
    let mut run = emulated(&lab, "programs", s)?;
    run.arg(dir);
    let mut said = s.run(run)?;
    for (program, bytes) in too_large {
        let figure = match program.strip_suffix("-plain") {
            Some(name) => format!("{name}.unprotected_too_large"),
            None => format!("{program}.too_large"),
        };
        said += &format!("rtos.msp430.{figure} {bytes}\n");
    }
    Ok(said)
}

/// Builds the programs. Says in which folder they are, and which of them do not fit, by so many
/// bytes.
fn build_programs(lab: &Project, s: &Step) -> Result<(PathBuf, BTreeMap<String, u64>)> {
    let (dir, wrong) = build_for_msp430(lab, PROGRAMS.0, PROGRAMS.1, s)?;
    let Some(wrong) = wrong else {
        return Ok((dir, BTreeMap::new()));
    };
    let said = std::fs::read(s.log()).with_context(|| s.log().display().to_string())?;
    let too_large = too_large(&String::from_utf8_lossy(&said));
    let package = lab.package(PROGRAMS.0).context("no such package")?;
    let mut programs = package.targets.iter().filter(|t| t.1 == "bin");
    let explained = programs.all(|t| dir.join(&t.0).is_file() || too_large.contains_key(&t.0));
    if explained {
        Ok((dir, too_large))
    } else {
        Err(wrong)
    }
}

/// The programs that did not fit, and by how many bytes, from what the compiler and the linker
/// said.
fn too_large(said: &str) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut program: Option<String> = None;
    for line in said.lines() {
        // The linker's arguments name the file, with a hash behind the program's name.
        let output = line.split_once("\"-o\" \"").map(|(_, rest)| rest);
        if let Some(path) = output.and_then(|rest| rest.split('"').next()) {
            let file = path.rsplit('/').next().unwrap_or_default();
            program = file
                .rsplit_once('-')
                .map(|(name, _)| name.replace('_', "-"));
        }
        let over = line.split_once("overflowed by ").map(|(_, rest)| rest);
        let over: Option<u64> = over.and_then(|rest| rest.split(' ').next()?.parse().ok());
        if let (Some(over), Some(program)) = (over, &program) {
            let most = all.entry(program.clone()).or_insert(0);
            *most = over.max(*most);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_do_not_fit() {
        let said = r#"
  = note:  "ld.lld" "-o" "/t/deps/mq_plain-8980760bb92e8136" "-nostdlib"
  = note: rust-lld: error: section '.text' will not fit in region 'FRAM': overflowed by 66 bytes
          rust-lld: error: section '.data' will not fit in region 'FRAM': overflowed by 78 bytes
  = note:  "ld.lld" "-o" "/t/deps/etl-1" "-nostdlib"
  = note: rust-lld: error: section '.data' will not fit in region 'FRAM': overflowed by 1 bytes
error: could not compile `lab-programs-msp430` (bin "mq-plain") due to 1 previous error"#;
        let wanted = [("etl".to_owned(), 1), ("mq-plain".to_owned(), 78)];
        assert_eq!(too_large(said), wanted.into());
        assert!(too_large("error: could not compile").is_empty());
    }
}
