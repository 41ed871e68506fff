//! The results, as a table and as JSON.

use crate::score::Score;
use crate::trial::{Run, Trial};
use serde_json::{Value, json};

/// The results of the demo.
pub struct Report<'a> {
    /// The accuracy.
    pub score: &'a Score,
    /// Bytes that the unprotected program stores.
    pub unprotected: u64,
    /// The run without cuts, with which the others are compared.
    pub reference: &'a Run,
    /// The runs with cuts.
    pub trials: &'a [Trial],
    /// The smallest number of stores between cuts that allows progress, if it was searched for.
    pub smallest: Option<u64>,
}

/// The sums of several runs.
#[derive(Default)]
struct Sum {
    runs: u64,
    identical: u64,
    cuts: u64,
    in_recovery: u64,
    bytes: u64,
    stores: u64,
}

impl Report<'_> {
    fn sum<'r>(&self, runs: impl Iterator<Item = &'r Run>) -> Sum {
        runs.fold(Sum::default(), |s, r| Sum {
            runs: s.runs + 1,
            identical: s.identical + u64::from(r.final_state == self.reference.final_state),
            cuts: s.cuts + r.cuts,
            in_recovery: s.in_recovery + r.in_recovery,
            bytes: s.bytes + r.count.bytes,
            stores: s.stores + r.count.stores,
        })
    }

    fn total(&self) -> Sum {
        self.sum(self.trials.iter().flat_map(Trial::ended))
    }

    fn overhead(&self, bytes: u64, runs: u64) -> f64 {
        bytes as f64 / (self.unprotected.max(1) * runs.max(1)) as f64
    }

    /// Whether every run that finished has the final state of the run without cuts.
    pub fn identical(&self) -> bool {
        let all = self.total();
        all.identical == all.runs
    }

    /// The table: one line for each number of stores.
    pub fn table(&self) -> String {
        let mut lines = vec![
            [
                "cut every",
                "runs",
                "cuts",
                "in recovery",
                "stores",
                "bytes written",
                "overhead",
            ]
            .map(String::from),
        ];
        let mut results = vec!["result".to_owned()];
        let mut line = |name: String, s: &Sum, result: String| {
            let mean = |n: u64| n.checked_div(s.runs).map_or_else(|| "-".into(), grouped);
            let overhead = format!("{:.2}x", self.overhead(s.bytes, s.runs));
            lines.push([
                name,
                grouped(s.runs),
                grouped(s.cuts),
                grouped(s.in_recovery),
                mean(s.stores),
                mean(s.bytes),
                if s.runs == 0 { "-".into() } else { overhead },
            ]);
            results.push(result);
        };
        line(
            "never".into(),
            &self.sum(std::iter::once(self.reference)),
            "reference".into(),
        );
        for t in self.trials {
            let s = self.sum(t.ended());
            let stuck = t.runs.iter().find(|r| r.final_state.is_none());
            let result = match stuck.map(|r| r.at.last()) {
                Some(step) => format!("no progress in step {}", step.unwrap_or(&0)),
                None if s.runs == s.identical => "identical".into(),
                None => format!("{} of {} differ", s.runs - s.identical, s.runs),
            };
            line(format!("{} stores", grouped(t.every)), &s, result);
        }
        let wide = |c: usize| lines.iter().map(|l| l[c].len()).max().unwrap_or(0);
        let wide: Vec<_> = (0..lines[0].len()).map(wide).collect();
        let mut out = String::new();
        for (line, result) in lines.iter().zip(results) {
            for (cell, wide) in line.iter().zip(&wide) {
                out += &format!("{cell:>wide$}  ");
            }
            out += &format!("{result}\n");
        }
        out + &format!(
            "Figures are per run, from a blank medium, which is formatted before the first cut. Without\n\
             protection the program stores {} bytes.",
            grouped(self.unprotected)
        )
    }

    /// The figures as JSON.
    pub fn json(&self) -> Value {
        let all = self.total();
        let mut figures = json!({
            "accuracy": self.score.recordings,
            "accuracy_windows": self.score.windows,
            "runs": all.runs,
            "identical_runs": all.identical,
            "stuck_runs": self.trials.iter().filter(|t| t.stuck()).count(),
            "cuts": all.cuts,
            "cuts_in_recovery": all.in_recovery,
            "bytes": self.reference.count.bytes,
            "bytes_unprotected": self.unprotected,
            "overhead_bytes": self.overhead(self.reference.count.bytes, 1),
        });
        if let Some(smallest) = self.smallest {
            figures["smallest_cut_every"] = smallest.into();
        }
        figures
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
