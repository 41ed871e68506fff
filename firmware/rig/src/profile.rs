//! Which functions the instructions of a run are in.

use crate::explore::Case;
use crate::image::Names;
use crate::machine::{Boot, Machine};
use crate::state::State;
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many functions are printed.
const MOST: usize = 60;
/// The most instructions of a run.
const LIMIT: u64 = 5_000_000;

/// Two tables: the instructions of a function itself, and those of it and of what was inlined into
/// it; then those of each file. Of a whole program that is cut, the same of a boot after its end:
/// the region is formatted, and all records are there.
pub fn of(m: &mut dyn Machine, case: &Case) -> String {
    let mut state = case.blank();
    let mut out = of_boot(m, &state);
    if case.periods {
        let mut now = state.clone();
        m.state(&mut now);
        state = now;
        let _ = write!(out, "booted again\n{}", of_boot(m, &state));
    }
    out
}

fn of_boot(m: &mut dyn Machine, state: &State) -> String {
    let boot = Boot {
        state,
        seed: 0,
        limit: LIMIT,
        detail: true,
    };
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for t in m.traced(&boot, &[]) {
        *counts.entry(t.pc).or_default() += 1;
    }
    let names = Names::of(m.image());
    let mut functions: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut files: BTreeMap<String, u64> = BTreeMap::new();
    for (pc, n) in &counts {
        let frames = names.at(*pc);
        // What the standard library does, it does for whom it is inlined into.
        let of_project = |file: &str| {
            let inside = ["/crates/", "/examples/", "/firmware/"];
            let at = inside.iter().find_map(|dir| file.find(dir))?;
            file.get(at + 1..).map(str::to_owned)
        };
        let file = frames.iter().find_map(|f| of_project(&f.1));
        *files.entry(file.unwrap_or("other".into())).or_default() += n;
        let mut all: Vec<_> = frames.into_iter().map(|f| f.0).collect();
        if all.is_empty() {
            let name = m.image().name(*pc);
            all.push(name.split('+').next().unwrap_or_default().to_owned());
        }
        if let Some(own) = all.first() {
            functions.entry(own.clone()).or_default()[0] += n;
        }
        all.sort();
        all.dedup();
        for name in all {
            functions.entry(name).or_default()[1] += n;
        }
    }
    let mut sorted: Vec<_> = functions.into_iter().collect();
    sorted.sort_by_key(|f| std::cmp::Reverse(f.1));
    let mut out = format!("{:>10} {:>10}\n", "own", "inlined");
    for (name, [own, all]) in sorted.iter().take(MOST) {
        let _ = writeln!(out, "{own:10} {all:10} {name}");
    }
    let mut sorted: Vec<_> = files.into_iter().collect();
    sorted.sort_by_key(|f| std::cmp::Reverse(f.1));
    for (name, n) in sorted.iter().take(MOST) {
        let _ = writeln!(out, "{n:10} {name}");
    }
    out
}
