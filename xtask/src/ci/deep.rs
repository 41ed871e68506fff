//! Steps that look for bugs by running: planted bugs, the figures, Miri, fuzzing.

use super::Ctx;
use crate::project::{has_miri, has_program};
use crate::run::{Outcome, Step, cargo_nightly, passed};
use crate::{evaluate, sabotage};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

pub fn sabotage(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    sabotage::check(&ctx.project, ctx.long, s)
}

pub fn evaluate(s: &Step) -> Result<Outcome> {
    evaluate::check(s)
}

/// A package, and arguments of `cargo miri test`.
type Suite = (&'static str, &'static [&'static str]);

/// What Miri runs of each crate in CI: one in [`TURNS`] in each run, those of a crate in different
/// runs. With `--long` all tests of each crate.
///
/// A campaign boots a few states at depth 1; the suites that are left out take minutes for the
/// first one.
const UNDER_MIRI: &[Suite] = &[
    (
        "nvmem",
        &[
            "--lib",
            "--test",
            "suite",
            "--",
            "tests::",
            "bounded::",
            "soundness::",
        ],
    ),
    ("nvmem", &["--test", "suite", "derive::"]),
    ("nvmem", &["--test", "derive_paths"]),
    // Where a `u64` is aligned to 4.
    (
        "nvmem",
        &[
            "--target",
            "i686-unknown-linux-gnu",
            "--test",
            "suite",
            "soundness::region",
        ],
    ),
    // The tests in a library are in modules called `tests`.
    (
        "pmem-tx",
        &["--lib", "--test", "suite", "--", "tests::", "shared::"],
    ),
    ("pmem-tx", &["--test", "suite", "preempt::threads"]),
    ("pmem-tx", &["--test", "suite", "crash::elision"]),
    ("pmem-tx", &["--test", "suite", "basic::"]),
    // The other models differ in the width of a unit and in fences.
    ("pmem-tx", &["--test", "suite", "misuse::in_order_32"]),
    (
        "nv-replay",
        &["--lib", "--test", "suite", "--", "tests::", "several::"],
    ),
    ("nv-replay", &["--test", "suite", "steps::a_handle"]),
    (
        "nv-replay",
        &["--test", "suite", "soundness::a_body_swaps_its_runtime"],
    ),
    ("nv-replay", &["--test", "suite", "basic::"]),
    (
        "vnv-heap",
        &["--test", "suite", "soundness::a_save_between"],
    ),
    ("vnv-heap", &["--test", "suite", "in_place::"]),
    ("vnv-heap", &["--test", "suite", "basic::"]),
    (
        "nvlist",
        &["--lib", "--test", "suite", "--", "tests::", "golden::"],
    ),
    ("nvlist", &["--test", "suite", "soundness::an_edited"]),
    ("nv-rtos", &["--test", "suite", "hostile::"]),
    ("checkpoint", &["--test", "suite", "images::damage"]),
    ("checkpoint", &["--test", "suite", "log::another_program"]),
    ("checkpoint", &["--test", "suite", "soundness::a_table"]),
    (
        "nv-device",
        &["--test", "suite", "--", "hostile::", "golden::"],
    ),
    (
        "nv-mirror",
        &[
            "--test",
            "suite",
            "--",
            "basic::a_pool",
            "basic::another_owner",
            "basic::an_open",
        ],
    ),
    ("powerfail", &["--test", "suite", "mapped::two_"]),
    (
        "spi-fram",
        &[
            "--test",
            "suite",
            "--",
            "bus::",
            "parts::",
            "--skip",
            "shared_bus",
        ],
    ),
    ("i2c-fram", &["--test", "suite", "--", "bus::", "parts::"]),
];
/// Runs of CI that between them take all suites.
const TURNS: usize = 5;

/// The aliasing models: Stacked Borrows, Tree Borrows.
const MODELS: [&str; 2] = [
    "-Zmiri-disable-isolation",
    "-Zmiri-disable-isolation -Zmiri-tree-borrows",
];

/// The tests that ran under each aliasing model. With `--long` each suite runs under both. In CI it
/// runs under one of them, and in another run under the other one: half of the suites under each,
/// at the same time. The time at which the run begins decides that, and which suites run.
pub fn miri(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() || !has_miri("nightly") {
        let how = "needs a nightly with Miri: rustup toolchain install nightly -c miri,rust-src";
        return Ok(Outcome::Skipped(how.into()));
    }
    let command = |package: &str, args: &[&str], flags: &str| {
        let mut c = cargo_nightly();
        c.current_dir(&ctx.project.root)
            .args(["miri", "test", "-p", package])
            .env("MIRIFLAGS", flags)
            // Otherwise insta asks cargo, and Miri starts no program.
            .env("INSTA_WORKSPACE_ROOT", &ctx.project.root)
            .env("PROPTEST_CASES", "1");
        // The tests of the kit itself are about what whole campaigns find, in programs of a few
        // stores.
        if !(ctx.long && package == "powerfail") {
            c.env("POWERFAIL_THIN", "1");
        }
        c.args(args);
        c
    };
    let mut tests = [0, 0];
    let run = std::time::UNIX_EPOCH.elapsed()?.as_secs() as usize;
    let mut suites = UNDER_MIRI.to_vec();
    if ctx.long {
        suites.dedup_by_key(|(package, _)| *package);
        // What is marked as ignored there stays so: it starts processes, or takes hours.
        // The heap behind a bus fails at each byte, in code of other crates: hours.
        for (_, args) in suites.iter_mut().filter(|s| s.0 != "spi-fram") {
            *args = &["--lib", "--tests"];
        }
    }
    let mine = |i: usize| match ctx.long {
        true => ctx.shard.is_none_or(|s| s.takes(i)),
        false => i % TURNS == run % TURNS,
    };
    let suites = suites.into_iter().enumerate();
    let suites: Vec<_> = suites.filter_map(|(i, s)| mine(i).then_some(s)).collect();
    let under = |model: usize| -> Vec<Command> {
        let its = |i: &usize| ctx.long || (i + run / TURNS) % 2 == model;
        let all = suites.iter().enumerate().filter(|(i, _)| its(i));
        all.map(|(_, (package, args))| command(package, args, MODELS[model]))
            .collect()
    };
    let said = s.run_lists(vec![under(0), under(1)])?;
    for (n, said) in tests.iter_mut().zip(&said) {
        for (said, what) in said {
            let ran = passed(said);
            ensure!(ran > 0, "Miri ran no test: {what}");
            *n += ran;
        }
    }
    let each = match ctx.long {
        true => "each suite under both of them".to_owned(),
        false => format!(
            "each suite under one of them; part {} of {TURNS}",
            run % TURNS + 1
        ),
    };
    Ok(format!(
        "Stacked Borrows {} tests, Tree Borrows {}; {each}",
        tests[0], tests[1]
    )
    .into())
}

/// Each target for 6 seconds from seeds that are made anew, and how many inputs were run.
pub fn fuzz(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() || !has_program("cargo-fuzz") {
        let how =
            "needs a nightly and cargo-fuzz: cargo install cargo-fuzz --version 0.13.2 --locked";
        return Ok(Outcome::Skipped(how.into()));
    }
    let dir = ctx.project.root.join("fuzz");
    if !dir.join("Cargo.toml").is_file() {
        return Ok(Outcome::Skipped("there is no fuzz/".into()));
    }
    let target_dir = ctx.project.target.join("fuzz");
    let fuzz = |args: &[&str]| -> Command {
        let mut c = cargo_nightly();
        c.current_dir(&dir).arg("fuzz").args(args);
        c
    };
    let mut c = fuzz(&["build", "--target-dir"]);
    c.arg(&target_dir);
    s.run(c)?;
    let seconds = if ctx.long { 600 } else { 6 };
    let listed = s.run(fuzz(&["list"]))?;
    let mut report = Vec::new();
    let mine = |(i, name)| ctx.shard.is_none_or(|s| s.takes(i)).then_some(name);
    let names: Vec<_> = (listed.split_whitespace().enumerate())
        .filter_map(mine)
        .collect();
    // Two at a time: each has a thread.
    for names in names.chunks(2) {
        let mut runs = Vec::new();
        for name in names {
            let corpus = target_dir.join("corpus").join(name);
            std::fs::create_dir_all(&corpus)?;
            let mut c = fuzz(&["run", "--target-dir"]);
            // The target writes its seeds there before the fuzzer looks.
            c.env("RELUME_SEEDS", &corpus);
            // What failed and the input are lost in a long report.
            c.env("RUST_BACKTRACE", "0");
            c.arg(&target_dir).arg(name).arg(&corpus);
            c.arg("--").args([
                &format!("-max_total_time={seconds}"),
                "-print_final_stats=1",
                "-max_len=2200",
                "-rss_limit_mb=4096",
                "-timeout=10",
            ]);
            runs.push(c);
        }
        let said = s.run_all(runs).with_context(|| names.join(" and "))?;
        for (name, said) in names.iter().zip(said) {
            let runs = executions(&said)
                .with_context(|| format!("{name}: no count of executions in what it printed"))?;
            if runs < 1000 {
                bail!("{name}: only {runs} executions in {seconds} s");
            }
            report.push(format!("{name} {runs}"));
        }
    }
    if report.is_empty() && ctx.shard.is_none() {
        bail!("fuzz/ has no target");
    }
    Ok(format!("{seconds} s each; executions: {}", report.join(", ")).into())
}

/// How many inputs a fuzzer says that it has run.
fn executions(said: &str) -> Option<u64> {
    let mut lines = said.lines();
    lines.find_map(|l| {
        let n = l.strip_prefix("stat::number_of_executed_units:")?;
        n.trim().parse().ok()
    })
}
