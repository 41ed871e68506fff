//! What attacks found: misuse by safe code, preemption between two stores, damage to a heap's
//! image.
//!
//! Each figure comes from tests that run in every test run and fail when the figure would be wrong.
//! This evaluation runs them alone and adds up what they print or how many there are.

use super::measure::figures;
use super::{Figures, Measured, Options};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;
use xtask::project::Project;
use xtask::run::{Step, cargo, passed};

/// Package and module of tests that print lines `key value`, and a key that must be among them.
const PRINTS: &[(&str, &str, &str)] = &[
    ("pmem-tx", "preempt", "contexts.preempted_cuts"),
    ("vnv-heap", "damage", "heap.bit_flips"),
];

/// Figures that count failures: anything but 0 fails the evaluation.
const MUST_BE_ZERO: &[&str] = &[
    "contexts.preempted_failures",
    "heap.bit_flips_spread",
    "heap.damaged_pages_spread",
];

/// The tests that are probes: the program of misuse that must not compile, and modules of misuse
/// that must do no harm.
const PROBES: &[&str] = &[CASES, "misuse", "soundness"];

/// The folder of those that must not compile: one file each.
const CASES: &str = "ui";

/// The heading in a crate's README of the list of misuses that remain.
const REMAIN: &str = "## What types cannot stop\n";

pub fn all(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let mut found = Figures::new();
    for (package, test, key) in PRINTS {
        let mut c = cargo();
        c.current_dir(&project.root)
            .args([
                "test",
                "-p",
                package,
                "--test",
                "suite",
                &format!("{test}::"),
            ])
            // One thread would print each test's name first on the line.
            .args(["--", "--nocapture", "--test-threads=2"]);
        let said = figures(&step.run(c)?);
        if !said.contains_key(*key) {
            bail!("{package}, {test}: no line `{key} N`");
        }
        found.extend(said);
    }
    found.insert("soundness.probes".into(), probes(project, step)? as f64);
    let mut open = 0;
    for p in project.published() {
        let readme = p.dir.join("README.md");
        let text =
            std::fs::read_to_string(&readme).with_context(|| readme.display().to_string())?;
        open += remaining(&text).with_context(|| p.name.clone())?;
    }
    ensure!(open > 0, "no README has {}", REMAIN.trim());
    found.insert("soundness.open".into(), open as f64);
    let wrong = (MUST_BE_ZERO.iter())
        .find(|key| found.get(**key) != Some(&0.0))
        .map(|key| format!("{key} is not 0"));
    Ok(Measured {
        figures: found,
        wrong,
    })
}

/// How many probes there are: cases that must not compile, and tests that run. All of them are run
/// first.
fn probes(project: &Project, step: &Step) -> Result<u64> {
    let mut n = 0;
    for p in project.published() {
        let tests = p.dir.join("tests");
        for name in PROBES {
            let mut c = cargo();
            c.current_dir(&project.root).args(["test", "-p", &p.name]);
            let dir = match *name {
                CASES => {
                    c.args(["--test", CASES]);
                    tests.clone()
                }
                _ => {
                    c.args(["--test", "suite", &format!("{name}::")]);
                    tests.join("suite")
                }
            };
            if !dir.join(name).with_extension("rs").is_file() {
                continue;
            }
            let ran = passed(&step.run(c)?);
            if ran == 0 {
                bail!("{}, {name}: no test ran", p.name);
            }
            n += match *name {
                CASES => sources(&tests.join(CASES))?,
                _ => ran,
            };
        }
    }
    Ok(n)
}

/// How many Rust files a folder holds, subfolders apart.
fn sources(dir: &Path) -> Result<u64> {
    let mut n = 0;
    for entry in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        n += u64::from(entry?.path().extension().is_some_and(|e| e == "rs"));
    }
    Ok(n)
}

/// How many misuses a README lists: the points of its list, or none without the heading.
///
/// **Errors**: there is no point behind the heading.
fn remaining(text: &str) -> Result<usize> {
    let Some((_, section)) = text.split_once(REMAIN) else {
        return Ok(0);
    };
    let section = section.split("\n## ").next().unwrap_or_default();
    let points = section.lines().filter(|l| l.starts_with("- ")).count();
    ensure!(points > 0, "{}: no point", REMAIN.trim());
    Ok(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_the_list_are_counted_and_a_heading_without_one_is_an_error() {
        let two = format!("# x\n\n{REMAIN}\n- One\n  thing.\n- Two.\n\n## Next\n\n- Three.\n");
        assert_eq!(remaining(&two).unwrap(), 2);
        assert_eq!(remaining("# x\n\n- One\n").unwrap(), 0);
        assert!(remaining(&format!("{REMAIN}nothing\n\n## Next\n- a\n")).is_err());
    }
}
