//! The results: as a table, as JSON, and where each task was, in the terminal and as SVG.

use crate::trial::Run;
use example_node::{WINDOW, Who};
use serde_json::{Value, json};
use std::fmt::Write;

/// The results; the run without cuts is the first.
pub struct Report<'a> {
    /// The runs.
    pub runs: &'a [Run],
}

const TASKS: [(Who, &str); 3] = [
    (Who::Sensor, "sensor"),
    (Who::Average, "average"),
    (Who::Radio, "radio"),
];
/// Columns of the timeline, and how much of the last run it shows, in microseconds.
const COLUMNS: usize = 80;
const SHOWN: u64 = 4_000_000;

impl Report<'_> {
    fn reference(&self) -> &Run {
        &self.runs[0]
    }

    /// Whether the run has sent and kept what the run without cuts has.
    fn same(&self, run: &Run) -> bool {
        let r = self.reference();
        run.reports == r.reports && run.kept == r.kept
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
            "in flash work",
            "sent again",
            "words",
            "erases",
            "time",
        ];
        let mut lines = vec![head.map(String::from)];
        for r in self.runs {
            let power = r
                .power
                .map_or("ever".into(), |p| format!("~{} ms", p / 1000));
            lines.push([
                power,
                grouped(r.cuts),
                grouped(r.caught),
                grouped(r.again),
                grouped(r.words),
                grouped(r.erases.iter().sum()),
                format!("{:.1} s", r.time as f64 / 1e6),
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
                Some((0, r)) if self.same(r) => "reference",
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

    /// The first seconds of the last run.
    pub fn timeline(&self) -> String {
        let run = self.last();
        let shown = SHOWN.min(run.time.max(1));
        let column = |t: u64| (t < shown).then(|| (t * COLUMNS as u64 / shown) as usize);
        let mut out = format!(
            "The first {:.1} s of the last run; = a task comes on, - it is there again after a cut, x a cut\n\n",
            shown as f64 / 1e6
        );
        for (task, name) in TASKS {
            let mut line = [' '; COLUMNS];
            let mut most = None;
            for (t, _, n) in run.places.iter().filter(|p| p.1 == task) {
                let is_new = most.is_none_or(|m| m < *n);
                most = most.max(Some(*n));
                if let Some(place) = column(*t).and_then(|c| line.get_mut(c))
                    && (is_new || *place == ' ')
                {
                    *place = if is_new { '=' } else { '-' };
                }
            }
            let _ = writeln!(out, "{name:>8} {}", String::from_iter(line).trim_end());
        }
        let mut line = [' '; COLUMNS];
        for c in run.cut_at.iter().filter_map(|t| column(*t)) {
            line[c] = 'x';
        }
        let _ = writeln!(out, "{:>8} {}", "power", String::from_iter(line).trim_end());
        out
    }

    /// How far each task of the last run was at each time. A cut is a grey line.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 70.0;
        const WIDE: f64 = 900.0;
        const HIGH: f64 = 110.0;
        let run = self.last();
        let x = |t: u64| LEFT + WIDE * t as f64 / run.time.max(1) as f64;
        let high = TASKS.len() as f64 * (HIGH + 20.0) + 30.0;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{high}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            LEFT + WIDE + 20.0
        );
        for t in &run.cut_at {
            let x = x(*t);
            let _ = writeln!(
                out,
                "<line x1=\"{x:.1}\" y1=\"10\" x2=\"{x:.1}\" y2=\"{:.0}\" stroke=\"black\" stroke-opacity=\"0.12\"/>",
                high - 25.0
            );
        }
        for (row, (task, name)) in TASKS.into_iter().enumerate() {
            let bottom = (row as f64 + 1.0) * (HIGH + 20.0);
            let all = self.reference().reports.len() as f64;
            let all = match task {
                Who::Sensor => all * f64::from(WINDOW),
                Who::Average | Who::Radio => all,
            };
            let points = run.places.iter().filter(|p| p.1 == task);
            let points: String = points
                .map(|(t, _, n)| {
                    format!("{:.1},{:.1} ", x(*t), bottom - HIGH * f64::from(*n) / all)
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
            "<text x=\"{LEFT}\" y=\"{:.0}\">{} cuts in {:.1} s</text>\n</svg>",
            high - 6.0,
            grouped(run.cuts),
            run.time as f64 / 1e6
        );
        out
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        json!({
            "async_demo.reports": self.reference().reports.len(),
            "async_demo.cuts": self.sum(|r| r.cuts),
            "async_demo.cuts_in_flash_work": self.sum(|r| r.caught),
            "async_demo.sent_again": self.sum(|r| r.again),
            "async_demo.erases": self.sum(|r| r.erases.iter().sum()),
            "async_demo.identical": u8::from(self.identical()),
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
