//! The programs of the Sytare paper (`lab/sytare`) on an MSP430 whose supply ends again and
//! again: their yields beside the paper's.

use super::draw::{self, File, Series};
use super::heap::document::Table;
use super::{Figures, measure, plot};
use anyhow::{Context, Result, ensure};
use xtask::project::Project;
use xtask::run::Step;

/// A program as the paper has it: the time of the bare one, in milliseconds, the highest yield, and
/// the on-time at which its model's yield is 0. Tables 1 and 4: all bytes of NVRAM, and those of
/// one of its two checkpoints.
struct Paper {
    name: &'static str,
    wired: f64,
    highest: f64,
    least: f64,
    nvram: f64,
    image: f64,
}

const PAPER: [Paper; 4] = [
    of("rsa", 73.61, 0.9986, 1.95, [7366, 584]),
    of("leds", 1003.61, 0.9953, 2.04, [6952, 385]),
    of("sense", 410.56, 0.9994, 3.27, [8696, 405]),
    of("wsn", 891.80, 0.9729, 2.70, [11_994, 503]),
];

const fn of(
    name: &'static str,
    wired: f64,
    highest: f64,
    least: f64,
    [nvram, image]: [u32; 2],
) -> Paper {
    Paper {
        name,
        wired,
        highest,
        least,
        nvram: nvram as f64,
        image: image as f64,
    }
}

impl Paper {
    /// The paper's model: a hyperbola between its highest yield and its smallest on-time.
    fn yields(&self, on: f64) -> f64 {
        (self.highest * (1.0 - self.least / on)).max(0.0)
    }
}

/// Other builds of the node.
const NODES: [(&str, &str); 5] = [
    ("wsn", "without a pause"),
    ("wsn_paced", "with a pause of 15.25 ms"),
    ("wsn_eager", "the same, radio restored in each boot"),
    ("wsn_kept", "calibration of the radio kept"),
    ("wsn_steps", "with steps and an outbox"),
];
/// On-times of the table, in milliseconds.
const SHOWN: [u32; 4] = [3, 10, 42, 100];
/// What the node's yields must be.
const LEAST: [(u32, f64); 3] = [(10, 0.75), (42, 0.92), (100, 0.95)];
/// Table 2, in microseconds: what is ours, and its name there.
const BOOT: [(&str, &[&str], f64); 4] = [
    ("hardware", &["hardware_us"], 1240.0),
    ("application: start-up", &["start_us"], 45.0),
    ("device contexts", &["contexts_us"], 27.0),
    ("peripherals", &["bus_us", "radio_us", "adc_us"], 1170.0),
];
/// Table 3: what a call adds, in percent.
const CALLS: [(&str, &str, f64); 5] = [
    ("LED toggle", "toggle", 1325.0),
    ("sense temperature", "sense", 27.0),
    ("radio sleep", "sleep", 137.0),
    ("radio wake up", "wake", 8.0),
    ("radio message send", "send", 1.0),
];

fn key(program: &str, figure: &str) -> String {
    format!("device.{program}.{figure}")
}

/// Figures that a small change of the code may change much: whether a cut finds a packet on its
/// way, and yields that only the plot shows.
pub fn varies(key: &str) -> bool {
    let Some(figure) = key.strip_prefix("device.") else {
        return false;
    };
    let Some((_, figure)) = figure.split_once('.') else {
        return matches!(figure, "yield_runs" | "yield_cuts");
    };
    let on = figure
        .strip_prefix("yield_")
        .and_then(|f| f.strip_suffix("ms"));
    let plotted = on.is_some_and(|on| !SHOWN.iter().any(|s| s.to_string() == on));
    plotted || figure == "packets_again"
}

/// What the emulator prints.
///
/// **Errors**: a program came to another end than the bare one, a figure is missing, or the node's
/// yield is too low.
pub fn exact(project: &Project, step: &Step) -> Result<Figures> {
    let figures = measure::figures(&super::msp430::yields(project, step)?);
    complete(&figures)?;
    Ok(figures)
}

fn complete(figures: &Figures) -> Result<()> {
    for Paper { name, .. } in PAPER {
        let shown = SHOWN.map(|on| format!("yield_{on}ms"));
        let all = shown.iter().map(String::as_str);
        for figure in all.chain(["yield_max", "t_on_min_ms"]) {
            let key = key(name, figure);
            let found = figures.get(&key).copied();
            let found = found.with_context(|| format!("no figure {key}"))?;
            ensure!(found >= 0.0, "{key} is {found}");
        }
    }
    for (on, least) in LEAST {
        let key = key("wsn", &format!("yield_{on}ms"));
        let found = figures.get(&key).copied().unwrap_or_default();
        ensure!(found >= least, "{key} is {found}, and must be {least}");
    }
    Ok(())
}

const PLOT: &str = "device-yields.svg";

/// A generated part of lab/EVALUATION.md. Empty when nothing was measured.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    let made = match name {
        "yields" => yields,
        "yield-nodes" => nodes,
        "yield-boot" => boot,
        "yield-calls" => calls,
        "yield-memory" => memory,
        _ => return None,
    };
    let measured = f.contains_key(&key("wsn", "yield_max"));
    Some(if measured { made(f) } else { String::new() })
}

fn decimals(v: Option<f64>, places: usize) -> String {
    v.map_or("-".into(), |v| format!("{v:.places$}"))
}

fn yields(f: &Figures) -> String {
    let on = SHOWN.map(|on| format!("at {on} ms"));
    let mut head = vec!["", "bare, ms", "Y at most", "smallest on-time, ms"];
    head.extend(on.iter().map(String::as_str));
    let mut t = Table::new(f, &head);
    for p in &PAPER {
        let get = |figure: &str| f.get(&key(p.name, figure)).copied();
        let mut ours = vec![
            decimals(get("wired_ms"), 2),
            decimals(get("yield_max"), 4),
            decimals(get("t_on_min_ms"), 2),
        ];
        ours.extend(SHOWN.map(|on| decimals(get(&format!("yield_{on}ms")), 3)));
        t.row(p.name, ours);
        let mut theirs = vec![
            decimals(Some(p.wired), 2),
            decimals(Some(p.highest), 4),
            decimals(Some(p.least), 2),
        ];
        theirs.extend(SHOWN.map(|on| decimals(Some(p.yields(on.into())), 3)));
        t.row(&format!("{}, paper", p.name), theirs);
    }
    t.text + &plot::shown(PLOT)
}

fn nodes(f: &Figures) -> String {
    let on = SHOWN.map(|on| format!("at {on} ms"));
    let mut head = vec!["wsn", "bare, ms", "Y at most", "smallest on-time, ms"];
    head.extend(on.iter().map(String::as_str));
    head.extend(["NVRAM, bytes", "packets that came again"]);
    let mut t = Table::new(f, &head);
    for (name, about) in NODES {
        let get = |figure: &str| f.get(&key(name, figure)).copied();
        let mut cells = vec![
            decimals(get("wired_ms"), 2),
            decimals(get("yield_max"), 4),
            decimals(get("t_on_min_ms"), 2),
        ];
        cells.extend(SHOWN.map(|on| decimals(get(&format!("yield_{on}ms")), 3)));
        cells.push(t.figure(&key(name, "nvram_bytes")));
        cells.push(t.figure(&key(name, "packets_again")));
        t.row(about, cells);
    }
    t.text
}

fn boot(f: &Figures) -> String {
    let mut t = Table::new(f, &["of a boot, us", "ours", "paper"]);
    let mut sums = [Some(0.0), Some(0.0)];
    for (about, parts, paper) in BOOT {
        let all = parts.iter().map(|p| f.get(&key("boot", p)).copied());
        let ours: Option<f64> = all.sum();
        for (sum, more) in sums.iter_mut().zip([ours, Some(paper)]) {
            *sum = sum.zip(more).map(|(a, b)| a + b);
        }
        t.row(about, [decimals(ours, 0), decimals(Some(paper), 0)]);
    }
    t.row("checkpoint prepared", ["-".into(), "30".into()]);
    t.row("checkpoint at the end", ["-".into(), "26".into()]);
    let [ours, paper] = sums;
    let paper = paper.map(|p| p + 56.0);
    t.row("all", [decimals(ours, 0), decimals(paper, 0)]);
    t.text
}

fn calls(f: &Figures) -> String {
    let head = ["", "bare, us", "added, %", "paper, %"];
    let mut t = Table::new(f, &head);
    for (about, call, paper) in CALLS {
        let get = |unit: &str| f.get(&format!("device.msp430.{call}_{unit}")).copied();
        // The rig counts cycles of the bare toggle; they are those of 16 MHz here.
        let cycles = f.get("device.msp430.bare_cycles").map(|c| c / 16.0);
        let bare = get("us").or(cycles);
        let cells = [
            decimals(bare, 1),
            decimals(get("percent"), 1),
            decimals(Some(paper), 0),
        ];
        t.row(about, cells);
    }
    t.text
}

fn memory(f: &Figures) -> String {
    let head = [
        "bytes",
        "NVRAM",
        "paper",
        "of that kept",
        "paper, each of two",
        "NVRAM, bare",
        "stack",
        "stack, bare",
    ];
    let mut t = Table::new(f, &head);
    let none = || "-".to_owned();
    for p in &PAPER {
        let of = |figure: &str| key(p.name, figure);
        let cells = [
            t.figure(&of("nvram_bytes")),
            super::report::shown(p.nvram),
            t.figure(&of("image_bytes")),
            super::report::shown(p.image),
            t.figure(&of("bare_nvram_bytes")),
            t.figure(&of("stack_bytes")),
            t.figure(&of("bare_stack_bytes")),
        ];
        t.row(p.name, cells);
    }
    for name in ["buttons", "receive"] {
        let of = |figure: &str| key(name, figure);
        let stacks = [
            t.figure(&of("stack_cut_bytes")),
            t.figure(&of("bare_stack_bytes")),
        ];
        let cells = [none(), none(), none(), none(), none()];
        t.row(name, cells.into_iter().chain(stacks));
    }
    t.text
}

/// The yields of a program, at all on-times that have a figure.
fn curve(f: &Figures, name: &str) -> Vec<(f64, f64)> {
    let prefix = key(name, "yield_");
    let each = f.iter().filter_map(|(k, y)| {
        let on = k.strip_prefix(&prefix)?.strip_suffix("ms")?;
        Some((on.parse().ok()?, *y))
    });
    let mut all: Vec<(f64, f64)> = each.collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// The chart, if it has something to show.
pub fn plots(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key(&key("wsn", "yield_max")) {
        return Ok(Vec::new());
    }
    let mut series: Vec<Series> = Vec::new();
    for p in &PAPER {
        series.push((p.name.to_owned(), curve(f, p.name)));
    }
    let [.., node] = &PAPER;
    let on = curve(f, node.name).into_iter().map(|(on, _)| on);
    let model = on.map(|on| (on, node.yields(on))).collect();
    series.push(("wsn, the paper's model".to_owned(), model));
    let axes = ("on-time, ms", "yield, 0 to 1");
    Ok(vec![draw::lines(PLOT, axes, true, &series)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_model() {
        let node = &PAPER[3];
        for (on, y) in [(3.0, 0.097), (10.0, 0.710), (42.0, 0.910), (100.0, 0.947)] {
            assert!((node.yields(on) - y).abs() < 0.0006, "{}", node.yields(on));
        }
        assert_eq!(node.yields(2.0), 0.0);
    }

    #[test]
    fn what_the_table_shows_is_compared() {
        assert!(varies("device.wsn.yield_8ms") && varies("device.wsn.packets_again"));
        assert!(!varies("device.wsn.yield_10ms") && !varies("device.wsn.yield_max"));
        assert!(varies("device.yield_cuts"));
        assert!(!varies("heap.yield_8ms") && !varies("device.nvram_bytes"));
    }

    #[test]
    fn a_figure_that_is_missing_is_an_error() {
        let mut f = Figures::new();
        for p in &PAPER {
            for on in SHOWN {
                f.insert(key(p.name, &format!("yield_{on}ms")), 0.96);
            }
            f.insert(key(p.name, "yield_max"), 0.9);
            f.insert(key(p.name, "t_on_min_ms"), 2.5);
        }
        assert!(complete(&f).is_ok());
        assert_eq!(curve(&f, "wsn").len(), 4);
        let text = part("yields", &f).unwrap();
        let row = "| wsn, paper | 891.80 | 0.9729 | 2.70 | 0.097 | 0.710 | 0.910 | 0.947 |";
        assert!(text.contains(row), "{text}");
        assert!(plots(&f).unwrap()[0].1.contains("paper"));
        f.insert(key("wsn", "yield_42ms"), 0.91);
        assert!(complete(&f).is_err());
        f.insert(key("wsn", "yield_42ms"), 0.92);
        assert!(complete(&f).is_ok());
        f.remove(&key("leds", "yield_42ms"));
        assert!(complete(&f).is_err());
        assert_eq!(part("yields", &Figures::new()).unwrap(), "");
        assert!(part("other", &f).is_none());
    }
}
