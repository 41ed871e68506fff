//! Runs other programs quietly. Each step has a log, a time and an end: passed, failed or skipped.

use crate::project::in_ci;
use anyhow::{Context, Result, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::collections::VecDeque;
use std::fs::File;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// `cargo` as from a shell: without the variables of the cargo that runs this program.
pub fn cargo() -> Command {
    clean(Command::new("cargo"))
}

/// `cargo +nightly`.
pub fn cargo_nightly() -> Command {
    let mut c = cargo();
    c.arg("+nightly");
    c
}

fn clean(mut c: Command) -> Command {
    for (k, _) in std::env::vars_os() {
        let k = k.to_string_lossy().into_owned();
        let own = k.starts_with("CARGO_PKG_")
            || k.starts_with("CARGO_MANIFEST")
            || matches!(
                k.as_str(),
                "CARGO" | "RUSTUP_TOOLCHAIN" | "RUST_RECURSION_COUNT" | "OUT_DIR"
            );
        if own {
            c.env_remove(k);
        }
    }
    c
}

/// What a command prints on its standard output.
///
/// **Errors**: it cannot be started or fails; then its standard error is in the message.
pub fn capture(mut c: Command) -> Result<String> {
    let out = c
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", show(&c)))?;
    if !out.status.success() {
        bail!(
            "{} failed\n{}{}",
            show(&c),
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

/// The command as it would be typed.
pub fn show(c: &Command) -> String {
    let mut s = String::new();
    for (k, v) in c.get_envs() {
        if let Some(v) = v {
            s += &format!("{}='{}' ", k.to_string_lossy(), v.to_string_lossy());
        }
    }
    s += &c.get_program().to_string_lossy();
    for a in c.get_args() {
        let a = a.to_string_lossy();
        s += if a.contains([' ', '*', '$']) {
            " '"
        } else {
            " "
        };
        s += &a;
        s += if a.contains([' ', '*', '$']) { "'" } else { "" };
    }
    s
}

/// A progress bar on a terminal, nothing otherwise.
pub fn bar(len: u64, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style =
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    let bar = match len {
        0 => ProgressBar::new_spinner(),
        n => ProgressBar::new(n),
    }
    .with_style(style);
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

/// The step that is running, and its log.
pub struct Step {
    log: PathBuf,
    bar: ProgressBar,
}

impl Step {
    /// A step that reports only to the terminal.
    pub fn alone(log: PathBuf, name: &str) -> Self {
        let bar = bar(0, "{spinner} {prefix}  {elapsed}  {wide_msg}");
        bar.set_prefix(name.to_owned());
        Step { log, bar }
    }

    /// Where the output of the last command is.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Runs a command with its output in the log.
    ///
    /// **Errors**: it fails; the message ends with the end of its output.
    pub fn run(&self, c: Command) -> Result<String> {
        self.run_to(&self.log, c)
    }

    /// Runs several commands at the same time. Returns their outputs, in order.
    ///
    /// **Errors**: those of each.
    pub fn run_all(&self, commands: Vec<Command>) -> Result<Vec<String>> {
        let lists = commands.into_iter().map(|c| vec![c]).collect();
        let said = self.run_lists(lists)?.into_iter().flatten();
        Ok(said.map(|(said, _)| said).collect())
    }

    /// Runs several lists at the same time, the commands of each one after the other. Returns their
    /// outputs with the commands as typed, in order.
    ///
    /// **Errors**: those of each; the rest of its list does not run.
    pub fn run_lists(&self, lists: Vec<Vec<Command>>) -> Result<Vec<Vec<(String, String)>>> {
        let log = |i: usize| self.log.with_extension(format!("{}.log", i + 1));
        let results: Vec<_> = std::thread::scope(|s| {
            let list = |i: usize, commands: Vec<Command>| {
                let one = |c: Command| {
                    let shown = show(&c);
                    Ok((self.run_to(&log(i), c)?, shown))
                };
                commands.into_iter().map(one).collect::<Result<Vec<_>>>()
            };
            let all: Vec<_> = (lists.into_iter().enumerate())
                .map(|(i, commands)| s.spawn(move || list(i, commands)))
                .collect();
            all.into_iter().map(|t| t.join()).collect()
        });
        let flat = |r: std::thread::Result<Result<_>>| match r {
            Ok(r) => r,
            Err(_) => bail!("a thread of the runner panicked"),
        };
        results.into_iter().map(flat).collect()
    }

    fn run_to(&self, log: &Path, mut c: Command) -> Result<String> {
        let shown = show(&c);
        self.bar.set_message(shown.clone());
        if let Some(dir) = log.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = File::create(log).with_context(|| log.display().to_string())?;
        c.stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let status = c
            .status()
            .with_context(|| format!("cannot start {shown}"))?;
        let said = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
        if status.success() {
            return Ok(said);
        }
        bail!(
            "{shown}\n{}\n({status})\n{}",
            tail(&said, LAST),
            complaints(&said).join("\n")
        )
    }

    /// Says what is being done.
    pub fn says(&self, m: impl Into<String>) {
        self.bar.set_message(m.into());
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// So many lines of what a failed command printed are shown.
const LAST: usize = 40;

/// The last `n` lines.
pub fn tail(s: &str, n: usize) -> String {
    let lines: Vec<_> = s.lines().collect();
    lines[lines.len().saturating_sub(n)..].join("\n")
}

/// The most lines of [`complaints`].
const COMPLAINTS: usize = 24;

/// The lines that say what failed, wherever they stand: errors, failed tests, and panics with their
/// messages. At most the last [`COMPLAINTS`].
fn complaints(said: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let failed = line.starts_with("test ") && line.ends_with("FAILED");
        if failed || line.starts_with("error") {
            found.push(line);
        } else if line.contains("panicked at") {
            found.push(line);
            found.extend(lines.next_if(|message| !message.is_empty()));
        }
    }
    found.split_off(found.len().saturating_sub(COMPLAINTS))
}

/// How many tests passed, by the summary lines of `cargo test` in `said`.
pub fn passed(said: &str) -> u64 {
    said.lines()
        .filter_map(|l| {
            l.strip_prefix("test result: ok. ")?
                .split(' ')
                .next()?
                .parse::<u64>()
                .ok()
        })
        .sum()
}

/// How a step ended.
enum End {
    Passed,
    /// The end of what it said.
    Failed(String),
    /// Why.
    Skipped(String),
}

/// What a step returns if it did not fail.
pub enum Outcome {
    /// It ran; one remark for the table.
    Passed(String),
    /// It could not run here, which is a failure when `CI=true`.
    Skipped(String),
}

impl<S: Into<String>> From<S> for Outcome {
    fn from(s: S) -> Self {
        Outcome::Passed(s.into())
    }
}

/// A step that may run beside others.
pub struct Task<'a> {
    /// Its name for `--only` and in the table.
    pub name: &'static str,
    /// The command that repeats it alone.
    pub repeat: String,
    /// What it does.
    pub does: Work<'a>,
}

/// The work of a step.
type Work<'a> = Box<dyn FnOnce(&Step) -> Result<Outcome> + Send + 'a>;

/// The steps of a run and their ends.
pub struct Run {
    logs: PathBuf,
    bars: MultiProgress,
    steps: Vec<(String, End)>,
    start: Instant,
}

impl Run {
    /// A run with its logs in this folder.
    pub fn new(logs: PathBuf) -> Self {
        Run {
            logs,
            bars: MultiProgress::new(),
            steps: Vec::new(),
            start: Instant::now(),
        }
    }

    /// Runs the steps, two at a time: one worker takes them from the front, the other one from the
    /// back. The steps at the front share one folder of builds; those at the back have others, for
    /// which they do not wait. A failed step is reported at once, and the run goes on.
    pub fn two_at_a_time(&mut self, tasks: Vec<Task<'_>>) {
        let waiting = Mutex::new(VecDeque::from(tasks));
        let ended = Mutex::new(Vec::new());
        let worker = |from_the_front: bool| {
            loop {
                let next = {
                    let mut waiting = waiting.lock().expect("no step panics with it");
                    match from_the_front {
                        true => waiting.pop_front(),
                        false => waiting.pop_back(),
                    }
                };
                let Some(task) = next else { return };
                let name = task.name.to_owned();
                let end = self.one(task);
                let mut ended = ended.lock().expect("no step panics with it");
                ended.push((name, end));
            }
        };
        std::thread::scope(|s| {
            s.spawn(|| worker(true));
            s.spawn(|| worker(false));
        });
        let ended = ended.into_inner().expect("no step panics with it");
        self.steps.extend(ended);
    }

    fn one(&self, task: Task<'_>) -> End {
        let Task { name, repeat, does } = task;
        let mut step = Step::alone(self.logs.join(format!("{name}.log")), name);
        step.bar = self.bars.add(step.bar.clone());
        let start = Instant::now();
        let result = does(&step);
        drop(step);
        let seconds = start.elapsed().as_secs_f64();
        let (word, remark, end) = match result {
            Ok(Outcome::Passed(r)) => ("ok", r, End::Passed),
            Ok(Outcome::Skipped(r)) => ("SKIPPED", r.clone(), End::Skipped(r)),
            Err(e) => {
                let why = format!("{e:#}\n\nrepeat it alone: {repeat}");
                let end = tail(&why, COMPLAINTS + 3);
                ("FAILED", format!("\n{why}\n"), End::Failed(end))
            }
        };
        self.bars
            .suspend(|| println!("{word:>7}  {seconds:7.1} s  {name}  {remark}"));
        end
    }

    /// Prints what failed, why, and what was skipped.
    ///
    /// **Errors**: something failed, nothing ran, or a step was skipped while `CI=true`.
    pub fn finish(self) -> Result<()> {
        let mut failed = Vec::new();
        let mut skipped = Vec::new();
        let mut passed = 0;
        for (name, end) in &self.steps {
            match end {
                End::Passed => passed += 1,
                End::Failed(why) => {
                    failed.push(name.as_str());
                    println!("\n{name} failed:\n{why}");
                }
                End::Skipped(why) => skipped.push((name, why)),
            }
        }
        let minutes = self.start.elapsed().as_secs_f64() / 60.0;
        println!(
            "\n{passed} passed, {} failed, {} skipped in {minutes:.1} minutes",
            failed.len(),
            skipped.len()
        );
        for (name, why) in &skipped {
            println!("skipped: {name}: {why}");
        }
        if !failed.is_empty() {
            bail!("failed: {}", failed.join(", "));
        }
        if passed == 0 {
            bail!("no step ran");
        }
        if in_ci() && !skipped.is_empty() {
            bail!("parts were skipped, which is a failure when CI=true");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_found() {
        let said = "test a ... ok\n\
                    test b ... FAILED\n\
                    thread 'b' panicked at tests/b.rs:7:9:\n\
                    2 of 3 cuts\n\
                    note: more\n\
                    error: 1 target failed";
        let found = complaints(said);
        let all: Vec<_> = said.lines().collect();
        assert_eq!(found, [all[1], all[2], all[3], all[5]]);
        let many = "error\n".repeat(3 * COMPLAINTS);
        assert_eq!(complaints(&many).len(), COMPLAINTS);
    }
}
