//! One run of a test program with or without a bug.

use super::list::Bug;
use crate::project::Project;
use crate::run::{Step, tail};
use crate::test_program::{self, TestProgram};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

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
}

/// A run that must pass without a bug.
#[derive(Clone, PartialEq)]
pub struct Same {
    program: usize,
    args: Vec<String>,
    times: u32,
}

/// Builds the programs that the bugs name, of one package or of the whole workspace.
pub fn build(
    project: &Project,
    step: &Step,
    package: Option<&str>,
    bugs: &[Bug],
) -> Result<Vec<TestProgram>> {
    let mut wanted = BTreeSet::new();
    for bug in bugs {
        let programs = programs_and_filter(bug)?.0;
        ensure!(!programs.is_empty(), "{} names no program", bug.name);
        wanted.extend(programs);
    }
    test_program::build(project, step, package, wanted)
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
pub fn select<'a>(built: &[TestProgram], bug: &'a Bug) -> Result<Work<'a>> {
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

/// The run that caught a bug, without it.
///
/// **Errors**: it fails or hangs without the bug, too, or runs no test.
pub fn without(project: &Project, step: &Step, built: &[TestProgram], run: &Same) -> Result<()> {
    let b = &built[run.program];
    let what = format!("{} {} {}", b.package, b.name, run.args.join(" "));
    step.says(format!("without a bug: {what}"));
    match trial(project, b, &run.args, run.times, None)? {
        (Verdict::Passed(0), _) => bail!("{what} runs no test"),
        (Verdict::Passed(_), _) => Ok(()),
        (v, said) => bail!("{what} fails without a bug ({v:?})\n{}", tail(&said, 60)),
    }
}

/// Runs the tests with the bug.
pub fn plant(project: &Project, built: &[TestProgram], w: &Work) -> Result<End> {
    let mut tests = 0;
    for &program in &w.programs {
        let name = &built[program].name;
        let caught = |args: &[String], how: String| {
            let args = args.to_vec();
            let times = w.bug.times;
            let same = Same {
                program,
                args,
                times,
            };
            Ok(End::Caught(Catch { same, how }))
        };
        let bug = Some(w.bug.name.as_str());
        match trial(project, &built[program], &w.filter, w.bug.times, bug)?.0 {
            Verdict::Passed(n) => tests += n,
            Verdict::Failed(test) => {
                let only = ["--exact".to_owned(), test];
                return caught(&only, format!("caught by {name}::{}", only[1]));
            }
            Verdict::Crashed(how) => {
                return caught(&w.filter, format!("caught by {name}, {how}"));
            }
            Verdict::Endless => {
                return caught(&w.filter, format!("caught by {name}, which hung"));
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

/// Seconds of processor time after which a program hangs. The longest one takes less than a tenth
/// of it without a bug. It is no time of a clock: a busy machine changes nothing.
const HANGS: u32 = 300;

/// A program that prints nothing for so long, and uses no processor time, waits for itself.
const WAITS: Duration = Duration::from_secs(1800);

/// The signals by which the system stops it: SIGXCPU, and SIGKILL a second later.
const TIME_IS_UP: [i32; 2] = [24, 9];

/// Runs one test program; stops it at the first failed test.
fn trial(
    project: &Project,
    b: &TestProgram,
    filter: &[String],
    times: u32,
    bug: Option<&str>,
) -> Result<(Verdict, String)> {
    let mut c = Command::new("sh");
    // The system stops a program that has used up its time.
    c.args(["-c", &format!("ulimit -t {HANGS}; exec \"$0\" \"$@\"")])
        .arg(&b.program);
    b.as_cargo_runs_it(project, &mut c);
    c.args(filter)
        .env("RUST_TEST_THREADS", "1")
        .env("GENERATED_PROGRAMS", times.to_string())
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
    let out = child.stdout.take().context("no standard output")?;
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = BufReader::new(out).lines().map_while(Result::ok);
        lines.map(|line| tx.send(line)).all(|sent| sent.is_ok())
    });
    let (mut said, mut passed) = (String::new(), 0);
    let early = loop {
        let line = match rx.recv_timeout(WAITS) {
            Ok(line) => line,
            Err(mpsc::RecvTimeoutError::Disconnected) => break None,
            Err(mpsc::RecvTimeoutError::Timeout) => break Some(Verdict::Endless),
        };
        said += &line;
        said.push('\n');
        if let Some(n) = line.strip_prefix("test result: ok. ") {
            let n = n.split(' ').next();
            passed = n.and_then(|n| n.parse().ok()).unwrap_or(0);
        }
        let name = line
            .strip_prefix("test ")
            .and_then(|l| l.strip_suffix(" ... FAILED"))
            .map(|l| l.strip_suffix(" - should panic").unwrap_or(l));
        if let (Some(name), Some(_)) = (name, bug) {
            break Some(Verdict::Failed(name.to_owned()));
        }
    };
    if let Some(verdict) = early {
        let _ = child.kill();
        child.wait()?;
        return Ok((verdict, said));
    }
    let status = child.wait()?;
    let verdict = match status.code() {
        Some(0) => Verdict::Passed(passed),
        None if status.signal().is_some_and(|n| TIME_IS_UP.contains(&n)) => Verdict::Endless,
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
