//! The counts that campaigns of the kit append to the file of `POWERFAIL_STATS`.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// The sums of all campaigns.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Counts {
    /// Power cuts that were judged.
    pub cuts: f64,
    /// Different states that were booted.
    pub boots: f64,
    /// Campaigns that failed.
    pub failed: f64,
    /// Programs that were explored.
    pub programs: f64,
}

/// **Errors**: the file cannot be read, or is no such file.
pub fn read(path: &Path) -> Result<Counts> {
    let text = std::fs::read_to_string(path);
    sums(&text.with_context(|| format!("{}: no campaign wrote its counts", path.display()))?)
}

/// Of lines `name cuts boots failed programs`, one for each campaign.
pub fn sums(lines: &str) -> Result<Counts> {
    let mut sum = Counts::default();
    for line in lines.lines() {
        let numbers = line.split(' ').skip(1).map(str::parse::<f64>);
        let numbers: Result<Vec<_>, _> = numbers.collect();
        let Ok([cuts, boots, failed, programs]) = numbers.as_deref() else {
            bail!("not `name cuts boots failed programs`: {line}");
        };
        sum.cuts += cuts;
        sum.boots += boots;
        sum.failed += failed;
        sum.programs += programs;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_all_campaigns_are_added_up() {
        let all = sums("node::a 5 2 0 1\nlamps::b 7 3 1 64\n").unwrap();
        let counts = (all.cuts, all.boots, all.failed, all.programs);
        assert_eq!(counts, (12.0, 5.0, 1.0, 65.0));
        assert_eq!(sums("").unwrap(), Counts::default());
        for wrong in ["\n", "a 5 2 0", "a 5 2 0 1 1", "a 5 b 0 1"] {
            assert!(sums(wrong).is_err(), "{wrong}");
        }
    }
}
