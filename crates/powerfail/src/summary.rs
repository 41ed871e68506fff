//! The result of a campaign that passed.

use crate::engine::{Count, Setup};
use std::fmt;

/// The counts of a campaign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The number of cuts.
    pub cuts: u64,
    /// The number of programs: 1, or as many as [`crate::random()`] has made.
    pub programs: u64,
    /// The number of distinct states that were booted and checked.
    pub boots: u64,
    /// The number of states that were skipped because they had been booted before.
    pub duplicates: u64,
    /// The number of cuts that left more states than the limit, so that only some were booted.
    pub sampled: u64,
    /// The depth: the number of cuts after which a new state was still found.
    pub depth: u32,
    /// In an endurance: the smallest number of events in each boot with which there is progress.
    /// `None` if it was not searched.
    pub least_life: Option<u64>,
    /// The number of points at which the program was interrupted, or at which the first boot was
    /// preempted.
    pub points: u64,
    /// The number of schedules with a preemption that were run, over all states: see
    /// [`Explore::preemptions`](crate::Explore::preemptions).
    pub schedules: u64,
    /// Not the whole campaign: the environment selected a shard, a quick look, less depth or a
    /// replay, or the test runs under Miri, or takes
    /// [one in so many](crate::Explore::one_in) states. A test must then not expect certain counts.
    pub partial: bool,
}

impl std::ops::Add for Summary {
    type Output = Summary;
    fn add(self, o: Summary) -> Summary {
        Summary {
            cuts: self.cuts + o.cuts,
            programs: self.programs + o.programs,
            boots: self.boots + o.boots,
            duplicates: self.duplicates + o.duplicates,
            sampled: self.sampled + o.sampled,
            depth: self.depth.max(o.depth),
            least_life: self.least_life.max(o.least_life),
            points: self.points + o.points,
            schedules: self.schedules + o.schedules,
            partial: self.partial || o.partial,
        }
    }
}

impl Summary {
    pub(crate) fn of(c: &Count, setup: &Setup) -> Summary {
        Summary {
            cuts: c.cuts,
            programs: 1,
            boots: c.boots,
            duplicates: c.duplicates,
            sampled: c.sampled,
            depth: c.depth,
            least_life: None,
            points: c.points,
            schedules: c.schedules,
            partial: setup.partial,
        }
    }

    /// Prints one line about the campaign if `POWERFAIL_SUMMARY` is set. Bypasses the test's output
    /// capture.
    pub(crate) fn print(&self, name: &str, medium: &str) {
        if !std::env::var("POWERFAIL_SUMMARY").is_ok_and(|s| s != "0") {
            return;
        }
        let line = format!("powerfail: {name} on {medium}: {self}\n");
        // One write call, so that lines of several threads do not mix.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }

    /// Appends the line `name cuts boots failed programs` to the file of `POWERFAIL_STATS`.
    pub(crate) fn append(&self, name: &str, failed: u32) {
        let Some(path) = std::env::var_os("POWERFAIL_STATS") else {
            return;
        };
        let name = crate::names::plain(name);
        let (cuts, boots, programs) = (self.cuts, self.boots, self.programs);
        let line = format!("{name} {cuts} {boots} {failed} {programs}\n");
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path);
        // One write call, so that lines of several processes do not mix.
        let written = file.and_then(|mut f| std::io::Write::write_all(&mut f, line.as_bytes()));
        if let Err(e) = written {
            eprintln!("powerfail: {}: {e}", path.display());
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.programs > 1 {
            write!(f, "{} programs, ", self.programs)?;
        }
        write!(f, "{} cuts, {} boots", self.cuts, self.boots)?;
        if self.depth > 0 {
            write!(f, ", depth {}", self.depth)?;
        }
        if let Some(n) = self.least_life {
            write!(f, ", progress with lives of {n} events and more")?;
        }
        if self.points > 0 {
            let what = match self.schedules {
                0 => "interrupted",
                _ => "preempted",
            };
            write!(f, ", {what} at {} points", self.points)?;
        }
        if self.schedules > 0 {
            write!(f, ", {} schedules with a preemption", self.schedules)?;
        }
        if self.sampled > 0 {
            write!(f, "; {} cuts only sampled", self.sampled)?;
        }
        if self.partial {
            write!(f, "; a part of the campaign")?;
        }
        Ok(())
    }
}
