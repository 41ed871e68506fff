//! The plots of the study of checkpoints.

use crate::Figures;
use crate::draw::{self, Series};
use anyhow::{Result, anyhow};

/// A diagram: file, title, axes, grid, what is drawn, unit of the keys, the part of a unit, and the
/// lines: key and name.
struct Diagram {
    file: &'static str,
    title: &'static str,
    axes: (&'static str, &'static str),
    grid: &'static str,
    unit: &'static str,
    lines: &'static [(&'static str, &'static str)],
}

const CRATE_AND_PAPER: &[(&str, &str)] = &[
    ("split", "Split"),
    ("heap_tracker", "HeapTracker"),
    ("split_paper", "Split, in place"),
    ("heap_tracker_paper", "HeapTracker, 5 B"),
];

const WITH_STACK: &[(&str, &str)] = &[
    ("stack", "Stack"),
    ("split", "Split"),
    ("heap_tracker", "HeapTracker"),
    ("adaptive", "Adaptive"),
    ("stack_paper", "Stack, in place"),
    ("split_paper", "Split, in place"),
    ("heap_tracker_paper", "HeapTracker, 5 B"),
];

const RESTORED: &[(&str, &str)] = &[
    ("stack", "Stack"),
    ("split", "Split"),
    ("heap_tracker", "HeapTracker"),
    ("split_paper", "Split, in place"),
    ("heap_tracker_paper", "HeapTracker, 5 B"),
];

const CHANGED: &[(&str, &str)] = &[
    ("full", "Full"),
    ("copy_if_change", "CopyIfChange"),
    ("adaptive", "Adaptive"),
    ("copy_if_change_paper", "CopyIfChange, in place"),
];

const APART: &[(&str, &str)] = &[
    ("split", "Split"),
    ("heap_tracker", "HeapTracker"),
    ("adaptive", "Adaptive"),
    ("split_paper", "Split, in place"),
    ("heap_tracker_paper", "HeapTracker, 5 B"),
];

const COPIED: &[(&str, &str)] = &[
    ("copy_if_change", "CopyIfChange"),
    ("copy_if_change_paper", "CopyIfChange, in place"),
];

const fn diagram(
    file: &'static str,
    title: &'static str,
    x: &'static str,
    grid: &'static str,
    lines: &'static [(&'static str, &'static str)],
) -> Diagram {
    Diagram {
        file,
        title,
        axes: (x, "mJ"),
        grid,
        unit: "energy_uj",
        lines,
    }
}

const fn in_time(d: Diagram) -> Diagram {
    Diagram {
        axes: (d.axes.0, "ms"),
        unit: "time_us",
        ..d
    }
}

const SPAN: &str = "span in bytes";
const FRAGMENTATION: &str = "fragmentation";
const CHUNKS: &str = "chunks of 128 B that are not allocated";

const DIAGRAMS: &[Diagram] = &[
    diagram(
        "checkpoint-fig7-energy.svg",
        "7 (a): a checkpoint of contiguous data, Cortex-M3",
        SPAN,
        "fig7",
        WITH_STACK,
    ),
    in_time(diagram(
        "checkpoint-fig7-time.svg",
        "7 (b): the same in time",
        SPAN,
        "fig7",
        WITH_STACK,
    )),
    diagram(
        "checkpoint-fig8.svg",
        "8: scattered blocks change, all of RAM is in use, Cortex-M3",
        "blocks that change",
        "fig8",
        CHANGED,
    ),
    diagram(
        "checkpoint-fig8-adjacent.svg",
        "8: the same with adjacent blocks",
        "blocks that change",
        "fig8_adjacent",
        CHANGED,
    ),
    diagram(
        "checkpoint-fig9-energy.svg",
        "9 (a): a restore of contiguous data, Cortex-M3",
        SPAN,
        "fig9",
        RESTORED,
    ),
    in_time(diagram(
        "checkpoint-fig9-time.svg",
        "9 (b): the same in time",
        SPAN,
        "fig9",
        RESTORED,
    )),
    diagram(
        "checkpoint-fig10-energy.svg",
        "10 (a): a checkpoint of two chunks, Cortex-M3",
        CHUNKS,
        "fig10_m3",
        APART,
    ),
    diagram(
        "checkpoint-fig10-restore.svg",
        "10 (b): a restore of two chunks, Cortex-M3",
        CHUNKS,
        "fig10_m3_restore",
        CRATE_AND_PAPER,
    ),
    in_time(diagram(
        "checkpoint-fig10-time.svg",
        "10 (c): the same in time",
        CHUNKS,
        "fig10_m3_restore",
        CRATE_AND_PAPER,
    )),
    diagram(
        "checkpoint-fig11-energy.svg",
        "11 (a): a checkpoint of two chunks, Cortex-M0",
        CHUNKS,
        "fig11_m0",
        APART,
    ),
    diagram(
        "checkpoint-fig11-restore.svg",
        "11 (b): a restore of two chunks, Cortex-M0",
        CHUNKS,
        "fig11_m0_restore",
        CRATE_AND_PAPER,
    ),
    in_time(diagram(
        "checkpoint-fig11-time.svg",
        "11 (c): the same in time",
        CHUNKS,
        "fig11_m0_restore",
        CRATE_AND_PAPER,
    )),
    diagram(
        "checkpoint-fig13-copied.svg",
        "13 (a): fragmented data, CopyIfChange, Cortex-M3",
        SPAN,
        "fig13_m3",
        COPIED,
    ),
    diagram(
        "checkpoint-fig13-m3.svg",
        "13 (b): fragmented data, Cortex-M3",
        SPAN,
        "fig13_m3",
        APART,
    ),
    diagram(
        "checkpoint-fig13-m0.svg",
        "13 (c): fragmented data, Cortex-M0",
        SPAN,
        "fig13_m0",
        APART,
    ),
];

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

fn drawn(f: &Figures, d: &Diagram) -> Vec<Series> {
    let one = |(key, name): &(&str, &str)| {
        let points = points(f, &format!("checkpoint.{}.{key}", d.grid), d.unit);
        let points: Vec<_> = points.into_iter().map(|(x, y)| (x, y / 1000.0)).collect();
        (!points.is_empty()).then(|| ((*name).to_owned(), points))
    };
    d.lines.iter().filter_map(one).collect()
}

/// File, title, names of the axes, lines.
type Plot = (
    &'static str,
    &'static str,
    (&'static str, &'static str),
    Vec<Series>,
);

/// Figures 12 and 14: what the heap is like, and energy against fragmentation.
fn fragmentation(f: &Figures) -> Vec<Plot> {
    let shape = points(f, "checkpoint.fig12", "fragmentation");
    let against = |key: &str, name: &str| {
        let energy = points(f, &format!("checkpoint.fig13_m3.{key}"), "energy_uj");
        let mut all: Vec<(f64, f64)> = shape
            .iter()
            .zip(energy)
            .map(|(s, e)| (s.1, e.1 / 1000.0))
            .collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        (name.to_owned(), all)
    };
    let split = vec![
        against("split", "Split"),
        against("split_paper", "Split, in place"),
    ];
    let tracker = vec![
        against("heap_tracker", "HeapTracker"),
        against("heap_tracker_paper", "HeapTracker, 5 B"),
    ];
    let axes = (FRAGMENTATION, "mJ");
    vec![
        (
            "checkpoint-fig12.svg",
            "12: the heap of figures 13 and 14",
            (SPAN, FRAGMENTATION),
            vec![("fragmentation".to_owned(), shape.clone())],
        ),
        (
            "checkpoint-fig14-split.svg",
            "14 (a): energy by fragmentation, Split, Cortex-M3",
            axes,
            split,
        ),
        (
            "checkpoint-fig14-tracker.svg",
            "14 (b): energy by fragmentation, HeapTracker, Cortex-M3",
            axes,
            tracker,
        ),
    ]
}

/// File and title of all plots that there are, in the order of the paper's figures.
pub fn names() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<_> = DIAGRAMS.iter().map(|d| (d.file, d.title)).collect();
    all.extend(fragmentation(&Figures::new()).iter().map(|d| (d.0, d.1)));
    all.sort_by_key(|d| {
        d.0.trim_start_matches("checkpoint-fig")
            .split(['-', '.'])
            .next()
            .and_then(|n| n.parse::<u32>().ok())
    });
    all
}

/// File and content of every plot; none when these figures are not of checkpoints.
pub fn all(f: &Figures) -> Result<Vec<(String, String)>> {
    if !f.contains_key("checkpoint.full_paper_mj") {
        return Ok(Vec::new());
    }
    let mut out = Vec::new();
    let mut keep = |file: &str, title: &str, axes: (&str, &str), series: &[Series]| {
        let diagram = draw::Diagram {
            title,
            axes,
            // Several heaps are as fragmented, and a line between them says nothing.
            joined: axes.0 != FRAGMENTATION,
            series,
        };
        let svg = draw::diagrams(&[diagram]).map_err(|e| anyhow!("{file}: {e}"))?;
        out.push((file.to_owned(), svg));
        Ok::<_, anyhow::Error>(())
    };
    for d in DIAGRAMS {
        keep(d.file, d.title, d.axes, &drawn(f, d))?;
    }
    for (file, title, axes, all) in fragmentation(f) {
        keep(file, title, axes, &all)?;
    }
    Ok(out)
}
