//! What is printed when a state is not survived.

use crate::build;
use crate::chain::{Bad, Cut};
use crate::engine::{self, Setup};
use crate::medium::Media;
use crate::replay::{Mark, Story};
use crate::summary::Summary;
use crate::world::Outside;
use std::fmt;
use std::fmt::Write;
use std::time::Duration;

/// A state that a power cut permits and that the program did not survive. `Display` is the report.
#[derive(Debug, Clone)]
pub struct Failure {
    report: String,
    line: Option<String>,
    cuts: usize,
    /// What was done until then.
    done: Summary,
}

impl Failure {
    /// The report, several lines.
    pub fn report(&self) -> &str {
        &self.report
    }
    /// What to set `POWERFAIL` to, to replay exactly this execution; none when no cut was needed.
    pub fn line(&self) -> Option<&str> {
        self.line.as_deref()
    }
    /// How often the power was lost.
    pub fn cuts(&self) -> usize {
        self.cuts
    }
    pub(crate) fn with_line(report: String, line: String, cuts: usize) -> Self {
        Failure {
            report,
            line: Some(line),
            cuts,
            done: Summary::default(),
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
            done: Summary::default(),
        }
    }
    pub(crate) fn after(mut self, done: Summary) -> Self {
        self.done = done;
        self
    }
    /// To the file of statistics: a cut that was not survived.
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

pub(crate) fn failure<M: Media, T: Outside>(setup: &Setup<M, T>, bad: &Bad) -> Failure {
    let name = &setup.name;
    if bad.cuts.is_empty() && setup.preempt.is_none() {
        return Failure::plain(name, &format!("without a power cut: {}", bad.what));
    }
    let marks: Vec<Mark<'_>> = bad.cuts.iter().map(Mark::Known).collect();
    let mut e = engine::engine(setup, 0);
    match e.follow(&marks, true) {
        Ok(story) => {
            let line = e.line(&story);
            tell(setup, &story, &bad.what, Some(line), "")
        }
        Err(why) => Failure::plain(
            name,
            &format!("{}; and it does not happen again: {why}", bad.what),
        ),
    }
}

/// Of a line that was replayed. Said past the capture of the test's output: a test that passes shows nothing else.
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

pub(crate) fn no_end(patience: Duration) -> String {
    format!(
        "the boot makes no end: no other one for {} s",
        patience.as_secs_f32()
    )
}

/// A boot that takes too long, told by the watchdog.
pub(crate) fn hung<M: Media, T: Outside>(
    setup: &Setup<M, T>,
    cuts: &[Cut],
    replayed: Option<&str>,
) -> String {
    let what = no_end(setup.patience);
    if let Some(line) = replayed {
        return format!("{}: in {line}: {what}", setup.name);
    }
    if cuts.is_empty() {
        return format!("{}: without a power cut: {what}", setup.name);
    }
    let marks: Vec<Mark<'_>> = cuts.iter().map(Mark::Known).collect();
    let mut e = engine::engine(setup, 0);
    match e.follow(&marks, false) {
        Ok(mut story) => {
            let line = e.line(&story);
            story.end = Err(what.clone());
            tell(setup, &story, &what, Some(line), "").report
        }
        Err(_) => format!("{}: {what}", setup.name),
    }
}

pub(crate) fn tell<M: Media, T: Outside>(
    setup: &Setup<M, T>,
    story: &Story,
    what: &str,
    line: Option<String>,
    note: &str,
) -> Failure {
    let cuts = story.steps.len();
    let mut s = String::new();
    let name = &setup.name;
    let _ = writeln!(s, "{name}: {} {what}{note}", times(cuts));
    if let Some(at) = &story.interrupt {
        let _ = writeln!(s, "  interrupt  {at}");
    }
    for (i, step) in story.steps.iter().enumerate() {
        for (k, t) in step.text.iter().enumerate() {
            let _ = match k {
                0 => writeln!(s, "  cut {}  {t}", i + 1),
                _ => writeln!(s, "         {t}"),
            };
        }
    }
    match &story.end {
        Err(again) if again == what => {}
        Err(again) => {
            let _ = writeln!(s, "  when followed again it failed otherwise: {again}");
        }
        Ok(()) => {
            let _ = writeln!(
                s,
                "  when followed again it did not fail: something outlives the reboot, or the program depends on \
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
        done: Summary::default(),
    }
}
