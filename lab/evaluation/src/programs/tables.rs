//! Steps, restarts and variants of the programs: their figures and tables.

use super::paper::TABLE_3;
use super::{MACHINE, port};
use crate::draw::{self, File};
use crate::heap::document::Table;
use crate::report::shown;
use crate::{Figures, plot};
use anyhow::{Context, Result};
use xtask::project::Project;

/// Figure of the kernel's rollback, and what the rig calls it.
const ROLLBACK: [(&str, &str); 4] = [
    ("eager_instructions", "all.restart_instructions"),
    ("eager_undo_instructions", "all.rollback_instructions"),
    ("one_instructions", "one.restart_instructions"),
    ("one_undo_instructions", "one.rollback_instructions"),
];
/// The threads of that scenario.
const THREADS: f64 = 4.0;
/// What a lazy rollback would take at least.
const LAZY: &str = "rtos.rollback.lazy_instructions_at_least";

/// All of a restart that is no rollback, and the rollback of one of these journals, which are
/// equal.
fn lazy(f: &Figures) -> Option<f64> {
    let of = |figure: &str| f.get(&format!("rtos.rollback.{figure}")).copied();
    let boot = of("one_instructions")? - of("one_undo_instructions")?;
    let undo = of("eager_undo_instructions")? / THREADS;
    Some(boot + undo.floor())
}

/// The variants: each with the one that it is compared with, and what is otherwise.
const VARIANTS: [(&str, &str, &str); 10] = [
    ("mq", "mq", "`mq`"),
    (
        "mq_steps",
        "mq",
        "a turn has a step with a record: `each` and `step`, not `each_step`",
    ),
    (
        "mq_apart",
        "mq",
        "the same, and each send and receive is a step of its own",
    ),
    (
        "mq_whole",
        "mq",
        "a window of 120 bytes is logged, not the 12 that change: `get_mut`, not `at_mut`",
    ),
    (
        "mq_swept",
        "mq",
        "sequence numbers come round after 63 steps, not after 8,191",
    ),
    ("mq_plain", "mq", "all of these"),
    ("em", "em", "`em`"),
    (
        "em_logged",
        "em",
        "a buffer of 200 bytes is logged: it has one version, not two",
    ),
    (
        "objects",
        "objects",
        "100 objects of 200 bytes are made, read and freed",
    ),
    (
        "objects_logged",
        "objects",
        "each is filled in the step after the one that makes it, so it is logged",
    ),
];
const COUNTS: [&str; 2] = ["instructions", "nvm_bytes"];

/// The sources beside its own in which a program has persistent objects.
const SHARED: [(&str, &str); 3] = [("kv", "hashes"), ("etl", "hashes"), ("train", "learn")];

fn variant(name: &str, count: &str) -> String {
    format!("rtos.variants.{name}.{count}")
}

/// The figures that are not of one program, from what the rig has measured.
pub fn figures(costs: &Figures) -> Result<Figures> {
    let of = |key: String| {
        let key = format!("machine.{MACHINE}.program_{key}");
        let found = costs.get(&key).copied();
        found.with_context(|| format!("no figure {key}"))
    };
    let mut out = Figures::new();
    for (figure, of_rig) in ROLLBACK {
        let found = of(format!("journals.journals.{of_rig}"))?;
        out.insert(format!("rtos.rollback.{figure}"), found);
    }
    let lazy = lazy(&out).context("no figures of a rollback")?;
    out.insert(LAZY.to_owned(), lazy);
    for (name, _, _) in VARIANTS {
        for count in COUNTS {
            let found = of(format!("variants.{name}.{count}"))?;
            out.insert(variant(name, count), found);
        }
    }
    Ok(out)
}

/// The lines of the programs, and those of a port from a program for RAM.
///
/// **Errors**: a source cannot be read.
pub fn lines(project: &Project) -> Result<Figures> {
    let mut out = Figures::new();
    for p in &TABLE_3 {
        let shared = SHARED.iter().filter(|s| s.0 == p.name).map(|s| s.1);
        let (mut all, mut changed) = (0, 0);
        for file in std::iter::once(p.name).chain(shared) {
            let folders = ["lab", "examples"].map(|f| format!("{f}/programs/src/{file}.rs"));
            let paths = folders.iter().map(|p| project.root.join(p));
            let path = paths.clone().find(|p| p.is_file());
            let path = path.with_context(|| format!("no {}", folders.join(", no ")))?;
            let source = std::fs::read_to_string(&path);
            let source = source.with_context(|| path.display().to_string())?;
            let found = port::count(&source);
            (all, changed) = (all + found.all, changed + found.port);
        }
        out.insert(format!("rtos.{}.lines", p.name), all as f64);
        out.insert(format!("rtos.{}.port_lines", p.name), changed as f64);
    }
    Ok(out)
}

fn percent(a: f64, b: f64) -> String {
    format!("{:.0} %", 100.0 * a / b)
}

fn ratio(f: &Figures, a: &str, b: &str) -> String {
    match (f.get(a), f.get(b)) {
        (Some(a), Some(b)) => format!("{:.2}", a / b),
        _ => "-".into(),
    }
}

/// The generated parts of lab/EVALUATION.md.
pub fn part(name: &str, f: &Figures) -> Option<String> {
    let text = match name {
        "program-steps" => steps(f),
        "program-restarts" => restarts(f),
        "program-variants" => variants(f),
        _ => return None,
    };
    Some(text)
}

fn steps(f: &Figures) -> String {
    let head = [
        "",
        "steps",
        "longest, instructions",
        "longest of IntOS, cycles",
        "lines",
        "of a port",
        "share",
        "IntOS: lines",
        "added or changed",
        "share",
    ];
    let mut t = Table::new(f, &head);
    for p in &TABLE_3 {
        let key = |figure: &str| format!("rtos.{}.{figure}", p.name);
        let share = match (f.get(&key("port_lines")), f.get(&key("lines"))) {
            (Some(port), Some(lines)) => percent(*port, *lines),
            _ => "-".into(),
        };
        let all = [
            t.figure(&key("steps")),
            t.figure(&key("max_step_instructions")),
            shown(p.cycles.into()),
            t.figure(&key("lines")),
            t.figure(&key("port_lines")),
            share,
            shown(p.lines.into()),
            shown(p.changed.into()),
            percent(p.changed.into(), p.lines.into()),
        ];
        t.row(p.name, all);
    }
    t.text
}

fn restarts(f: &Figures) -> String {
    let head = [
        "instructions",
        "full journals",
        "of these, rollback",
        "longest of all cuts",
        "longest rollback of all",
    ];
    let mut t = Table::new(f, &head);
    for p in &TABLE_3 {
        let keys = [
            "full_restart_instructions",
            "full_rollback_instructions",
            "longest_restart_instructions",
            "rollback_instructions",
        ];
        t.figures(p.name, &keys.map(|k| format!("rtos.{}.{k}", p.name)));
    }
    let head = [
        "four threads that wait in a step",
        "restart",
        "of it, rollback",
    ];
    let mut journals = Table::new(f, &head);
    for (name, kind) in [
        ("all journals are full", "eager"),
        ("only that of the first one is", "one"),
    ] {
        let keys = ["instructions", "undo_instructions"];
        journals.figures(name, &keys.map(|k| format!("rtos.rollback.{kind}_{k}")));
    }
    let lazy = [journals.figure(LAZY), "-".into()];
    journals.row("all are, and only that of the first one is undone", lazy);
    t.text + "\n" + &journals.text
}

fn variants(f: &Figures) -> String {
    let head = ["", "instructions", "ratio", "NVM bytes", "ratio"];
    let mut t = Table::new(f, &head);
    for (name, base, about) in VARIANTS {
        let [i, b] = COUNTS.map(|count| {
            let key = variant(name, count);
            [t.figure(&key), ratio(f, &key, &variant(base, count))]
        });
        t.row(about, i.into_iter().chain(b));
    }
    t.text + &plot::shown(PLOT)
}

const PLOT: &str = "program-variants.svg";
/// What the chart calls the variants.
const SHORT: [(&str, &str); 7] = [
    ("mq_steps", "mq: each turn has a record"),
    ("mq_apart", "mq: each call is a step, too"),
    ("mq_whole", "mq: the whole window is logged"),
    ("mq_swept", "mq: short sequence numbers"),
    ("mq_plain", "mq: all of these"),
    ("em_logged", "em: the buffer is logged"),
    ("objects_logged", "objects: new ones are logged"),
];

/// The chart of the variants, if there are figures of them.
///
/// **Errors**: it cannot be drawn.
pub fn plots(f: &Figures) -> Result<Vec<File>> {
    if !f.contains_key(&variant(VARIANTS[0].0, COUNTS[0])) {
        return Ok(Vec::new());
    }
    let group = |(name, short)| {
        let (_, base, _) = VARIANTS.iter().find(|v| v.0 == name)?;
        let over = |count| Some(f.get(&variant(name, count))? / f.get(&variant(base, count))?);
        Some((short, COUNTS.map(over).to_vec()))
    };
    let groups: Vec<_> = SHORT.into_iter().filter_map(group).collect();
    let axis = "times the program as it is";
    let names = ["instructions", "NVM bytes"];
    Ok(vec![draw::bars(PLOT, axis, &names, &groups)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_show_what_was_measured() {
        let f = Figures::from([
            ("rtos.mq.max_step_instructions".to_owned(), 820.0),
            ("rtos.mq.lines".to_owned(), 120.0),
            ("rtos.mq.port_lines".to_owned(), 30.0),
            ("rtos.mq.full_restart_instructions".to_owned(), 9_118.0),
            ("rtos.rollback.eager_instructions".to_owned(), 8_372.0),
            (variant("em", "instructions"), 200.0),
            (variant("em_logged", "instructions"), 250.0),
        ]);
        let text = part("program-steps", &f).unwrap();
        let row = "| mq | - | 820 | 2,532 | 120 | 30 | 25 % | 166 | 51 | 31 % |";
        assert!(text.contains(row), "{text}");
        let text = part("program-restarts", &f).unwrap();
        assert!(text.contains("| mq | 9,118 | - | - | - |"), "{text}");
        assert!(
            text.contains("| all journals are full | 8,372 | - |"),
            "{text}"
        );
        let text = part("program-variants", &f).unwrap();
        assert!(text.contains("not two | 250 | 1.25 | - | - |"), "{text}");
        assert!(part("programs", &f).is_none());
        assert!(plots(&f).unwrap().is_empty());
    }

    #[test]
    fn a_variant_without_a_figure_is_an_error() {
        let key = |of: String| (format!("machine.{MACHINE}.program_{of}"), 7.0);
        let journals = ROLLBACK.map(|(_, of)| key(format!("journals.journals.{of}")));
        let each =
            |v: (&str, &str, &str)| COUNTS.map(|count| key(format!("variants.{}.{count}", v.0)));
        let mut costs: Figures = VARIANTS
            .into_iter()
            .flat_map(each)
            .chain(journals)
            .collect();
        let found = figures(&costs).unwrap();
        assert_eq!(found["rtos.variants.em_logged.nvm_bytes"], 7.0);
        let svg = &plots(&found).unwrap()[0].1;
        assert!(svg.contains("objects: new ones") && svg.contains("NVM bytes"));
        assert_eq!(found[LAZY], 1.0);
        costs.remove(&key("variants.mq_swept.nvm_bytes".into()).0);
        assert!(figures(&costs).is_err());
    }

    #[test]
    fn each_program_has_lines_of_a_port_and_others() {
        let project = Project::load().unwrap();
        let found = lines(&project).unwrap();
        for p in &TABLE_3 {
            let of = |figure: &str| found[&format!("rtos.{}.{figure}", p.name)];
            let (all, changed) = (of("lines"), of("port_lines"));
            println!("{}: {changed} of {all}", p.name);
            assert!(
                changed > 10.0 && changed < all / 2.0,
                "{}: {changed} of {all}",
                p.name
            );
        }
    }
}
