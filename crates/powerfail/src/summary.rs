//! What a campaign came to.

use crate::engine::{Count, Setup};
use crate::medium::Media;
use std::fmt;

/// What a campaign did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Instants at which the power was cut.
    pub cuts: u64,
    /// Distinct states that were booted and checked.
    pub boots: u64,
    /// States that were not booted because they had been before.
    pub same: u64,
    /// Cuts that left more than the limit, so that not all of it was booted.
    pub sampled: u64,
    /// How many cuts led to a state that fewer did not.
    pub depth: u32,
    /// Of an endurance: the smallest number of events in a life that is enough for progress, when each boot has power for
    /// so many. None where it was not looked for.
    pub least_life: Option<u64>,
    /// Points at which the program was interrupted.
    pub points: u64,
    /// Not the whole campaign: the environment asked for a shard, a quick look, less depth or a replay, or Miri runs it.
    /// Counts are then not what a test may expect.
    pub part: bool,
}

impl std::ops::Add for Summary {
    type Output = Summary;
    fn add(self, o: Summary) -> Summary {
        Summary {
            cuts: self.cuts + o.cuts,
            boots: self.boots + o.boots,
            same: self.same + o.same,
            sampled: self.sampled + o.sampled,
            depth: self.depth.max(o.depth),
            least_life: self.least_life.max(o.least_life),
            points: self.points + o.points,
            part: self.part || o.part,
        }
    }
}

impl Summary {
    pub(crate) fn of<M: Media, T>(c: &Count, setup: &Setup<M, T>) -> Summary {
        Summary {
            cuts: c.cuts,
            boots: c.boots,
            same: c.same,
            sampled: c.sampled,
            depth: c.depth,
            least_life: None,
            points: 0,
            part: setup.part,
        }
    }

    /// One line on what was explored, when `POWERFAIL_SUMMARY` asks for it, past the capture of the test's output.
    pub(crate) fn tell(&self, name: &str, medium: &str) {
        if !std::env::var("POWERFAIL_SUMMARY").is_ok_and(|s| s != "0") {
            return;
        }
        let line = format!("powerfail: {name} on {medium}: {self}\n");
        // In one write, so that lines of several threads do not mix.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
    }

    /// One line `name cuts boots failed` to the file that `POWERFAIL_STATS` names.
    pub(crate) fn append(&self, name: &str, failed: u32) {
        let Some(path) = std::env::var_os("POWERFAIL_STATS") else {
            return;
        };
        let name = crate::place::plain(name);
        let line = format!("{name} {} {} {failed}\n", self.cuts, self.boots);
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&path);
        // In one write, so that lines of several processes do not mix.
        let written = file.and_then(|mut f| std::io::Write::write_all(&mut f, line.as_bytes()));
        if let Err(e) = written {
            eprintln!("powerfail: {}: {e}", path.display());
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cuts, {} boots", self.cuts, self.boots)?;
        if self.depth > 0 {
            write!(f, ", depth {}", self.depth)?;
        }
        if let Some(n) = self.least_life {
            write!(f, ", progress with lives of {n} events and more")?;
        }
        if self.points > 0 {
            write!(f, ", interrupted at {} points", self.points)?;
        }
        if self.sampled > 0 {
            write!(f, "; {} cuts only sampled", self.sampled)?;
        }
        if self.part {
            write!(f, "; a part of the campaign")?;
        }
        Ok(())
    }
}
