//! Building the test programs once, and one run of them with or without a bug.

use super::list::Bug;
use crate::project::Project;
use crate::run::{Step, cargo, tail};
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A test program.
pub struct Built {
    package: String,
    /// `lib`, or the name of the integration test.
    name: String,
    program: PathBuf,
}

/// One bug with the programs and the filter that must catch it.
pub struct Work<'a> {
    pub bug: &'a Bug,
    programs: Vec<usize>,
    filter: Vec<String>,
}

/// The result of planting a bug.
pub enum End {
    Caught(Catch),
    /// All tests passed; how many there were.
    Escaped(u64),
}

/// How a bug was noticed.
pub struct Catch {
    /// What the same program must pass without the bug.
    pub same: Same,
    /// A failed test's name, a crash, or a run that did not end.
    pub how: String,
    /// Whether it ran out of time.
    pub hung: bool,
}

/// A run that must pass without a bug.
#[derive(Clone, PartialEq)]
pub struct Same {
    program: usize,
    args: Vec<String>,
}

/// Builds the programs that the bugs name, with the features `sabotage`: of one package, or of the
/// whole workspace. Of the workspace the step `test` has built them, with the same features.
pub fn build(
    project: &Project,
    step: &Step,
    package: Option<&str>,
    bugs: &[Bug],
) -> Result<Vec<Built>> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "--no-run"])
        .arg("--message-format=json-render-diagnostics");
    let mut wanted = BTreeSet::new();
    for bug in bugs {
        let programs = programs_and_filter(bug)?.0;
        ensure!(!programs.is_empty(), "{} names no program", bug.name);
        wanted.extend(programs);
    }
    for name in wanted {
        match name {
            "lib" => c.arg("--lib"),
            name => c.args(["--test", name]),
        };
    }
    match package {
        Some(package) => c.args(["-p", package, "--features", "sabotage"]),
        None => c.args(["--workspace", "--features", &project.sabotage()]),
    };
    let mut built = Vec::new();
    for line in step.run(c)?.lines() {
        let Ok(v) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        let Some(program) = v["executable"].as_str() else {
            continue;
        };
        if v["profile"]["test"] != true {
            continue;
        }
        let owner = v["manifest_path"].as_str().unwrap_or_default();
        let mut packages = project.packages.iter();
        let package = packages.find(|p| p.dir.join("Cargo.toml").as_os_str() == owner);
        let lib = v["target"]["kind"][0] != "test";
        built.push(Built {
            package: package
                .context("a test program of no package")?
                .name
                .clone(),
            name: if lib {
                "lib".into()
            } else {
                v["target"]["name"].as_str().unwrap_or_default().into()
            },
            program: program.into(),
        });
    }
    Ok(built)
}

/// `--lib`, `--test name` (several) and a filter: which programs, and what is passed to them.
fn programs_and_filter(bug: &Bug) -> Result<(Vec<&str>, Vec<String>)> {
    let (mut names, mut filter) = (Vec::new(), Vec::new());
    let mut words = bug.args.split_whitespace();
    while let Some(w) = words.next() {
        match w {
            "--lib" => names.push("lib"),
            "--test" => names.push(words.next().context("--test without a name")?),
            "--" => {}
            w => filter.push(w.to_owned()),
        }
    }
    Ok((names, filter))
}

/// What must catch the bug.
pub fn select<'a>(built: &[Built], bug: &'a Bug) -> Result<Work<'a>> {
    let (names, filter) = programs_and_filter(bug)?;
    let programs: Vec<_> = (0..built.len())
        .filter(|&i| built[i].package == bug.package && names.contains(&built[i].name.as_str()))
        .collect();
    for n in names {
        if !programs.iter().any(|&i| built[i].name == n) {
            bail!("{}: {} has no test program `{n}`", bug.name, bug.package);
        }
    }
    Ok(Work {
        bug,
        programs,
        filter,
    })
}

/// How long the run that caught a bug takes without it.
///
/// **Errors**: it fails without the bug, too, or runs no test.
pub fn without(project: &Project, step: &Step, built: &[Built], run: &Same) -> Result<Duration> {
    let b = &built[run.program];
    let what = format!("{} {} {}", b.package, b.name, run.args.join(" "));
    step.says(format!("without a bug: {what}"));
    let start = Instant::now();
    match trial(project, b, &run.args, None, Duration::from_secs(600))? {
        (Verdict::Passed(0), _) => bail!("{what} runs no test"),
        (Verdict::Passed(_), _) => Ok(start.elapsed()),
        (v, said) => bail!("{what} fails without a bug ({v:?})\n{}", tail(&said, 60)),
    }
}

/// Runs the tests with the bug, each program for as long as `limit`.
pub fn plant(project: &Project, built: &[Built], w: &Work, limit: Duration) -> Result<End> {
    let mut tests = 0;
    for &program in &w.programs {
        let name = &built[program].name;
        let caught = |args: &[String], how: String, hung| {
            let args = args.to_vec();
            let same = Same { program, args };
            Ok(End::Caught(Catch { same, how, hung }))
        };
        let bug = Some(w.bug.name.as_str());
        match trial(project, &built[program], &w.filter, bug, limit)?.0 {
            Verdict::Passed(n) => tests += n,
            Verdict::Failed(test) => {
                let only = ["--exact".to_owned(), test];
                return caught(&only, format!("caught by {name}::{}", only[1]), false);
            }
            Verdict::Crashed(how) => {
                return caught(&w.filter, format!("caught by {name}, {how}"), false);
            }
            Verdict::Endless => {
                let how = format!("caught by {name}, which hung");
                return caught(&w.filter, how, true);
            }
        }
    }
    Ok(End::Escaped(tests))
}

/// How one program ended.
#[derive(Debug)]
enum Verdict {
    /// So many tests.
    Passed(u64),
    Failed(String),
    Crashed(String),
    Endless,
}

/// Runs one test program; stops it at the first failed test.
fn trial(
    project: &Project,
    b: &Built,
    filter: &[String],
    bug: Option<&str>,
    limit: Duration,
) -> Result<(Verdict, String)> {
    let mut c = Command::new(&b.program);
    let dir = project
        .package(&b.package)
        .map_or(&project.root, |p| &p.dir);
    c.args(filter)
        .current_dir(dir)
        .env("CARGO_MANIFEST_DIR", dir)
        .env("CARGO_PKG_NAME", &b.package)
        .env("RUST_TEST_THREADS", "1")
        .env("RUST_BACKTRACE", "0")
        .env_remove("RELUME_PLANT")
        // What finds a bug does not depend on the run.
        .env_remove("POWERFAIL_SAMPLE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(bug) = bug {
        c.env("RELUME_PLANT", bug);
    }
    let mut child = c.spawn().with_context(|| b.program.display().to_string())?;
    let (tx, rx) = mpsc::channel();
    let out = child.stdout.take().context("no standard output")?;
    std::thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if tx.send(line).is_err() {
                return;
            }
        }
    });
    let end = Instant::now() + limit;
    let (mut said, mut failed, mut passed) = (String::new(), None, 0);
    let mut late = false;
    loop {
        match rx.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                said += &line;
                said.push('\n');
                if let Some(n) = line.strip_prefix("test result: ok. ") {
                    passed = n
                        .split(' ')
                        .next()
                        .and_then(|n| n.parse().ok())
                        .unwrap_or(0);
                }
                let name = line
                    .strip_prefix("test ")
                    .and_then(|l| l.strip_suffix(" ... FAILED"))
                    .map(|l| l.strip_suffix(" - should panic").unwrap_or(l));
                if let (Some(name), Some(_)) = (name, bug) {
                    failed = Some(name.to_owned());
                    break;
                }
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                late = true;
                break;
            }
        }
    }
    if late || failed.is_some() {
        let _ = child.kill();
        child.wait()?;
        return Ok((failed.map_or(Verdict::Endless, Verdict::Failed), said));
    }
    let status = child.wait()?;
    let verdict = match status.code() {
        Some(0) => Verdict::Passed(passed),
        Some(101) if bug.is_none() => Verdict::Failed("a test".into()),
        // The test harness's own errors, a wrong argument for one, are not a catch.
        Some(n) if n < 100 => bail!(
            "{} ended with {n}\n{}",
            b.program.display(),
            tail(&said, 40)
        ),
        _ => Verdict::Crashed(status.to_string()),
    };
    Ok((verdict, said))
}
