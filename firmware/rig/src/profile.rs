//! Which functions the instructions of a run are in.

use crate::explore::Case;
use crate::image::Names;
use crate::machine::{Boot, Machine};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many functions are printed.
const MOST: usize = 60;
/// The most instructions of a run.
const LIMIT: u64 = 5_000_000;

/// A table: the instructions of a function itself, then those of it and of what was inlined into
/// it.
pub fn of(m: &mut dyn Machine, case: &Case) -> String {
    let state = case.blank();
    let boot = Boot {
        state: &state,
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
    for (pc, n) in &counts {
        let mut all = names.at(*pc);
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
    out
}
