//! Steps that look for bugs by running: Miri, fuzzing.

use super::Ctx;
use super::checks::seeded;
use crate::project::{has_miri, has_program};
use crate::run::{Outcome, Step, cargo_nightly, passed};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// A package, and arguments of `cargo miri test`.
type Suite = (&'static str, &'static [&'static str]);

/// What Miri runs of each crate in CI, a part of it in each run. With `--all` all tests of each
/// crate.
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
    ("pmem-tx", &["--test", "suite", "rest::a_value"]),
    // The other models differ in the width of a unit and in fences.
    ("pmem-tx", &["--test", "suite", "misuse::in_order_32"]),
    (
        "nv-replay",
        &["--lib", "--test", "suite", "--", "tests::", "several::"],
    ),
    ("nv-replay", &["--test", "suite", "steps::a_handle"]),
    (
        "nv-replay",
        &[
            "--test",
            "suite",
            "--",
            "another_runtime",
            "its_runtime",
            "swaps_the_runtime",
        ],
    ),
    ("nv-replay", &["--test", "suite", "basic::"]),
    ("nv-replay", &["--test", "suite", "mirrored::padding::"]),
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
            "padding::",
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
/// The aliasing models: Stacked Borrows, Tree Borrows.
const MODELS: [&str; 2] = [
    "-Zmiri-disable-isolation",
    "-Zmiri-disable-isolation -Zmiri-tree-borrows",
];

/// The suites, by name.
///
/// **Errors**: none.
pub fn miri_suites(ctx: &Ctx) -> Result<Vec<String>> {
    let name = |(package, args): &Suite| format!("{package} {}", args.join(" "));
    Ok(suites(ctx.all).iter().map(name).collect())
}

/// Those of CI; or of each crate all tests.
fn suites(all: bool) -> Vec<Suite> {
    let mut suites = UNDER_MIRI.to_vec();
    if all {
        suites.dedup_by_key(|(package, _)| *package);
        // What is marked as ignored there stays so: it starts processes, or takes hours.
        // The heap behind a bus fails at each byte, in code of other crates: hours.
        for (_, args) in suites.iter_mut().filter(|s| s.0 != "spi-fram") {
            *args = &["--lib", "--tests"];
        }
    }
    suites
}

/// The tests that ran under each aliasing model. Each suite of the run's part runs under both, at
/// the same time.
pub fn miri(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() || !has_miri("nightly") {
        let how = "needs a nightly with Miri: rustup toolchain install nightly -c miri,rust-src";
        return Ok(Outcome::Skipped(how.into()));
    }
    let command = |(package, args): &Suite, flags: &str| {
        let mut c = cargo_nightly();
        c.current_dir(&ctx.project.root)
            .args(["miri", "test", "-p", package])
            .env("MIRIFLAGS", flags)
            // Otherwise insta asks cargo, and Miri starts no program.
            .env("INSTA_WORKSPACE_ROOT", &ctx.project.root)
            .env("PROPTEST_CASES", "1");
        seeded(&mut c, ctx.seed("miri"));
        // The tests of the kit itself are about what whole campaigns find, in programs of a few
        // stores.
        if !(ctx.all && *package == "powerfail") {
            c.env("POWERFAIL_THIN", "1");
        }
        c.args(*args);
        c
    };
    let mine = ctx.mine("miri", suites(ctx.all));
    let under = |flags: &str| mine.iter().map(|suite| command(suite, flags)).collect();
    let said = s.run_lists(MODELS.map(under).into())?;
    let mut tests = [0, 0];
    for (n, said) in tests.iter_mut().zip(&said) {
        for (said, what) in said {
            let ran = passed(said);
            ensure!(ran > 0, "Miri ran no test: {what}");
            *n += ran;
        }
    }
    Ok(format!(
        "{} suites; Stacked Borrows {} tests, Tree Borrows {}",
        mine.len(),
        tests[0],
        tests[1]
    )
    .into())
}

/// Inputs that each target runs: in a part of CI, and with `--all`.
const INPUTS: [u64; 2] = [4_000, 400_000];
/// A target that needs so many seconds for one input hangs.
const HANGS: u32 = 600;

/// The fuzz targets, by name.
///
/// **Errors**: the manifest of fuzz/ cannot be read.
pub fn fuzz_targets(ctx: &Ctx) -> Result<Vec<String>> {
    let manifest = std::fs::read_to_string(ctx.project.root.join("fuzz/Cargo.toml"))?;
    let manifest: toml::Table = manifest.parse()?;
    let bins = manifest.get("bin").and_then(|b| b.as_array());
    let bins = bins.context("fuzz/Cargo.toml has no target")?;
    let name = |bin: &toml::Value| Some(bin.get("name")?.as_str()?.to_owned());
    Ok(bins.iter().filter_map(name).collect())
}

/// Each target of the run's part on so many inputs, from seeds that the target itself makes.
pub fn fuzz(ctx: &Ctx, s: &Step) -> Result<Outcome> {
    if ctx.nightly.is_none() || !has_program("cargo-fuzz") {
        let how =
            "needs a nightly and cargo-fuzz: cargo install cargo-fuzz --version 0.13.2 --locked";
        return Ok(Outcome::Skipped(how.into()));
    }
    let dir = ctx.project.root.join("fuzz");
    let target_dir = ctx.project.target.join("fuzz");
    let fuzz = |args: &[&str]| -> Command {
        let mut c = cargo_nightly();
        c.current_dir(&dir).arg("fuzz").args(args);
        c
    };
    let mine = ctx.mine("fuzz", fuzz_targets(ctx)?);
    ensure!(!mine.is_empty(), "no fuzz target");
    let inputs = INPUTS[usize::from(ctx.all)];
    let mut built = Vec::new();
    for name in &mine {
        let mut c = fuzz(&["build", "--target-dir"]);
        c.arg(&target_dir).arg(name);
        built.push(c);
    }
    s.run_lists(vec![built])?;
    // Two at a time: each has a thread.
    for names in mine.chunks(2) {
        let mut runs = Vec::new();
        for name in names {
            let corpus = target_dir.join("corpus").join(name);
            // What an earlier run has found would make this run another one.
            let _ = std::fs::remove_dir_all(&corpus);
            std::fs::create_dir_all(&corpus)?;
            let mut c = fuzz(&["run", "--target-dir"]);
            // The target writes its seeds there before the fuzzer looks.
            c.env("RELUME_SEEDS", &corpus);
            // What failed and the input are lost in a long report.
            c.env("RUST_BACKTRACE", "0");
            c.arg(&target_dir).arg(name).arg(&corpus);
            // The fuzzer takes a seed of 32 bits, and 0 for a clock.
            let seed = ctx.seed(name) as u32 | 1;
            c.arg("--").args([
                &format!("-runs={inputs}"),
                &format!("-seed={seed}"),
                "-print_final_stats=1",
                "-max_len=2200",
                "-rss_limit_mb=4096",
                &format!("-timeout={HANGS}"),
            ]);
            runs.push(c);
        }
        let said = s.run_all(runs).with_context(|| names.join(" and "))?;
        for (name, said) in names.iter().zip(said) {
            let runs = executions(&said)
                .with_context(|| format!("{name}: no count of executions in what it printed"))?;
            if runs < inputs {
                bail!("{name}: {runs} inputs, {inputs} are required");
            }
        }
    }
    Ok(format!("{inputs} inputs each: {}", mine.join(", ")).into())
}

/// How many inputs a fuzzer says that it has run.
fn executions(said: &str) -> Option<u64> {
    let mut lines = said.lines();
    lines.find_map(|l| {
        let n = l.strip_prefix("stat::number_of_executed_units:")?;
        n.trim().parse().ok()
    })
}
