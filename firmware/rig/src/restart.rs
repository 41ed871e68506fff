//! What it takes from a reset to the first store of a thread, when journals are full.
//!
//! A program is cut right before its commit stores: the journal of a step is never fuller. Threads
//! that wait in a step have theirs open, too. It is also cut before others of its stores, all over
//! the run. Each of these states is booted, until a thread has stored something: then it does what
//! no life before has done. It is counted, too, how many instructions of a boot look for entries of
//! journals and undo them.

use crate::explore::Case;
use crate::image::Names;
use crate::machine::{Boot, End, Machine, Traced};
use crate::periods::{begins, first_store};
use crate::state::{Log, State, Store};
use crate::steps::{Marks, inlined};
use relume_suite::abi;

/// The most cuts of a program before commit stores, and before any stores.
const CUTS: usize = 300;
/// The most instructions of a boot: those with which most threads store something, and more.
const LIMITS: [u64; 2] = [30_000, 400_000];

/// What a restart takes, in instructions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Restart {
    /// From the reset to the first store of a thread.
    pub instructions: u64,
    /// Of these, those that look for entries of journals and undo them.
    pub rollback: u64,
}

/// The longest restart of a program, and how many cuts it was looked for in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Longest {
    /// The longest one with full journals.
    pub full: Restart,
    /// The instructions of the longest one of all.
    pub any: u64,
    /// The most that a rollback takes in any of these boots.
    pub rollback: u64,
    /// The cuts.
    pub cuts: u64,
}

/// The functions of a pool that read journals and undo their entries.
fn rolls_back(name: &str, file: &str) -> bool {
    let undoes = name.ends_with("::recover") || name.ends_with("::finish_entries");
    undoes && file.ends_with("pmem-tx/src/journal.rs")
}

/// The addresses of a machine's code that roll back.
fn rollbacks(m: &dyn Machine) -> Vec<u32> {
    inlined(m.image(), &Names::of(m.image()), rolls_back)
}

/// Boots a state to the first store of a thread. `None` if none stores anything.
fn restart(m: &mut dyn Machine, state: &State, rollbacks: &[u32]) -> Option<Restart> {
    LIMITS.into_iter().find_map(|limit| {
        let boot = Boot {
            state,
            seed: 0,
            limit,
            detail: true,
        };
        let mut log = Log::default();
        let (_, passed) = m.passed(&boot, rollbacks, &mut log);
        let instructions = first_store(&log, begins(&log)?)?;
        let before = |t: &&Traced| t.ended < instructions;
        Some(Restart {
            instructions,
            rollback: passed.iter().filter(before).count() as u64,
        })
    })
}

/// One in how many of so many cuts is made.
fn every(all: usize) -> usize {
    all.div_ceil(CUTS).max(1)
}

/// The longest restart of a program that was cut right before a commit store. What was wrong, in
/// words.
pub fn longest(m: &mut dyn Machine, case: &Case) -> Result<Longest, String> {
    let mut log = Log::default();
    let blank = case.blank();
    let (ran, steps) = Marks::of(m)?.steps(m, &blank, &mut log);
    if ran.end != End::Status(abi::FINISHED) {
        return Err(format!("{}: {:?}", case.name, ran.end));
    }
    let threads = begins(&log).unwrap_or(0);
    let stores = log.stores.iter().map(|s| u64::from(s.instruction));
    let stores: Vec<_> = stores.filter(|at| *at > threads).collect();
    let commits: Vec<_> = steps.iter().map(|s| s.commit).collect();
    let rollbacks = rollbacks(m);
    let mut found = Longest::default();
    for (full, cuts) in [(true, commits), (false, stores)] {
        let (mut state, mut stored) = (blank.clone(), 0);
        for cut in cuts.iter().step_by(every(cuts.len())) {
            let before = |s: &&Store| u64::from(s.instruction) < *cut;
            for s in log.stores[stored..].iter().take_while(before) {
                state.apply(s, &mut 0);
                stored += 1;
            }
            found.cuts += 1;
            let Some(restart) = restart(m, &state, &rollbacks) else {
                continue;
            };
            found.rollback = found.rollback.max(restart.rollback);
            found.any = found.any.max(restart.instructions);
            if full && restart.instructions > found.full.instructions {
                found.full = restart;
            }
        }
    }
    match found.full.instructions {
        0 => Err(format!("{}: no thread stores anything", case.name)),
        _ => Ok(found),
    }
}

/// Restarts of a scenario whose threads wait in a step, each with its journal full or empty: with
/// one full journal, that of the thread which runs first, and with as many as there are threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Journals {
    /// With the journal of one thread.
    pub one: Restart,
    /// With those of all.
    pub all: Restart,
}

/// Measures them. `threads` is how many there are. What was wrong, in words.
pub fn journals(m: &mut dyn Machine, case: &Case, threads: u16) -> Result<Journals, String> {
    let rollbacks = rollbacks(m);
    let mut with = |rounds| {
        let case = Case {
            rounds,
            ..case.clone()
        };
        let mut state = case.blank();
        let boot = Boot {
            state: &state,
            seed: 0,
            limit: LIMITS[1],
            detail: true,
        };
        let ran = m.boot(&boot, &mut Log::default());
        let mut now = state.clone();
        m.state(&mut now);
        state = now;
        let waits = ran.end == End::Status(abi::FINISHED);
        let found = waits.then(|| restart(m, &state, &rollbacks)).flatten();
        found.ok_or_else(|| format!("{}: {rounds} journals: {:?}", case.name, ran.end))
    };
    let found = Journals {
        one: with(1)?,
        all: with(threads)?,
    };
    // Each further journal is undone, and that is all that differs but for the threads' own way.
    let more = |f: fn(&Restart) -> u64| f(&found.all).checked_sub(f(&found.one));
    match (more(|r| r.instructions), more(|r| r.rollback)) {
        (Some(_), Some(1..)) => Ok(found),
        _ => Err(format!("{}: {found:?}", case.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cuts_of_long_programs_are_spread() {
        assert_eq!(every(0), 1);
        assert_eq!(every(CUTS), 1);
        assert_eq!(every(CUTS + 1), 2);
        assert!((10_000usize).div_ceil(every(10_000)) <= CUTS);
    }

    #[test]
    fn what_rolls_back_is_told_by_name_and_file() {
        let journal = "crates/pmem-tx/src/journal.rs";
        assert!(rolls_back("pmem_tx::journal::::recover", journal));
        assert!(rolls_back("pmem_tx::journal::::finish_entries", journal));
        assert!(!rolls_back("pmem_tx::journal::::append", journal));
        assert!(!rolls_back("::recover", "crates/rtos/src/kernel.rs"));
    }
}
