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
            part: setup.part,
        }
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
        if self.sampled > 0 {
            write!(f, "; {} cuts only sampled", self.sampled)?;
        }
        if self.part {
            write!(f, "; a part of the campaign")?;
        }
        Ok(())
    }
}
