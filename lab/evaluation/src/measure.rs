//! How each evaluation gets its figures: programs of the crates that print lines `key value`.

use super::{Figures, Measured, Options};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::Command;
use xtask::machine::Which;
use xtask::project::{Project, has_program};
use xtask::run::{Step, cargo};
use xtask::shard::Shard;
use xtask::stats::{self, Counts};

/// A program that measures.
pub struct Program {
    pub package: &'static str,
    /// `--bin` or `--example`.
    pub kind: &'static str,
    pub name: &'static str,
    pub default_features: bool,
    pub features: &'static str,
    pub profile: &'static str,
}

const STORES: &[Program] = &[Program {
    package: "cost-probes",
    kind: "--bin",
    name: "stores",
    default_features: true,
    features: "instrument",
    profile: "release",
}];

const SPEED: &[Program] = &[Program {
    package: "cost-probes",
    kind: "--bin",
    name: "speed",
    default_features: true,
    features: "speed",
    profile: "release",
}];

/// Not built together with anything that turns on instrumentation.
const INSTRUCTIONS: Program = Program {
    package: "cost-probes",
    kind: "--bin",
    name: "instructions",
    default_features: true,
    features: "",
    profile: "release",
};

/// Key, and the function of that program in which callgrind counts; it is called once.
const COUNTED: &[(&str, &str)] = &[
    ("pmem_tx.instructions.update_8", "measure_update_8"),
    ("nv_replay.bypass_step.instructions", "measure_bypass_step"),
];

pub use xtask::figures::printed as figures;

/// Builds a program of the project, or else of the lab, and says where it is.
pub fn build(project: &Project, step: &Step, p: &Program) -> Result<PathBuf> {
    let is_here = project.package(p.package).is_some();
    let lab = (!is_here).then(|| project.lab()).transpose()?;
    let project = lab.as_ref().unwrap_or(project);
    let mut c = project.cargo();
    c.args(["build", "--profile", p.profile])
        .args(["-p", p.package, p.kind, p.name]);
    if !p.default_features {
        c.arg("--no-default-features");
    }
    if !p.features.is_empty() {
        c.args(["--features", p.features]);
    }
    step.run(c)?;
    let dir = project.target.join(p.profile);
    Ok(match p.kind {
        "--bin" => dir.join(p.name),
        _ => dir.join("examples").join(p.name),
    })
}

pub fn run_programs(project: &Project, step: &Step, programs: &[Program]) -> Result<Figures> {
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

pub fn stores(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    Ok(run_programs(project, step, STORES)?.into())
}

/// Opening a heap, over sizes of RAM.
const OPEN: &[Program] = &[Program {
    package: "heap-eval",
    kind: "--bin",
    name: "open",
    default_features: true,
    features: "",
    profile: "release",
}];

/// Erases of a record in 1,000 boots, which belong to [`adoption`], too.
const ERASES: &str = "record.erases_1000_boots_";

/// What opening a heap reads: the same on every machine.
pub fn opening(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    Ok(run_programs(project, step, OPEN)?.into())
}

pub fn adoption(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let (mut figures, wrong) = xtask::adoption::figures(project, step)?;
    figures.extend(run_programs(project, step, OPEN)?);
    let stores = run_programs(project, step, STORES)?;
    figures.extend(stores.into_iter().filter(|(k, _)| k.starts_with(ERASES)));
    Ok(Measured { figures, wrong })
}

pub fn speed(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    Ok(run_programs(project, step, SPEED)?.into())
}

/// Sizes of the probes on a Cortex-M4.
pub fn sizes(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    Ok(xtask::sizes::on_cortex_m4(project, step)?.into())
}

/// What a change costs a person: reported, and not compared.
pub fn loops(project: &Project, _: &Step, _: Options) -> Result<Measured> {
    Ok(xtask::loops::figures(project)?.into())
}

/// What programs that somebody gets wrong come to: reported, and not compared.
pub fn safe(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let (figures, wrong) = xtask::safe::figures(project, step)?;
    Ok(Measured {
        figures,
        wrong: (!wrong.is_empty()).then(|| wrong.join("\n")),
    })
}

pub fn instructions(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    if !has_program("valgrind") {
        bail!("valgrind is not installed: cargo xtask ci --only evaluate installs it");
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
    Ok(all.into())
}

/// The total of a callgrind file, if it is not 0.
fn collected(out: &str) -> Option<f64> {
    let line = out
        .lines()
        .find_map(|l| l.strip_prefix("totals:").or(l.strip_prefix("summary:")))?;
    line.trim().parse().ok().filter(|n| *n > 0.0)
}

/// Runs the suites of the published crates with the kit's counts written to a file.
pub fn campaigns(project: &Project, step: &Step, o: Options) -> Result<Measured> {
    let shard = o.shard;
    let stats = project.target.join("xtask/cuts.txt");
    let _ = std::fs::remove_file(&stats);
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "--tests", "--no-fail-fast"])
        .env("POWERFAIL_STATS", &stats);
    if let Some(s) = shard {
        c.env("POWERFAIL_SHARD", s.to_string());
    }
    for p in project.embedded() {
        c.args(["-p", &p.name]);
    }
    let ran = step.run(c).err().map(|e| format!("{e:#}"));
    let lines = std::fs::read_to_string(&stats);
    let lines = match (&ran, lines) {
        (Some(wrong), Err(_)) => bail!("no campaign wrote its counts\n{wrong}"),
        (_, lines) => lines.context("no campaign wrote its counts")?,
    };
    counted(&lines, ran, shard)
}

/// The lab's scenarios.
const LAB: Which<'_> = Which {
    lab: true,
    machine: None,
    scenario: None,
};

/// How the keys end of what a campaign counts.
const COUNTS: [&str; 6] = [
    ".scenarios",
    ".cuts",
    ".boots",
    ".failures",
    ".interrupts",
    ".planted",
];

/// Adds the figures of the lab's scenarios to those of the firmware: what was counted is added up;
/// the rate stays; all else is of one scenario, and where both have it the lab's is meant.
fn together(figures: &mut Figures, lab: Figures) {
    for (key, v) in lab {
        let program = key.contains(".program_");
        if !program && COUNTS.iter().any(|end| key.ends_with(end)) {
            *figures.entry(key).or_default() += v;
        } else if !key.contains(".boots_per_second") {
            figures.insert(key, v);
        }
    }
}

/// The rig on all scenarios and machines.
pub fn machine(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let (mut figures, mut wrong) =
        xtask::machine::campaign(project, Which::default(), false, step)?;
    let (of_lab, failed) = xtask::machine::campaign(project, LAB, false, step)?;
    wrong = wrong.or(failed);
    together(&mut figures, of_lab);
    let compared = xtask::msp430::compared(project, step)?;
    figures.insert("msp430.crosscheck_instructions".into(), compared as f64);
    Ok(Measured { figures, wrong })
}

/// The rig's costs alone: one boot of each scenario.
pub fn machine_costs(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let mut figures = xtask::machine::costs(project, Which::default(), step)?;
    together(&mut figures, xtask::machine::costs(project, LAB, step)?);
    Ok(figures.into())
}

/// How many cuts the suites must make.
pub const LEAST: f64 = 100_000.0;

/// The figures of these lines.
fn counted(lines: &str, mut wrong: Option<String>, shard: Option<Shard>) -> Result<Measured> {
    let Counts {
        cuts,
        boots,
        failed,
        ..
    } = stats::sums(lines)?;
    if failed > 0.0 && wrong.is_none() {
        wrong = Some(format!("{failed} cuts were not survived"));
    }
    if cuts < LEAST && shard.is_none() && wrong.is_none() {
        wrong = Some(format!("the suites made {cuts} cuts, {LEAST} are required"));
    }
    let mut figures = Figures::from([
        ("tests.cuts_total".into(), cuts),
        ("tests.boots_total".into(), boots),
        ("tests.cuts_failed".into(), failed),
    ]);
    if let Some(s) = shard {
        figures.insert("tests.shard".into(), s.part.into());
        figures.insert("tests.shards".into(), s.of.into());
    }
    Ok(Measured { figures, wrong })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callgrinds_total_is_found_and_never_nothing() {
        assert_eq!(collected("version: 1\nsummary: 812\n"), Some(812.0));
        assert_eq!(collected("totals: 0\n"), None);
    }

    #[test]
    fn cuts_that_are_not_survived_are_counted_and_fail_the_evaluation() {
        let good = "a 60000 10 0 1\nb 50000 5 0 1\n";
        let m = counted(good, None, None).unwrap();
        assert_eq!(m.figures["tests.cuts_total"], 110_000.0);
        assert_eq!((m.figures["tests.cuts_failed"], m.wrong), (0.0, None));
        let m = counted("a 60000 10 0 1\nb 50000 5 1 1\n", None, None).unwrap();
        assert_eq!(m.figures["tests.cuts_failed"], 1.0);
        assert!(m.wrong.is_some());
        // Another test failed: no cut did, and it is an error all the same.
        let m = counted(good, Some("assertion".into()), None).unwrap();
        assert_eq!(m.figures["tests.cuts_failed"], 0.0);
        assert!(m.wrong.is_some());
        let few = counted("a 60 10 0 1\n", None, None).unwrap();
        assert!(few.wrong.unwrap().contains("required"));
        let shard = counted("a 60 10 0 1\n", None, "2/3".parse().ok()).unwrap();
        assert_eq!(shard.figures["tests.shard"], 2.0);
        assert!(shard.wrong.is_none());
        assert!(counted("a 60 10\n", None, None).is_err());
        assert!(counted("a 60 10 x\n", None, None).is_err());
    }
}
