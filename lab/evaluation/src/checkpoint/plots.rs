//! The charts of the study of checkpoints.

use crate::Figures;
use crate::draw::{self, File, Series};
use anyhow::Result;

/// A chart of energy: file, title of the `x` axis, grid, and the modes that it shows.
type Chart = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

const SPAN: &str = "span, bytes";
const CHUNKS: &str = "free chunks of 128 bytes between the two";
const FRAGMENTATION: &str = "fragmentation, 0 to 1";
const ENERGY: &str = "energy, mJ";

const STACK: &str = "stack";
const SPLIT: [&str; 2] = ["split", "split_paper"];
const TRACKER: [&str; 2] = ["heap_tracker", "heap_tracker_paper"];
const ADAPTIVE: &str = "adaptive";
const APART: &[&str] = &[SPLIT[0], TRACKER[0], ADAPTIVE, SPLIT[1], TRACKER[1]];
const CONTIGUOUS: &[&str] = &[STACK, SPLIT[0], TRACKER[0], ADAPTIVE, SPLIT[1], TRACKER[1]];
const RESTORED: &[&str] = &[STACK, SPLIT[0], TRACKER[0], SPLIT[1], TRACKER[1]];
const CHANGED: &[&str] = &["full", "copy_if_change", ADAPTIVE, "copy_if_change_paper"];

/// In the order of the paper's figures. Times, where docs/costs.json has them, have the
/// same shapes.
const CHARTS: [Chart; 8] = [
    ("checkpoint-fig7.svg", SPAN, "fig7", CONTIGUOUS),
    ("checkpoint-fig8.svg", "blocks that change", "fig8", CHANGED),
    ("checkpoint-fig9.svg", SPAN, "fig9", RESTORED),
    ("checkpoint-fig10.svg", CHUNKS, "fig10_m3", APART),
    (
        "checkpoint-fig10-restore.svg",
        CHUNKS,
        "fig10_m3_restore",
        &[SPLIT[0], TRACKER[0], SPLIT[1], TRACKER[1]],
    ),
    ("checkpoint-fig11.svg", CHUNKS, "fig11_m0", APART),
    ("checkpoint-fig13-m3.svg", SPAN, "fig13_m3", APART),
    ("checkpoint-fig13-m0.svg", SPAN, "fig13_m0", APART),
];
const LAST: &str = "checkpoint-fig14.svg";

/// What the legend calls a mode.
fn name(mode: &str) -> &str {
    match mode {
        "full" => "Full",
        STACK => "Stack",
        "split" => "Split",
        "split_paper" => "Split, in place",
        "heap_tracker" => "HeapTracker",
        "heap_tracker_paper" => "HeapTracker, 5 B",
        "copy_if_change" => "CopyIfChange",
        "copy_if_change_paper" => "CopyIfChange, in place",
        ADAPTIVE => "Adaptive",
        other => other,
    }
}

/// What the keys of a line say: `PREFIX.at_X.SUFFIX`.
pub fn points(f: &Figures, prefix: &str, suffix: &str) -> Vec<(f64, f64)> {
    let start = format!("{prefix}.at_");
    let of = |(k, v): (&String, &f64)| {
        let x = k
            .strip_prefix(&start)?
            .strip_suffix(suffix)?
            .strip_suffix('.')?;
        Some((x.parse().ok()?, *v))
    };
    let mut all: Vec<(f64, f64)> = f.iter().filter_map(of).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The energy of a mode, in millijoules.
fn energy(f: &Figures, grid: &str, mode: &str) -> Series {
    let points = points(f, &format!("checkpoint.{grid}.{mode}"), "energy_uj");
    let millijoules = points.into_iter().map(|(x, y)| (x, y / 1000.0));
    (name(mode).to_owned(), millijoules.collect())
}

/// Energy over the fragmentation of the heap at the same span.
fn by_fragmentation(f: &Figures, mode: &str) -> Series {
    let shape = points(f, "checkpoint.fig12", "fragmentation");
    let (name, energy) = energy(f, "fig13_m3", mode);
    let points = shape.iter().zip(energy).map(|(s, e)| (s.1, e.1));
    (name, points.collect())
}

/// The names of all charts that there are.
pub fn names() -> impl Iterator<Item = &'static str> {
    CHARTS.iter().map(|c| c.0).chain([LAST])
}

/// Every chart; none when these figures are not of checkpoints.
pub fn all(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key("checkpoint.full_paper_mj") {
        return Ok(Vec::new());
    }
    let one = |(file, x, grid, modes): &Chart| {
        let series: Vec<_> = modes.iter().map(|m| energy(f, grid, m)).collect();
        draw::lines(file, (x, ENERGY), true, &series)
    };
    let mut all = CHARTS.iter().map(one).collect::<Result<Vec<_>>>()?;
    let series = SPLIT.iter().chain(&TRACKER);
    let series: Vec<_> = series.map(|m| by_fragmentation(f, m)).collect();
    // Several heaps are as fragmented, and a line between them says nothing.
    all.push(draw::lines(LAST, (FRAGMENTATION, ENERGY), false, &series)?);
    Ok(all)
}
