//! Checkpoints: what they make flash do, counted; and cuts.

pub mod document;
pub mod plots;

use super::measure::{Program, build, figures};
use super::{Figures, Measured, Options};
use anyhow::{Result, bail};
use std::process::Command;
use xtask::project::Project;
use xtask::run::Step;

const STUDY: Program = Program {
    package: "checkpoint-eval",
    kind: "--bin",
    name: "checkpoint-study",
    default_features: true,
    features: "",
    profile: "release",
};

/// With the test kit, which turns instrumentation on.
const CUTS: Program = Program {
    name: "checkpoint-cuts",
    features: "cuts",
    ..STUDY
};

/// What is the same on every machine.
pub fn exact(project: &Project, step: &Step, _: Options) -> Result<Measured> {
    let all = found(project, step, &STUDY)?;
    let wrong = wrong(&all);
    Ok(Measured {
        figures: all,
        wrong: (!wrong.is_empty()).then(|| wrong.join("\n")),
    })
}

fn found(project: &Project, step: &Step, p: &Program) -> Result<Figures> {
    let all = figures(&step.run(Command::new(build(project, step, p)?))?);
    if all.is_empty() {
        bail!("{} printed no figure", p.name);
    }
    Ok(all)
}

/// With the cuts.
pub fn all(project: &Project, step: &Step, o: Options) -> Result<Measured> {
    let mut m = exact(project, step, o)?;
    let cuts = found(project, step, &CUTS)?;
    let failures = cuts.get("checkpoint.failures").copied().unwrap_or(1.0);
    m.figures.extend(cuts);
    if failures > 0.0 {
        m.wrong = Some(format!(
            "{failures} campaigns of cuts in checkpoints failed"
        ));
    }
    Ok(m)
}

/// A figure, its bounds, and what it is.
type Shape = (&'static str, f64, f64, &'static str);

/// What must come out, whatever the numbers.
const SHAPES: &[Shape] = &[
    ("full_paper_mj", 84.35, 86.05, "the fit: Full takes 85.2 mJ"),
    (
        "first_image_ratio",
        1.09,
        1.13,
        "the fit: CopyIfChange's first image takes 94.5 mJ",
    ),
    (
        "full_paper_s",
        3.0,
        3.4,
        "slightly more than 3 s for all of RAM",
    ),
    (
        "crossover_m3_chunks",
        0.0,
        3.0,
        "HeapTracker overtakes Split: one byte a block",
    ),
    (
        "crossover_m3_chunks_paper_table",
        20.0,
        30.0,
        "HeapTracker overtakes Split: the paper's table",
    ),
    (
        "crossover_restore_m3_chunks",
        0.0,
        3.0,
        "the same, restoring",
    ),
    (
        "crossover_restore_m3_chunks_paper_table",
        15.0,
        30.0,
        "the same, restoring",
    ),
    (
        "m0_steps",
        2.0,
        2.0,
        "two erase units come into reach on the M0",
    ),
    (
        "fig13_m3_turns_copy_if_change",
        40.0,
        f64::MAX,
        "CopyIfChange oscillates when data are fragmented",
    ),
    ("fig13_m3_turns_split", 0.0, 0.0, "Split does not"),
    (
        "heap_table_bytes_per_block",
        1.0,
        1.0,
        "the table has one byte a block",
    ),
    (
        "adaptive_worst_ratio",
        0.0,
        1.03,
        "Adaptive is never much worse than the best mode",
    ),
    (
        "adaptive_worst_ratio_phys",
        0.0,
        1.03,
        "the same, comparing at 0.3 µJ a block",
    ),
    (
        "adaptive_phases_ratio",
        0.0,
        0.5,
        "Adaptive where phases change",
    ),
    ("adaptive_phases_ratio_m0", 0.0, 0.5, "the same, Cortex-M0"),
    (
        "adaptive_phases_ratio_spi",
        0.0,
        0.5,
        "the same, serial flash",
    ),
];

/// What did not come out.
fn wrong(f: &Figures) -> Vec<String> {
    let line = |(key, least, most, what): &Shape| {
        let key = format!("checkpoint.{key}");
        match f.get(&key) {
            Some(v) if (*least..=*most).contains(v) => None,
            Some(v) => Some(format!("{key} is {v}, not {least} to {most}: {what}")),
            None => Some(format!("{key} is missing: {what}")),
        }
    };
    SHAPES.iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_shape_is_wrong() {
        let mut f: Figures = SHAPES
            .iter()
            .map(|s| (format!("checkpoint.{}", s.0), s.1))
            .collect();
        assert!(wrong(&f).is_empty());
        f.insert("checkpoint.m0_steps".into(), 3.0);
        f.remove("checkpoint.full_paper_mj");
        assert_eq!(wrong(&f).len(), 2);
    }
}
