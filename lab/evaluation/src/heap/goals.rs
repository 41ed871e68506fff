//! What the heap is meant to reach, beside what it reaches.

use crate::Figures;
use crate::report::shown;
use anyhow::{Context, Result};
use std::fmt::Write;

/// A goal.
pub struct Goal {
    key: String,
    least: bool,
    goal: f64,
}

/// The key may be at most this.
fn at_most(key: impl Into<String>, goal: f64) -> Goal {
    Goal {
        key: key.into(),
        least: false,
        goal,
    }
}

/// The key must be at least this.
fn at_least(key: impl Into<String>, goal: f64) -> Goal {
    Goal {
        least: true,
        ..at_most(key, goal)
    }
}

/// Why a goal is missed.
const MISSED: [(&str, &str); 1] = [(
    "heap.get_mut_evict_1024.ir",
    "The call writes one object back and reads the other one. The read alone takes what *bad* shows \
     below, and nothing is saved by doing both in one call. The goal is 1.2 such reads, which the \
     heap does not reach as it is built. vNV-Heap takes more.",
)];

/// All goals, one for each figure and side; some are relative to other figures.
pub fn all(f: &Figures) -> Vec<Goal> {
    let mut strictest: Vec<Goal> = Vec::new();
    for g in every(f) {
        match strictest
            .iter_mut()
            .find(|s| s.key == g.key && s.least == g.least)
        {
            Some(s) if g.least => s.goal = s.goal.max(g.goal),
            Some(s) => s.goal = s.goal.min(g.goal),
            None => strictest.push(g),
        }
    }
    strictest
}

/// The same; a figure may have several.
fn every(f: &Figures) -> Vec<Goal> {
    let of = |key: &str| f.get(key).copied().unwrap_or(f64::NAN);
    let mut goals = vec![
        at_most("heap.get_resident_1.ir", 60.0),
        at_most("heap.get_resident_400.ir", 68.0),
        at_most("heap.get_mut_evict_1024.ir", 700.0),
        at_most("heap.kv_uniform.bytes_written", 193.0),
        at_most("heap.kv_sequential.bytes_written", 195.0),
        at_most("heap.kv_unequal.bytes_written", 165.0),
        at_most("heap.kv_partitioned.bytes_written", 33.5),
    ];
    for p in PATTERNS {
        goals.push(at_most(format!("heap.kv_{p}.ir"), 1_500.0));
    }
    for l in [10, 16, 20, 30, 60, 120] {
        // 15 elements fit into RAM. A cache needs one of the places for the element in transit.
        let cache = 256.0 * (1.0 - 14.0 / f64::from(l)).max(0.0);
        let key = format!("heap.fifo_{l}.bytes_written");
        goals.push(at_most(key, 1.05 * cache));
    }
    for part in [10, 20] {
        for p in PATTERNS {
            let lru = of(&format!("heap.lru_{part}_{p}.bytes_written"));
            goals.push(at_most(
                format!("heap.default_{part}_{p}.bytes_written"),
                1.2 * lru,
            ));
        }
    }
    for (n, most) in [(1000, 200.0), (100, 225.0), (1, 280.0)] {
        goals.push(at_most(format!("heap.snapshot_{n}.bytes_written"), most));
    }
    goals.push(at_most("heap.ram_per_resident", 10.0));
    goals.push(at_most("heap.ram_per_handle", 4.0));
    goals.push(at_least("heap.usable_32", 0.74));
    goals.push(at_least("heap.usable_256", 15.0 * 256.0 / 4096.0));
    for limit in LIMITS {
        goals.push(at_most(
            format!("heap.persist_bound_{limit}"),
            f64::from(limit) + 64.0,
        ));
        let worst = of(&format!("heap.persist_worst_{limit}"));
        goals.push(at_most(format!("heap.persist_bound_{limit}"), 1.10 * worst));
        let bound = of(&format!("heap.persist_bound_{limit}"));
        goals.push(at_most(format!("heap.persist_worst_{limit}"), bound));
    }
    goals.push(at_least("heap.cuts", 1e6));
    goals.push(at_most("heap.failures", 0.0));
    goals
}

/// The patterns of the key-value workload.
pub const PATTERNS: [&str; 4] = ["uniform", "sequential", "unequal", "partitioned"];

/// The dirty limits of the persists that are measured.
pub const LIMITS: [u32; 5] = [512, 1024, 2048, 3072, 4096];

/// A line for each goal whose figure was measured: figure, goal, measured, whether it is reached.
pub fn lines(figures: &Figures) -> Vec<[String; 4]> {
    let line = |g: &Goal| {
        let v = *figures.get(&g.key)?;
        let met = if g.least { v >= g.goal } else { v <= g.goal };
        let sign = if g.least { "≥" } else { "≤" };
        let verdict = if met { "reached" } else { "MISSED" };
        let goal = format!("{sign} {}", shown(g.goal));
        Some([g.key.clone(), goal, shown(v), verdict.to_owned()])
    };
    all(figures).iter().filter_map(line).collect()
}

/// A sentence for each goal that is missed.
///
/// **Errors**: there is none for one of them.
pub fn missed(figures: &Figures) -> Result<Vec<String>> {
    let lines = lines(figures);
    let missed = lines.iter().filter(|l| l[3] != "reached");
    let sentence = |[key, ..]: &[String; 4]| {
        let why = MISSED.iter().find(|m| m.0 == key);
        let (_, why) = why.with_context(|| format!("{key}: say in goals.rs why it is missed"))?;
        Ok(format!("`{key}` is missed. {why}"))
    };
    missed.map(sentence).collect()
}

/// The table for a terminal.
pub fn table(figures: &Figures) -> String {
    let lines = lines(figures);
    let mut out = format!("{:44} {:>12} {:>12}\n", "figure", "goal", "measured");
    for [key, goal, measured, verdict] in &lines {
        let _ = writeln!(out, "{key:44} {goal:>12} {measured:>12}  {verdict}");
    }
    let missed = lines.iter().filter(|l| l[3] != "reached").count();
    let _ = writeln!(out, "{} goals, {missed} missed", lines.len());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_has_one_row() {
        let goals = all(&Figures::new());
        let mut keys: Vec<_> = goals.iter().map(|g| (&g.key, g.least)).collect();
        let n = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), n);
        let limit = goals.iter().find(|g| g.key == "heap.persist_bound_512");
        assert_eq!(limit.map(|g| g.goal), Some(576.0));
    }

    #[test]
    fn a_goal_is_missed_on_its_side() {
        let f = |k: &str, v| Figures::from([(k.to_owned(), v)]);
        assert!(table(&f("heap.kv_uniform.ir", 1_500.0)).contains("reached"));
        assert!(table(&f("heap.kv_uniform.ir", 1_501.0)).contains("MISSED"));
        assert!(table(&f("heap.usable_32", 0.74)).contains("reached"));
        assert!(table(&f("heap.usable_32", 0.73)).contains("1 missed"));
        assert_eq!(
            missed(&f("heap.get_mut_evict_1024.ir", 800.0))
                .unwrap()
                .len(),
            1
        );
        assert!(missed(&f("heap.usable_32", 0.73)).is_err());
        assert!(missed(&f("heap.usable_32", 0.74)).unwrap().is_empty());
        // What it is relative to was not measured.
        assert!(table(&f("heap.default_10_uniform.bytes_written", 0.0)).contains("MISSED"));
    }
}
