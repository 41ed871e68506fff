//! What it takes from a reset to the first store of a thread, when journals are full.
//!
//! A program is cut right before its commit stores: the journal of a step is never fuller. Threads
//! that wait in a step have theirs open, too. Each of these states is booted, until a thread has
//! stored something: then it does what no life before has done. Of the longest of these boots it
//! is counted how many instructions undo the entries of journals.

use crate::explore::Case;
use crate::image::Names;
use crate::machine::{Boot, End, Machine};
use crate::periods::{begins, first_store};
use crate::state::{Log, State};
use crate::steps::Marks;
use relume_suite::abi;
use std::collections::HashMap;

/// The most cuts of a program.
const CUTS: usize = 300;
/// The most instructions of a boot.
const LIMIT: u64 = 400_000;

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
    /// That restart.
    pub restart: Restart,
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

/// Whether an instruction at an address rolls back.
struct Rollbacks {
    names: Names,
    known: HashMap<u32, bool>,
}

impl Rollbacks {
    fn new(m: &dyn Machine) -> Self {
        Rollbacks {
            names: Names::of(m.image()),
            known: HashMap::new(),
        }
    }

    fn is(&mut self, at: u32) -> bool {
        let names = &self.names;
        let found = || {
            names
                .at(at)
                .iter()
                .any(|(name, file)| rolls_back(name, file))
        };
        *self.known.entry(at).or_insert_with(found)
    }
}

/// Boots a state to the first store of a thread. `None` if none stores anything.
fn restart(m: &mut dyn Machine, state: &State, of: &mut Rollbacks) -> Option<Restart> {
    let boot = |limit| Boot {
        state,
        seed: 0,
        limit,
        detail: true,
    };
    let mut log = Log::default();
    m.boot(&boot(LIMIT), &mut log);
    let instructions = first_store(&log, begins(&log)?)?;
    let run = m.traced(&boot(instructions), &[]);
    let rollback = run.iter().filter(|t| of.is(t.pc)).count() as u64;
    Some(Restart {
        instructions,
        rollback,
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
    let mut of = Rollbacks::new(m);
    let (mut state, mut stored) = (blank, 0);
    let mut found = Longest::default();
    for step in steps.iter().step_by(every(steps.len())) {
        let before = |s: &&crate::state::Store| u64::from(s.instruction) < step.commit;
        for s in log.stores[stored..].iter().take_while(before) {
            state.apply(s, &mut 0);
            stored += 1;
        }
        found.cuts += 1;
        let Some(restart) = restart(m, &state, &mut of) else {
            continue;
        };
        found.rollback = found.rollback.max(restart.rollback);
        if restart.instructions > found.restart.instructions {
            found.restart = restart;
        }
    }
    match found.restart.instructions {
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
    let mut of = Rollbacks::new(m);
    let mut with = |rounds| {
        let case = Case {
            rounds,
            ..case.clone()
        };
        let mut state = case.blank();
        let boot = Boot {
            state: &state,
            seed: 0,
            limit: LIMIT,
            detail: true,
        };
        let ran = m.boot(&boot, &mut Log::default());
        let mut now = state.clone();
        m.state(&mut now);
        state = now;
        let waits = ran.end == End::Status(abi::FINISHED);
        let found = waits.then(|| restart(m, &state, &mut of)).flatten();
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
