//! Generated programs: campaigns whose programs come from a seed and are judged by a model. They
//! are the module `generated` of a crate's suite.
//!
//! `cargo xtask test` makes a few, the same in each run. The step `generated` of `cargo xtask ci`
//! makes more of some crates, from the commit's seed, and with `--all` many more of each. `cargo
//! xtask sabotage --generated` tells which planted bugs they notice alone.

use crate::ci::{Ctx, seeded};
use crate::project::Project;
use crate::run::{Outcome, Step};
use crate::stats::{self, Counts};
use crate::test_program;
use anyhow::{Context, Result, ensure};
use std::process::Command;

/// A crate whose suite generates programs.
pub struct Generates {
    /// Its name.
    pub package: &'static str,
    /// The part of the keys of its figures: `generated.KEY.cuts`.
    pub key: &'static str,
    /// How many items of the step it is. Each has a seed of its own.
    rounds: u32,
    /// How many times the programs of `cargo xtask test` a round makes, and with `--all`.
    times: [u32; 2],
}

/// How many times the programs of `cargo xtask test` a round of a crate makes.
pub fn times(package: &str) -> u32 {
    let found = ALL.iter().find(|g| g.package == package);
    found.map_or(1, |g| g.times[0])
}

const fn generates(
    package: &'static str,
    key: &'static str,
    rounds: u32,
    times: [u32; 2],
) -> Generates {
    Generates {
        package,
        key,
        rounds,
        times,
    }
}

/// All of them. The rounds of the kernel make a million cuts together, those of each other crate
/// over 100,000, and with `--all` a hundred million.
pub const ALL: &[Generates] = &[
    generates("nv-rtos", "rtos", 6, [8, 60]),
    generates("nv-mirror", "mirror", 1, [4, 200]),
    generates("nv-device", "device", 1, [1, 150]),
    generates("checkpoint", "log", 1, [4, 100]),
    generates("nvmem", "nvmem", 1, [4, 100]),
    generates("nv-replay", "replay", 1, [1, 100]),
    generates("vnv-heap", "heap", 1, [4, 100]),
];

/// The rounds of all crates, in order.
fn rounds() -> impl Iterator<Item = (&'static Generates, u32)> {
    ALL.iter().flat_map(|g| (1..=g.rounds).map(move |n| (g, n)))
}

/// The name of a round. Its seed comes from it, too.
fn name((g, n): (&Generates, u32)) -> String {
    format!("{} {n}", g.package)
}

/// The names of the rounds.
pub fn items(_: &Ctx) -> Result<Vec<String>> {
    Ok(rounds().map(name).collect())
}

/// The step of `cargo xtask ci`: the rounds of the run's part.
pub fn check(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    let mine = ctx.mine("generated", rounds());
    let mut said = Vec::new();
    for round in &mine {
        let name = name(*round);
        let times = round.0.times[usize::from(ctx.all)];
        let counts = programs(&ctx.project, s, round.0.package, times, ctx.seed(&name))?;
        said.push(format!(
            "{name}: {} programs, {} cuts",
            counts.programs, counts.cuts
        ));
    }
    Ok(said.join("; ").into())
}

/// Runs the generated programs of a crate.
///
/// **Errors**: one of them fails, or there are none.
pub fn programs(
    project: &Project,
    s: &Step,
    package: &str,
    times: u32,
    seed: u64,
) -> Result<Counts> {
    campaigns(project, s, package, "generated::", |c| {
        seeded(c, seed);
        c.env("GENERATED_PROGRAMS", times.to_string())
            .env("GENERATED_SEED", seed.to_string());
    })
}

/// Runs the campaigns of a crate's suite whose names contain this. `set` sets more variables.
///
/// **Errors**: one of them fails, or there are none.
pub fn campaigns(
    project: &Project,
    s: &Step,
    package: &str,
    of: &str,
    set: impl FnOnce(&mut Command),
) -> Result<Counts> {
    let file = project
        .target
        .join(format!("xtask/campaigns-{package}.txt"));
    let _ = std::fs::remove_file(&file);
    let built = test_program::build(project, s, None, ["suite"])?;
    let suite = built.iter().find(|b| b.package == package);
    let suite = suite.with_context(|| format!("{package} has no suite"))?;
    let mut c = Command::new(&suite.program);
    suite.as_cargo_runs_it(project, &mut c);
    c.arg(of).env("POWERFAIL_STATS", &file);
    set(&mut c);
    s.run(c)?;
    let counts = stats::read(&file)?;
    ensure!(counts.cuts > 0.0, "{package} has no campaign of {of}");
    Ok(counts)
}
