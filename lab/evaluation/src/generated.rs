//! Programs that come from a seed: how many cuts they made, and which planted bugs they alone
//! notice.

use super::{Figures, Measured, Options};
use anyhow::Result;
use xtask::coverage;
use xtask::generated::{ALL, programs};
use xtask::project::Project;
use xtask::run::Step;
use xtask::sabotage;

/// How many times the programs of `cargo xtask test` are made.
const TIMES: u32 = 10;
const SEED: u64 = 42;

/// The crate whose coverage is a figure, too.
const KERNEL: &str = "nv-rtos";

/// The share of the planted bugs that they must notice.
const NOTICED: f64 = 0.85;

pub fn all(project: &Project, step: &Step, options: Options) -> Result<Measured> {
    let mut figures = Figures::new();
    let mut wrong = Vec::new();
    let wanted = |package| options.package.is_none_or(|only| only == package);
    for g in ALL.iter().filter(|g| wanted(g.package)) {
        // One crate's failure leaves the figures of the others.
        let counts = match programs(project, step, g.package, TIMES, SEED) {
            Ok(counts) => counts,
            Err(e) => {
                wrong.push(format!("{}: {e:#}", g.package));
                continue;
            }
        };
        let mut say =
            |name: &str, value| figures.insert(format!("generated.{}.{name}", g.key), value);
        say("scripts", counts.programs);
        say("cuts", counts.cuts);
        say("failures", counts.failed);
        // The heap's programs are one campaign of many that its bugs are planted for.
        if g.key == "heap" {
            continue;
        }
        let (score, misses) = sabotage::generated(project, step, g.package)?;
        wrong.extend(misses);
        let (planted, found) = (score.planted as f64, score.caught as f64);
        if found < NOTICED * planted {
            wrong.push(format!("{}: {found} of {planted} planted bugs", g.package));
        }
        say("planted", planted);
        say("planted_found", found);
    }
    if wanted(KERNEL) {
        let kernel = coverage::of(project, step, KERNEL)?;
        let branches = coverage::sum(kernel.iter().map(|f| f.branches));
        figures.insert(
            "generated.rtos.branches_reached".to_owned(),
            branches.reached as f64 / branches.of as f64,
        );
    }
    Ok(Measured {
        figures,
        wrong: (!wrong.is_empty()).then(|| wrong.join("\n")),
    })
}
