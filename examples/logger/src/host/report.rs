//! The results, as a table and as JSON.

use crate::trial::Run;
use serde_json::{Value, json};

/// The results; the run without cuts is the first.
pub struct Report<'a> {
    /// The logged values.
    pub logged: &'a [i16],
    /// The runs.
    pub runs: &'a [Run],
}

impl Report<'_> {
    fn reference(&self) -> &Run {
        &self.runs[0]
    }

    /// Whether the run has logged all values and has the statistics of the run without cuts.
    fn same(&self, run: &Run) -> bool {
        run.values == self.logged && run.statistics == self.reference().statistics
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
            "in open",
            "cold reopens",
            "bytes written",
            "bytes on the bus",
        ];
        let mut lines = vec![head.map(String::from)];
        for r in self.runs {
            let power = r
                .power
                .map_or("ever".into(), |p| format!("~{} bytes", grouped(p)));
            lines.push([
                power,
                grouped(r.cuts),
                grouped(r.in_open),
                grouped(r.reopens),
                grouped(r.written),
                grouped(r.clocked),
            ]);
        }
        let wide = |c: usize| lines.iter().map(|l| l[c].len()).max().unwrap_or(0);
        let wide: Vec<_> = (0..head.len()).map(wide).collect();
        let mut out = String::new();
        for (i, line) in lines.iter().enumerate() {
            for (cell, wide) in line.iter().zip(&wide) {
                out += &format!("{cell:>wide$}  ");
            }
            let run = i.checked_sub(1).map(|i| (i, &self.runs[i]));
            out += match run {
                None => "result",
                Some((0, r)) if self.same(r) => "reference",
                Some((_, r)) if self.same(r) => "identical",
                Some(_) => "DIFFERENT",
            };
            out.push('\n');
        }
        out
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        json!({
            "values": self.reference().values.len(),
            "cuts": self.sum(|r| r.cuts),
            "cuts_in_open": self.sum(|r| r.in_open),
            "cold_reopens": self.sum(|r| r.reopens),
            "identical": self.identical(),
            "bytes_written": self.sum(|r| r.written),
            "bytes_written_uncut": self.reference().written,
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
