//! The commit decides: seeds, and which parts of the checks a run of `cargo xtask ci` takes.
//!
//! ```text
//! hash of HEAD + name of a choice  ->  FNV-1a, mixed  ->  a seed, or a part of N
//! ```
//!
//! Nothing else enters, no clock and no random source: the same commit gives the same run on every
//! machine. Different names give independent choices, so that over many commits all parts of all
//! steps meet.

use crate::run::capture;
use crate::shard::Shard;
use std::path::Path;
use std::process::Command;

/// A commit, as far as choices go.
#[derive(Debug, Clone)]
pub struct Commit {
    name: String,
    dirty: bool,
}

impl Commit {
    /// HEAD of the repository; a constant where git does not know one.
    pub fn head(root: &Path) -> Self {
        let git = |args: &[&str]| {
            let mut c = Command::new("git");
            c.current_dir(root).args(args);
            capture(c).ok().map(|s| s.trim().to_owned())
        };
        let changes = git(&["status", "--porcelain"]);
        Commit {
            name: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "none".to_owned()),
            dirty: changes.is_some_and(|c| !c.is_empty()),
        }
    }

    /// A commit that was named on the command line, to repeat what a run of it did.
    pub fn named(name: &str) -> Self {
        Commit {
            name: name.to_owned(),
            dirty: false,
        }
    }

    /// What decides: the first twelve digits of the hash.
    pub fn short(&self) -> &str {
        self.name.get(..12).unwrap_or(&self.name)
    }

    /// The commit in a sentence.
    pub fn said(&self) -> String {
        match self.dirty {
            true => format!("{}, with changes that are not committed", self.short()),
            false => self.short().to_owned(),
        }
    }

    /// The seed of this choice.
    pub fn seed(&self, choice: &str) -> u64 {
        let bytes = self.short().bytes().chain([b'/']).chain(choice.bytes());
        let mut hash = bytes.fold(0xCBF2_9CE4_8422_2325_u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        // FNV leaves the upper bits of short texts alike.
        hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        hash ^ hash >> 31
    }

    /// The part that this choice takes of `of`.
    pub fn part(&self, choice: &str, of: u32) -> Shard {
        Shard {
            part: (self.seed(choice) % u64::from(of)) as u32 + 1,
            of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_commit_chooses_the_same() {
        let commit = || Commit::named("69b47d49c0ffee0123456789");
        assert_eq!(commit().seed("fuzz"), commit().seed("fuzz"));
        // Pinned: another number here would be another run of every commit.
        assert_eq!(Commit::named("none").seed("fuzz"), 0x0EFA_26A8_8B80_A637);
        assert_ne!(commit().seed("fuzz"), commit().seed("miri"));
        // The rest of the hash does not matter: a failure prints the first twelve digits.
        let short = Commit::named(commit().short());
        assert_eq!(commit().seed("fuzz"), short.seed("fuzz"));
    }
}
