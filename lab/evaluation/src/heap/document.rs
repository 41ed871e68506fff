//! The generated parts of lab/EVALUATION.md: what stands between `<!-- generated: NAME -->` and
//! `<!-- end -->`.

use super::goals::{self, LIMITS, PATTERNS};
use super::{peers, plots};
use crate::plot::shown as plot;
use crate::report::shown;
use crate::{Figures, checkpoint, intermittent, mirror, programs, yields};
use anyhow::{Context, Result, ensure};
use std::collections::BTreeSet;
use std::fmt::Write;
use xtask::project::Project;

pub const PATH: &str = "lab/EVALUATION.md";

/// The document as it must be; `None` when these figures are not of the heap.
///
/// **Errors**: it cannot be read, or a mark is of no known part or has no end.
pub fn made(project: &Project, figures: &Figures) -> Result<Option<String>> {
    if !figures.contains_key("heap.kv_uniform.ir") {
        return Ok(None);
    }
    let text = std::fs::read_to_string(project.root.join(PATH)).context(PATH)?;
    filled(&text, &peers::with(figures)).map(Some)
}

const BEGIN: &str = "<!-- generated: ";
const END: &str = "<!-- end -->";

fn filled(text: &str, figures: &Figures) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once(BEGIN) {
        let (name, from) = from.split_once(" -->").context("a mark without an end")?;
        let (_, after) = from
            .split_once(END)
            .with_context(|| format!("{name} has no end"))?;
        let part = match name {
            "goals" => goals(figures)?,
            _ => part(name, figures).with_context(|| format!("{PATH}: no part {name}"))?,
        };
        let _ = write!(out, "{before}{BEGIN}{name} -->\n{part}{END}");
        rest = after;
    }
    out += rest;
    let twice = twice(&out);
    ensure!(
        twice.is_empty(),
        "{PATH} has rows twice:\n{}",
        twice.join("\n")
    );
    Ok(out)
}

/// The rows of tables that are there more than once. Two tables may have the same head.
fn twice(text: &str) -> Vec<&str> {
    let mut seen = BTreeSet::new();
    let mut twice = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let is_head = lines.peek().is_some_and(|next| next.starts_with("|---"));
        let is_row = line.starts_with("| ") && !is_head;
        if is_row && !seen.insert(line) {
            twice.push(line);
        }
    }
    twice
}

/// A table whose cells are figures, `-` where there is none.
pub struct Table<'f> {
    figures: &'f Figures,
    pub text: String,
}

impl<'f> Table<'f> {
    pub fn new(figures: &'f Figures, head: &[&str]) -> Self {
        let mut text = format!("| {} |\n|---|", head.join(" | "));
        text += &"---:|".repeat(head.len() - 1);
        text.push('\n');
        Table { figures, text }
    }
    pub fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let _ = write!(self.text, "| {name} |");
        for c in cells {
            let _ = write!(self.text, " {c} |");
        }
        self.text.push('\n');
    }
    pub fn figure(&self, key: &str) -> String {
        self.figures.get(key).map_or("-".into(), |v| shown(*v))
    }
    pub fn figures(&mut self, name: &str, keys: &[String]) {
        let cells: Vec<_> = keys.iter().map(|k| self.figure(k)).collect();
        self.row(name, cells);
    }
}

fn part(name: &str, f: &Figures) -> Option<String> {
    Some(match name {
        "retrieval" => retrieval(f),
        "retrieval-time" => retrieval_time(f),
        "fifo" => fifo(f),
        "fifo-time" => fifo_time(f),
        "persist" => persist(f),
        "kv" => kv(f),
        "kv-time" => kv_time(f),
        "limits" => limits(f),
        "snapshot" => snapshot(f),
        "memory" => memory(f),
        "open" => open(f),
        "cuts" => cuts(f),
        _ => {
            return checkpoint::document::part(name, f)
                .or_else(|| mirror::part(name, f))
                .or_else(|| programs::part(name, f))
                .or_else(|| yields::part(name, f))
                .or_else(|| intermittent::part(name, f));
        }
    })
}

/// The same workload in the rig, where copying and checking count.
fn on_riscv(name: &str) -> String {
    format!("machine.riscv.heap_{name}.instructions")
}

/// **Errors**: a goal is missed, and no sentence says why.
fn goals(f: &Figures) -> Result<String> {
    let mut t = Table::new(f, &["figure", "goal", "measured", ""]);
    for [key, goal, measured, verdict] in goals::lines(f) {
        t.row(&format!("`{key}`"), [goal, measured, verdict]);
    }
    for sentence in goals::missed(f)? {
        t.text += &format!("\n{}\n", wrapped(&sentence));
    }
    Ok(t.text)
}

/// The words of a paragraph, in lines of at most 100 columns.
pub fn wrapped(text: &str) -> String {
    let mut out = String::new();
    let mut columns = 0;
    for word in text.split(' ') {
        let n = word.chars().count();
        if columns + 1 + n > 100 {
            out.push('\n');
            columns = 0;
        } else if columns > 0 {
            out.push(' ');
            columns += 1;
        }
        out += word;
        columns += n;
    }
    out
}

fn retrieval(f: &Figures) -> String {
    const ABOUT: [&str; 3] = [
        "resident",
        "not resident, there is room",
        "a modified object of 1 KiB must be written out first",
    ];
    let mut out = String::new();
    for (case, about) in plots::CASES.into_iter().zip(ABOUT) {
        let _ = write!(out, "\n**{case}**: {about}\n\n");
        let mut t = Table::new(
            f,
            &[
                "bytes",
                "heap",
                "with copying",
                "heap on RISC-V",
                "modules",
                "with copying",
                "vNV-Heap",
                "its modules",
            ],
        );
        for size in plots::SIZES {
            let keys = [
                format!("heap.retrieval_{case}_{size}.ir"),
                format!("heap.retrieval_{case}_{size}.ir_total"),
                on_riscv(&format!("retrieval_{case}_{size}")),
                format!("modules.{case}_{size}.ir"),
                format!("modules.{case}_{size}.ir_total"),
                format!("vnv.retrieval_{case}_{size}.ir"),
                format!("vnv_modules.retrieval_{case}.ir"),
            ];
            t.figures(&size.to_string(), &keys);
        }
        out += &t.text;
    }
    let head = ["", "heap", "heap on RISC-V", "vNV-Heap"];
    let mut t = Table::new(f, &head);
    let rows = [
        ("get and release, 1 resident", "get_resident_1"),
        ("get and release, 400 resident", "get_resident_400"),
        (
            "get_mut of 1 KiB that must write out 1 KiB",
            "get_mut_evict_1024",
        ),
    ];
    for (row, name) in rows {
        let key = |who: &str| format!("{who}.{name}.ir");
        t.figures(row, &[key("heap"), on_riscv(name), key("vnv")]);
    }
    let mut one = Table::new(
        f,
        &["a field of a resident object", "its method", "a closure"],
    );
    for (what, method, closure) in [("read", "get", "with"), ("written", "set", "update")] {
        let key = |how: &str| format!("heap.field_{how}.ir");
        one.figures(what, &[key(method), key(closure)]);
    }
    out + "\n" + &t.text + "\n" + &one.text
}

/// The head of the columns that [`modelled`] fills.
const MODELLED: [&str; 2] = ["by bursts", "by words"];

/// The keys of a modelled time, by bursts and by words.
fn modelled(of: &str) -> [String; 2] {
    [format!("{of}.modelled"), format!("{of}.modelled_by_words")]
}

/// Getting an object, in time.
fn retrieval_time(f: &Figures) -> String {
    let [_, words] = MODELLED;
    let head = [
        "case, bytes",
        "heap by bursts",
        words,
        "its core alone",
        "modules' bus by bursts",
        words,
    ];
    let mut t = Table::new(f, &head);
    for case in plots::CASES {
        for size in plots::SIZES {
            let heap = format!("heap.retrieval_{case}_{size}");
            let mut keys = modelled(&heap).to_vec();
            keys.push(format!("{heap}.core"));
            keys.extend(modelled(&format!("modules.{case}_{size}")));
            t.figures(&format!("{case}, {size}"), &keys);
        }
    }
    t.text + &plot("heap-retrieval-time.svg")
}

fn fifo(f: &Figures) -> String {
    let head = [
        "length",
        "heap",
        "least possible",
        "bytes read",
        "Ir",
        "on RISC-V",
        "NVM only",
        "Ir",
        "RAM only",
        "Ir",
        "vNV-Heap",
    ];
    let mut t = Table::new(f, &head);
    for l in plots::LENGTHS {
        let keys = [
            format!("heap.fifo_{l}.bytes_read"),
            format!("heap.fifo_{l}.ir"),
            on_riscv(&format!("fifo_{l}")),
            format!("nvm.fifo_{l}.bytes_written"),
            format!("nvm.fifo_{l}.ir"),
            format!("ram.fifo_{l}.bytes_written"),
            format!("ram.fifo_{l}.ir"),
            format!("vnv.fifo_{l}.bytes_written"),
        ];
        let mut cells = vec![
            t.figure(&format!("heap.fifo_{l}.bytes_written")),
            shown(plots::least_written(l)),
        ];
        cells.extend(keys.iter().map(|k| t.figure(k)));
        t.row(&l.to_string(), cells);
    }
    t.text + &plot("heap-fifo.svg")
}

/// The queue, in time.
fn fifo_time(f: &Figures) -> String {
    let [_, words] = MODELLED;
    let head = [
        "length",
        "heap by bursts",
        words,
        "its core alone",
        "NVM only, bus by bursts",
        words,
    ];
    let mut t = Table::new(f, &head);
    let measured = |l: &u32| f.contains_key(&format!("heap.fifo_{l}.core"));
    for l in plots::LENGTHS.into_iter().filter(measured) {
        let heap = format!("heap.fifo_{l}");
        let mut keys = modelled(&heap).to_vec();
        keys.push(format!("{heap}.core"));
        keys.extend(modelled(&format!("nvm.fifo_{l}")));
        t.figures(&l.to_string(), &keys);
    }
    t.text + &plot("heap-fifo-time.svg")
}

fn persist(f: &Figures) -> String {
    let head = [
        "dirty limit",
        "bound",
        "worst seen",
        "vNV-Heap, worst seen",
        "bound, µs",
        "µs by words",
        "bound, µJ",
        "µJ by words",
    ];
    let mut t = Table::new(f, &head);
    for d in LIMITS {
        let keys = [
            format!("heap.persist_bound_{d}"),
            format!("heap.persist_worst_{d}"),
            format!("vnv.persist_worst_{d}"),
            format!("heap.persist_bound_{d}.microseconds"),
            format!("heap.persist_bound_{d}.microseconds_by_words"),
            format!("heap.persist_bound_{d}.microjoules"),
            format!("heap.persist_bound_{d}.microjoules_by_words"),
        ];
        t.figures(&d.to_string(), &keys);
    }
    let mut r = Table::new(
        f,
        &[
            "RAM",
            "bound",
            "worst seen",
            "bound, µJ",
            "µJ by words",
            "unmanaged, bytes",
            "unmanaged, µJ",
            "µJ by words",
        ],
    );
    for ram in plots::RAMS {
        let keys = [
            format!("heap.persist_ram_{ram}.bound"),
            format!("heap.persist_ram_{ram}.worst"),
            format!("heap.persist_ram_{ram}.microjoules"),
            format!("heap.persist_ram_{ram}.microjoules_by_words"),
            format!("unmanaged.persist_ram_{ram}.bytes"),
            format!("unmanaged.persist_ram_{ram}.microjoules"),
            format!("unmanaged.persist_ram_{ram}.microjoules_by_words"),
        ];
        r.figures(&ram.to_string(), &keys);
    }
    let plot = plot("heap-persist-ram.svg");
    format!(
        "{}\nThe dirty limit is 2,048 bytes:\n\n{}{plot}",
        t.text, r.text
    )
}

/// Ours first, then ours with pages, then the peers.
const MANAGERS: [(&str, &str); 12] = [
    ("heap", "heap"),
    ("pages_32", "pages of 32 bytes"),
    ("pages_64", "pages of 64 bytes"),
    ("pages_128", "pages of 128 bytes"),
    ("pages_256", "pages of 256 bytes"),
    ("pages_512", "pages of 512 bytes"),
    ("vnv", "vNV-Heap, measured"),
    ("managed_32", "ManagedState 32, measured"),
    ("managed_64", "ManagedState 64, measured"),
    ("managed_128", "ManagedState 128, measured"),
    ("managed_256", "ManagedState 256, measured"),
    ("managed_512", "ManagedState 512, measured"),
];

fn kv(f: &Figures) -> String {
    let mut out = String::new();
    for (unit, about) in [
        ("bytes_written", "Bytes written by an update"),
        ("ir", "Instructions of an update"),
        (
            "ir_total",
            "Instructions with the medium's copying and the check",
        ),
    ] {
        let mut t = Table::new(
            f,
            &[about, PATTERNS[0], PATTERNS[1], PATTERNS[2], PATTERNS[3]],
        );
        for (who, name) in MANAGERS {
            let keys = PATTERNS.map(|p| format!("{who}.kv_{p}.{unit}"));
            if keys.iter().any(|k| f.contains_key(k)) {
                t.figures(name, &keys);
            }
        }
        out += &t.text;
        out.push('\n');
    }
    let riscv = "Instructions of an update on RISC-V, of 64 values";
    let mut t = Table::new(
        f,
        &[riscv, PATTERNS[0], PATTERNS[1], PATTERNS[2], PATTERNS[3]],
    );
    t.figures("heap", &PATTERNS.map(|p| on_riscv(&format!("kv_{p}"))));
    out += &t.text;
    out.push('\n');
    let mut t = Table::new(f, &["Bytes of metadata in RAM", "256 values"]);
    for (who, name) in MANAGERS {
        let key = format!("{who}.kv_metadata");
        if f.contains_key(&key) {
            t.figures(name, &[key]);
        }
    }
    out += &t.text;
    out + &plot("heap-kv-bytes.svg") + &plot("heap-kv-ir.svg")
}

/// The key-value store, in time.
fn kv_time(f: &Figures) -> String {
    let mut out = String::new();
    let units = [
        ("modelled", "bus_microseconds"),
        ("modelled_by_words", "bus_microseconds_by_words"),
    ];
    for (how, (all, bus)) in MODELLED.into_iter().zip(units) {
        let about = format!("µs of an update, {how}");
        let mut t = Table::new(
            f,
            &[&about, PATTERNS[0], PATTERNS[1], PATTERNS[2], PATTERNS[3]],
        );
        let keys = |who: &str, unit: &str| PATTERNS.map(|p| format!("{who}.kv_{p}.{unit}"));
        t.figures("heap, its core and the bus", &keys("heap", all));
        // It is the same in both tables.
        if how == MODELLED[0] {
            t.figures("heap, its core alone", &keys("heap", "core"));
        }
        for (who, name) in MANAGERS {
            let keys = keys(who, bus);
            if keys.iter().any(|k| f.contains_key(k)) {
                t.figures(&format!("{name}, the bus alone"), &keys);
            }
        }
        out += &t.text;
        out.push('\n');
    }
    out.pop();
    out
}

fn limits(f: &Figures) -> String {
    let mut t = Table::new(
        f,
        &[
            "limit, policy",
            PATTERNS[0],
            PATTERNS[1],
            PATTERNS[2],
            PATTERNS[3],
        ],
    );
    for part in [10, 20] {
        for policy in ["default", "lru"] {
            let keys = PATTERNS.map(|p| format!("heap.{policy}_{part}_{p}.bytes_written"));
            t.figures(&format!("1/{part} of the data, {policy}"), &keys);
        }
    }
    t.text
}

fn snapshot(f: &Figures) -> String {
    let mut t = Table::new(f, &["a commit every", "bytes written by an update"]);
    for n in [1, 100, 1000] {
        t.figures(
            &format!("{n} updates"),
            &[format!("heap.snapshot_{n}.bytes_written")],
        );
    }
    t.figures(
        "just in time, no commit",
        &["heap.kv_uniform.bytes_written".into()],
    );
    t.text
}

fn memory(f: &Figures) -> String {
    let mut t = Table::new(f, &["", "heap", "heap on RISC-V", "vNV-Heap"]);
    let row = |t: &mut Table<'_>, name: &str, key: &str| {
        let there = match key {
            "size_of_heap_32" => "machine.riscv.heap_bytes".into(),
            key => format!("machine.riscv.heap_{key}"),
        };
        t.figures(name, &[format!("heap.{key}"), there, format!("vnv.{key}")]);
    };
    row(&mut t, "bytes for each resident object", "ram_per_resident");
    row(&mut t, "bytes for each handle", "ram_per_handle");
    row(&mut t, "`size_of::<Heap>()` on 32 bits", "size_of_heap_32");
    for size in [8, 32, 64, 128, 256, 512] {
        let name = format!("share of 4 KiB that is usable, objects of {size} bytes");
        row(&mut t, &name, &format!("usable_{size}"));
    }
    t.text
}

/// Bytes that opening reads, over sizes of RAM.
fn open(f: &Figures) -> String {
    let mut t = Table::new(f, &["RAM", "bytes read"]);
    let smallest = t.figure("heap.open_smallest_ram");
    let sizes = [
        (format!("{smallest}, the smallest that opens"), "smallest"),
        ("2,048".into(), "2048"),
        ("4,096".into(), "4096"),
        ("16,384".into(), "16384"),
        ("the worst of every 8 bytes up to 4,096".into(), "max"),
    ];
    for (name, key) in sizes {
        t.figures(&name, &[format!("heap.open_read_{key}")]);
    }
    t.figures("formatting", &["heap.format_read".into()]);
    t.text
}

fn cuts(f: &Figures) -> String {
    let mut t = Table::new(f, &["cuts judged", "states booted", "not survived"]);
    let keys = ["heap.boots", "heap.failures"].map(String::from);
    let cuts = t.figure("heap.cuts");
    t.figures(&cuts, &keys);
    t.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_there_twice_is_found() {
        let table = "| a | b |\n|---|---:|\n| x | 1 |\n| y | 2 |\n\n";
        assert!(twice(table).is_empty());
        let two = table.to_owned() + "| a | b |\n|---|---:|\n| x | 1 |\n| y | 3 |\n";
        assert_eq!(twice(&two), ["| x | 1 |"]);
        let words = ["word"; 30].join(" ");
        assert!(wrapped(&words).lines().all(|l| l.len() <= 100));
        assert_eq!(wrapped(&words).replace('\n', " "), words);
    }

    #[test]
    fn what_is_between_the_marks_is_replaced_and_nothing_else() {
        let f = Figures::from([("heap.snapshot_1.bytes_written".to_owned(), 270.5)]);
        let text = "a\n<!-- generated: snapshot -->\nold\n<!-- end -->\nb\n";
        let once = filled(text, &f).unwrap();
        assert!(
            once.starts_with("a\n<!-- generated: snapshot -->\n| a commit")
                && once.ends_with("<!-- end -->\nb\n")
        );
        assert!(once.contains("270.50") && !once.contains("old"));
        assert_eq!(filled(&once, &f).unwrap(), once);
        assert!(filled("<!-- generated: nothing -->\n<!-- end -->", &f).is_err());
        assert!(filled("<!-- generated: kv -->\n", &f).is_err());
    }
}
