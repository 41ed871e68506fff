//! Many scenarios on all machines, on all cores.

use crate::cost::Cost;
use crate::explore::{Case, Explored, Limits, explore};
use crate::image::Image;
use crate::machine::Machine;
use crate::{interrupts, machines, periods, preempt, programs, report, restart, steps};
use anyhow::{Context, Result, bail};
use relume_suite::abi::ARM;
use relume_suite::journals;
use relume_suite::planted::Bug;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An image file.
#[derive(Debug, Clone)]
pub struct Source {
    /// The machine's name.
    pub machine: String,
    /// The group's.
    pub group: String,
    /// The ELF file.
    pub path: PathBuf,
}

impl Source {
    /// A machine with this image.
    ///
    /// **Errors**: the file cannot be read, or the machine does not accept it.
    pub fn machine(&self) -> Result<Box<dyn Machine>> {
        machines::make(&self.machine, Image::read(&self.group, &self.path)?)
            .with_context(|| self.path.display().to_string())
    }
}

/// One exploration to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// On which image.
    pub source: Source,
    /// Of which scenario.
    pub case: Case,
    /// How far.
    pub reach: Limits,
    /// What is wrong in it on purpose, and must be found.
    pub planted: Option<&'static Bug>,
    /// What it must find, if it is a program that says what it has found.
    pub wanted: Option<[u32; 4]>,
    /// How often a whole program runs to its end with cuts after seeded periods.
    pub runs: u64,
    /// Whether it is measured what such a program takes with cuts.
    pub repeats: bool,
}

impl Job {
    /// Whether a planted bug was found, as it must be, or nothing where there is none.
    pub fn right(&self, e: &Explored) -> bool {
        match self.planted {
            None => e.failures == 0,
            Some(bug) => e.failures > 0 && !(bug.both && (e.uncut > 0 || e.calm > 0)),
        }
    }
}

/// What came of it.
pub struct Done {
    /// The figures.
    pub explored: Explored,
    /// The first failure, in words.
    pub report: Option<String>,
}

/// Explores all, with a thread for each core; results in the order of the jobs.
///
/// **Errors**: those of the first exploration that has one.
pub fn run(
    jobs: &[Job],
    threads: usize,
    said: &(dyn Fn(&Job, &Done) + Sync),
) -> Result<Vec<Option<Done>>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<Result<Option<Done>>>>> =
        jobs.iter().map(|_| Mutex::new(None)).collect();
    std::thread::scope(|s| {
        for _ in 0..threads.max(1) {
            s.spawn(|| {
                // An engine is expensive to make, and stays on its thread.
                let mut kept = None;
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let at = next.load(Ordering::Relaxed);
                    let done = one(job, &mut kept);
                    if let Ok(Some(d)) = &done {
                        said(job, d);
                    }
                    let place = jobs.iter().position(|j| std::ptr::eq(j, job)).unwrap_or(at);
                    *results[place].lock().unwrap_or_else(|e| e.into_inner()) = Some(done);
                }
            });
        }
    });
    let take =
        |m: Mutex<Option<Result<Option<Done>>>>| m.into_inner().unwrap_or_else(|e| e.into_inner());
    let results = results
        .into_iter()
        .map(|m| take(m).context("a thread died")?);
    results.collect()
}

type Kept = Option<(PathBuf, Box<dyn Machine>)>;

/// A program with so many instructions runs a quarter as often.
const LONG: u64 = 2_000_000;

/// `None` when it is not worth it.
fn one(job: &Job, kept: &mut Kept) -> Result<Option<Done>> {
    if kept.as_ref().is_none_or(|k| k.0 != job.source.path) {
        *kept = Some((job.source.path.clone(), job.source.machine()?));
    }
    let Some((_, m)) = kept else {
        bail!("no machine")
    };
    if job.case.rounds != 0 && !worthwhile(&mut **m, &job.case)? {
        return Ok(None);
    }
    let explored = if job.case.preempts && job.reach.depth != Some(0) {
        let mut explored = preempt::explore(&mut **m, &job.case, &job.reach)?;
        if job.planted.is_some_and(|bug| bug.both) {
            explored.calm = explore(&mut **m, &job.case, &job.reach)?.failures;
        }
        explored
    } else if job.case.interrupts && job.reach.depth != Some(0) {
        interrupts::explore(&mut **m, &job.case, &job.reach)?
    } else {
        let mut explored = explore(&mut **m, &job.case, &job.reach)?;
        if job.case.interrupts && explored.failures == 0 {
            explored.masked = interrupts::masked(&mut **m, &job.case)?;
        }
        let is_figure = MASKED.iter().any(|m| belongs(job, m.0));
        if job.case.preempts && is_figure && explored.failures == 0 {
            explored.masked = preempt::masked(&mut **m, &job.case)?;
        }
        explored
    };
    let mut explored = explored;
    if job.case.periods && explored.failures == 0 {
        let long = explored.instructions > LONG;
        let runs = if long { job.runs / 4 } else { job.runs };
        let mut wrong = periods::run(&mut **m, &job.case, runs, &mut explored);
        if job.repeats && wrong.is_none() {
            wrong = periods::repeat(&mut **m, &job.case, &mut explored);
        }
        if job.repeats && wrong.is_none() && job.source.machine == ARM.name {
            wrong = lengths(&mut **m, &job.case, &mut explored).err();
        }
        if let Some(report) = wrong {
            let report = Some(report);
            return Ok(Some(Done { explored, report }));
        }
    }
    let known = job.source.group == JOURNALS && explored.failures == 0;
    if let Some(Err(report)) = known.then(|| waiting(&mut **m, &job.case, &mut explored)) {
        explored.failures += 1;
        let report = Some(report);
        return Ok(Some(Done { explored, report }));
    }
    let limit = 3 * explored.instructions + 10_000;
    let limit = if explored.instructions == 0 {
        20_000_000
    } else {
        limit
    };
    let report = match &explored.first {
        Some(f) => Some(report::failure(
            &mut **m,
            &job.source.group,
            &job.case,
            f,
            limit,
        )?),
        None => None,
    };
    Ok(Some(Done { explored, report }))
}

/// The group whose threads wait in their steps.
const JOURNALS: &str = "program-journals";

/// Measures the steps and restarts of a whole program. What was wrong, in words.
fn lengths(m: &mut dyn Machine, case: &Case, out: &mut Explored) -> Result<(), String> {
    out.steps = Some(steps::longest(m, case)?);
    out.restart = Some(restart::longest(m, case)?);
    Ok(())
}

/// Measures a scenario whose threads wait. What was wrong, in words.
fn waiting(m: &mut dyn Machine, case: &Case, out: &mut Explored) -> Result<(), String> {
    match &*case.name {
        journals::KNOWN_STEP => steps::check(m, case),
        _ => {
            out.journals = Some(restart::journals(m, case, journals::THREADS)?);
            Ok(())
        }
    }
}

/// Instructions of a scenario beyond which it is not explored once more with more operations.
const SHORT: u64 = 100_000;

/// Whether it is worth to explore a scenario with more operations: it cares how many it is asked
/// for, and does not take long.
fn worthwhile(m: &mut dyn Machine, case: &Case) -> Result<bool> {
    let once = Limits {
        depth: Some(0),
        first_only: true,
        most: 1,
        sample: None,
    };
    let own = Case {
        rounds: 0,
        ..case.clone()
    };
    let few = explore(m, &own, &once)?.instructions;
    let more = explore(m, case, &once)?.instructions;
    Ok(few != more && more < SHORT)
}

/// Groups whose figures also have keys of their own, which begin with the group's name: threads
/// that share a pool, programs whose region is mirrored to a medium, threads of the kernel, and
/// programs with devices.
const APART: [&str; 4] = ["threads", "mirror", "rtos", "device"];

/// Whether a scenario's figures belong to those of a group. Mirrors, devices and the kernel's
/// scenarios of threads have several groups: an MSP430 has room for few of them in an image.
fn belongs(job: &Job, group: &str) -> bool {
    match job.source.group.strip_prefix(group) {
        Some("") => true,
        Some(part) => {
            part.starts_with('-')
                && (group != "rtos" || job.case.preempts)
                && (group != "device" || !job.case.measures)
        }
        None => false,
    }
}

/// Groups of whose masked sections the longest one is a figure, and its name.
const MASKED: [(&str, &str); 2] = [("heap-interrupt", "heap_masked"), ("rtos", "rtos_masked")];

/// The figures of a campaign: key and number.
pub type Figures = BTreeMap<String, f64>;

/// The figures of all scenarios; those with a planted bug are counted apart.
pub fn figures(everything: &[(Job, Done)]) -> Figures {
    let mut out = Figures::new();
    let (planted, all): (Vec<_>, Vec<_>) = everything.iter().partition(|j| j.0.planted.is_some());
    if !planted.is_empty() {
        let caught = planted.iter().filter(|(j, d)| j.right(&d.explored));
        out.insert("machine.caught".into(), caught.count() as f64);
        out.insert("machine.planted".into(), planted.len() as f64);
    }
    let mut names: Vec<_> = all.iter().map(|j| j.0.source.machine.clone()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let mine: Vec<_> = all.iter().filter(|j| j.0.source.machine == name).collect();
        let sum =
            |f: fn(&Explored) -> u64| mine.iter().map(|j| f(&j.1.explored)).sum::<u64>() as f64;
        let mut put = |key: &str, v: f64| out.insert(format!("machine.{name}.{key}"), v);
        let scenarios = mine.iter().filter(|j| j.0.case.rounds == 0);
        put("scenarios", scenarios.count() as f64);
        put("cuts", sum(|e| e.cuts));
        put("boots", sum(|e| e.boots));
        put("failures", sum(|e| e.failures));
        put("interrupts", sum(|e| e.interrupts));
        let captured = |f: fn(&Explored) -> u64| {
            let of = mine
                .iter()
                .filter(|j| j.0.source.group.starts_with("checkpoint"));
            of.map(|j| f(&j.1.explored)).sum::<u64>() as f64
        };
        if captured(|e| e.boots) > 0.0 {
            put("checkpoint.cuts", captured(|e| e.cuts));
            put("checkpoint.failures", captured(|e| e.failures));
        }
        for group in APART {
            let own = mine.iter().filter(|j| belongs(&j.0, group));
            let own: Vec<_> = own.map(|j| &j.1.explored).collect();
            let of = |f: fn(&Explored) -> u64| own.iter().map(|e| f(e)).sum::<u64>() as f64;
            if of(|e| e.cuts) > 0.0 {
                for (key, v) in [("cuts", of(|e| e.cuts)), ("failures", of(|e| e.failures))] {
                    out.insert(format!("{group}.{name}.{key}"), v);
                }
            }
        }
        let mut put = |key: &str, v: f64| out.insert(format!("machine.{name}.{key}"), v);
        // The rate is of the scenario whose boots are nearest to 1,000 instructions.
        let mean = |e: &Explored| e.booted_instructions as f64 / e.boots as f64;
        let usable = mine
            .iter()
            .map(|j| &j.1.explored)
            .filter(|e| e.boots >= 50 && e.seconds > 0.0);
        let off = |e: &&Explored| (mean(e) / 1000.0).ln().abs();
        if let Some(e) = usable.min_by(|a, b| off(a).total_cmp(&off(b))) {
            put("boots_per_second", (e.boots as f64 / e.seconds).round());
            put("boots_per_second.instructions_a_boot", mean(e).round());
        }
        let own = mine.iter().filter(|j| j.0.case.rounds == 0);
        // Start-up zeroes the stack of checkpoints, so how deep it was cannot be seen.
        for j in own
            .clone()
            .filter(|j| !j.0.source.group.starts_with("checkpoint"))
        {
            let key = format!("stack.{}", j.0.source.group);
            let key = format!("machine.{name}.{key}");
            let worst = out.entry(key).or_default();
            *worst = worst.max(f64::from(j.1.explored.stack));
        }
        for (group, key) in MASKED {
            let own = mine.iter().filter(|j| belongs(&j.0, group));
            if let Some(longest) = own.map(|j| j.1.explored.masked).max() {
                let key = format!("machine.{name}.{key}.instructions");
                out.insert(key, longest as f64);
            }
        }
        let costs = mine
            .iter()
            .flat_map(|j| j.1.explored.sections.iter().copied());
        sections(&mut out, &name, costs);
        let said = mine
            .iter()
            .flat_map(|j| j.1.explored.figures.iter().copied());
        memory(&mut out, &name, &said.collect());
        programs::figures(&mut out, &name, &mine);
    }
    out
}

/// What a heap takes of the machine's RAM, from what its scenario has counted.
fn memory(out: &mut Figures, machine: &str, said: &BTreeMap<u16, u16>) {
    use relume_suite::abi::figure::*;
    let mut put = |key: &str, v: f64| out.insert(format!("machine.{machine}.{key}"), v);
    let of = |n: u16| said.get(&n).map(|v| f64::from(*v));
    let taken = relume_suite::heap_costs::TAKEN as f64;
    if let Some(v) = of(HEAP_BYTES) {
        put("heap_bytes", v);
    }
    if let Some(v) = of(HEAP_HANDLE_BYTES) {
        put("heap_ram_per_handle", v);
    }
    if let Some(n) = of(HEAP_RESIDENT_32) {
        put("heap_usable_32", n * 32.0 / taken);
        if let Some(more) = of(HEAP_RESIDENT_32_IN_8_KIB) {
            put("heap_ram_per_resident", taken / (more - n) - 32.0);
        }
    }
    if let Some(n) = of(RTOS_RAM_PER_THREAD) {
        put("rtos_ram_per_thread", n);
    }
    if let Some(n) = of(HEAP_RESIDENT_256) {
        put("heap_usable_256", n * 256.0 / taken);
    }
}

/// The most that each section cost, without its marks; `update_8` without the plain store.
fn sections(out: &mut Figures, machine: &str, all: impl Iterator<Item = (u16, Cost)>) {
    use relume_suite::abi::section;
    let mut most: BTreeMap<u16, Cost> = BTreeMap::new();
    for (n, c) in all {
        let m = most.entry(n).or_insert(c);
        m.instructions = m.instructions.max(c.instructions);
        m.stores = m.stores.max(c.stores);
        m.bytes = m.bytes.max(c.bytes);
        m.cycles = m.cycles.max(c.cycles);
    }
    let cost = |n: u16| most.get(&n).copied().unwrap_or_default();
    for &(n, name) in section::NAMES {
        if n == section::EMPTY || !most.contains_key(&n) {
            continue;
        }
        let base = cost(match n {
            section::UPDATE_8 | section::UPDATE_8_AFTER_OPEN => section::PLAIN_8,
            _ => section::EMPTY,
        });
        let lists = [
            section::LIST_INSERT,
            section::LIST_REMOVE,
            section::LIST_MOVE,
        ];
        let prefix = match name.strip_prefix("undo_") {
            Some(rest) => format!("undo_list.{machine}.{rest}"),
            None if lists.contains(&n) => format!("nvlist.{machine}.{name}"),
            None => format!("machine.{machine}.{name}"),
        };
        let c = cost(n);
        if let Some(times) = relume_suite::abi::work::times(n) {
            let all = (c.instructions - cost(section::EMPTY).instructions) as f64;
            let one = (all / f64::from(times) * 100.0).round() / 100.0;
            out.insert(format!("{prefix}.instructions"), one);
            continue;
        }
        let mut put =
            |key: &str, a: u64, b: u64| out.insert(format!("{prefix}.{key}"), a as f64 - b as f64);
        put("instructions", c.instructions, base.instructions);
        put("stores", c.stores, base.stores);
        put("nvm_bytes", c.bytes, base.bytes);
        if c.cycles > 0 {
            put("cycles", c.cycles, base.cycles);
        }
    }
}
