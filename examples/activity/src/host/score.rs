//! The accuracy of the recognition.

use crate::args::Job;
use example_activity::{CLASSES, Class, Recognition, Votes};
use std::fmt::Write;

/// The accuracy, per recording and per window.
pub struct Score {
    /// Recordings, by `[actual activity][recognised activity]`.
    pub confusion: [[usize; CLASSES]; CLASSES],
    /// Each recording's verdict.
    pub verdicts: Vec<Class>,
    /// The share of recordings recognised correctly.
    pub recordings: f64,
    /// The share of windows recognised correctly.
    pub windows: f64,
}

impl Score {
    /// Compares the results with the labels of the recordings. There is one result for each window
    /// of each recording, in order.
    pub fn of(job: &Job, results: &[Recognition]) -> Self {
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

    /// The confusion matrix: a row for each actual activity, a column for each recognised one.
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
