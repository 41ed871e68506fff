//! The generated parts of lab/EVALUATION.md that are about checkpoints.

use super::plots;
use crate::heap::document::Table;
use crate::report::shown;
use crate::{Figures, plot};

/// A part by its name. Empty when these figures are not of checkpoints.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    let made = match name {
        "checkpoint-fit" => fit(f),
        "checkpoint-crossover" => crossover(f),
        "checkpoint-grids" => grids(f),
        "checkpoint-plots" => plots::names().map(plot::shown).collect(),
        "checkpoint-adaptive" => adaptive(f),
        "checkpoint-real" => real(f),
        "checkpoint-cuts" => cuts(f),
        _ => return None,
    };
    let any = f.contains_key("checkpoint.full_paper_mj");
    Some(if any { made } else { String::new() })
}

fn key(k: &str) -> String {
    format!("checkpoint.{k}")
}

/// What was fitted, and what follows.
fn fit(f: &Figures) -> String {
    let mut t = Table::new(f, &["", "paper", "here"]);
    let lines = [
        (
            "`Full`, all of RAM, mJ (the fit of writing)",
            "85.2 ± 4.0",
            "full_paper_mj",
        ),
        ("the same, s", "slightly more than 3", "full_paper_s"),
        (
            "first image of `CopyIfChange`, mJ (the fit of comparing)",
            "94.5 ± 1.34",
            "first_image_paper_mj",
        ),
        ("the two as a ratio", "1.109", "first_image_ratio"),
        (
            "the same, comparing at 0.3 µJ a block",
            "-",
            "first_image_ratio_phys",
        ),
        (
            "the same, the crate: what was never written is not compared",
            "-",
            "first_image_ratio_crate",
        ),
    ];
    for (name, paper, k) in lines {
        let here = f.get(&key(k)).map_or("-".into(), |v| format!("{v:.3}"));
        t.row(name, [paper.to_owned(), here]);
    }
    t.text
}

fn crossover(f: &Figures) -> String {
    let mut t = Table::new(
        f,
        &[
            "from so many chunks on `HeapTracker` takes less",
            "the crate",
            "in place, 1 B a block",
            "in place, 5 B a block",
            "measured by the paper",
        ],
    );
    let lines = [
        ("Cortex-M3, checkpoint", "crossover_m3_chunks", "about 35"),
        (
            "Cortex-M3, restore",
            "crossover_restore_m3_chunks",
            "about 20",
        ),
        ("Cortex-M0, checkpoint", "crossover_m0_chunks", "-"),
        ("Cortex-M0, restore", "crossover_restore_m0_chunks", "-"),
    ];
    for (name, k, paper) in lines {
        let mut cells: Vec<String> = ["", "_paper_one_byte", "_paper_table"]
            .iter()
            .map(|s| t.figure(&key(&format!("{k}{s}"))))
            .collect();
        cells.push(paper.to_owned());
        t.row(name, cells);
    }
    let steps = ["m0_first_step", "m0_second_step"].map(|k| t.figure(&key(k)));
    format!(
        "{}\nOn the M0 a whole erase unit of 2 KiB more comes into reach at {} and at {} chunks (`Split` in place; the paper: between 14 and 15, 30 and 31).\n",
        t.text, steps[0], steps[1]
    )
}

const GRIDS: [(&str, &str); 7] = [
    ("fig7", "figure 7: contiguous data, 4 to 32 KiB, M3"),
    ("fig8", "figure 8: scattered blocks change, M3"),
    ("fig8_adjacent", "figure 8: adjacent blocks change, M3"),
    ("fig10_m3", "figure 10: chunks apart, M3"),
    ("fig11_m0", "figure 11: chunks apart, M0"),
    ("fig13_m3", "figure 13: fragmented, M3"),
    ("fig13_m0", "figure 13: fragmented, M0"),
];
const MODES: [(&str, &str); 6] = [
    ("full", "`Full`"),
    ("stack", "`Stack`"),
    ("split", "`Split`"),
    ("heap_tracker", "`HeapTracker`"),
    ("copy_if_change", "`CopyIfChange`"),
    ("adaptive", "`Adaptive`"),
];

fn grids(f: &Figures) -> String {
    let mut out = String::new();
    for (suffix, about) in [
        ("", "The crate."),
        (
            "_paper",
            "The paper's layout: one slot in place, five bytes a block.",
        ),
    ] {
        let mut head = vec!["mJ, the sum over the grid"];
        head.extend(MODES.iter().map(|m| m.1));
        let mut t = Table::new(f, &head);
        for (grid, name) in GRIDS {
            for (unit, note) in [("energy_uj", ""), ("energy_uj_phys", "; 0.3 µJ a block")] {
                let cell = |(mode, _): &(&str, &str)| {
                    f.get(&key(&format!("{grid}.{mode}{suffix}.{unit}")))
                        .map(|v| shown(v / 1000.0))
                };
                let cells: Vec<_> = MODES.iter().map(cell).collect();
                if cells.iter().any(Option::is_some) {
                    t.row(
                        &format!("{name}{note}"),
                        cells.into_iter().map(|c| c.unwrap_or("-".into())),
                    );
                }
            }
        }
        out += &format!("\n{about}\n\n{}", t.text);
    }
    out
}

fn adaptive(f: &Figures) -> String {
    let mut t = Table::new(
        f,
        &["`Adaptive` to the best mode in slots", "", "0.3 µJ a block"],
    );
    let ratio = |k: String| f.get(&key(&k)).map_or("-".into(), |v| format!("{v:.3}"));
    for (grid, name) in GRIDS {
        let k = format!("{grid}.adaptive_worst_ratio");
        t.row(
            &format!("{name}, where it is worst"),
            [ratio(k.clone()), ratio(k + "_phys")],
        );
    }
    for (machine, name) in [("", "M3"), ("_m0", "M0"), ("_spi", "serial flash")] {
        let k = format!("adaptive_phases_ratio{machine}");
        t.row(
            &format!("changing phases, {name}"),
            [ratio(k.clone()), ratio(k + "_phys")],
        );
    }
    t.text
}

fn real(f: &Figures) -> String {
    let mut head = vec!["mJ, one checkpoint"];
    head.extend(MODES.iter().map(|m| m.1));
    let mut t = Table::new(f, &head);
    for (program, name) in [("motions", "motions"), ("temperatures", "temperatures")] {
        for (part, machine) in [("m3", "M3"), ("m0", "M0"), ("spi", "serial flash")] {
            let cell = |(mode, _): &(&str, &str)| {
                let v = f.get(&key(&format!("real_{program}_{part}.{mode}.energy_uj")));
                v.map_or("-".into(), |v| format!("{:.2}", v / 1000.0))
            };
            let cells: Vec<_> = MODES.iter().map(cell).collect();
            t.row(&format!("{name}, {machine}"), cells);
        }
    }
    let mut trace = Table::new(
        f,
        &[
            "lines read",
            "span, bytes",
            "occupation, bytes",
            "fragmentation",
        ],
    );
    for (line, span) in plots::points(f, "checkpoint.real_motions", "span") {
        let of = |what: &str| {
            f.get(&key(&format!("real_motions.at_{line}.{what}")))
                .map_or("-".into(), |v| shown(*v))
        };
        trace.row(
            &shown(line),
            [shown(span), of("occupation"), of("fragmentation")],
        );
    }
    format!("{}\n{}", t.text, trace.text)
}

fn cuts(f: &Figures) -> String {
    let mut t = Table::new(f, &["cuts judged", "states booted", "not survived"]);
    let cells = ["boots", "failures"].map(|k| t.figure(&key(k)));
    let cuts = t.figure(&key("cuts"));
    t.row(&cuts, cells);
    t.text
}
