//! Interrupts that switch threads: at every instruction of a scenario, and cuts everywhere after
//! them.
//!
//! ```text
//!  first thread    --------x                  x: the timer's interrupt becomes pending
//!  second thread           '---------x        the second one may come anywhere, in a handler, too
//!                                    ' ...
//! ```
//!
//! The scenario runs once for each instruction, and once more with a second interrupt soon after
//! the first one. In each run it must come to its end, and what a cut at each of its stores leaves
//! is booted, if it is new.

use crate::explore::{Case, Explored, Failure, Limits, Why, differ, wrong};
use crate::interrupts::{judge, longest, open, while_open};
use crate::machine::{Boot, Machine};
use crate::state::{Log, mix};
use crate::time::Stopwatch;
use anyhow::{Result, bail};
use relume_suite::abi::{FINISHED, cell};
use std::collections::HashSet;

/// One run in this many is made twice, with other garbage.
const TWICE: u64 = 8;
/// The second interrupt comes at most so many instructions after the first one. That is twice what
/// the handlers of one take, so that half of them come in a handler.
const APART: u64 = 96;
/// Runs in which the masked sections are measured, where only costs are asked for.
const SOME: u64 = 150;

/// Explores one scenario of several threads. Its cuts are those at stores after the first
/// interrupt: up to there the runs are the same.
///
/// **Errors**: no interrupt would do anything, or no cut was made.
pub fn explore(m: &mut dyn Machine, case: &Case, reach: &Limits) -> Result<Explored> {
    let blank = case.blank();
    let boot = |seed, limit| Boot {
        state: &blank,
        seed,
        limit,
        detail: true,
    };
    let (mut out, mut log, mut other) = (Explored::default(), Log::default(), Log::default());
    let mut now = blank.clone();
    let ran = m.preempted(&boot(0, 20_000_000), &[], &mut log);
    m.state(&mut now);
    if let Some(why) = wrong(case, &blank, &log, &now, &ran) {
        fail(&mut out, &[], vec![], why);
        return Ok(out);
    }
    out.instructions = ran.instructions;
    out.stores = log.stores.iter().filter(|s| s.in_nvm()).count() as u64;
    let limit = 4 * ran.instructions + 10_000;
    let Some((first, last)) = open(&log) else {
        bail!(
            "{}: it does not say when interrupts switch threads",
            case.name
        );
    };
    // A planted bug needs the right one.
    let few = match (reach.depth, reach.first_only) {
        (Some(_), false) => u64::from(case.sample).max(1),
        _ => 1,
    };
    let (every, skipped) = reach.spread(last - first, few);
    let clock = Stopwatch::start();
    let mut seen = HashSet::new();
    let mut switched = 0;
    for at in (first + 1 + skipped..=last).step_by(every as usize) {
        for instants in [vec![at], vec![at, at + 1 + mix(at) % APART]] {
            let seed = out.interrupts & 1;
            let ran = m.preempted(&boot(seed, limit), &instants, &mut log);
            m.state(&mut now);
            out.interrupts += instants.len() as u64;
            switched += u64::from(ran.instructions > out.instructions);
            out.boots += 1;
            out.booted_instructions += ran.instructions;
            out.stack = out.stack.max(ran.stack.unwrap_or(0));
            let mut why = wrong(case, &blank, &log, &now, &ran);
            if why.is_none() && out.boots % TWICE == 1 {
                let mut taken = m.interruptible(&boot(2 + seed, limit), &instants, &mut other);
                why = differ(&log, &other).map(Why::Garbage);
                while_open(&mut taken, &other);
                out.masked = out.masked.max(longest(&taken));
            }
            if let Some(why) = why {
                out.uncut += 1;
                fail(&mut out, &instants, vec![], why);
                if reach.first_only {
                    return Ok(out);
                }
                continue;
            }
            let (mut state, mut hash) = (blank.clone(), blank.hash());
            let stores = std::mem::take(&mut log.stores);
            for (i, s) in stores.iter().enumerate() {
                state.apply(s, &mut hash);
                out.cuts += u64::from(u64::from(s.instruction) >= at);
                if !seen.insert(hash) {
                    continue;
                }
                let all = (&mut other, &mut now);
                let (ran, why) = judge(m, case, &state, out.boots & 1, limit, all);
                out.boots += 1;
                out.booted_instructions += ran.instructions;
                if let Some(why) = why {
                    fail(&mut out, &instants, vec![i + 1], why);
                    if reach.first_only {
                        return Ok(out);
                    }
                }
            }
            log.stores = stores;
        }
    }
    out.seconds = clock.seconds();
    if switched == 0 || out.cuts == 0 {
        bail!("{}: no interrupt has switched threads", case.name);
    }
    out.closed = every == 1;
    Ok(out)
}

/// The longest run of instructions in which this scenario masks interrupts: in [`SOME`] of its runs
/// with two interrupts, which are the same in each exploration. It is not explored.
///
/// **Errors**: a run does not come to its end.
pub fn masked(m: &mut dyn Machine, case: &Case) -> Result<u64> {
    let blank = case.blank();
    let boot = Boot {
        state: &blank,
        seed: 0,
        limit: 20_000_000,
        detail: true,
    };
    let (mut log, mut now, mut most) = (Log::default(), blank.clone(), 0);
    m.preempted(&boot, &[], &mut log);
    let Some((first, last)) = open(&log) else {
        bail!("{}: no interrupt switches threads", case.name);
    };
    for i in 0..SOME {
        let at = first + 1 + (last - first) * i / SOME;
        let instants = [at, at + 1 + mix(at) % APART];
        let mut taken = m.interruptible(&boot, &instants, &mut log);
        m.state(&mut now);
        let ended = now.read_cell(cell::STATUS) == FINISHED;
        if !ended {
            bail!("{}: it fails after {instants:?} instructions", case.name);
        }
        while_open(&mut taken, &log);
        most = most.max(longest(&taken));
    }
    Ok(most)
}

fn fail(out: &mut Explored, instants: &[u64], cuts: Vec<usize>, why: Why) {
    out.failures += 1;
    out.first.get_or_insert(Failure {
        torn: vec![0; cuts.len()],
        cuts,
        interrupt: None,
        instants: instants.to_vec(),
        why,
    });
}
