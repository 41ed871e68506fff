//! An interrupt at every instruction of a scenario, and cuts in its handler.
//!
//! The scenario runs once for each instruction before which an interrupt would be taken. Its
//! handler may save, and then it lets the scenario go on, which must come to its end; and what a
//! cut leaves at each store of the handler is booted as cuts are everywhere.

use crate::explore::{Case, Explored, Failure, Limits, Why, differ, wrong};
use crate::machine::{Boot, Machine, Ran};
use crate::state::{Log, State, Store};
use crate::time::Stopwatch;
use anyhow::{Result, bail};
use relume_suite::abi::{cell, saved};
use std::collections::HashSet;

/// One interrupt in this many comes twice, with other garbage.
const TWICE: u64 = 8;

/// Explores one scenario with interrupts.
///
/// **Errors**: nothing was interrupted, or no handler saved anything.
pub fn explore(m: &mut dyn Machine, case: &Case, reach: &Limits) -> Result<Explored> {
    let blank = case.blank();
    let boot = |seed, limit, detail| Boot {
        state: &blank,
        seed,
        limit,
        detail,
    };
    let (mut out, mut log, mut other) = (Explored::default(), Log::default(), Log::default());
    let mut now = blank.clone();
    let ran = m.boot(&boot(0, 20_000_000, true), &mut log);
    m.state(&mut now);
    if let Some(why) = wrong(case, &blank, &log, &now, &ran) {
        fail(&mut out, None, vec![], why);
        return Ok(out);
    }
    out.instructions = ran.instructions;
    out.stores = log.stores.iter().filter(|s| s.in_nvm()).count() as u64;
    let limit = 4 * ran.instructions + 10_000;
    let all = taken(m, &boot(0, limit, true), &log);
    out.masked = longest(&all);
    let (every, first) = reach.spread(all.len() as u64, 1);
    let clock = Stopwatch::start();
    let (mut seen, mut saved) = (HashSet::new(), 0u64);
    for at in (all.into_iter().skip(first as usize)).step_by(every as usize) {
        let seed = out.interrupts & 1;
        let ran = m.interrupted(&boot(seed, limit, true), at, &mut log);
        m.state(&mut now);
        out.interrupts += 1;
        out.boots += 1;
        out.booted_instructions += ran.instructions;
        out.stack = out.stack.max(ran.stack.unwrap_or(0));
        let mut why = wrong(case, &blank, &log, &now, &ran);
        if why.is_none() && out.interrupts % TWICE == 1 {
            m.interrupted(&boot(2 + seed, limit, true), at, &mut other);
            why = differ(&log, &other).map(Why::Garbage);
        }
        if let Some(why) = why {
            fail(&mut out, Some(at), vec![], why);
            if reach.first_only {
                return Ok(out);
            }
            continue;
        }
        saved += u64::from(handler(&log).is_some());
        let few = reach.depth.is_some() && case.sample > 0;
        let all = !few || out.interrupts % u64::from(case.sample) == 1;
        for (cuts, state) in states(&blank, &log, &mut seen, all) {
            let (ran, why) = judge(
                m,
                case,
                &state,
                out.boots & 1,
                limit,
                (&mut other, &mut now),
            );
            out.cuts += 1;
            out.boots += 1;
            out.booted_instructions += ran.instructions;
            if let Some(why) = why {
                fail(&mut out, Some(at), vec![cuts], why);
                if reach.first_only {
                    return Ok(out);
                }
            }
        }
    }
    out.seconds = clock.seconds();
    if saved == 0 || out.cuts == 0 {
        bail!("{}: no interrupt's handler saved anything", case.name);
    }
    out.closed = every == 1;
    Ok(out)
}

/// The longest run of instructions in which this scenario masks interrupts. It is not explored.
///
/// **Errors**: the scenario does not come to its end.
pub fn masked(m: &mut dyn Machine, case: &Case) -> Result<u64> {
    let blank = case.blank();
    let boot = Boot {
        state: &blank,
        seed: 0,
        limit: 20_000_000,
        detail: true,
    };
    let (mut log, mut now) = (Log::default(), blank.clone());
    let ran = m.boot(&boot, &mut log);
    m.state(&mut now);
    if wrong(case, &blank, &log, &now, &ran).is_some() {
        bail!("{}: something is wrong without any interrupt", case.name);
    }
    Ok(longest(&taken(m, &boot, &log)))
}

/// After how many instructions of this boot an interrupt would be taken and do something. The log
/// is the boot's.
fn taken(m: &mut dyn Machine, boot: &Boot<'_>, log: &Log) -> Vec<u64> {
    let mut all = m.interruptible(boot, &[], &mut Log::default());
    while_open(&mut all, log);
    all
}

/// Leaves those at which an interrupt does something.
pub(crate) fn while_open(taken: &mut Vec<u64>, log: &Log) {
    if let Some((first, last)) = open(log) {
        taken.retain(|at| (first..=last).contains(at));
    }
}

/// The most instructions between two at which an interrupt would be taken.
pub(crate) fn longest(taken: &[u64]) -> u64 {
    let apart = taken.windows(2).map(|w| w[1] - w[0] - 1);
    apart.max().unwrap_or(0)
}

fn fail(out: &mut Explored, interrupt: Option<u64>, cuts: Vec<usize>, why: Why) {
    out.failures += 1;
    out.first.get_or_insert(Failure {
        torn: vec![0; cuts.len()],
        cuts,
        interrupt,
        instants: Vec::new(),
        why,
    });
}

/// The boot after a cut.
pub(crate) fn judge(
    m: &mut dyn Machine,
    case: &Case,
    state: &State,
    seed: u64,
    limit: u64,
    (log, now): (&mut Log, &mut State),
) -> (Ran, Option<Why>) {
    let boot = Boot {
        state,
        seed,
        limit,
        detail: false,
    };
    let ran = m.boot(&boot, log);
    m.state(now);
    let why = wrong(case, state, log, now, &ran);
    (ran, why)
}

/// The instructions between which interrupts do something, if the scenario tells.
pub(crate) fn open(log: &Log) -> Option<(u64, u64)> {
    let tells = |v| move |s: &&Store| s.mailbox_write() == Some((cell::OPEN, v));
    let first = log.stores.iter().find(tells(1))?;
    let last = log.stores.iter().rfind(tells(0))?;
    Some((first.instruction.into(), last.instruction.into()))
}

/// Which of the stores are the handler's: from the one that says that it saves to the last one that
/// says how far it is.
fn handler(log: &Log) -> Option<(usize, usize)> {
    let tells = |how| move |s: &Store| s.mailbox_write() == Some((cell::SAVED, how));
    let first = log.stores.iter().position(tells(saved::BEGUN))?;
    let last = log.stores.iter().rposition(tells(saved::OVER))?;
    Some((first, last))
}

/// The states that a cut in the handler leaves, if they are new, and after how many stores; all of
/// them, or those since it has told that it has saved.
fn states(from: &State, log: &Log, seen: &mut HashSet<u128>, all: bool) -> Vec<(usize, State)> {
    let Some((mut first, last)) = handler(log) else {
        return Vec::new();
    };
    if !all {
        let complete = |s: &Store| s.mailbox_write() == Some((cell::SAVED, saved::COMPLETE));
        first = log.stores.iter().position(complete).unwrap_or(first);
    }
    let (mut state, mut hash) = (from.clone(), from.hash());
    let mut out = Vec::new();
    for (i, s) in log.stores.iter().enumerate().take(last + 1) {
        state.apply(s, &mut hash);
        if i >= first && seen.insert(hash) {
            out.push((i + 1, state.clone()));
        }
    }
    out
}
