//! Repeats a failure in a process of its own: what a static kept in this one is not there.
//!
//! The process is this test binary, asked for this test alone. It runs the test up to the campaign that failed, passes over the
//! campaigns before it, replays the line, writes down what came of it and ends. Where any of this is not possible (no test of
//! the usual harness, a test that needs what earlier campaigns found), nothing is written down, and nothing is said.
//!
//! The replay boots the whole chain in that process, so what a boot of the chain leaves in a static for the next one is there
//! again. For that the engine compares boots of one state: twice, on another thread, and early ones once more at the end.

use std::cell::Cell;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// `POWERFAIL_FRESH`: in that process `number@file`, what to repeat and where to write; `0` turns this off.
const ASKED: &str = "POWERFAIL_FRESH";

/// What came of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Came {
    /// The same executions, and the same failure.
    Failed,
    /// The same executions up to the last cut, and the boot after it survives.
    Survived,
    /// Not the same executions.
    Elsewhere,
}

const SAID: [(Came, &str); 3] = [
    (Came::Failed, "failed"),
    (Came::Survived, "survived"),
    (Came::Elsewhere, "elsewhere"),
];

/// In that process: which campaign to repeat.
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

    /// Ends the process.
    pub(crate) fn done(&self, came: Came) -> ! {
        let word = SAID.iter().find(|s| s.0 == came).map_or("", |s| s.1);
        // Without it, the other process takes it that this one came to nothing.
        let _ = std::fs::write(&self.file, word);
        std::process::exit(0)
    }
}

/// The how-many-th campaign of this thread, and so of this test, this one is.
pub(crate) fn next_number() -> u32 {
    thread_local!(static CAMPAIGNS: Cell<u32> = const { Cell::new(0) });
    CAMPAIGNS.set(CAMPAIGNS.get() + 1);
    CAMPAIGNS.get()
}

/// Repeats `line` of campaign `number`; `None` when that is not possible.
pub(crate) fn repeat(line: &str, number: u32, patience: Duration) -> Option<Came> {
    if cfg!(miri) || std::env::var_os(ASKED).is_some() {
        return None;
    }
    // The usual harness names the threads of tests, and cargo puts its programs there. Other programs are not started: nobody
    // knows what they would do.
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
    let ended = wait(&mut c, patience + Duration::from_secs(10));
    let said = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    ended?;
    SAID.iter().find(|s| s.1 == said).map(|s| s.0)
}

/// `None` when it has to be killed, or cannot be started.
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

/// What a report says more.
pub(crate) fn note(came: Option<Came>) -> &'static str {
    match came {
        None | Some(Came::Failed) => "",
        Some(Came::Survived) => {
            "\n  in a fresh process the same executions survive: something was kept in this process that a reboot loses \
             (a static, a thread local), and the failure may be of its making"
        }
        Some(Came::Elsewhere) => {
            "\n  a fresh process does not go the same way: something was kept in this process that a reboot loses (a static, a \
             thread local), or the test depends on chance"
        }
    }
}
