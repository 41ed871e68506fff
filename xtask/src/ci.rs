//! `cargo xtask test` and `cargo xtask ci`: every check, in three tiers.
//!
//! ```text
//! cargo xtask test      the steps of When::Test          stable toolchain only, each push
//! cargo xtask ci        a part of the rest               chosen by the commit, before a merge
//! cargo xtask ci --all  everything, whole; --shard K/N   at night, on several machines
//! ```
//!
//! The rest is cut in two ways. A step with items (planted bugs, suites under Miri, fuzz targets,
//! scenarios of machines) does one part of them; a step without runs in one of [`TURNS`] turns.
//! [`Commit`] chooses, so the same commit gives the same run anywhere.

mod checks;
mod deep;
pub mod deny;
pub mod gates;
pub mod packages;

pub use checks::seeded;

use crate::commit::Commit;
use crate::install::Need;
use crate::project::{Project, nightly};
use crate::run::{Outcome, Run, Step, Task};
use crate::shard::Shard;
use crate::{boards, consumers, demo, generated, lab, machine, msp430, qemu, sabotage, stacks};
use anyhow::{Result, bail};

/// The checks that need nothing but the pinned toolchain and a C compiler: 20 minutes on 2 cores
#[derive(clap::Args)]
pub struct TestArgs {
    #[command(flatten)]
    chosen: Chosen,
}

/// A part of the other checks, which the commit chooses: half an hour on 2 cores
///
/// Installs what the part needs. Miri, fuzzing, planted bugs, and machine code in emulators are
/// divided into parts; of other checks each run takes those of one turn. The commit's hash decides,
/// so a commit has the same checks everywhere.
#[derive(clap::Args)]
pub struct Args {
    /// Everything, also what `cargo xtask test` does, with campaigns that are not sampled: hours
    #[arg(long)]
    all: bool,
    /// With --all: the K-th of N parts, to share the work among machines
    #[arg(long, value_name = "K/N", requires = "all")]
    shard: Option<Shard>,
    /// Prints which steps and parts the run would take, and runs nothing
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    chosen: Chosen,
}

/// What both commands have.
#[derive(clap::Args)]
struct Chosen {
    /// Only these steps, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "STEP", value_parser = names())]
    only: Vec<String>,
    /// Chooses seeds and parts as a run of this commit does [default: HEAD]
    #[arg(long, value_name = "HASH")]
    commit: Option<String>,
}

/// When a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// In `cargo xtask test`.
    Test,
    /// In each run of `cargo xtask ci`.
    Always,
    /// In each run of `cargo xtask ci`, one part in so many of its items.
    Part(u32),
    /// In the runs of `cargo xtask ci` whose turn this is, from 1 to [`TURNS`].
    Turn(u32),
    /// With `--all` only.
    All,
}

/// Steps without parts run in one of so many runs.
const TURNS: u32 = 4;

/// The names of what is divided into parts.
type Items = fn(&Ctx) -> Result<Vec<String>>;
/// What a step does.
type Does = fn(&Ctx, &Step) -> Result<Outcome>;

/// A step.
struct Def {
    name: &'static str,
    when: When,
    /// With `--all` each shard does its part of the items. Otherwise one shard does the step.
    divided: bool,
    needs: &'static [Need],
    /// What is divided into parts, by name.
    items: Option<Items>,
    does: Does,
    about: &'static str,
}

const fn step(name: &'static str, when: When, does: Does, about: &'static str) -> Def {
    Def {
        name,
        when,
        divided: false,
        needs: &[],
        items: None,
        does,
        about,
    }
}

impl Def {
    const fn needs(mut self, needs: &'static [Need]) -> Self {
        self.needs = needs;
        self
    }
    const fn divided(mut self) -> Self {
        self.divided = true;
        self
    }
    const fn of(mut self, items: Items) -> Self {
        self.items = Some(items);
        self.divided()
    }
}

/// What the firmware of boards needs.
const QEMU: &[Need] = &[Need::Targets, Need::Nightly, Need::Qemu];
/// What scenarios as machine code need.
const RIG: &[Need] = &[Need::Targets, Need::Nightly, Need::Rig, Need::Qemu];
/// What the lab needs.
const LAB: &[Need] = &[
    Need::Nightly,
    Need::Qemu,
    Need::Mspdebug,
    Need::Valgrind,
    Need::Rig,
];

/// All steps. A run begins with the first and the last ones at the same time: those at the front
/// share target/debug, those at the end build in folders of their own, the longest last.
#[rustfmt::skip] // a table
const STEPS: &[Def] = &[
    step("fmt", When::Test, checks::fmt, "formatting"),
    step("docs-check", When::Test, checks::links,
        "links, names and figures in documents and sources"),
    step("test", When::Test, checks::tests,
        "tests of all packages, with samples of their campaigns; with --all whole campaigns")
        .divided(),
    step("doctest", When::Test, checks::doctests,
        "code blocks of rustdoc and of the documents"),
    step("clippy", When::Test, checks::clippy,
        "clippy with the default features and with all"),
    step("figures", When::Test, gates::on_a_host,
        "gated figures that a host and the stable toolchain give")
        .needs(&[Need::Targets]),
    step("bare", When::Test, checks::bare,
        "crates and examples on the bare targets")
        .needs(&[Need::Targets]),
    step("examples", When::Test, consumers::check_first,
        "first examples of the READMEs and the guide, each in a package of its own"),

    step("sabotage", When::Part(5), sabotage::check,
        "planted bugs, each of which a suite must notice")
        .of(sabotage::items),
    step("generated", When::Part(6), generated::check,
        "generated programs, judged by models")
        .of(generated::items),
    step("rustdoc", When::Turn(1), checks::rustdoc,
        "pages of the published crates: links, and errors of functions"),
    step("media", When::Turn(1), checks::media,
        "programs of the suites on the media that `cargo xtask test` leaves out"),
    step("features", When::Turn(2), checks::features,
        "clippy with each feature alone"),
    step("demo", When::Turn(4), |ctx, s| demo::check(&ctx.project, s),
        "short runs of the demos")
        .needs(&[Need::Nightly, Need::Rig]),
    step("crosscheck", When::Turn(2), crosscheck,
        "the MSP430's emulator against mspdebug's simulator")
        .needs(&[Need::Nightly, Need::Mspdebug]),
    step("arithmetic", When::Turn(2), |ctx, s| msp430::arithmetic(&ctx.project, s),
        "arithmetic of the MSP430's images against the host's")
        .needs(&[Need::Nightly]),
    step("system-msp430", When::Turn(3),
        |ctx, s| msp430::kills(&ctx.project, ctx.all, s, ctx.seed("system-msp430")),
        "whole systems on an MSP430, killed at seeded instructions")
        .needs(&[Need::Nightly]),
    step("system-qemu", When::Turn(3),
        |ctx, s| qemu::kills(&ctx.project, ctx.all, s, ctx.seed("system-qemu")),
        "whole systems in QEMU, killed at seeded instructions")
        .needs(&[Need::Nightly, Need::Qemu]),
    step("stacks", When::Turn(2), |ctx, s| stacks::check(&ctx.project, s),
        "overflows of threads' stacks, on each kind of guard")
        .needs(QEMU),
    step("sizes", When::Turn(1), checks::sizes,
        "what each crate adds to a program, on each target")
        .needs(&[Need::Targets, Need::Nightly]),
    step("msp430", When::Turn(2), checks::msp430,
        "crates for MSP430")
        .needs(&[Need::Nightly]),
    step("choices", When::All, packages::choices,
        "oldest dependencies, sets of features, unused dependencies")
        .needs(&[Need::Nightly, Need::Choices]),
    step("deny", When::Turn(1), deny::deny,
        "licences and sources of dependencies")
        .needs(&[Need::CargoDeny]),
    step("msrv", When::Turn(2), packages::msrv,
        "the oldest compiler")
        .needs(&[Need::Oldest]),
    step("publish", When::Turn(1), packages::publish,
        "each crate built from its package"),
    step("consumers", When::Turn(4), |ctx, s| consumers::check(&ctx.project, s),
        "each step of the guide and of the READMEs as a new user does it"),
    step("boards", When::Turn(3),
        |ctx, s| boards::check(&ctx.project, ctx.all, s, ctx.seed("boards")),
        "firmware of boards; some runs in QEMU and is reset at seeded instructions")
        .needs(QEMU),
    step("lab", When::All, lab::check,
        "tests of the lab, and its scenarios on all machines")
        .needs(LAB),
    step("evaluate", When::All, |_, s| crate::evaluate::check(s),
        "all figures that are the same on every computer")
        .needs(LAB),

    step("fuzz", When::Part(4), deep::fuzz, "hostile images")
        .of(deep::fuzz_targets)
        .needs(&[Need::Nightly, Need::CargoFuzz]),
    step("miri", When::Part(6), deep::miri,
        "suites under Stacked Borrows and under Tree Borrows")
        .of(deep::miri_suites)
        .needs(&[Need::Nightly, Need::Miri]),
    step("figures-machine", When::Always, gates::on_machines,
        "gated figures of machine code")
        .needs(RIG),
    step("machine", When::Part(6), machine::check,
        "scenarios as machine code, cut at every instruction")
        .of(machine::items)
        .needs(RIG),
];

/// Random programs and the scenarios against mspdebug, and the emulator's tests that use it.
fn crosscheck(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    checks::with_tools(ctx, s, "crosscheck::")?;
    msp430::crosscheck(&ctx.project, ctx.all, s, ctx.seed("crosscheck"))
}

/// Accepts the names of the steps.
fn names() -> clap::builder::PossibleValuesParser {
    STEPS.iter().map(|s| s.name).collect::<Vec<_>>().into()
}

/// What the steps share.
pub struct Ctx {
    pub project: Project,
    pub nightly: Option<String>,
    pub commit: Commit,
    /// Nothing is left out.
    pub all: bool,
    shard: Option<Shard>,
}

impl Ctx {
    /// Of the workspace. `all`: nothing is left out.
    ///
    /// **Errors**: cargo does not understand a manifest.
    pub fn load(all: bool) -> Result<Self> {
        let project = Project::load()?;
        Ok(Ctx {
            nightly: nightly(),
            commit: Commit::head(&project.root),
            project,
            all,
            shard: None,
        })
    }

    /// The part of a step's items that this run does.
    pub fn part(&self, step: &str) -> Shard {
        let def = STEPS.iter().find(|d| d.name == step);
        match def.map(|d| d.when) {
            Some(When::Part(of)) if !self.all => self.commit.part(step, of),
            _ => self.shard.unwrap_or(Shard::WHOLE),
        }
    }

    /// The items of a step that this run does, by number.
    pub fn mine<T>(&self, step: &str, items: impl IntoIterator<Item = T>) -> Vec<T> {
        let part = self.part(step);
        let all = items.into_iter().enumerate();
        all.filter_map(|(i, item)| part.takes(i).then_some(item))
            .collect()
    }

    /// The seed of a step.
    pub fn seed(&self, step: &str) -> u64 {
        self.commit.seed(step)
    }
}

/// Which command was typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tier {
    Test,
    Rest,
    All,
}

/// Whether a run of this tier takes a step; `only` names the steps that were asked for.
fn takes(def: &Def, tier: Tier, ctx: &Ctx, only: &[String]) -> bool {
    if !only.is_empty() {
        return only.iter().any(|o| o == def.name);
    }
    match tier {
        Tier::Test => def.when == When::Test,
        Tier::Rest => match def.when {
            When::Test | When::All => false,
            When::Always | When::Part(_) => true,
            When::Turn(turn) => ctx.commit.part("turn", TURNS).part == turn,
        },
        Tier::All => match (def.divided, ctx.shard) {
            (true, _) | (_, None) => true,
            (false, Some(shard)) => shard.takes(number(def)),
        },
    }
}

/// `cargo xtask test`.
pub fn test(a: TestArgs) -> Result<()> {
    let ctx = begin(&a.chosen, false, None)?;
    let result = go(&ctx, Tier::Test, &a.chosen.only);
    println!(
        "\nNot run: Miri, fuzzing, planted bugs, machine code in emulators, boards, packages.\n\
         A part of these, which the commit chooses:  cargo xtask ci\n\
         All of these, in hours:                     cargo xtask ci --all"
    );
    result
}

/// `cargo xtask ci`.
pub fn run(a: Args) -> Result<()> {
    let ctx = begin(&a.chosen, a.all, a.shard)?;
    let tier = if a.all { Tier::All } else { Tier::Rest };
    if a.list {
        return list(&ctx, tier, &a.chosen.only);
    }
    go(&ctx, tier, &a.chosen.only)
}

fn begin(chosen: &Chosen, all: bool, shard: Option<Shard>) -> Result<Ctx> {
    let mut ctx = Ctx::load(all)?;
    ctx.shard = shard;
    if let Some(name) = &chosen.commit {
        if name.len() < 12 && name != "none" {
            bail!("--commit takes at least twelve digits of a hash");
        }
        ctx.commit = Commit::named(name);
    }
    Ok(ctx)
}

/// The command that repeats a step alone.
fn repeat(ctx: &Ctx, tier: Tier, name: &str) -> String {
    let command = match (tier, ctx.shard) {
        (Tier::Test, _) => "test".to_owned(),
        (Tier::Rest, _) => "ci".to_owned(),
        (Tier::All, None) => "ci --all".to_owned(),
        (Tier::All, Some(shard)) => format!("ci --all --shard {shard}"),
    };
    let commit = ctx.commit.short();
    format!("cargo xtask {command} --only {name} --commit {commit}")
}

fn go(ctx: &Ctx, tier: Tier, only: &[String]) -> Result<()> {
    let steps: Vec<_> = (STEPS.iter())
        .filter(|d| takes(d, tier, ctx, only))
        .collect();
    println!("commit {}", ctx.commit.said());
    for d in &steps {
        println!("takes  {}", said(d, ctx)?);
    }
    let mut needs: Vec<_> = steps.iter().flat_map(|d| d.needs).copied().collect();
    needs.sort();
    needs.dedup();
    for need in needs {
        need.install()?;
    }
    // A nightly may just have been installed.
    let ctx = &Ctx {
        project: Project::load()?,
        nightly: nightly(),
        commit: ctx.commit.clone(),
        all: ctx.all,
        shard: ctx.shard,
    };
    let mut run = Run::new(ctx.project.target.join("xtask"));
    let task = |d: &&'static Def| {
        let d = *d;
        Task {
            name: d.name,
            repeat: repeat(ctx, tier, d.name),
            does: Box::new(move |s: &Step| (d.does)(ctx, s)),
        }
    };
    run.two_at_a_time(steps.iter().map(task).collect());
    run.finish()
}

/// The most names of items that are printed for a part.
const NAMED: usize = 12;

/// A part's items, for people: how many of how many, and their names where they are few.
fn named(all: &[String], part: Shard) -> String {
    let mine = all.iter().enumerate().filter(|(i, _)| part.takes(*i));
    let mine: Vec<_> = mine.map(|(_, name)| name.as_str()).collect();
    let names = match mine.len() {
        0..=NAMED => format!(": {}", mine.join(", ")),
        _ => String::new(),
    };
    format!("part {part}, {} of {}{names}", mine.len(), all.len())
}

/// A step and its part, for people.
fn said(d: &Def, ctx: &Ctx) -> Result<String> {
    let part = ctx.part(d.name);
    Ok(match d.items {
        _ if part.of == 1 || !d.divided => d.name.to_owned(),
        None => format!("{}, part {part}", d.name),
        Some(items) => format!("{}, {}", d.name, named(&items(ctx)?, part)),
    })
}

/// `--list`: every step, whether the run takes it, and what each shard and part is.
fn list(ctx: &Ctx, tier: Tier, only: &[String]) -> Result<()> {
    println!("commit {}", ctx.commit.said());
    for d in STEPS {
        let when = match d.when {
            When::Test => "cargo xtask test".to_owned(),
            When::Always => "each ci".to_owned(),
            When::Part(of) => format!("each ci, one part in {of}"),
            When::Turn(turn) => format!("ci, turn {turn} of {TURNS}"),
            When::All => "ci --all".to_owned(),
        };
        let mark = if takes(d, tier, ctx, only) { "+" } else { " " };
        let needs: Vec<_> = d.needs.iter().map(|n| n.name()).collect();
        let needs = match needs.is_empty() {
            true => String::new(),
            false => format!("; needs {}", needs.join(", ")),
        };
        println!("{mark} {:15} {when:24} {}{needs}", d.name, d.about);
        if let Some(items) = d.items {
            let all = items(ctx)?;
            let of = parts(d, ctx);
            for part in 1..=of {
                println!("      {}", named(&all, Shard { part, of }));
            }
        } else if ctx.all && d.divided {
            println!("      each of {} shards does a part", parts(d, ctx));
        } else if let Some(shard) = ctx.shard {
            println!(
                "      shard {}/{}",
                number(d) % shard.of as usize + 1,
                shard.of
            );
        }
    }
    Ok(())
}

/// The number of a step among those that are not divided.
fn number(d: &Def) -> usize {
    let whole = STEPS.iter().filter(|w| !w.divided);
    whole.take_while(|w| w.name != d.name).count()
}

/// Into how many parts a step is divided.
fn parts(d: &Def, ctx: &Ctx) -> u32 {
    match d.when {
        When::Part(of) if !ctx.all => of,
        _ => ctx.shard.map_or(1, |s| s.of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most parts of which a run takes one. With more, sixty commits might leave one out.
    const MOST_PARTS: u32 = 6;

    /// Hashes as git makes them: forty digits, all different.
    fn hashes(n: u64) -> Vec<Commit> {
        let seed = |i: u64| Commit::named("none").seed(&i.to_string());
        (0..n)
            .map(|i| Commit::named(&format!("{:016x}{:024x}", seed(i), i)))
            .collect()
    }

    #[test]
    fn sixty_commits_in_a_row_take_every_part() {
        let all = hashes(1_000);
        let choices = STEPS.iter().filter_map(|d| match d.when {
            When::Part(of) => Some((d.name, of)),
            _ => None,
        });
        for (choice, of) in choices.chain([("turn", TURNS)]) {
            assert!((2..=MOST_PARTS).contains(&of), "{choice}");
            for window in all.windows(60) {
                let mut taken = vec![false; of as usize];
                for commit in window {
                    taken[commit.part(choice, of).part as usize - 1] = true;
                }
                assert!(!taken.contains(&false), "{choice}: {taken:?}");
            }
        }
    }

    #[test]
    fn every_turn_has_steps_and_every_step_a_turn() {
        let turns = STEPS.iter().filter_map(|d| match d.when {
            When::Turn(turn) => Some(turn),
            _ => None,
        });
        let turns: Vec<_> = turns.collect();
        assert!(turns.iter().all(|t| (1..=TURNS).contains(t)));
        assert!((1..=TURNS).all(|t| turns.contains(&t)));
    }

    #[test]
    fn shards_together_do_every_step_once() {
        let mut ctx = Ctx::load(true).unwrap();
        for d in STEPS {
            let mut taken = 0;
            for part in 1..=4 {
                ctx.shard = Some(Shard { part, of: 4 });
                taken += u32::from(takes(d, Tier::All, &ctx, &[]));
            }
            assert_eq!(taken, if d.divided { 4 } else { 1 }, "{}", d.name);
        }
    }

    #[test]
    fn what_a_newcomer_waits_for_needs_no_more_than_the_pinned_toolchain() {
        for d in STEPS.iter().filter(|d| d.when == When::Test) {
            assert!(d.needs.iter().all(|n| *n == Need::Targets), "{}", d.name);
        }
    }

    #[test]
    fn a_failed_step_is_repeated_by_a_command_that_parses() {
        let ctx = Ctx::load(false).unwrap();
        for (tier, d) in [
            (Tier::Test, "fmt"),
            (Tier::Rest, "miri"),
            (Tier::All, "lab"),
        ] {
            let line = repeat(&ctx, tier, d);
            let words = line.split(' ').skip(1);
            let parsed = <crate::Cli as clap::Parser>::try_parse_from(words);
            assert!(parsed.is_ok(), "{line}");
        }
    }
}
