//! Building the test programs once, and one run of them with or without a bug.

use super::in_parallel;
use super::list::Bug;
use crate::project::Project;
use crate::run::{Step, cargo, tail};
use anyhow::{Context, Result, bail};
use serde_json::Value;
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
    /// How long the same run takes without a bug.
    sound: Duration,
}

/// What came of planting a bug.
pub enum End {
    /// By a failed test (its name), a crash, or a run that did not end.
    Caught(String),
    /// All tests passed.
    Escaped,
}

/// Builds the tests of the packages with their features `sabotage`.
pub fn build(project: &Project, step: &Step, packages: &[&str]) -> Result<Vec<Built>> {
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["test", "--no-run", "--lib", "--tests"])
        .arg("--message-format=json-render-diagnostics");
    for package in packages {
        c.args(["-p", package, "--features"])
            .arg(format!("{package}/sabotage"));
    }
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
        let package = packages.iter().find(|p| {
            project
                .package(p)
                .is_some_and(|p| p.dir.join("Cargo.toml").as_os_str() == owner)
        });
        let lib = v["target"]["kind"][0] != "test";
        built.push(Built {
            package: package.context("a test program of no package")?.to_string(),
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
fn select(built: &[Built], bug: &Bug) -> Result<(Vec<usize>, Vec<String>)> {
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
    let programs: Vec<_> = (0..built.len())
        .filter(|&i| {
            built[i].package == bug.package
                && (names.is_empty() || names.contains(&built[i].name.as_str()))
        })
        .collect();
    for n in names {
        if !programs.iter().any(|&i| built[i].name == n) {
            bail!("{}: {} has no test program `{n}`", bug.name, bug.package);
        }
    }
    Ok((programs, filter))
}

/// Runs what the bugs need without any bug: it must pass, and run at least one test.
pub fn sound<'a>(
    project: &Project,
    step: &Step,
    built: &[Built],
    bugs: &'a [Bug],
) -> Result<Vec<Work<'a>>> {
    let mut distinct: Vec<&Bug> = Vec::new();
    for bug in bugs {
        if !distinct.iter().any(|b| same_run(b, bug)) {
            distinct.push(bug);
        }
    }
    let times = in_parallel(&distinct, |bug| without(project, step, built, bug))?;
    bugs.iter()
        .map(|bug| {
            let (programs, filter) = select(built, bug)?;
            let known = distinct.iter().position(|b| same_run(b, bug));
            Ok(Work {
                bug,
                programs,
                filter,
                sound: times[known.context("a run that was not made")?],
            })
        })
        .collect()
}

fn same_run(a: &Bug, b: &Bug) -> bool {
    (&a.package, &a.args) == (&b.package, &b.args)
}

/// How long the run that must catch this bug takes without it.
fn without(project: &Project, step: &Step, built: &[Built], bug: &Bug) -> Result<Duration> {
    let what = format!("{} {}", bug.package, bug.args);
    step.says(format!("without a bug: {what}"));
    let (programs, filter) = select(built, bug)?;
    let start = Instant::now();
    let mut tests = 0;
    for i in programs {
        match trial(project, &built[i], &filter, None, Duration::from_secs(600))? {
            (Verdict::Passed(n), _) => tests += n,
            (v, said) => {
                bail!("{what} fails without a bug ({v:?})\n{}", tail(&said, 60))
            }
        }
    }
    if tests == 0 {
        bail!("{}: `{}` runs no test", bug.name, bug.args);
    }
    Ok(start.elapsed())
}

/// Runs the tests with the bug.
pub fn plant(project: &Project, built: &[Built], w: &Work) -> Result<End> {
    // Others run at the same time, and a bug may make a run longer without making it endless.
    let limit = w.sound * 8 + Duration::from_secs(20);
    for &i in &w.programs {
        match trial(project, &built[i], &w.filter, Some(&w.bug.name), limit)?.0 {
            Verdict::Passed(_) => {}
            Verdict::Failed(test) => {
                return Ok(End::Caught(format!("caught by {}::{test}", built[i].name)));
            }
            Verdict::Crashed(how) => {
                return Ok(End::Caught(format!("caught by {}, {how}", built[i].name)));
            }
            Verdict::Endless => {
                return Ok(End::Caught(format!(
                    "caught by {}, which hung",
                    built[i].name
                )));
            }
        }
    }
    Ok(End::Escaped)
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
                    .and_then(|l| l.strip_suffix(" ... FAILED"));
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
        Some(101) => Verdict::Failed("a test".into()),
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
