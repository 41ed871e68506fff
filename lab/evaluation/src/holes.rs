//! What attacks found: misuse by safe code, preemption between two stores, damage to a heap's
//! image.
//!
//! Each figure comes from tests that run in every test run and fail when the figure would be wrong.
//! This evaluation runs them alone and adds up what they print or how many there are.

use super::measure::figures;
use super::{Figures, Measured, Options};
use anyhow::{Context, Result, bail};
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

/// The document that lists the misuses that remain, and the heading of each crate's table of them.
const INVARIANTS: &str = "docs/INVARIANTS.md";
const REMAIN: &str = "### What types cannot stop\n";

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
    let text = std::fs::read_to_string(project.root.join(INVARIANTS)).context(INVARIANTS)?;
    found.insert("soundness.open".into(), remaining(&text)? as f64);
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

/// The rows of the tables under the headings.
fn remaining(text: &str) -> Result<usize> {
    let mut sections = text.split(REMAIN);
    sections.next();
    let mut n = 0;
    let mut tables = 0;
    for section in sections {
        let table = section.lines().skip_while(|l| !l.starts_with('|'));
        let rows = table.take_while(|l| l.starts_with('|')).count();
        // The first two are the table's head.
        n += rows
            .checked_sub(2)
            .with_context(|| format!("{INVARIANTS}: a heading without a table"))?;
        tables += 1;
    }
    if tables == 0 {
        bail!("{INVARIANTS} has no heading {}", REMAIN.trim());
    }
    Ok(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_all_tables_are_counted_and_a_missing_table_is_an_error() {
        let head = format!("# x\n\n{REMAIN}\nWords.\n\n| a | b |\n|---|---|\n");
        assert_eq!(remaining(&head).unwrap(), 0);
        let two = format!("{head}| 1 | 2 |\n| 3 | 4 |\n\n## Next\n\n| 5 |\n");
        assert_eq!(remaining(&two).unwrap(), 2);
        assert_eq!(remaining(&format!("{two}\n{two}")).unwrap(), 4);
        assert!(remaining("# x\n| a |\n|---|\n").is_err());
        assert!(remaining(&format!("{REMAIN}nothing\n")).is_err());
    }
}
