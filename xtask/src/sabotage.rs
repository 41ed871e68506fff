//! `cargo xtask sabotage`: planted bugs that the suites must catch.

mod list;
mod trial;

use crate::ci::Ctx;
use crate::generated::times;
use crate::project::Project;
use crate::run::{Outcome, Step, bar};
use anyhow::{Context, Result, bail, ensure};
use list::Bug;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use trial::End;

/// Crates that must plant at least this many bugs each.
const AT_LEAST: [(&str, usize); 12] = [
    ("nvmem", 10),
    ("pmem-tx", 10),
    ("nv-replay", 10),
    ("nv-mirror", 12),
    ("nv-rtos", 15),
    ("nv-device", 12),
    ("spi-fram", 5),
    ("i2c-fram", 5),
    ("nvlist", 10),
    ("vnv-heap", 15),
    ("checkpoint", 10),
    ("powerfail", 10),
];

/// Plants known bugs, one at a time; the tests must catch each
///
/// The bugs are those of crates/*/sabotage.txt. The tests are built once, and a bug is selected at
/// run time. The test that catches a bug must pass without it.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write `<package>.planted` and `<package>.caught`, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// Only this package
    #[arg(long, value_name = "PACKAGE")]
    package: Option<String>,
    /// Only bugs whose names contain this
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
    /// Runs the generated programs alone. They must catch each bug whose line has no fourth column
    #[arg(long)]
    generated: bool,
}

/// The figures of one crate.
pub struct Score {
    /// The crate.
    pub package: String,
    /// How many bugs it plants.
    pub planted: usize,
    /// How many of them a test has noticed.
    pub caught: usize,
}

/// `cargo xtask sabotage`.
pub fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    if let Some(p) = &a.package {
        let names = AT_LEAST.map(|(name, _)| name);
        ensure!(
            names.contains(&p.as_str()),
            "no package `{p}`: one of {}",
            names.join(", ")
        );
    }
    let step = Step::alone(project.target.join("xtask/sabotage.log"), "sabotage");
    let (mut bugs, mut wrong) = list::read(&project)?;
    if a.package.is_none() && a.bug.is_none() {
        wrong.extend(too_few(&bugs));
    }
    bugs.retain(|b| {
        a.package.as_ref().is_none_or(|p| *p == b.package)
            && a.bug.as_ref().is_none_or(|n| b.name.contains(n))
    });
    let (scores, misses) = match a.generated {
        true => by_generated_programs(&project, &step, bugs, true)?,
        false => by_suites(&project, &step, &bugs, true)?,
    };
    drop(step);
    wrong.extend(misses);
    for s in &scores {
        println!(
            "{:12} {:3} planted, {:3} caught",
            s.package, s.planted, s.caught
        );
    }
    if let Some(path) = a.json {
        std::fs::write(&path, json(&scores)).with_context(|| path.display().to_string())?;
    }
    verdict(&scores, wrong)
}

/// The names of all bugs, in order.
///
/// **Errors**: a list cannot be read.
pub fn items(ctx: &Ctx) -> Result<Vec<String>> {
    let bugs = list::read(&ctx.project)?.0.into_iter();
    Ok(bugs.map(|b| b.name).collect())
}

/// The step of `cargo xtask ci`: the bugs of the run's part.
pub fn check(ctx: &Ctx, step: &Step) -> Result<Outcome> {
    let (bugs, mut wrong) = list::read(&ctx.project)?;
    wrong.extend(too_few(&bugs));
    let mine = ctx.mine("sabotage", bugs);
    let (scores, misses) = by_suites(&ctx.project, step, &mine, false)?;
    wrong.extend(misses);
    verdict(&scores, wrong)?;
    Ok(said(&scores).into())
}

/// How many of a package's bugs its generated programs alone catch. The second part of the result
/// says where the list is wrong about that.
///
/// **Errors**: a list cannot be read, or a program does not build.
pub fn generated(project: &Project, step: &Step, package: &str) -> Result<(Score, Vec<String>)> {
    let (mut bugs, _) = list::read(project)?;
    bugs.retain(|b| b.package == package);
    let (mut scores, wrong) = by_generated_programs(project, step, bugs, false)?;
    let score = scores.pop();
    Ok((
        score.with_context(|| format!("{package} plants no bug"))?,
        wrong,
    ))
}

/// For people: `package caught/planted, ...`.
fn said(scores: &[Score]) -> String {
    let each = scores
        .iter()
        .map(|s| format!("{} {}/{}", s.package, s.caught, s.planted));
    each.collect::<Vec<_>>().join(", ")
}

/// What is wrong with the number of bugs that the crates plant.
fn too_few(all: &[Bug]) -> Vec<String> {
    let planted = |package: &str| all.iter().filter(|b| b.package == package).count();
    let missing = AT_LEAST.iter().filter(|(p, least)| planted(p) < *least);
    missing
        .map(|(p, least)| format!("{p} plants {} bugs, {least} are required", planted(p)))
        .collect()
}

fn json(scores: &[Score]) -> String {
    let mut m = serde_json::Map::new();
    for s in scores {
        m.insert(format!("{}.planted", s.package), s.planted.into());
        m.insert(format!("{}.caught", s.package), s.caught.into());
    }
    format!("{:#}\n", serde_json::Value::Object(m))
}

fn verdict(scores: &[Score], mut wrong: Vec<String>) -> Result<()> {
    if scores.iter().all(|s| s.planted == 0) {
        wrong.push("no bug was planted".into());
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

/// Each bug against the tests that its line names. The second part lists those that escaped.
fn by_suites(
    project: &Project,
    step: &Step,
    bugs: &[Bug],
    verbose: bool,
) -> Result<(Vec<Score>, Vec<String>)> {
    let tried = trials(project, step, bugs, verbose)?;
    let wrong = bugs.iter().zip(&tried).filter_map(|(b, t)| match t {
        Tried::Caught => None,
        Tried::Escaped(tests) => Some(format!(
            "escaped {tests} tests: {} ({}): {}",
            b.name, b.args, b.what
        )),
    });
    Ok((scores(bugs, &tried), wrong.collect()))
}

/// The tests that are generated programs, without those that each repeat one that found something.
const GENERATED: &str = "--test suite generated:: --skip generated::found";

/// Each bug against the generated programs of its crate alone. The second part lists those that
/// escaped without a reason in their line, and the reasons that no longer hold.
fn by_generated_programs(
    project: &Project,
    step: &Step,
    mut bugs: Vec<Bug>,
    verbose: bool,
) -> Result<(Vec<Score>, Vec<String>)> {
    for b in &mut bugs {
        b.args = GENERATED.to_owned();
    }
    // Most are noticed by few programs. The others get as many as a round of CI makes.
    let mut tried = trials(project, step, &bugs, verbose)?;
    let escaped = |t: &Tried| matches!(t, Tried::Escaped(1..));
    let again: Vec<usize> = (0..bugs.len()).filter(|&i| escaped(&tried[i])).collect();
    let more: Vec<Bug> = again
        .iter()
        .map(|&i| Bug {
            times: times(&bugs[i].package),
            ..bugs[i].clone()
        })
        .collect();
    for (i, t) in again
        .into_iter()
        .zip(trials(project, step, &more, verbose)?)
    {
        tried[i] = t;
    }
    let wrong = bugs
        .iter()
        .zip(&tried)
        .filter_map(|(b, t)| match (t, &b.unseen) {
            (Tried::Escaped(0), _) => Some(format!("{} has no generated programs", b.package)),
            (Tried::Escaped(_), None) => Some(format!(
                "{}: no generated program notices it, and its line does not say why",
                b.name
            )),
            (Tried::Caught, Some(why)) => Some(format!(
                "{}: a generated program notices it, but its line says: {why}",
                b.name
            )),
            _ => None,
        });
    Ok((scores(&bugs, &tried), wrong.collect()))
}

/// What became of a bug.
enum Tried {
    Caught,
    /// So many tests passed.
    Escaped(u64),
}

/// The figures of each crate.
fn scores(bugs: &[Bug], tried: &[Tried]) -> Vec<Score> {
    let mut scores: Vec<Score> = Vec::new();
    for (b, t) in bugs.iter().zip(tried) {
        let caught = usize::from(matches!(t, Tried::Caught));
        match scores.iter_mut().find(|s| s.package == b.package) {
            Some(s) => {
                s.planted += 1;
                s.caught += caught;
            }
            None => scores.push(Score {
                package: b.package.clone(),
                planted: 1,
                caught,
            }),
        }
    }
    scores
}

/// Builds the tests, runs them with each bug, and runs what caught it without the bug.
fn trials(project: &Project, step: &Step, bugs: &[Bug], verbose: bool) -> Result<Vec<Tried>> {
    let package = bugs.first().map(|b| b.package.as_str());
    let package = package.filter(|p| bugs.iter().all(|b| b.package == *p));
    let built = trial::build(project, step, package, bugs)?;
    let work: Vec<_> = bugs
        .iter()
        .map(|b| trial::select(&built, b))
        .collect::<Result<_>>()?;
    let shown = bar(
        bugs.len() as u64,
        "{spinner} sabotage  {bar:30} {pos}/{len}  {elapsed}, {eta} left  {wide_msg}",
    );
    let ended = in_parallel(&work, |w| {
        let start = Instant::now();
        let end = trial::plant(project, &built, w)?;
        shown.inc(1);
        shown.set_message(w.bug.name.clone());
        Ok((end, start.elapsed()))
    })?;
    shown.finish_and_clear();
    // What caught a bug must pass without it. Many are caught by the same test.
    let mut same = Vec::new();
    for (end, _) in &ended {
        if let End::Caught(c) = end
            && !same.contains(&c.same)
        {
            same.push(c.same.clone());
        }
    }
    in_parallel(&same, |run| trial::without(project, step, &built, run))?;
    let tried = work.iter().zip(ended).map(|(w, (end, took))| {
        let (how, tried) = match end {
            End::Caught(c) => (c.how, Tried::Caught),
            End::Escaped(tests) => ("ESCAPED".into(), Tried::Escaped(tests)),
        };
        if verbose {
            println!("{:44} {:5.1} s  {how}", w.bug.name, took.as_secs_f32());
        }
        tried
    });
    Ok(tried.collect())
}

/// Runs `f` over the items on all cores; the results are in order.
fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    f: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|s| {
        for _ in 0..threads {
            s.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(item) = items.get(i) else { return };
                    let r = f(item);
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((i, r));
                }
            });
        }
    });
    let mut all = done.into_inner().unwrap_or_else(|e| e.into_inner());
    all.sort_by_key(|d| d.0);
    all.into_iter().map(|d| d.1).collect()
}
