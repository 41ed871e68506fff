//! How much was recognised.

use crate::args::Job;
use example_activity::{CLASSES, Class, Found, Votes};
use std::fmt::Write;

/// What was recognised, recording by recording.
pub struct Score {
    /// `[what it was][what it was taken for]`, in recordings.
    pub confusion: [[usize; CLASSES]; CLASSES],
    /// Each recording's verdict.
    pub verdicts: Vec<Class>,
    /// Share of recordings.
    pub recordings: f64,
    /// Share of windows.
    pub windows: f64,
}

impl Score {
    /// Compares the results, one for each window of each recording in turn, with what the recordings say they are.
    pub fn of(job: &Job, results: &[Found]) -> Self {
        let mut confusion = [[0; CLASSES]; CLASSES];
        let (mut verdicts, mut windows, mut right) = (Vec::new(), 0usize, 0usize);
        let mut rest = results;
        for recording in &job.recognize {
            let (found, later) = rest.split_at(recording.windows().len().min(rest.len()));
            rest = later;
            let mut votes = Votes::default();
            for f in found {
                votes.add(*f);
                right += usize::from(f.class == recording.class);
            }
            windows += found.len();
            if let Some(verdict) = votes.verdict() {
                confusion[usize::from(recording.class)][usize::from(verdict)] += 1;
                verdicts.push(verdict);
            }
        }
        let hits: usize = (0..CLASSES).map(|c| confusion[c][c]).sum();
        let share = |n: usize, of: usize| n as f64 / of.max(1) as f64;
        Score {
            confusion,
            recordings: share(hits, verdicts.len()),
            windows: share(right, windows),
            verdicts,
        }
    }

    /// The confusion matrix: a row for what it was, a column for what it was taken for.
    pub fn matrix(&self, labels: &[String]) -> String {
        let wide = labels.iter().map(|l| l.chars().count()).max().unwrap_or(0);
        let mut out = format!("{:wide$} ", "");
        for label in labels {
            _ = write!(out, " {label:>wide$}");
        }
        for (label, row) in labels.iter().zip(&self.confusion) {
            _ = write!(out, "\n{label:wide$} ");
            for n in &row[..labels.len()] {
                _ = write!(out, " {n:>wide$}");
            }
        }
        out
    }
}
