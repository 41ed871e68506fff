//! How each evaluation gets its figures: programs of the crates that print lines `key value`.

use super::Figures;
use crate::project::{Project, has_program};
use crate::run::{Step, cargo};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;

/// A program that measures.
struct Program {
    package: &'static str,
    /// `--bin` or `--example`.
    kind: &'static str,
    name: &'static str,
    features: &'static str,
}

const STORES: &[Program] = &[Program {
    package: "cost-probes",
    kind: "--bin",
    name: "stores",
    features: "instrument",
}];

const SPEED: &[Program] = &[Program {
    package: "cost-probes",
    kind: "--bin",
    name: "speed",
    features: "speed",
}];

/// Not built together with anything that turns on instrumentation.
const INSTRUCTIONS: Program = Program {
    package: "cost-probes",
    kind: "--bin",
    name: "instructions",
    features: "",
};

/// Key, and the function of that program in which callgrind counts; it is called once.
const COUNTED: &[(&str, &str)] = &[
    ("pmem_tx.instructions.update_8", "measure_update_8"),
    ("nv_replay.bypass_step.instructions", "measure_bypass_step"),
];

/// Figures from `key value` lines.
fn figures(said: &str) -> Figures {
    said.lines()
        .filter_map(|l| {
            let mut words = l.split_whitespace();
            let (key, value) = (words.next()?, words.next()?.parse().ok()?);
            (key.contains('.') && words.next().is_none()).then(|| (key.to_owned(), value))
        })
        .collect()
}

/// Builds a program in release and says where it is.
fn build(project: &Project, step: &Step, p: &Program) -> Result<PathBuf> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--release", "-p", p.package, p.kind, p.name]);
    if !p.features.is_empty() {
        c.args(["--features", p.features]);
    }
    step.run(c)?;
    let dir = match p.kind {
        "--bin" => "release",
        _ => "release/examples",
    };
    Ok(project.target.join(dir).join(p.name))
}

fn run_programs(project: &Project, step: &Step, programs: &[Program]) -> Result<Figures> {
    let mut all = Figures::new();
    for p in programs {
        let program = build(project, step, p)?;
        let found = figures(&step.run(Command::new(program))?);
        if found.is_empty() {
            bail!("{} of {} printed no figure", p.name, p.package);
        }
        all.extend(found);
    }
    Ok(all)
}

pub fn stores(project: &Project, step: &Step) -> Result<Figures> {
    run_programs(project, step, STORES)
}

pub fn speed(project: &Project, step: &Step) -> Result<Figures> {
    run_programs(project, step, SPEED)
}

pub fn instructions(project: &Project, step: &Step) -> Result<Figures> {
    if !has_program("valgrind") {
        bail!("valgrind is not installed: cargo xtask test installs it");
    }
    let program = build(project, step, &INSTRUCTIONS)?;
    let mut all = Figures::new();
    for (key, function) in COUNTED {
        let out = project.target.join("xtask/callgrind.out");
        let mut v = Command::new("valgrind");
        v.args(["--tool=callgrind", "--collect-atstart=no"])
            .arg(format!("--toggle-collect=*{function}*"))
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(&program);
        step.run(v)?;
        let total = collected(&std::fs::read_to_string(&out)?)
            .with_context(|| format!("callgrind counted nothing in {function}"))?;
        all.insert((*key).to_owned(), total);
    }
    Ok(all)
}

/// The total of a callgrind file, if it is not 0.
fn collected(out: &str) -> Option<f64> {
    let line = out
        .lines()
        .find_map(|l| l.strip_prefix("totals:").or(l.strip_prefix("summary:")))?;
    line.trim().parse().ok().filter(|n| *n > 0.0)
}

/// Runs the suites of the published crates with the kit's counts written to a file: lines `name cuts boots`.
pub fn campaigns(project: &Project, step: &Step) -> Result<Figures> {
    let stats = project.target.join("xtask/cuts.txt");
    let _ = std::fs::remove_file(&stats);
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "--tests"])
        .env("POWERFAIL_STATS", &stats);
    for p in project.embedded() {
        c.args(["-p", &p.name]);
    }
    step.run(c)?;
    let (mut cuts, mut boots) = (0.0, 0.0);
    for line in std::fs::read_to_string(&stats)
        .context("no campaign wrote its counts")?
        .lines()
    {
        let mut words = line.rsplit(' ').map(str::parse::<f64>);
        let (Some(Ok(b)), Some(Ok(c))) = (words.next(), words.next()) else {
            bail!("not `name cuts boots`: {line}");
        };
        (cuts, boots) = (cuts + c, boots + b);
    }
    if cuts < 100_000.0 {
        bail!("the suites made {cuts} cuts, at least 100,000 are required");
    }
    // A cut whose check fails also fails the test, and with it this evaluation.
    Ok(Figures::from([
        ("tests.cuts_total".into(), cuts),
        ("tests.boots_total".into(), boots),
        ("tests.cuts_failed".into(), 0.0),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_lines_of_a_key_and_a_number() {
        let f = figures("cost of a step\npmem_tx.begin.stores 0\na.b 1.5\nnot.this one two\n");
        assert_eq!(f.len(), 2);
        assert_eq!(f["a.b"], 1.5);
    }

    #[test]
    fn callgrinds_total_is_found_and_never_nothing() {
        assert_eq!(collected("version: 1\nsummary: 812\n"), Some(812.0));
        assert_eq!(collected("totals: 0\n"), None);
    }
}
