//! Repeats a failure in a process of its own, where no static holds anything from earlier
//! campaigns.
//!
//! The process is this test binary, run for this test alone. It runs the test up to the failed
//! campaign, skips the campaigns before it, replays the line, writes the outcome to a file and
//! ends. Sometimes this is impossible: without the usual test harness, or in a test that needs
//! earlier campaigns' results. Then no file is written, and the report says nothing about it.
//!
//! The replay boots the whole chain in that process, so a static that one boot of the chain leaves
//! to the next is repeated, too. Against that the engine compares boots of one state: twice, on
//! another thread, and the early ones once more at the end.

use crate::monitor::HANG;
use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `POWERFAIL_FRESH`: in that process `number@file`, the campaign to repeat and the file for the
/// outcome. `0` disables repeating.
const ASKED: &str = "POWERFAIL_FRESH";

/// The outcome of the repeated failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RepeatOutcome {
    /// The same executions, with the same failure.
    Failed,
    /// The same executions up to the last cut, but the boot after it survives.
    Survived,
    /// Other executions.
    Elsewhere,
}

const SAID: [(RepeatOutcome, &str); 3] = [
    (RepeatOutcome::Failed, "failed"),
    (RepeatOutcome::Survived, "survived"),
    (RepeatOutcome::Elsewhere, "elsewhere"),
];

/// In that process: the campaign to repeat, and the file for the outcome.
pub(crate) struct Job {
    number: u32,
    file: PathBuf,
}

impl Job {
    pub(crate) fn of_this_process() -> Option<Job> {
        let asked = std::env::var(ASKED).ok()?;
        let (number, file) = asked.split_once('@')?;
        Some(Job {
            number: number.parse().ok()?,
            file: file.into(),
        })
    }

    pub(crate) fn is(&self, number: u32) -> bool {
        self.number == number
    }

    /// Writes the outcome and ends the process.
    pub(crate) fn done(&self, came: RepeatOutcome) -> ! {
        let word = SAID.iter().find(|s| s.0 == came).map_or("", |s| s.1);
        // If writing fails, the other process assumes that repeating was impossible.
        let _ = std::fs::write(&self.file, word);
        std::process::exit(0)
    }
}

/// The number of this campaign in this thread, and so in this test.
pub(crate) fn next_number() -> u32 {
    thread_local!(static CAMPAIGNS: Cell<u32> = const { Cell::new(0) });
    CAMPAIGNS.set(CAMPAIGNS.get() + 1);
    CAMPAIGNS.get()
}

/// Repeats `line` of campaign `number`; `None` if that is impossible.
pub(crate) fn repeat(line: &str, number: u32) -> Option<RepeatOutcome> {
    if cfg!(miri) || std::env::var_os(ASKED).is_some() {
        return None;
    }
    // The usual harness names the threads of tests, and cargo puts test programs there. Other
    // programs are not started, because their behaviour is unknown.
    let thread = std::thread::current();
    let test = thread.name().filter(|n| *n != "main")?;
    let program = std::env::current_exe().ok()?;
    if program.parent()?.file_name()? != "deps" {
        return None;
    }
    let id = format!("powerfail-{}-{:?}", std::process::id(), thread.id());
    let file = std::env::temp_dir().join(id.replace(['(', ')'], "-") + &number.to_string());
    let mut c = Command::new(program);
    c.args([test, "--exact", "--include-ignored", "--nocapture"])
        .env("POWERFAIL", line)
        .env(ASKED, format!("{number}@{}", file.display()))
        .env_remove("POWERFAIL_STATS")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = wait(&mut c, HANG);
    let said = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    ended?;
    SAID.iter().find(|s| s.1 == said).map(|s| s.0)
}

/// Waits for a process; `None` if it cannot be started or must be killed.
fn wait(c: &mut Command, most: Duration) -> Option<()> {
    let mut child = c.spawn().ok()?;
    let start = Instant::now();
    while child.try_wait().ok()?.is_none() {
        if start.elapsed() > most {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Some(())
}

/// The note that a report adds.
pub(crate) fn note(came: Option<RepeatOutcome>) -> &'static str {
    match came {
        None | Some(RepeatOutcome::Failed) => "",
        Some(RepeatOutcome::Survived) => {
            "\n  in a fresh process the same executions survive: this process kept something that a reboot loses \
             (a static, a thread local), and that may have caused the failure"
        }
        Some(RepeatOutcome::Elsewhere) => {
            "\n  a fresh process executes differently: this process kept something that a reboot loses (a static, a \
             thread local), or the test depends on chance"
        }
    }
}
