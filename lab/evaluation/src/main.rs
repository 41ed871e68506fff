//! `cargo xtask evaluate`: the figures that the documents show and that CI watches.

mod checkpoint;
mod devices;
mod draw;
mod generated;
mod heap;
mod holes;
mod intermittent;
mod measure;
mod merge;
mod mirror;
mod msp430;
mod plot;
mod programs;
mod report;
mod rtos;
mod threads;
mod yields;

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use xtask::figures::{Figures, json as as_json, read};
use xtask::project::Project;
use xtask::run::Step;
use xtask::shard::Shard;

/// Measures costs and speeds, and writes the tables and plots of lab/
#[derive(Parser)]
#[command(name = "cargo xtask evaluate", bin_name = "cargo xtask evaluate")]
struct Args {
    /// Only this evaluation; the documents are then left alone
    #[arg(long, value_name = "NAME", value_parser = names())]
    only: Option<String>,
    /// Measure nothing: write docs/costs.json, and the tables and plots of lab/, from the figures
    /// in this file
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Where to write the figures: one flat JSON object of `"key": number`
    #[arg(long, value_name = "PATH", required_unless_present_any = ["check", "list", "from"])]
    json: Option<PathBuf>,
    /// Only the campaigns, and only the I-th of N parts of their cuts; `--merge` adds the parts up
    #[arg(long, value_name = "I/N", conflicts_with_all = ["only", "check", "from"])]
    shard: Option<Shard>,
    /// With --only heap: the first seed of the random workloads [default: 1]
    #[arg(long, value_name = "N", requires = "only")]
    seed: Option<u64>,
    /// With --only generated: only the programs of this crate
    #[arg(long, value_name = "NAME", requires = "only", value_parser = crates())]
    package: Option<String>,
    /// Measure nothing: add up the figures of all shards, from these files
    #[arg(long, value_name = "PATH", num_args = 1.., conflicts_with_all = ["only", "check", "from", "shard"])]
    merge: Vec<PathBuf>,
    /// Compare figures that are the same on every computer with docs/costs.json; fail if one is
    /// more than 2 % worse. With --only, those of one evaluation, which --json writes. Else,
    /// with --json, write all figures with those measured now instead, and the documents
    #[arg(long)]
    check: bool,
    /// List the evaluations
    #[arg(long)]
    list: bool,
}

/// One evaluation.
struct Evaluation {
    name: &'static str,
    about: &'static str,
    /// Measures what is the same on every machine: stores, bytes, instructions.
    exact: Option<Measure>,
    measure: Measure,
}

type Measure = fn(&Project, &Step, Options) -> Result<Measured>;

/// The options of a measurement.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The part of the cuts.
    shard: Option<Shard>,
    /// The first seed of random workloads.
    seed: Option<u64>,
    /// The one crate whose generated programs run.
    package: Option<&'static str>,
}

/// What an evaluation found.
pub struct Measured {
    figures: Figures,
    /// Why it failed, if it did. The figures are shown all the same.
    wrong: Option<String>,
}

impl From<Figures> for Measured {
    fn from(figures: Figures) -> Self {
        Measured {
            figures,
            wrong: None,
        }
    }
}

const ALL: &[Evaluation] = &[
    Evaluation {
        name: "stores",
        about: "stores and bytes of each operation of pmem-tx and nv-replay",
        exact: Some(measure::stores),
        measure: measure::stores,
    },
    Evaluation {
        name: "instructions",
        about: "host instructions of an operation, by callgrind; release build without instrumentation",
        exact: Some(measure::instructions),
        measure: measure::instructions,
    },
    Evaluation {
        name: "sizes",
        about: "code, RAM and stack of small programs on a Cortex-M4, each crate's minimal one among them",
        exact: Some(measure::sizes),
        measure: measure::sizes,
    },
    Evaluation {
        name: "machine",
        about: "the rig: cuts, boots and costs of the machine code of three machines",
        exact: Some(measure::machine_costs),
        measure: measure::machine,
    },
    Evaluation {
        name: "threads",
        about: "threads that share a pool: instructions of a step and of an iteration, memory, cuts with preemptions",
        exact: Some(threads::exact),
        measure: threads::all,
    },
    Evaluation {
        name: "rtos",
        about: "calls of the kernel on a Cortex-M4: instructions and stores; RAM of a thread; cuts of its threads",
        exact: Some(rtos::exact),
        measure: rtos::all,
    },
    Evaluation {
        name: "programs",
        about: "whole programs of threads on a Cortex-M4 and an MSP430, with and without protection, with cuts, and beside IntOS",
        exact: Some(programs::exact),
        measure: programs::all,
    },
    Evaluation {
        name: "device",
        about: "calls of devices on a Cortex-M4 and an MSP430: instructions, stores, cycles; cuts of programs with drivers",
        exact: Some(devices::exact),
        measure: devices::all,
    },
    Evaluation {
        name: "mirror",
        about: "steps of nv-replay over a mirror on FRAM, MRAM and flash, beside two other crates; cuts of mirrors",
        exact: Some(mirror::exact),
        measure: mirror::all,
    },
    Evaluation {
        name: "heap",
        about: "the workloads of lab/EVALUATION.md on vnv-heap and on what it is compared with; cuts of the heap",
        exact: Some(heap::exact),
        measure: heap::all,
    },
    Evaluation {
        name: "checkpoint",
        about: "the paper's grids and real programs on simulated flash that counts: lab/EVALUATION.md; cuts of checkpoints",
        exact: Some(checkpoint::exact),
        measure: checkpoint::all,
    },
    Evaluation {
        name: "holes",
        about: "probes of memory safety, preempted transactions, damaged images of a heap: what went wrong must be 0",
        exact: None,
        measure: holes::all,
    },
    Evaluation {
        name: "adoption",
        about: "what a new user meets: examples and guide as written, boards, the oldest compiler, packages; opening a heap",
        exact: Some(measure::opening),
        measure: measure::adoption,
    },
    Evaluation {
        name: "speed",
        about: "boots and cuts that powerfail explores in a second on one core",
        exact: None,
        measure: measure::speed,
    },
    Evaluation {
        name: "loop",
        about: "how long the loop of a change is: words of documents, gated figures, programs of tests, lines of code",
        exact: None,
        measure: measure::loops,
    },
    Evaluation {
        name: "generated",
        about: "programs from a seed, judged by models: their cuts, and the planted bugs that they alone notice",
        exact: None,
        measure: generated::all,
    },
    Evaluation {
        name: "safe",
        about: "programs that somebody gets wrong: misuse that is tried, stacks that overflow, numbers of another owner",
        exact: None,
        measure: measure::safe,
    },
    Evaluation {
        name: "campaigns",
        about: "cuts judged and states booted by the suites of all crates",
        exact: None,
        measure: measure::campaigns,
    },
];

/// Accepts the names of the evaluations.
fn names() -> clap::builder::PossibleValuesParser {
    ALL.iter().map(|e| e.name).collect::<Vec<_>>().into()
}

/// The crates that generate programs.
fn crates() -> clap::builder::PossibleValuesParser {
    let all = xtask::generated::ALL.iter();
    all.map(|g| g.package).collect::<Vec<_>>().into()
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(a: Args) -> Result<()> {
    let project = Project::load()?;
    if a.list {
        for e in ALL {
            println!("{:14} {}", e.name, e.about);
        }
        return Ok(());
    }
    if let Some(path) = &a.from {
        return report::write(&project, &read(path)?);
    }
    if a.check {
        let step = Step::alone(project.target.join("xtask/evaluate-check.log"), "evaluate");
        let r = match &a.only {
            Some(only) => check_one(&project, &step, only, a.json.as_deref()),
            None => check(&project, &step, a.json.as_deref()),
        };
        drop(step);
        println!("{}", r?);
        return Ok(());
    }
    if !a.merge.is_empty() {
        let shards: Vec<_> = a.merge.iter().map(|p| read(p)).collect::<Result<_>>()?;
        let sum = merge::all(&shards)?;
        let failed = sum.get("tests.cuts_failed").copied().unwrap_or_default();
        let wrong = (failed > 0.0).then(|| format!("{failed} cuts were not survived"));
        return finish(&project, &sum, a.json, wrong, false);
    }
    let only = match a.shard {
        Some(_) => Some("campaigns"),
        None => a.only.as_deref(),
    };
    let wanted: Vec<_> = ALL
        .iter()
        .filter(|e| only.is_none_or(|o| o == e.name))
        .collect();
    let options = Options {
        shard: a.shard,
        seed: a.seed,
        package: a.package.as_deref().and_then(|name| {
            let all = xtask::generated::ALL.iter();
            all.map(|g| g.package).find(|package| *package == name)
        }),
    };
    let mut figures = Figures::new();
    let mut wrong = None;
    for e in wanted {
        let step = Step::alone(
            project
                .target
                .join(format!("xtask/evaluate-{}.log", e.name)),
            e.name,
        );
        let m = (e.measure)(&project, &step, options).with_context(|| e.name)?;
        figures.extend(m.figures);
        wrong = wrong.or(m.wrong);
    }
    finish(&project, &figures, a.json, wrong, only.is_none())
}

/// Prints and stores the figures, also those of an evaluation that failed. The documents are
/// written only if none failed.
fn finish(
    project: &Project,
    figures: &Figures,
    json: Option<PathBuf>,
    wrong: Option<String>,
    documents: bool,
) -> Result<()> {
    for (key, value) in figures {
        println!("{key:48} {}", report::shown(*value));
    }
    if figures.contains_key("heap.kv_uniform.ir") {
        println!("\n{}", heap::goals::table(figures));
    }
    if let Some(path) = json {
        std::fs::write(&path, as_json(figures)).with_context(|| path.display().to_string())?;
    }
    if let Some(wrong) = wrong {
        bail!("{wrong}");
    }
    if documents {
        report::write(project, figures)?;
    }
    Ok(())
}

/// Compares the exact figures of one evaluation with the committed ones.
fn check_one(project: &Project, step: &Step, only: &str, json: Option<&Path>) -> Result<String> {
    let e = ALL.iter().find(|e| e.name == only);
    let exact = e.and_then(|e| e.exact);
    let exact = exact.with_context(|| format!("{only} measures nothing that is exact"))?;
    let m = exact(project, step, Options::default()).with_context(|| only.to_owned())?;
    if let Some(wrong) = m.wrong {
        bail!("{wrong}");
    }
    if let Some(path) = json {
        let text = as_json(&m.figures);
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    let mut committed = report::committed(project)?;
    committed.retain(|key, _| m.figures.contains_key(key));
    report::compare(&committed, &m.figures)?;
    Ok(format!(
        "{} figures as in {}",
        m.figures.len(),
        report::FIGURES
    ))
}

/// The step of `cargo xtask ci`: the documents are those of the committed figures, and no exact
/// figure got worse. With a path, writes the committed figures there instead, with the exact ones
/// as measured now, and the documents of these figures.
fn check(project: &Project, step: &Step, accepted: Option<&Path>) -> Result<String> {
    let committed = report::committed(project)?;
    if accepted.is_none() {
        report::fresh(project, &committed)?;
    }
    let mut now = Figures::new();
    for e in ALL {
        if let Some(measure) = e.exact {
            let m = measure(project, step, Options::default()).with_context(|| e.name)?;
            if let Some(wrong) = m.wrong {
                bail!("{wrong}");
            }
            now.extend(m.figures);
        }
    }
    if now.is_empty() {
        bail!("nothing was measured");
    }
    if let Some(path) = accepted {
        let all = report::accept(committed, now);
        std::fs::write(path, as_json(&all)).with_context(|| path.display().to_string())?;
        report::write(project, &all)?;
        return Ok(format!(
            "{} figures written to {}",
            all.len(),
            path.display()
        ));
    }
    report::compare(&committed, &now)?;
    Ok(format!("{} figures as in {}", now.len(), report::FIGURES))
}
