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

/// Runs every check that a change must pass: about 40 minutes on 2 cores
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
    "doctest",
    "rustdoc",
    "consumers",
    "bare",
    "msp430",
    "firmware",
    "crosscheck",
    "arithmetic",
    "machine",
    "msrv",
    "publish",
    "choices",
    "sizes",
    "sabotage",
    "evaluate",
    "boards",
    "system-msp430",
    "system-qemu",
    "demo",
    "miri",
    "fuzz",
    "deny",
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
    run.step("fmt", None, |s| checks::fmt(&ctx, s));
    run.step("docs-check", None, |s| checks::links(&ctx, s));
    run.step("clippy", None, |s| checks::clippy(&ctx, s));
    run.step("test", None, |s| checks::tests(&ctx, s));
    run.step("doctest", None, |s| checks::doctests(&ctx, s));
    run.step("rustdoc", None, |s| checks::rustdoc(&ctx, s));
    run.step("consumers", None, |s| consumers::check(&ctx.project, s));
    run.step("bare", None, |s| checks::bare(&ctx, s));
    run.step("msp430", None, |s| checks::msp430(&ctx, s));
    run.step("firmware", None, |s| checks::firmware(&ctx, s));
    run.step("crosscheck", None, |s| {
        msp430::crosscheck(&ctx.project, ctx.long, s)
    });
    run.step("arithmetic", None, |s| msp430::arithmetic(&ctx.project, s));
    run.step("machine", None, |s| {
        machine::check(&ctx.project, ctx.long, s)
    });
    run.step("msrv", None, |s| packages::msrv(&ctx, s));
    run.step("publish", None, |s| packages::publish(&ctx, s));
    if ctx.long || chosen("choices") {
        run.step("choices", None, |s| packages::choices(&ctx, s));
    }
    run.step("sizes", None, |s| checks::sizes(&ctx, s));
    run.step("sabotage", None, |s| deep::sabotage(&ctx, s));
    run.side_by_side(vec![
        task("evaluate", deep::evaluate),
        task("boards", |s| boards::check(&ctx.project, ctx.long, s)),
        task("system-msp430", |s| {
            msp430::kills(&ctx.project, ctx.long, s)
        }),
        task("system-qemu", |s| qemu::kills(&ctx.project, ctx.long, s)),
        task("demo", |s| demo::check(&ctx.project, s)),
    ]);
    let budget = (!ctx.long).then_some(Duration::from_secs(1800));
    run.step("miri", budget, |s| deep::miri(&ctx, s));
    run.step("fuzz", None, |s| deep::fuzz(&ctx, s));
    run.step("deny", None, |s| deny::deny(&ctx, s));
    run.finish()
}

#[cfg(test)]
mod tests {
    use super::STEPS;

    #[test]
    fn every_step_can_be_chosen() {
        let source = include_str!("ci.rs");
        let source = source.replace(concat!("run.", "step("), concat!("ta", "sk("));
        let calls = source.split(concat!("ta", "sk(")).skip(1);
        let names = calls.filter_map(|c| c.split('"').nth(1));
        assert_eq!(names.collect::<Vec<_>>(), STEPS);
    }
}
