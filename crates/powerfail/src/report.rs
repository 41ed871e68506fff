//! The report of a failure.

use crate::build;
use crate::chain::{Cut, FailedRun};
use crate::coroutine::STACK;
use crate::engine::{self, Setup};
use crate::replay::{CutSource, Replayed};
use crate::schedule::Schedule;
use crate::summary::Summary;
use std::fmt;
use std::fmt::Write;
use std::time::Duration;

/// A state that power cuts can leave and that the program failed on. `Display` prints the report.
#[derive(Debug, Clone)]
pub struct Failure {
    report: String,
    line: Option<String>,
    cuts: usize,
    /// The counts of the campaign until then.
    done: Box<Summary>,
}

impl Failure {
    /// The report, several lines.
    pub fn report(&self) -> &str {
        &self.report
    }
    /// The value of `POWERFAIL` that replays exactly this execution; `None` if the failure needs no
    /// cut.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }
    /// The number of power cuts.
    pub fn cuts(&self) -> usize {
        self.cuts
    }
    pub(crate) fn with_line(report: String, line: String, cuts: usize) -> Self {
        Failure {
            report,
            line: Some(line),
            cuts,
            done: Box::default(),
        }
    }
    pub(crate) fn and(mut self, more: &str) -> Self {
        self.report += more;
        self
    }
    pub(crate) fn plain(name: &str, what: &str) -> Self {
        Failure {
            report: format!("{name}: {what}"),
            line: None,
            cuts: 0,
            done: Box::default(),
        }
    }
    pub(crate) fn after(mut self, done: Summary) -> Self {
        *self.done = done;
        self
    }
    /// Appends the failure to the file of `POWERFAIL_STATS`.
    pub(crate) fn append(&self, name: &str) {
        self.done.append(name, 1);
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}
impl std::error::Error for Failure {}

fn times(cuts: usize) -> String {
    match cuts {
        0 => "without a power cut".into(),
        1 => "power lost once, and".into(),
        2 => "power lost twice, and".into(),
        n => format!("power lost {n} times, and"),
    }
}

pub(crate) fn failure(setup: &Setup, bad: &FailedRun) -> Failure {
    let name = &setup.name;
    if bad.cuts.is_empty() && setup.preempt.is_none() && bad.schedule.is_default() {
        return Failure::plain(name, &format!("without a power cut: {}", bad.what));
    }
    let sources: Vec<CutSource<'_>> = bad.cuts.iter().map(CutSource::Known).collect();
    let mut e = engine::engine(setup, 0);
    match e.follow(&sources, Some(&bad.schedule)) {
        Ok(replayed) => {
            let line = e.line(&replayed);
            build(setup, &replayed, &bad.what, Some(line), "")
        }
        Err(why) => Failure::plain(
            name,
            &format!("{}; and it does not happen when repeated: {why}", bad.what),
        ),
    }
}

/// Prints that a replayed line now survives. Bypasses the test's output capture, because a passing
/// test shows nothing else.
pub(crate) fn survives(name: &str, exact: bool) {
    let how = if exact {
        "exactly"
    } else {
        "in a program that has changed"
    };
    let _ = std::io::Write::write_all(
        &mut std::io::stderr(),
        format!("{name}: replayed {how}: survives\n").as_bytes(),
    );
}

pub(crate) fn no_end(timeout: Duration) -> String {
    format!(
        "the boot does not end: it has used more than {} s of the processor, or hangs",
        timeout.as_secs_f32()
    )
}

pub(crate) fn overflow(thread: &str) -> String {
    let kib = STACK / 1024;
    format!("thread `{thread}` has overflowed its stack of {kib} KiB")
}

/// The watchdog's report of a boot that takes too long, or has overflowed a stack.
pub(crate) fn hung(
    setup: &Setup,
    cuts: &[Cut],
    schedule: &Schedule,
    what: &str,
    replayed: Option<&str>,
) -> String {
    if let Some(line) = replayed {
        return format!("{}: in {line}: {what}", setup.name);
    }
    if cuts.is_empty() && schedule.is_default() {
        return format!("{}: without a power cut: {what}", setup.name);
    }
    let sources: Vec<CutSource<'_>> = cuts.iter().map(CutSource::Known).collect();
    let mut e = engine::engine(setup, 0);
    match e.follow(&sources, None) {
        Ok(mut replayed) => {
            replayed.schedule = schedule.clone();
            let line = e.line(&replayed);
            replayed.end = Err(what.to_owned());
            build(setup, &replayed, what, Some(line), "").report
        }
        Err(_) => format!("{}: {what}", setup.name),
    }
}

pub(crate) fn build(
    setup: &Setup,
    replayed: &Replayed,
    what: &str,
    line: Option<String>,
    note: &str,
) -> Failure {
    let cuts = replayed.steps.len();
    let mut s = String::new();
    let name = &setup.name;
    let _ = writeln!(s, "{name}: {} {what}{note}", times(cuts));
    if let Some(at) = &replayed.interrupt {
        let _ = writeln!(s, "  interrupt  {at}");
    }
    for (i, step) in replayed.steps.iter().enumerate() {
        for t in &step.preempted {
            let _ = writeln!(s, "  {t}");
        }
        for (k, t) in step.text.iter().enumerate() {
            let _ = match k {
                0 => writeln!(s, "  cut {}  {t}", i + 1),
                _ => writeln!(s, "         {t}"),
            };
        }
    }
    for t in &replayed.preempted {
        let _ = writeln!(s, "  {t}");
    }
    match &replayed.end {
        Err(again) if again == what => {}
        Err(again) => {
            let _ = writeln!(s, "  when repeated it failed differently: {again}");
        }
        Ok(()) => {
            let _ = writeln!(
                s,
                "  when repeated it did not fail: something outlives the reboot, or the program depends on \
                 time, addresses or chance"
            );
        }
    }
    if let Some(line) = &line {
        s += &build::command(line, name);
    }
    Failure {
        report: s,
        line,
        cuts,
        done: Box::default(),
    }
}
