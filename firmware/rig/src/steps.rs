//! How long the steps of a program's threads are: in instructions, from the begin of a step's
//! transaction to its commit store.
//!
//! Nothing is added to the code for that. Where a step begins and where it commits, the debugging
//! information says: the instructions that were inlined from the functions that begin a
//! transaction, and the stores to the non-volatile memory that were inlined from the one that
//! stores a commit word. Which thread runs, the handler says that switches them.
//!
//! ```text
//!  thread 1   begin ......                        ........ commit      counted: both parts
//!  handler          switch                  switch
//!  thread 2               begin ... commit                             a step of its own
//! ```
//!
//! An instruction counts for the thread that runs. So what others do while a thread waits in its
//! step, or is preempted, does not count, and neither do the handler and the idle loop. What the
//! thread itself does in a step does: its body, the kernel's calls, looking again after a wait.

use crate::explore::Case;
use crate::image::{Image, Names};
use crate::machine::{Boot, End, Machine, Ran, Traced};
use crate::state::{Log, State};
use relume_suite::abi;
use std::collections::{HashMap, HashSet};

/// The most instructions of a run.
const LIMIT: u64 = 60_000_000;

/// A step of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its thread: the address of what the switch keeps of it.
    pub thread: u32,
    /// Its instructions that its thread has run, the commit store included.
    pub instructions: u64,
    /// After how many instructions of the run its commit store comes.
    pub commit: u64,
}

/// The addresses that tell steps in an image.
pub struct Marks {
    names: Names,
    /// Instructions that belong to the begin of a transaction.
    begins: HashSet<u32>,
    /// The first instruction of the handler that switches threads, and the last one, which goes to
    /// the next thread.
    switch: (u32, u32),
    /// Whether an instruction that stores is a commit store.
    commits: HashMap<u32, bool>,
}

/// The register in which the handler's last instruction has the next thread.
const NEXT: usize = 2;

/// Whether a function begins a transaction.
fn begins(name: &str, file: &str) -> bool {
    let is = |function: &str, of: &str| name.ends_with(function) && file.ends_with(of);
    let resolved = "pmem-tx/src/resolved.rs";
    is("::start", resolved)
        || is("::start_next", resolved)
        || is("::begin", "pmem-tx/src/context.rs")
}

/// Whether a function stores a commit word.
fn commits(name: &str, file: &str) -> bool {
    name.ends_with("::store_commit_word") && file.ends_with("replay/src/table.rs")
}

/// The addresses of an image's code that belong to a function, inlined or not, by its name and its
/// file.
pub fn inlined(image: &Image, names: &Names, is: fn(&str, &str) -> bool) -> Vec<u32> {
    let all = image.segments.iter();
    let code = all.flat_map(|(at, bytes)| (*at..*at + bytes.len() as u32).step_by(2));
    let of = |at: &u32| names.at(*at).iter().any(|(name, file)| is(name, file));
    code.filter(of).collect()
}

impl Marks {
    /// Those of the image of a machine.
    ///
    /// **Errors**: there are none: it has no debugging information, or no threads.
    pub fn of(m: &dyn Machine) -> Result<Self, String> {
        let image = m.image();
        let names = Names::of(image);
        let found: HashSet<_> = inlined(image, &names, begins).into_iter().collect();
        let entry = image.symbol("nv_rtos::port::cortex_m_switch::pendsv");
        let exit = entry.and_then(|from| {
            let handler = m.disassemble(from, from + 0x80);
            handler.iter().find(|i| i.1 == "bx lr").map(|i| i.0)
        });
        match (entry, exit) {
            (Some(entry), Some(exit)) if !found.is_empty() => Ok(Marks {
                names,
                begins: found,
                switch: (entry, exit),
                commits: HashMap::new(),
            }),
            _ => Err(format!("{}: nothing tells its steps", image.group)),
        }
    }

    /// All addresses at which a run is watched.
    fn watched(&self) -> Vec<u32> {
        let handler = [self.switch.0, self.switch.1];
        self.begins.iter().copied().chain(handler).collect()
    }

    /// Whether the instruction at an address, which stores, makes a commit store.
    fn is_commit(&mut self, at: u32) -> bool {
        let names = &self.names;
        let found = || names.at(at).iter().any(|(name, file)| commits(name, file));
        *self.commits.entry(at).or_insert_with(found)
    }

    /// The steps of a boot, in the order of their commits.
    pub fn steps(&mut self, m: &mut dyn Machine, state: &State, log: &mut Log) -> (Ran, Vec<Step>) {
        let boot = Boot {
            state,
            seed: 0,
            limit: LIMIT,
            detail: true,
        };
        let (ran, passed) = m.passed(&boot, &self.watched(), log);
        let mut events: Vec<_> = passed.iter().map(|t| (t.ended, self.event(t))).collect();
        for s in log.stores.iter().filter(|s| s.in_nvm()) {
            if self.is_commit(s.pc) {
                events.push((s.instruction.into(), Event::Commit));
            }
        }
        events.sort_by_key(|e| e.0);
        (ran, steps(&events))
    }

    fn event(&self, t: &Traced) -> Event {
        match t.pc {
            pc if pc == self.switch.0 => Event::Switch,
            pc if pc == self.switch.1 => Event::Runs(t.registers[NEXT]),
            _ => Event::Begin,
        }
    }
}

/// What happens with an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// The handler begins: nobody runs.
    Switch,
    /// It ends with this instruction: this thread runs next.
    Runs(u32),
    /// A transaction begins, or its begin goes on.
    Begin,
    /// A commit store is made.
    Commit,
}

/// The steps, from what has happened after how many instructions.
fn steps(events: &[(u64, Event)]) -> Vec<Step> {
    // Of each thread: what it has run, and how much of that before its open step.
    let mut threads: HashMap<u32, (u64, Option<u64>)> = HashMap::new();
    // Who runs, and since when.
    let mut running: Option<(u32, u64)> = None;
    let mut out = Vec::new();
    for &(at, event) in events {
        if let Event::Runs(next) = event {
            running = Some((next, at + 1));
            continue;
        }
        let Some((thread, since)) = running else {
            continue;
        };
        let (ran, open) = threads.entry(thread).or_default();
        *ran += at - since;
        running = match event {
            Event::Switch => None,
            _ => Some((thread, at)),
        };
        match event {
            Event::Begin => {
                open.get_or_insert(*ran);
            }
            // A record of a loop has no begin.
            Event::Commit => out.extend(open.take().map(|begin| Step {
                thread,
                instructions: *ran - begin + 1,
                commit: at,
            })),
            Event::Switch | Event::Runs(_) => {}
        }
    }
    out
}

/// The longest step of a program, and how many steps it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Longest {
    /// The instructions of the longest one.
    pub instructions: u64,
    /// All steps.
    pub steps: u64,
}

/// Runs a program to its end, and measures its steps. What was wrong, in words.
pub fn longest(m: &mut dyn Machine, case: &Case) -> Result<Longest, String> {
    let mut marks = Marks::of(m)?;
    let (ran, steps) = marks.steps(m, &case.blank(), &mut Log::default());
    if ran.end != End::Status(abi::FINISHED) {
        return Err(format!("{}: {:?}", case.name, ran.end));
    }
    let instructions = steps.iter().map(|s| s.instructions).max();
    let instructions = instructions.ok_or_else(|| format!("{}: no steps", case.name))?;
    Ok(Longest {
        instructions,
        steps: steps.len() as u64,
    })
}

/// The turns of the loop that the scenario of a known length makes in its step: in one run, and in
/// another one.
const TURNS: [u16; 2] = [1_000, 3_000];
/// Instructions of a turn.
const TURN: u64 = 2;
/// Its steps: one of each thread, and the record of the loop around it.
const STEPS: u64 = 4;

/// Measures a scenario whose longest step makes a loop of so many turns as it is asked for, waits
/// in it, and is longer by just these. What was wrong, in words.
pub fn check(m: &mut dyn Machine, case: &Case) -> Result<(), String> {
    let [few, more] = TURNS.map(|rounds| {
        let case = Case {
            rounds,
            ..case.clone()
        };
        longest(m, &case)
    });
    let (few, more) = (few?, more?);
    let longer = more.instructions.checked_sub(few.instructions);
    let turns = u64::from(TURNS[1] - TURNS[0]);
    let least = TURN * u64::from(TURNS[0]);
    // What the loop is in: a step, and a wait.
    let around = least..least + 1_000;
    let right = longer == Some(TURN * turns) && around.contains(&few.instructions);
    if right && [few.steps, more.steps] == [STEPS; 2] {
        return Ok(());
    }
    Err(format!(
        "{}: steps of {TURNS:?} turns are measured as {few:?} and {more:?}",
        case.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u32 = 0x100;
    const B: u32 = 0x104;

    #[test]
    fn what_others_do_in_a_step_does_not_count() {
        let all = steps(&[
            // Before the first switch nobody is known.
            (5, Event::Begin),
            (10, Event::Switch),
            (19, Event::Runs(A)),
            (30, Event::Begin),
            (32, Event::Begin),
            // It waits: 20 instructions of its step have run.
            (50, Event::Switch),
            (60, Event::Runs(B)),
            (61, Event::Begin),
            (1_000, Event::Commit),
            // A loop's record.
            (1_010, Event::Commit),
            (1_020, Event::Switch),
            (1_030, Event::Runs(A)),
            (1_040, Event::Commit),
            (1_041, Event::Begin),
            (1_042, Event::Commit),
        ]);
        let of = |thread, instructions, commit| Step {
            thread,
            instructions,
            commit,
        };
        assert_eq!(
            all,
            [of(B, 940, 1_000), of(A, 20 + 9 + 1, 1_040), of(A, 2, 1_042)]
        );
    }

    #[test]
    fn functions_are_told_by_name_and_file() {
        assert!(begins("::start", "crates/pmem-tx/src/resolved.rs"));
        assert!(begins(
            "pmem_tx::context::::begin",
            "/x/pmem-tx/src/context.rs"
        ));
        assert!(!begins("::start", "crates/rtos/src/kernel.rs"));
        assert!(!begins("::run_started", "crates/pmem-tx/src/resolved.rs"));
        let table = "crates/replay/src/table.rs";
        assert!(commits("nv_replay::table::Table::store_commit_word", table));
        assert!(!commits("nv_replay::table::Table::store", table));
    }
}
