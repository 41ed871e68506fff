//! The heap: bytes that are counted, instructions that callgrind counts, and cuts.

mod callgrind;
pub mod document;
pub mod goals;
mod peers;
pub mod plots;
mod times;

use super::measure::{Program, build, figures};
use super::{Figures, Measured, Options};
use anyhow::{Context, Result, bail};
use object::read::archive::ArchiveFile;
use object::{Object, ObjectSymbol};
use std::process::Command;
use xtask::project::{Project, has_program, has_target};
use xtask::run::Step;

const BYTES: Program = Program {
    package: "heap-eval",
    kind: "--bin",
    name: "heap-bytes",
    default_features: false,
    features: "host,no-section",
    profile: "release",
};

/// Linked as a whole: a critical section that does nothing then costs nothing.
const INSTRUCTIONS: Program = Program {
    name: "heap-instructions",
    profile: "evaluate",
    ..BYTES
};

/// With the test kit, which turns instrumentation on.
const CUTS: Program = Program {
    name: "heap-cuts",
    default_features: true,
    features: "cuts",
    ..BYTES
};

/// The target on which a heap's size counts.
const SMALL: &str = "riscv32imc-unknown-none-elf";

/// What is the same on every machine.
pub fn exact(project: &Project, step: &Step, o: Options) -> Result<Measured> {
    let arguments = [
        o.seed.unwrap_or(1).to_string(),
        size_of_heap(project, step)?.to_string(),
    ];
    let mut c = Command::new(build(project, step, &BYTES)?);
    c.args(&arguments);
    let mut all = said(&BYTES, &step.run(c)?)?;
    all.extend(instructions(project, step, &arguments)?);
    Ok(all.into())
}

fn said(p: &Program, said: &str) -> Result<Figures> {
    let all = figures(said);
    if all.is_empty() {
        bail!("{} printed no figure", p.name);
    }
    Ok(all)
}

/// Bytes of a `Heap` on a 32-bit target: of a symbol that is as large.
fn size_of_heap(project: &Project, step: &Step) -> Result<u64> {
    if !has_target("", SMALL) {
        bail!("rustup target add {SMALL}");
    }
    let lab = project.lab()?;
    let mut c = lab.cargo();
    c.args(["build", "--release", "-p", BYTES.package, "--lib"])
        .args(["--no-default-features", "--target", SMALL]);
    step.run(c)?;
    let library = lab.target.join(SMALL).join("release/libheap_eval.rlib");
    let file = std::fs::read(&library).with_context(|| library.display().to_string())?;
    for member in ArchiveFile::parse(&*file)?.members() {
        let Ok(object) = object::File::parse(member?.data(&*file)?) else {
            continue;
        };
        let named = |s: &object::Symbol<'_, '_>| s.name().is_ok_and(|n| n.contains("SIZE_OF_HEAP"));
        if let Some(symbol) = object.symbols().find(named) {
            return Ok(symbol.size());
        }
    }
    bail!("{} has no symbol SIZE_OF_HEAP", library.display())
}

/// One run under callgrind: a file for each measurement, in the order in which the program names
/// them.
fn instructions(project: &Project, step: &Step, arguments: &[String]) -> Result<Figures> {
    if !has_program("valgrind") {
        bail!("valgrind is not installed: cargo xtask ci --only evaluate installs it");
    }
    let program = build(project, step, &INSTRUCTIONS)?;
    let dir = project.target.join("xtask/heap-callgrind");
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir)?;
    let mut v = Command::new("valgrind");
    v.args(["--tool=callgrind", "--collect-atstart=no"])
        .arg("--toggle-collect=heap_eval::measure::measured*")
        .arg("--dump-before=heap_eval::measure::collected*")
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!(
            "--callgrind-out-file={}",
            dir.join("out").display()
        ))
        .arg(&program)
        .args(arguments);
    let said = step.run(v)?;
    let mut all = Figures::new();
    let lines = said.lines().filter_map(|l| l.strip_prefix("measured "));
    for (i, line) in lines.enumerate() {
        let (key, times) = line.split_once(' ').context("not `measured key times`")?;
        let times: f64 = times.parse().with_context(|| line.to_owned())?;
        let file = dir.join(format!("out.{}", i + 1));
        let file = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let c = callgrind::counted(&file)?;
        all.insert(format!("{key}.ir"), c.without / times);
        all.insert(format!("{key}.ir_total"), c.total / times);
    }
    less_what_is_empty(&mut all);
    Ok(all)
}

/// Takes off what the loop around an operation costs: `NAME` less `NAME.empty`, which is not shown.
fn less_what_is_empty(all: &mut Figures) {
    for kind in ["ir", "ir_total"] {
        let suffix = format!(".empty.{kind}");
        let empty: Vec<_> = all
            .keys()
            .filter(|k| k.ends_with(&suffix))
            .cloned()
            .collect();
        for key in empty {
            let cost = all.remove(&key).unwrap_or_default();
            if let Some(name) = key.strip_suffix(&suffix)
                && let Some(v) = all.get_mut(&format!("{name}.{kind}"))
            {
                *v -= cost;
            }
        }
    }
}

/// With the cuts.
pub fn all(project: &Project, step: &Step, o: Options) -> Result<Measured> {
    let mut all = exact(project, step, o)?.figures;
    let found = said(
        &CUTS,
        &step.run(Command::new(build(project, step, &CUTS)?))?,
    )?;
    let failures = found.get("heap.failures").copied().unwrap_or_default();
    all.extend(found);
    Ok(Measured {
        figures: all,
        wrong: (failures > 0.0).then(|| format!("{failures} campaigns of cuts in the heap failed")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_empty_loop_is_taken_off() {
        let mut f: Figures = [("a.ir", 50.0), ("a.empty.ir", 4.0), ("b.ir", 7.0)]
            .map(|(k, v)| (k.to_owned(), v))
            .into();
        less_what_is_empty(&mut f);
        assert_eq!(f.len(), 2);
        assert_eq!((f["a.ir"], f["b.ir"]), (46.0, 7.0));
    }
}
