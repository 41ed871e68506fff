//! Steps that survive on media that are not mapped: what they cost, beside other crates, and the
//! cuts that they survive.

use super::draw::{self, File};
use super::heap::document::Table;
use super::measure::{self, Program};
use super::{Figures, Measured, Options, plot};
use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSymbol};
use xtask::boards;
use xtask::machine::Which;
use xtask::project::{Project, has_target};
use xtask::run::{Step, cargo};
use xtask::stats;

const COSTS: &[Program] = &[Program {
    package: "peer-eval",
    kind: "--bin",
    name: "mirror",
    default_features: true,
    features: "",
    profile: "release",
}];

/// The target on which a mirror's RAM counts.
const SMALL: &str = "thumbv7em-none-eabihf";

/// The key of that RAM, and the symbol of the probe that has it as its value.
const RAM: (&str, &str) = ("mirror.ram_overhead", "nv_mirror_ram");

/// What is the same on every computer.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let mut all = measure::run_programs(project, step, COSTS)?;
    all.insert(RAM.0.to_owned(), ram(project, step)?);
    Ok(all.into())
}

/// What a mirror takes on a Cortex-M beside region, shadow and driver, in bytes.
fn ram(project: &Project, step: &Step) -> Result<f64> {
    if !has_target("", SMALL) {
        bail!("rustup target add {SMALL}");
    }
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["build", "--profile", "size", "-p", "size-probes"])
        .args(["--bin", "nv_mirror", "--target", SMALL]);
    step.run(c)?;
    let program = project.target.join(SMALL).join("size/nv_mirror");
    let elf = std::fs::read(&program).with_context(|| program.display().to_string())?;
    let file = object::File::parse(&*elf)?;
    let symbol = file.symbols().find(|s| s.name() == Ok(RAM.1));
    let symbol = symbol.with_context(|| format!("{} has no {}", program.display(), RAM.1))?;
    Ok(symbol.address() as f64)
}

/// Tests whose cuts count: the prefix of the keys, and the arguments of `cargo test`.
const SUITES: &[(&str, &[&str])] = &[
    ("mirror", &["-p", "nv-mirror", "--tests"]),
    (
        "mirror",
        &["-p", "nv-replay", "--test", "suite", "mirrored::"],
    ),
    ("async", &["-p", "nv-replay", "--test", "suite", "asynch::"]),
];

/// The scenarios of mirrors in machine code.
const MACHINE: &str = "mirror";

/// How many cuts of mirrors there must be.
const LEAST: f64 = 1_000_000.0;

/// That, and the campaigns: on a host, in machine code, in QEMU. A campaign that fails is counted,
/// and fails the evaluation.
pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let Measured {
        mut figures,
        mut wrong,
    } = exact(project, step, options)?;
    let stats = project.target.join("xtask/mirror-cuts.txt");
    for (prefix, args) in SUITES {
        let _ = std::fs::remove_file(&stats);
        let mut c = cargo();
        c.current_dir(&project.root)
            .args(["test", "--no-fail-fast"])
            .args(*args)
            .env("POWERFAIL_STATS", &stats);
        let failed = step.run(c).err().map(|e| format!("{e:#}"));
        let counts = stats::read(&stats)?;
        ensure!(counts.cuts > 0.0, "{args:?}: no cuts");
        *figures.entry(format!("{prefix}.cuts")).or_default() += counts.cuts;
        *figures.entry(format!("{prefix}.failures")).or_default() += counts.failed;
        wrong = wrong.or(failed);
    }
    let which = Which {
        scenario: Some(MACHINE),
        ..Which::default()
    };
    let (found, failed) = xtask::machine::campaign(project, which, false, step)?;
    let mine = |(k, _): &(String, f64)| k.starts_with("mirror.");
    figures.extend(found.into_iter().filter(mine));
    wrong = wrong.or(failed);
    match boards::tasks(project, step) {
        Ok((found, failed)) => {
            figures.extend(found);
            wrong = wrong.or(failed);
        }
        Err(e) => wrong = wrong.or(Some(format!("{e:#}"))),
    }
    let cuts = figures["mirror.cuts"];
    if cuts < LEAST && wrong.is_none() {
        wrong = Some(format!("the suites made {cuts} cuts, {LEAST} are required"));
    }
    Ok(Measured { figures, wrong })
}

/// The rows: name, prefix of the keys, and what follows `bytes_per_step` and `erases_1000`.
const ROWS: [(&str, &str, &str); 6] = [
    ("mirror on serial FRAM, each commit", "fram", ""),
    ("mirror on MRAM of 16 bytes, each commit", "mram16", ""),
    ("mirror on flash, each commit", "nrf52", ""),
    ("mirror on flash, each tenth commit", "nrf52", "_every_10"),
    (
        "sequential-storage, the whole struct",
        "sequential_storage",
        "",
    ),
    ("ekv, the whole struct", "ekv", ""),
];

fn bytes((_, prefix, suffix): (&str, &str, &str)) -> String {
    format!("mirror.{prefix}.bytes_per_step{suffix}")
}

const PLOT: &str = "mirror-bytes.svg";

/// The generated part of lab/EVALUATION.md. Empty when nothing was measured.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    if name != "mirror" {
        return None;
    }
    if !f.contains_key(&bytes(ROWS[0])) {
        return Some(String::new());
    }
    let mut t = Table::new(f, &["", "bytes a step", "erases in 1,000 steps"]);
    for row in ROWS {
        let (name, prefix, suffix) = row;
        let erases = format!("mirror.{prefix}.erases_1000{suffix}");
        t.figures(name, &[bytes(row), erases]);
    }
    let mut text = t.text;
    let mut t = Table::new(f, &["", ""]);
    for (name, key) in [
        ("a record of one step, bytes", "record_bytes"),
        ("open after 1,000 steps on flash reads, bytes", "open_bytes"),
        (
            "erases in the next 1,000 steps on flash",
            "nrf52.erases_1000_later",
        ),
        (
            "RAM beside region, shadow and driver on a Cortex-M, bytes",
            "ram_overhead",
        ),
        ("cuts of mirrors judged", "cuts"),
        ("cuts of mirrors not survived", "failures"),
    ] {
        t.figures(name, &[format!("mirror.{key}")]);
    }
    for (name, key) in [
        ("cuts of async tasks judged", "cuts"),
        ("cuts of async tasks not survived", "failures"),
        ("resets of async tasks under embassy, in QEMU", "qemu_kills"),
        ("campaigns with one that was not survived", "qemu_failures"),
    ] {
        t.figures(name, &[format!("async.{key}")]);
    }
    text.push('\n');
    text += &t.text;
    Some(text + &plot::shown(PLOT))
}

/// The chart, if it has something to show.
pub fn plots(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key(&bytes(ROWS[0])) {
        return Ok(Vec::new());
    }
    let groups = ROWS.map(|row| (row.0, vec![f.get(&bytes(row)).copied()]));
    Ok(vec![draw::bars(PLOT, "bytes a step", &[""], &groups)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_shows_what_was_measured() {
        assert_eq!(part("mirror", &Figures::new()).unwrap(), "");
        assert!(part("other", &Figures::new()).is_none());
        let f = Figures::from([
            (bytes(ROWS[0]), 36.88),
            ("mirror.nrf52.erases_1000_every_10".to_owned(), 3.0),
        ]);
        let text = part("mirror", &f).unwrap();
        assert!(text.contains("each commit | 36.88 | - |"), "{text}");
        assert!(text.contains("tenth commit | - | 3 |"), "{text}");
        assert_eq!(plots(&f).unwrap().len(), 1);
        assert!(plots(&Figures::new()).unwrap().is_empty());
    }
}
