//! Cuts the power at every machine instruction of Relume's firmware, in an emulator, and checks
//! what the next boot finds.

mod campaign;
mod cost;
mod explore;
mod image;
mod interrupts;
mod machine;
mod machines;
mod msp430;
mod periods;
mod preempt;
mod profile;
mod programs;
mod qemu;
mod replay;
mod report;
mod restart;
mod scenarios;
mod state;
mod steps;
#[cfg(test)]
mod tests;
mod time;
mod unicorn;

use anyhow::{Context, Result, bail};
use campaign::{Done, Job, Source};
use clap::Parser;
use explore::Limits;
use relume_suite::abi::{ARM, ARMV6M, needs_bench};
use relume_suite::planted;
use scenarios::Scenarios;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

/// Cuts the power at every machine instruction of the firmware's scenarios, and checks what the
/// next boot finds
#[derive(Parser)]
#[command(name = "relume-rig")]
struct Args {
    /// An image: machine/group=FILE
    #[arg(long = "image", value_name = "M/G=FILE", value_parser = source, required = true)]
    images: Vec<Source>,
    /// Scenarios that the rig does not link: what the program `list` of their suite has printed
    #[arg(long = "scenarios", value_name = "FILE")]
    listed: Option<PathBuf>,
    /// Only scenarios whose `group/name` contains this
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// How many times in a row the power fails
    #[arg(long, value_name = "N", default_value_t = 2)]
    depth: u32,
    /// Any number of cuts in a row, and more operations per scenario. Ends when every state that a
    /// boot leaves has been booted, or after half a billion instructions or 300,000 boots of a
    /// scenario
    #[arg(long)]
    long: bool,
    /// Run each scenario once without a cut, and count
    #[arg(long)]
    costs: bool,
    /// Run each scenario once without a cut, and say which functions its instructions are in
    #[arg(long, conflicts_with = "replay")]
    profile: bool,
    /// Repeat the failure of this line
    #[arg(long, value_name = "LINE")]
    replay: Option<replay::Line>,
    /// QEMU for a machine: programs of several threads run there, too, and every instruction must
    /// find the same registers
    #[arg(long, value_name = "M=PROGRAM", value_parser = emulator)]
    qemu: Vec<(String, PathBuf)>,
    /// A sample, which this number selects: half of the scenarios and of the planted bugs, and
    /// some of the states where the last cut leaves very many
    #[arg(long, value_name = "N", conflicts_with = "long")]
    sample: Option<u64>,
    /// Where to write the figures: one flat JSON object
    #[arg(long, value_name = "PATH")]
    json: Option<PathBuf>,
    /// The i-th of n parts of the work, counted from 1
    #[arg(long, value_name = "I/N", value_parser = shard)]
    shard: Option<(usize, usize)>,
    /// Threads; as many as there are cores by default
    #[arg(long)]
    threads: Option<usize>,
}

fn source(s: &str) -> Result<Source, String> {
    let parse = || {
        let (what, path) = s.split_once('=')?;
        let (machine, group) = what.split_once('/')?;
        Some(Source {
            machine: machine.into(),
            group: group.into(),
            path: path.into(),
        })
    };
    parse().ok_or_else(|| "not machine/group=FILE".into())
}

fn emulator(s: &str) -> Result<(String, PathBuf), String> {
    let (machine, program) = s.split_once('=').ok_or("not M=PROGRAM")?;
    Ok((machine.into(), program.into()))
}

fn shard(s: &str) -> Result<(usize, usize), String> {
    let parse = || {
        let (i, n) = s.split_once('/')?;
        Some((i.parse().ok()?, n.parse().ok()?))
    };
    let fits = |(i, n): &(usize, usize)| *i >= 1 && i <= n;
    parse()
        .filter(fits)
        .ok_or_else(|| "not I/N with I from 1 to N".into())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether nothing was wrong.
fn run(a: &Args) -> Result<bool> {
    let known = &Scenarios::read(a.listed.as_deref())?;
    match &a.replay {
        _ if a.profile => profile(a, known),
        Some(line) => again(a, known, line),
        None => all(a, known),
    }
}

fn again(a: &Args, known: &Scenarios, line: &replay::Line) -> Result<bool> {
    let of = |s: &&Source| s.machine == line.machine && s.group == line.group;
    let source = a.images.iter().find(of);
    let source = source.with_context(|| format!("no image for {}/{}", line.machine, line.group))?;
    let mut m = source.machine()?;
    if m.image().hash != line.hash {
        bail!(
            "the image has changed since (it is {:08x} now): its instructions are other ones, and the line says nothing about \
             them. Explore again: cargo xtask machine --machine {} --scenario {}/{}",
            m.image().hash,
            line.machine,
            line.group,
            line.scenario
        );
    }
    let named = known
        .of(&line.group, line.rounds)?
        .into_iter()
        .find(|c| c.name == line.scenario);
    let mut case =
        named.with_context(|| format!("no scenario `{}` in {}", line.scenario, line.group))?;
    case.argument = line.argument;
    case.interrupt = line.interrupt;
    case.instants = line.instants.clone();
    let (text, failed) = report::repeat(&mut *m, &case, &line.cuts, 20_000_000)?;
    print!("{line}\n{text}");
    Ok(!failed)
}

/// Prints where the instructions of the scenarios are.
fn profile(a: &Args, known: &Scenarios) -> Result<bool> {
    for source in &a.images {
        let mut m = source.machine()?;
        for case in known.of(&source.group, 0)? {
            let name = format!("{}/{}/{}", source.machine, source.group, case.name);
            if a.scenario.as_ref().is_none_or(|s| name.contains(s)) {
                print!("{name}\n{}", profile::of(&mut *m, &case));
            }
        }
    }
    Ok(true)
}

/// How often scenarios that repeat an operation do it, when they are explored once more.
const MORE: u16 = 12;

fn jobs(a: &Args, known: &Scenarios) -> Result<Vec<Job>> {
    let depth = match (a.costs, a.long) {
        (true, _) => Some(0),
        (_, true) => None,
        _ => Some(a.depth),
    };
    let mut jobs = Vec::new();
    for rounds in if a.costs { vec![0] } else { vec![0, MORE] } {
        for source in &a.images {
            for case in known.of(&source.group, rounds)? {
                let name = format!("{}/{}", source.group, case.name);
                if a.scenario.as_ref().is_none_or(|s| name.contains(s)) {
                    let once = case.measures || case.whole;
                    if (once || case.interrupts || case.preempts) && rounds != 0 {
                        continue;
                    }
                    // Minutes, for what its driver does on all machines.
                    if case.torn && source.machine == ARMV6M.name && !a.long {
                        continue;
                    }
                    let whole = case.whole || case.measures && case.bytes <= KEEPS_NOTHING;
                    let depth = if whole {
                        Some(0)
                    } else if case.measures {
                        depth.or(Some(1)).map(|d| d.min(1))
                    } else {
                        depth
                    };
                    let reach = Limits {
                        depth,
                        first_only: false,
                        most: MOST,
                        sample: a.sample,
                    };
                    let source = source.clone();
                    jobs.push(Job {
                        wanted: known.wanted(&source.group),
                        source,
                        case,
                        reach,
                        planted: None,
                        runs: match (a.costs, a.long) {
                            (true, _) => 1,
                            (_, true) => 300,
                            _ => 4,
                        },
                        repeats: a.costs || a.long,
                    });
                }
            }
        }
    }
    if !a.costs {
        for source in &a.images {
            let of =
                |b: &&planted::Bug| b.group == source.group && b.on.contains(&&*source.machine);
            for bug in planted::BUGS.iter().filter(of) {
                let name = format!("{}/{}", bug.group, bug.scenario);
                if a.scenario.as_ref().is_none_or(|s| name.contains(s)) {
                    jobs.push(plant(source, known, bug)?);
                }
            }
        }
    }
    Ok(jobs)
}

/// A scenario with a planted bug. One or two cuts must show it.
fn plant(source: &Source, known: &Scenarios, bug: &'static planted::Bug) -> Result<Job> {
    let named = known.of(&source.group, 0)?;
    let case = named.into_iter().find(|c| c.name == bug.scenario);
    let mut case = case.with_context(|| format!("no scenario `{}`", bug.scenario))?;
    case.argument = bug.number;
    let reach = Limits {
        depth: Some(2),
        // Where neither cuts nor interrupts alone may show it, all of them are tried.
        first_only: !bug.both,
        most: MOST,
        sample: None,
    };
    Ok(Job {
        source: source.clone(),
        case,
        reach,
        planted: Some(bug),
        wanted: None,
        runs: 0,
        repeats: false,
    })
}

/// Bytes of a region that measures something else: there is nothing to cut.
const KEEPS_NOTHING: usize = 16;

/// States of one scenario after which an exploration without a given depth ends.
const MOST: u64 = 300_000;

/// Whether a run with a sample takes a scenario on a machine, or a planted bug: one run in two
/// does. Each run takes those of threads and of the kernel, and what only measures, which is short.
fn in_turn(j: &Job, run: u64) -> bool {
    let always = j.case.preempts || j.case.measures || j.source.group.starts_with("rtos");
    let named = [&j.source.machine, &j.source.group, &j.case.name];
    let letters = named.into_iter().flat_map(|n| n.bytes());
    let turn = letters.map(u64::from).sum::<u64>() + u64::from(j.case.argument) + run;
    always && j.planted.is_none() || turn.is_multiple_of(2)
}

fn all(a: &Args, known: &Scenarios) -> Result<bool> {
    let mut jobs = jobs(a, known)?;
    // What takes longest comes first, so that no core waits for it at the end: where words are
    // torn, above all on MSP430.
    jobs.sort_by_key(|j| match (j.case.torn, &*j.source.machine) {
        (true, "msp430") => 0,
        (true, _) => 1,
        (false, _) => 2,
    });
    if let Some((i, n)) = a.shard {
        let mut k = 0;
        jobs.retain(|_| {
            k += 1;
            (k - 1) % n == i - 1
        });
    }
    if let Some(run) = a.sample {
        jobs.retain(|j| in_turn(j, run));
    }
    if jobs.is_empty() {
        bail!("no scenario to explore");
    }
    println!(
        "machine/group/scenario            instructions stores   stack      cuts     boots  boots/s"
    );
    let threads = a
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let done = campaign::run(&jobs, threads, &said)?;
    let all = jobs.into_iter().zip(done);
    let all: Vec<_> = all.filter_map(|(j, d)| Some((j, d?))).collect();
    let mut figures = campaign::figures(&all);
    let mut same = true;
    // Of each machine: interrupts in a handler, and where one ended.
    let mut taken: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    // On the Cortex-M4 only threads without a pool: in the others PendSV and SysTick become
    // pending at
    // one instruction, and QEMU's order of the two is not always the rig's.
    let alike = |s: &Source| {
        let here = s.machine != ARM.name || s.group == "switch";
        here && !needs_bench(&s.group)
    };
    let compared =
        |j: &&Job| j.planted.is_none() && j.case.preempts && !a.costs && alike(&j.source);
    for j in all.iter().map(|(j, _)| j).filter(compared) {
        let Some((_, program)) = a.qemu.iter().find(|q| q.0 == j.source.machine) else {
            continue;
        };
        let name = format!("{}/{}/{}", j.source.machine, j.source.group, j.case.name);
        match qemu::compare(
            &mut *j.source.machine()?,
            &j.case,
            (program, &j.source.path),
            match &*j.source.group {
                // The kernel's handler picks the next thread. This one sends, too.
                "rtos-posts" => 8,
                group if group.starts_with("rtos") => 4,
                _ => 1,
            },
        )? {
            Ok(done) => {
                println!("{name}: {done}");
                let key = |what: &str| format!("machine.{}.qemu.{what}", j.source.machine);
                *figures.entry(key("instructions")).or_default() += done.instructions as f64;
                *figures.entry(key("interrupts")).or_default() += done.interrupts as f64;
                let [nested, chained] = taken.entry(j.source.machine.clone()).or_default();
                *nested += done.nested;
                *chained += done.chained;
            }
            Err(difference) => {
                println!("{name}: {difference}");
                same = false;
            }
        }
    }
    if let Some((machine, _)) = taken.iter().find(|(_, n)| n.contains(&0)) {
        bail!("{machine}: no interrupt in a handler, or where one ended: choose other periods");
    }
    for (k, v) in &figures {
        println!("{k:48} {v}");
    }
    for (j, d) in &all {
        if let (Some(r), None) = (&d.report, j.planted) {
            println!("\n{r}");
        }
    }
    if let Some(path) = &a.json {
        let map: serde_json::Map<_, _> = figures
            .iter()
            .map(|(k, v)| (k.clone(), number(*v)))
            .collect();
        let text = format!("{:#}\n", serde_json::Value::Object(map));
        std::fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    let right = |(j, d): &(Job, Done)| j.right(&d.explored);
    Ok(same && all.iter().all(right))
}

/// A whole number without a point.
fn number(v: f64) -> serde_json::Value {
    if v.fract() == 0.0 {
        (v as i64).into()
    } else {
        v.into()
    }
}

fn said(j: &Job, d: &Done) {
    let e = &d.explored;
    let mut name = format!("{}/{}/{}", j.source.machine, j.source.group, j.case.name);
    if j.case.rounds != 0 {
        name += &format!("+r{}", j.case.rounds);
    }
    let rate = e.boots as f64 / e.seconds.max(1e-9);
    let (i, s, k, c, b) = (e.instructions, e.stores, e.stack, e.cuts, e.boots);
    if j.case.argument != 0 {
        name += &format!("+a{}", j.case.argument);
    }
    let end = match (e.failures, e.closed) {
        (0, _) if j.planted.is_some() => "  ESCAPED".to_owned(),
        (_, _) if j.planted.is_some() && !j.right(e) => format!(
            "  {} SHOWN WITHOUT A CUT, {} WITHOUT AN INTERRUPT",
            e.uncut, e.calm
        ),
        (_, _) if j.planted.is_some() => "  caught".to_owned(),
        (0, true) => "  closed".to_owned(),
        (0, false) => String::new(),
        (n, _) => format!("  {n} FAILED"),
    };
    println!("{name:34} {i:10} {s:6} {k:7} {c:9} {b:9} {rate:8.0}{end}");
}

#[cfg(test)]
mod turns {
    use super::*;
    use relume_suite::{HostModel, groups};

    #[test]
    fn two_runs_take_all_scenarios_and_each_takes_those_of_threads() {
        let images = ["arm", "riscv", "msp430"].map(|machine| {
            let of = |g: &relume_suite::Group<HostModel>| format!("--image={machine}/{}=x", g.name);
            groups::<HostModel>().iter().map(of).collect::<Vec<_>>()
        });
        let rig = std::iter::once("relume-rig".to_owned());
        let all = jobs(
            &Args::parse_from(rig.chain(images.concat())),
            &Scenarios::default(),
        )
        .unwrap();
        let taken = |run| all.iter().filter(|j| in_turn(j, run)).count();
        let threads = all
            .iter()
            .filter(|j| j.case.preempts && j.planted.is_none());
        assert!(threads.clone().count() > 20);
        assert!(threads.clone().all(|j| in_turn(j, 0) && in_turn(j, 1)));
        assert!(all.iter().all(|j| in_turn(j, 0) || in_turn(j, 1)));
        for run in [0, 1] {
            assert!(
                taken(run) < all.len() * 3 / 4,
                "{} of {}",
                taken(run),
                all.len()
            );
            let planted = all
                .iter()
                .filter(|j| j.planted.is_some() && in_turn(j, run));
            assert!(planted.count() > 30);
        }
    }
}
