//! `cargo xtask demo`: the examples that show what Relume does.
//!
//! The arguments are read here, not only by the example: a wrong one is refused before the example
//! is compiled.

mod checkpoint;

use crate::project::Project;
use crate::run::{Outcome, Step, cargo};
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Shows an example that survives thousands of power cuts
///
/// Without a name it is `activity`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    demo: Option<Demo>,
    #[command(flatten)]
    activity: Activity,
}

#[derive(clap::Subcommand)]
enum Demo {
    /// Recognises activities in motion recordings (pmem-tx and nv-replay)
    Activity(Activity),
    /// Logs a year of temperatures into a heap 16 times as large as its RAM (vnv-heap)
    Heap(Heap),
    /// Runs an ordinary program in an emulated Cortex-M4, in every mode of checkpoints (checkpoint)
    Checkpoint(Checkpoint),
    /// Runs a node of three async tasks under embassy, on flash (nv-replay and nv-mirror)
    Async(Node),
    /// Runs a sensor node with unmodified drivers on harvested energy (nv-device)
    Node(Wsn),
    /// Loads temperatures into a table by a pipeline of five threads (nv-rtos)
    Rtos(Pipeline),
}

/// Where an example writes its figures.
#[derive(clap::Args)]
struct Json {
    /// Write the figures here, as one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Activity {
    /// Recordings to learn from; those of examples/activity if not given
    #[arg(long, value_name = "CSV")]
    train: Option<PathBuf>,
    /// Recordings to recognise; alone, it trains on the whole default file
    #[arg(long, value_name = "CSV")]
    recognize: Option<PathBuf>,
    /// Cut the power after every N stores; may be given several times
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    cut_every: Vec<u64>,
    #[command(flatten)]
    json: Json,
    /// Draw the timeline of recognised activities, with the cuts marked
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Heap {
    /// What is logged: hour,tenths_f; the file of examples/logger if not given
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Commit every N values
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    commit_every: Option<u32>,
    /// Seed of the random times at which the power goes
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    json: Json,
}

#[derive(clap::Args)]
struct Checkpoint {
    /// Queens to place
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(4..=11))]
    queens: Option<u8>,
    /// How long the power lasts on average, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(1..))]
    period: Option<u32>,
    /// Seed of the random lengths
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    json: Json,
}

#[derive(clap::Args)]
struct Node {
    /// Windows of eight readings that are measured, averaged and sent
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    windows: Option<u32>,
    /// Seed of the random times at which the power goes
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    #[command(flatten)]
    json: Json,
    /// Draw where each task was, with the cuts marked
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Wsn {
    /// Seed of the generated trace of energy
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Instead of the trace: every life lasts so many milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u32).range(2..=100_000))]
    on_time: Option<u32>,
    #[command(flatten)]
    json: Json,
    /// Draw the lives, with what they did
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

#[derive(clap::Args)]
struct Pipeline {
    /// What the sensors read: hour,tenths_f; the file of examples/logger if not given
    #[arg(long, value_name = "CSV")]
    data: Option<PathBuf>,
    /// Records, each of two hours
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4000))]
    rounds: Option<u32>,
    #[command(flatten)]
    json: Json,
    /// Draw how far each thread was, with the cuts marked
    #[arg(long, value_name = "SVG")]
    plot: Option<PathBuf>,
}

/// The command line of an example.
#[derive(Default)]
struct Line(Vec<OsString>);

impl Line {
    fn with<T: Into<OsString>>(mut self, name: &str, values: impl IntoIterator<Item = T>) -> Self {
        for value in values {
            self.0.extend([name.into(), value.into()]);
        }
        self
    }
}

impl Activity {
    fn line(self) -> Line {
        Line::default()
            .with("--train", self.train)
            .with("--recognize", self.recognize)
            .with("--cut-every", self.cut_every.iter().map(u64::to_string))
            .with("--json", self.json.json)
            .with("--plot", self.plot)
    }
}

impl Heap {
    fn line(self) -> Line {
        Line::default()
            .with("--data", self.data)
            .with("--commit-every", self.commit_every.map(|n| n.to_string()))
            .with("--seed", self.seed.map(|n| n.to_string()))
            .with("--json", self.json.json)
    }
}

impl Checkpoint {
    fn line(self) -> Line {
        Line::default()
            .with("--queens", self.queens.map(|n| n.to_string()))
            .with("--period", self.period.map(|n| n.to_string()))
            .with("--seed", self.seed.map(|n| n.to_string()))
            .with("--json", self.json.json)
    }
}

impl Node {
    fn line(self) -> Line {
        Line::default()
            .with("--windows", self.windows.map(|n| n.to_string()))
            .with("--seed", self.seed.map(|n| n.to_string()))
            .with("--json", self.json.json)
            .with("--plot", self.plot)
    }
}

impl Wsn {
    fn line(self) -> Line {
        Line::default()
            .with("--seed", self.seed.map(|n| n.to_string()))
            .with("--on-time", self.on_time.map(|n| n.to_string()))
            .with("--json", self.json.json)
            .with("--plot", self.plot)
    }
}

impl Pipeline {
    fn line(self) -> Line {
        Line::default()
            .with("--data", self.data)
            .with("--rounds", self.rounds.map(|n| n.to_string()))
            .with("--json", self.json.json)
            .with("--plot", self.plot)
    }
}

/// Folder, package and program of an example.
const ACTIVITY: [&str; 3] = ["examples/activity", "example-activity", "activity"];
const NODE: [&str; 3] = ["examples/node", "example-node", "node"];
/// Of the lab: it repeats a benchmark of a paper.
const WSN: [&str; 3] = ["lab/wsn", "lab-wsn", "wsn"];
const LOGGER: [&str; 3] = ["examples/logger", "example-logger", "logger"];

const PIPELINE: [&str; 3] = ["examples/pipeline", "example-pipeline", "pipeline"];

pub fn run(a: Args) -> Result<()> {
    match a.demo.unwrap_or(Demo::Activity(a.activity)) {
        Demo::Activity(a) => start(ACTIVITY, a.line()),
        Demo::Heap(a) => start(LOGGER, a.line()),
        Demo::Async(a) => start(NODE, a.line()),
        Demo::Node(a) => start(WSN, a.line()),
        Demo::Rtos(a) => start(PIPELINE, a.line()),
        Demo::Checkpoint(a) => checkpoint::run(&Project::load()?, &a.line().0),
    }
}

fn start([folder, package, program]: [&str; 3], line: Line) -> Result<()> {
    let mut project = Project::load()?;
    if folder.starts_with("lab/") {
        project = project.lab()?;
    }
    if project.package(package).is_none() {
        bail!("this checkout has no {folder} (package {package})");
    }
    let mut c = cargo();
    c.args(["run", "--release"]);
    if !std::io::stderr().is_terminal() {
        c.arg("--quiet");
    }
    // In the folder in which this was called: paths among the arguments are relative to it.
    c.arg("--manifest-path")
        .arg(project.root.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&project.target)
        .args(["--package", package, "--bin", program, "--"])
        .args(line.0);
    let status = c.status()?;
    std::process::exit(status.code().unwrap_or(1));
}

/// The step of `cargo xtask ci`: the tasks and the threads, a short run of each, and the
/// checkpoints. The other examples have tests that run them.
pub fn check(project: &Project, s: &Step) -> Result<Outcome> {
    let tasks = short(project, NODE, "--windows=300", "async_demo", s)?;
    let threads = short(project, PIPELINE, "--rounds=150", "rtos_demo", s)?;
    Ok(match checkpoint::check(project, s)? {
        Outcome::Passed(said) => Outcome::Passed(format!(
            "three async tasks, {tasks} cuts, five threads, {threads} cuts, identical; {said}"
        )),
        skipped => skipped,
    })
}

/// Cuts that CI must see.
const CUTS: f64 = 300.0;

/// Runs an example, and returns how often the power was cut.
///
/// **Errors**: too rarely, or a run with cuts was another one.
fn short(
    project: &Project,
    [_, package, program]: [&str; 3],
    length: &str,
    key: &str,
    s: &Step,
) -> Result<f64> {
    let json = project.target.join(format!("xtask/{key}.json"));
    let _ = std::fs::remove_file(&json);
    let mut c = cargo();
    c.current_dir(&project.root)
        .args(["run", "--release", "--quiet", "--package", package])
        .args(["--bin", program, "--", length, "--json"])
        .arg(&json);
    s.run(c)?;
    let figures = crate::figures::read(&json)?;
    let of = |name: &str| {
        let found = figures.get(&format!("{key}.{name}")).copied();
        found.with_context(|| format!("no {key}.{name}"))
    };
    let cuts = of("cuts")?;
    ensure!(cuts >= CUTS, "{cuts} cuts, at least {CUTS} are required");
    ensure!(of("identical")? == 1.0, "a run with cuts differs");
    Ok(cuts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        let words = std::iter::once("demo").chain(line.split_whitespace());
        Cli::try_parse_from(words)
            .map(|c| c.args)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_wrong_argument_is_refused_with_the_choices() {
        let refused = |line: &str| parse(line).err().unwrap_or_default();
        assert!(refused("nonsense").contains("nonsense"));
        assert!(refused("heap --queens 8").contains("--queens"));
        assert!(refused("checkpoint --queens 12").contains("4..=11"));
        assert!(refused("--cut-every 0").contains("1.."));
        assert!(refused("--seed 1").contains("--seed"));
    }

    #[test]
    fn arguments_reach_the_example() {
        let a = parse("--cut-every 100 --cut-every=30 --json a.json").unwrap();
        assert!(a.demo.is_none());
        let words = [
            "--cut-every",
            "100",
            "--cut-every",
            "30",
            "--json",
            "a.json",
        ];
        assert_eq!(a.activity.line().0, words);
        let Some(Demo::Heap(heap)) = parse("heap --seed 7 --commit-every 2").unwrap().demo else {
            panic!("not the heap");
        };
        assert_eq!(heap.line().0, ["--commit-every", "2", "--seed", "7"]);
        let Some(Demo::Checkpoint(c)) = parse("checkpoint --queens 8").unwrap().demo else {
            panic!("not checkpoints");
        };
        assert_eq!(c.line().0, ["--queens", "8"]);
        let Some(Demo::Node(n)) = parse("node --on-time 42 --seed 3").unwrap().demo else {
            panic!("not the node");
        };
        assert_eq!(n.line().0, ["--seed", "3", "--on-time", "42"]);
        let Some(Demo::Async(a)) = parse("async --windows 9 --plot a.svg").unwrap().demo else {
            panic!("not the tasks");
        };
        assert_eq!(a.line().0, ["--windows", "9", "--plot", "a.svg"]);
        let Some(Demo::Rtos(a)) = parse("rtos --rounds 9 --data a.csv").unwrap().demo else {
            panic!("not the threads");
        };
        assert_eq!(a.line().0, ["--data", "a.csv", "--rounds", "9"]);
    }
}
