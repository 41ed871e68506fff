//! `cargo xtask ci`: every check, in an order that shares what is built.

mod checks;
mod deep;
pub mod deny;
pub mod packages;

use crate::project::{Project, nightly};
use crate::run::{Run, task};
use crate::shard::Shard;
use crate::{boards, consumers, demo, machine, msp430, qemu};
use anyhow::Result;
use std::time::Duration;

/// Runs every check that a change must pass: about an hour on 2 cores
#[derive(clap::Args)]
pub struct Args {
    /// Hours of it: full Miri suites, three cuts in a row, ten minutes for each fuzz target; the
    /// step `choices`, too: the oldest dependencies and each set of features
    #[arg(long)]
    pub long: bool,
    /// With --long: the I-th of N parts of the campaigns, Miri suites and fuzz targets; every part
    /// runs all other steps
    #[arg(long, value_name = "I/N", requires = "long")]
    shard: Option<Shard>,
    /// Only these steps, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "STEP", value_parser = STEPS)]
    only: Vec<String>,
}

/// The names of the steps, in order.
const STEPS: [&str; 26] = [
    "fmt",
    "docs-check",
    "clippy",
    "test",
    "sabotage",
    "doctest",
    "rustdoc",
    "evaluate",
    "demo",
    "crosscheck",
    "arithmetic",
    "system-msp430",
    "system-qemu",
    "sizes",
    "bare",
    "msp430",
    "choices",
    "deny",
    "msrv",
    "publish",
    "consumers",
    "boards",
    "fuzz",
    "miri",
    "firmware",
    "machine",
];

/// What the steps share.
pub struct Ctx {
    pub project: Project,
    pub nightly: Option<String>,
    pub long: bool,
    pub shard: Option<Shard>,
}

pub fn run(a: Args) -> Result<()> {
    let ctx = Ctx {
        project: Project::load()?,
        nightly: nightly(),
        long: a.long,
        shard: a.shard,
    };
    match &ctx.nightly {
        Some(v) => println!("nightly: {v}"),
        None => println!("nightly: none installed"),
    }
    let only = a.only.clone();
    let chosen = |step: &str| only.iter().any(|o| o == step);
    let mut run = Run::new(ctx.project.target.join("xtask"), a.only);
    let choices = ctx.long || chosen("choices");
    let budget = (!ctx.long).then_some(Duration::from_secs(1800));
    let (p, long) = (&ctx.project, ctx.long);
    let seed = crate::kill::SEED;
    // From the front: what builds in target/debug, one after the other. From the back, at the same
    // time: what builds in folders of its own, the longest first.
    let mut steps = vec![
        task("fmt", |s| checks::fmt(&ctx, s)),
        task("docs-check", |s| checks::links(&ctx, s)),
        task("clippy", |s| checks::clippy(&ctx, s)),
        task("test", |s| checks::tests(&ctx, s)),
        task("sabotage", |s| deep::sabotage(&ctx, s)),
        task("doctest", |s| checks::doctests(&ctx, s)),
        task("rustdoc", |s| checks::rustdoc(&ctx, s)),
        task("evaluate", deep::evaluate),
        task("demo", |s| demo::check(p, s)),
        task("crosscheck", |s| msp430::crosscheck(p, long, s, seed)),
        task("arithmetic", |s| msp430::arithmetic(p, s)),
        task("system-msp430", |s| msp430::kills(p, long, s, seed)),
        task("system-qemu", |s| qemu::kills(p, long, s, seed)),
        task("sizes", |s| checks::sizes(&ctx, s)),
        task("bare", |s| checks::bare(&ctx, s)),
        task("msp430", |s| checks::msp430(&ctx, s)),
        task("choices", |s| packages::choices(&ctx, s)),
        task("deny", |s| deny::deny(&ctx, s)),
        task("msrv", |s| packages::msrv(&ctx, s)),
        task("publish", |s| packages::publish(&ctx, s)),
        task("consumers", |s| consumers::check(p, s)),
        task("boards", |s| boards::check(p, long, s, seed)),
        task("fuzz", |s| deep::fuzz(&ctx, s)),
        task("miri", |s| deep::miri(&ctx, s)).within(budget),
        task("firmware", |s| checks::firmware(&ctx, s)),
        task("machine", |s| machine::check(p, long, s, seed)),
    ];
    steps.retain(|t| choices || t.name != "choices");
    run.two_at_a_time(steps);
    run.finish()
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn every_step_can_be_chosen() {
        let source = include_str!("ci.rs");
        let calls = source.split(concat!("ta", "sk(")).skip(1);
        let names = calls.filter_map(|c| c.split('"').nth(1));
        assert_eq!(names.collect::<Vec<_>>(), STEPS);
    }
}
