//! The programs of `lab/programs` on an MSP430FR5994, without protection, with it, and with a
//! supply that ends again and again: cycles and energy, beside the published ones of IntOS.

use super::draw::{self, File};
use super::heap::document::Table;
use super::programs::NAMES;
use super::{Figures, measure, plot};
use anyhow::{Result, ensure};
use xtask::project::Project;
use xtask::run::Step;

/// On-times of the supply, in milliseconds.
const ON: [u32; 3] = [10, 5, 1];

/// Geometric means that the paper of IntOS publishes for its programs on the same device: without
/// cuts, then with one each 10, 5 and 1 ms.
struct Paper {
    about: &'static str,
    overhead: [f64; 4],
    energy: [f64; 4],
}

const PAPER: [Paper; 2] = [
    Paper {
        about: "IntOS, paper",
        overhead: [1.29, 1.37, 1.43, 1.73],
        energy: [1.31, 1.47, 1.55, 1.88],
    },
    // Cuts change nothing that the paper could measure.
    Paper {
        about: "Ratchet, paper",
        overhead: [2.14; 4],
        energy: [2.43; 4],
    },
];
/// All data in FRAM, without protection: overhead and energy.
const PAPER_IN_FRAM: [f64; 2] = [1.11, 1.16];

fn key(program: &str, figure: &str) -> String {
    format!("rtos.msp430.{program}.{figure}")
}

/// The figures of a kind: without cuts, then with a cut each 10, 5 and 1 ms.
fn kinds(figure: &str) -> [String; 4] {
    let [a, b, c] = ON.map(|on| format!("{figure}_{on}ms"));
    [figure.to_owned(), a, b, c]
}

/// What the emulator prints, and means of it.
///
/// **Errors**: a program has found something else than the reference, or a figure is missing.
pub fn exact(project: &Project, step: &Step) -> Result<Figures> {
    let mut figures = measure::figures(&super::msp430::programs(project, step)?);
    complete(&figures)?;
    figures.extend(means(&figures));
    Ok(figures)
}

/// Each program has figures, or is too large.
fn complete(f: &Figures) -> Result<()> {
    let mut fit = 0;
    for name in NAMES {
        let has = |figure: &str| f.contains_key(&key(name, figure));
        ensure!(
            has("volatile_cycles") || has("unprotected_too_large"),
            "{name} without protection has no figures, and is not too large"
        );
        ensure!(
            has("overhead") && has("energy") && has("least_ms") || has("too_large"),
            "{name} has no figures, and is not too large"
        );
        fit += u32::from(has("overhead"));
    }
    ensure!(fit > 0, "no program fits");
    Ok(())
}

/// Geometric means over the programs that have the figure, and how many these are.
fn means(f: &Figures) -> Figures {
    let mut out = Figures::new();
    let kinds = kinds("overhead").into_iter().chain(kinds("energy"));
    for figure in kinds.chain(["in_fram".into(), "energy_in_fram".into()]) {
        let all: Vec<f64> = NAMES.iter().filter_map(|n| of(f, n, &figure)).collect();
        if figure.starts_with("overhead") {
            let ends = figure.replacen("overhead", "programs", 1);
            out.insert(format!("rtos.msp430.{ends}"), all.len() as f64);
        }
        if !all.is_empty() {
            let sum: f64 = all.iter().map(|v| v.ln()).sum();
            let mean = (sum / all.len() as f64).exp();
            out.insert(format!("rtos.msp430.{figure}"), mean);
        }
    }
    out
}

/// A figure of a program; or what without protection in FRAM takes, over what it takes in SRAM.
fn of(f: &Figures, name: &str, figure: &str) -> Option<f64> {
    let get = |figure: &str| f.get(&key(name, figure)).copied();
    match figure {
        "in_fram" => Some(get("unprotected_cycles")? / get("volatile_cycles")?),
        "energy_in_fram" => Some(get("unprotected_energy_nj")? / get("volatile_energy_nj")?),
        _ => get(figure),
    }
}

/// Better when they are larger: how many programs come to their end.
pub fn more_is_better(key: &str) -> bool {
    key.starts_with("rtos.msp430.programs")
}

const PLOT: &str = "programs-msp430.svg";

/// A generated part of lab/EVALUATION.md. Empty when nothing was measured.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    let made = match name {
        "programs-msp430" => overheads,
        "programs-msp430-energy" => energies,
        "programs-msp430-sizes" => sizes,
        _ => return None,
    };
    let measured = f.contains_key("rtos.msp430.programs");
    Some(if measured { made(f) } else { String::new() })
}

fn decimals(v: Option<f64>, places: usize) -> String {
    v.map_or("-".into(), |v| format!("{v:.places$}"))
}

/// What a table is about.
struct Kind {
    /// The ratio, over the build in SRAM; the same in FRAM without protection.
    figure: &'static str,
    in_fram: &'static str,
    /// What that takes, its head, and how it is shown.
    base: &'static str,
    about: &'static str,
    show: fn(f64) -> String,
    /// The paper's ratios.
    paper: fn(&Paper) -> [f64; 4],
    paper_in_fram: f64,
}

/// Ratios of one kind: a row for each program, the means, and the paper's.
fn ratios(f: &Figures, kind: &Kind) -> String {
    let Kind {
        figure, in_fram, ..
    } = *kind;
    let on = ON.map(|on| format!("a cut each {on} ms"));
    let mut head = vec!["", kind.about, "unprotected, in FRAM", "protected"];
    head.extend(on.iter().map(String::as_str));
    head.push("shortest on-time that ends, ms");
    let mut t = Table::new(f, &head);
    let fits = |name: &str| f.contains_key(&key(name, "overhead"));
    for name in NAMES {
        let mut cells = vec![
            of(f, name, kind.base).map_or("-".into(), kind.show),
            decimals(of(f, name, in_fram), 2),
        ];
        let none = if fits(name) { "none" } else { "-" };
        let ratio = |k: &String| of(f, name, k).map_or(none.into(), |v| format!("{v:.2}"));
        cells.extend(kinds(figure).iter().map(ratio));
        cells.push(decimals(of(f, name, "least_ms"), 2));
        t.row(name, cells);
    }
    let mean = |figure: &str| f.get(&format!("rtos.msp430.{figure}")).copied();
    let mut cells = vec![String::new(), decimals(mean(in_fram), 2)];
    let each = kinds(figure);
    cells.extend(each.iter().map(|k| decimals(mean(k), 2)));
    cells.push(String::new());
    t.row("geometric mean", cells);
    // The table of energies is over the same programs.
    if kind.figure == "overhead" {
        let mut cells = vec![String::new(), NAMES.len().to_string()];
        let each = kinds("programs");
        cells.extend(each.iter().map(|k| decimals(mean(k), 0)));
        cells.push(String::new());
        t.row("of so many programs", cells);
    }
    for (p, in_fram) in PAPER.iter().zip([Some(kind.paper_in_fram), None]) {
        let mut cells = vec![String::new(), decimals(in_fram, 2)];
        cells.extend((kind.paper)(p).map(|v| decimals(Some(v), 2)));
        cells.push(String::new());
        t.row(p.about, cells);
    }
    t.text
}

fn overheads(f: &Figures) -> String {
    let kind = Kind {
        figure: "overhead",
        in_fram: "in_fram",
        base: "volatile_cycles",
        about: "cycles in SRAM",
        show: super::report::shown,
        paper: |p| p.overhead,
        paper_in_fram: PAPER_IN_FRAM[0],
    };
    ratios(f, &kind) + &plot::shown(PLOT)
}

fn energies(f: &Figures) -> String {
    let kind = Kind {
        figure: "energy",
        in_fram: "energy_in_fram",
        base: "volatile_energy_nj",
        about: "µJ in SRAM",
        show: |nanojoules| format!("{:.1}", nanojoules / 1000.0),
        paper: |p| p.energy,
        paper_in_fram: PAPER_IN_FRAM[1],
    };
    ratios(f, &kind)
}

fn sizes(f: &Figures) -> String {
    let head = [
        "bytes",
        "code, unprotected",
        "code, protected",
        "too large by",
        "longest boot with cuts, cycles",
    ];
    let mut t = Table::new(f, &head);
    for name in NAMES {
        let all = ["unprotected_code", "code", "too_large", "boot_cycles"];
        let keys = all.map(|figure| key(name, figure));
        t.figures(name, &keys);
    }
    t.text
}

/// The chart, if it has something to show.
pub fn plots(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key("rtos.msp430.programs") {
        return Ok(Vec::new());
    }
    let names = [
        "without cuts",
        "a cut each 10 ms",
        "a cut each 5 ms",
        "a cut each 1 ms",
    ];
    let groups: Vec<(&str, Vec<Option<f64>>)> = NAMES
        .iter()
        .map(|name| {
            let all = kinds("overhead").map(|k| of(f, name, &k));
            (*name, all.to_vec())
        })
        .filter(|group| group.1[0].is_some())
        .collect();
    let axis = "cycles, times those of the unprotected program in SRAM";
    Ok(vec![draw::bars(PLOT, axis, &names, &groups)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Figures {
        let mut f = Figures::new();
        for name in NAMES {
            for (figure, v) in [
                ("volatile_cycles", 1000.0),
                ("unprotected_cycles", 1100.0),
                ("volatile_energy_nj", 2000.0),
                ("unprotected_energy_nj", 2400.0),
                ("overhead", 4.0),
                ("energy", 5.0),
                ("overhead_10ms", 6.0),
                ("least_ms", 2.5),
            ] {
                f.insert(key(name, figure), v);
            }
        }
        f
    }

    #[test]
    fn means_are_over_those_that_end() {
        let mut f = figures();
        f.remove(&key("mq", "overhead_10ms"));
        f.insert(key("mq", "overhead"), 4.0 * 2f64.powi(11));
        let means = means(&f);
        assert!((means["rtos.msp430.overhead"] - 8.0).abs() < 1e-9);
        assert!((means["rtos.msp430.overhead_10ms"] - 6.0).abs() < 1e-9);
        assert!((means["rtos.msp430.in_fram"] - 1.1).abs() < 1e-9);
        assert!((means["rtos.msp430.energy_in_fram"] - 1.2).abs() < 1e-9);
        let ends = ["programs", "programs_10ms", "programs_1ms"];
        let ends = ends.map(|k| means[&format!("rtos.msp430.{k}")]);
        assert_eq!(ends, [11.0, 10.0, 0.0]);
        assert!(!means.contains_key("rtos.msp430.overhead_1ms"));
        assert!(more_is_better("rtos.msp430.programs_10ms"));
        assert!(!more_is_better("rtos.msp430.overhead"));
    }

    #[test]
    fn a_program_that_is_missing_is_an_error() {
        let mut f = figures();
        assert!(complete(&f).is_ok());
        f.remove(&key("ar", "overhead"));
        assert!(complete(&f).is_err());
        f.insert(key("ar", "too_large"), 12.0);
        assert!(complete(&f).is_ok());
        f.remove(&key("bc", "volatile_cycles"));
        assert!(complete(&f).is_err());
    }

    #[test]
    fn what_does_not_end_and_what_does_not_fit_is_shown() {
        assert_eq!(part("programs-msp430", &Figures::new()).unwrap(), "");
        assert!(part("other", &Figures::new()).is_none());
        let mut f = figures();
        for figure in ["overhead", "energy", "overhead_10ms", "least_ms"] {
            f.remove(&key("etl", figure));
        }
        f.insert(key("etl", "too_large"), 380.0);
        f.extend(means(&f));
        let text = part("programs-msp430", &f).unwrap();
        let mq = "| mq | 1,000 | 1.10 | 4.00 | 6.00 | none | none | 2.50 |";
        let etl = "| etl | 1,000 | 1.10 | - | - | - | - | - |";
        let all = "| of so many programs |  | 11 | 10 | 10 | 0 | 0 |  |";
        let paper = "| IntOS, paper |  | 1.11 | 1.29 | 1.37 | 1.43 | 1.73 |  |";
        for row in [mq, etl, all, paper] {
            assert!(text.contains(row), "{text}");
        }
        let text = part("programs-msp430-energy", &f).unwrap();
        assert!(text.contains("| mq | 2.0 | 1.20 | 5.00 |"), "{text}");
        let text = part("programs-msp430-sizes", &f).unwrap();
        assert!(text.contains("| etl | - | - | 380 | - |"), "{text}");
        let svg = &plots(&f).unwrap()[0].1;
        assert!(svg.contains("mq") && !svg.contains("etl"));
        assert!(plots(&Figures::new()).unwrap().is_empty());
    }
}
