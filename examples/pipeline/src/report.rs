//! The results: as a table, as JSON, and how far each thread was, in the terminal and as SVG.

use crate::trial::Run;
use serde_json::{Value, json};
use std::fmt::Write;

/// The results; the run without cuts is the first.
pub struct Report<'a> {
    /// The runs.
    pub runs: &'a [Run],
    /// Records of each.
    pub rounds: u32,
}

/// The threads, and how many turns each makes for a record.
const THREADS: [(&str, u32); 5] = [
    ("extract", 1),
    ("check", 2),
    ("fill", 2),
    ("join", 1),
    ("load", 1),
];
/// Columns of the timeline, and how many turns it shows.
const COLUMNS: usize = 80;
const SHOWN: usize = 160;

impl Report<'_> {
    /// Whether the run has the table of the run without cuts.
    fn same(&self, run: &Run) -> bool {
        run.table == self.runs[0].table
    }

    /// Whether every run has.
    pub fn identical(&self) -> bool {
        self.runs.iter().all(|r| self.same(r))
    }

    fn sum(&self, of: impl Fn(&Run) -> u64) -> u64 {
        self.runs.iter().skip(1).map(of).sum()
    }

    /// The table: one line per run.
    pub fn table(&self) -> String {
        let head = [
            "power for",
            "cuts",
            "turns",
            "done again",
            "records",
            "hash",
        ];
        let mut lines = vec![head.map(String::from)];
        for r in self.runs {
            let [records, _, hash, _] = r.table.unwrap_or_default();
            lines.push([
                r.power.map_or("ever".into(), |p| format!("~{p} events")),
                grouped(r.cuts),
                grouped(r.done.len() as u64),
                grouped(r.again()),
                grouped(records.into()),
                format!("{hash:08x}"),
            ]);
        }
        let wide = |c: usize| lines.iter().map(|l| l[c].len()).max().unwrap_or(0);
        let wide: Vec<_> = (0..head.len()).map(wide).collect();
        let mut out = String::new();
        for (i, line) in lines.iter().enumerate() {
            for (cell, wide) in line.iter().zip(&wide) {
                let _ = write!(out, "{cell:>wide$}  ");
            }
            out += match i.checked_sub(1).map(|i| (i, &self.runs[i])) {
                None => "result",
                Some((0, _)) => "reference",
                Some((_, r)) if self.same(r) => "identical",
                Some(_) => "DIFFERENT",
            };
            out.push('\n');
        }
        out
    }

    fn last(&self) -> &Run {
        &self.runs[self.runs.len() - 1]
    }

    /// The first turns of the last run.
    pub fn timeline(&self) -> String {
        let run = self.last();
        let shown = SHOWN.min(run.done.len().max(1));
        let column = |i: usize| (i < shown).then(|| i * COLUMNS / shown);
        let mut out = format!(
            "The first {shown} turns of the last run; = a thread comes on, - it does a turn again after a cut, x a cut\n\n"
        );
        for (thread, (name, _)) in THREADS.into_iter().enumerate() {
            let (mut line, mut next) = ([' '; COLUMNS], 0);
            for (i, (_, turn)) in run.done.iter().enumerate().filter(|d| d.1.0 == thread) {
                let is_new = *turn >= next;
                next = next.max(turn + 1);
                if let Some(place) = column(i).and_then(|c| line.get_mut(c))
                    && (is_new || *place == ' ')
                {
                    *place = if is_new { '=' } else { '-' };
                }
            }
            let _ = writeln!(out, "{name:>8} {}", String::from_iter(line).trim_end());
        }
        let mut line = [' '; COLUMNS];
        for c in run.cut_at.iter().filter_map(|i| column(*i)) {
            line[c] = 'x';
        }
        let _ = writeln!(out, "{:>8} {}", "power", String::from_iter(line).trim_end());
        out
    }

    /// How far each thread of the last run was after each turn, and how many messages waited in the
    /// pipeline. A cut is a grey line.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 70.0;
        const WIDE: f64 = 900.0;
        const HIGH: f64 = 90.0;
        let run = self.last();
        let x = |i: usize| LEFT + WIDE * i as f64 / run.done.len().max(1) as f64;
        let high = THREADS.len() as f64 * (HIGH + 20.0) + 30.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{high}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            LEFT + WIDE + 20.0
        );
        for i in &run.cut_at {
            let x = x(*i);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"10\" x2=\"{x:.1}\" y2=\"{:.0}\" stroke=\"black\" stroke-opacity=\"0.08\"/>",
                high - 25.0
            );
        }
        for (thread, (name, each)) in THREADS.into_iter().enumerate() {
            let bottom = (thread as f64 + 1.0) * (HIGH + 20.0);
            let all = f64::from(self.rounds * each);
            let mine = run.done.iter().enumerate().filter(|d| d.1.0 == thread);
            let points: String = mine
                .map(|(i, (_, turn))| {
                    let up = HIGH * f64::from(turn + 1) / all;
                    format!("{:.1},{:.1} ", x(i), bottom - up)
                })
                .collect();
            let _ = writeln!(
                out,
                "<text x=\"8\" y=\"{bottom}\">{name}</text>\n<polyline points=\"{}\" fill=\"none\" stroke=\"#4e79a7\" stroke-width=\"1.5\"/>",
                points.trim_end()
            );
        }
        let _ = writeln!(
            out,
            "<text x=\"{LEFT}\" y=\"{:.0}\">{} cuts in {} turns</text>\n</svg>",
            high - 6.0,
            grouped(run.cuts),
            grouped(run.done.len() as u64)
        );
        out
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        json!({
            "rtos_demo.records": self.rounds,
            "rtos_demo.cuts": self.sum(|r| r.cuts),
            "rtos_demo.done_again": self.sum(Run::again),
            "rtos_demo.identical": u8::from(self.identical()),
        })
    }
}

/// A number with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, d) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(d);
    }
    out
}
