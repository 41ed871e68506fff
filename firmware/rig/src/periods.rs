//! Whole programs that are cut after seeded periods, again and again, until they come to their end.
//!
//! Each run has its own mean period. In the shortest ones some lives are hardly longer than the
//! first one, which formats the memory: so there are many cuts in recovery.

use crate::cost::{figures, sections};
use crate::explore::{Case, Explored};
use crate::machine::{Boot, End, Machine};
use crate::state::{Log, State, Store, mix};
use relume_suite::abi;

/// Mean periods, in instructions, but none is shorter than a boot of the program's last state. Each
/// life has 1 to twice as many.
const MEANS: [u64; 6] = [50_000, 60_000, 80_000, 100_000, 120_000, 160_000];
/// Lives after which a program counts as one that does not come to its end.
const LIVES: u64 = 5_000;

/// Instructions between two cuts of a program whose time with cuts is measured: the first with
/// which it comes to its end.
const EVERY: [u64; 4] = [16_000, 32_000, 64_000, 128_000];
/// The program is repeated until it has run for so long without cuts.
const LONG: u64 = 160_000;

/// What a program takes with cuts, in instructions from the start of its threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repeated {
    /// Between two cuts.
    pub every: u64,
    /// All of it, with the boots.
    pub taken: u64,
    /// The same without cuts.
    pub uncut: u64,
    /// Of these the longest boot, from the reset to the start of the threads.
    pub boot: u64,
    /// The longest way from a reset to the first store of a thread, which no replay makes.
    pub restart: u64,
}

/// Runs a program to its end with a cut after each so many instructions, until that has taken long
/// enough. The format of the memory does not count, and is not cut. What this takes goes to `out`.
/// What was wrong, in words.
pub fn repeat(m: &mut dyn Machine, case: &Case, out: &mut Explored) -> Option<String> {
    EVERY
        .into_iter()
        .find_map(|every| match repeat_with(m, case, out, every) {
            Ok(None) => None,
            Ok(Some(repeated)) => {
                out.repeated = Some(repeated);
                Some(None)
            }
            Err(wrong) => Some(Some(wrong)),
        })?
}

/// The instruction with which the threads of a run begin.
pub fn begins(log: &Log) -> Option<u64> {
    log.stores.iter().find_map(|s| match s.mailbox_write() {
        Some((abi::cell::MARK, abi::section::PROGRAM)) => Some(u64::from(s.instruction)),
        _ => None,
    })
}

/// The instruction of the first store that a thread makes to the memory, when they begin there.
pub fn first_store(log: &Log, begin: u64) -> Option<u64> {
    let later = |s: &&Store| u64::from(s.instruction) > begin && s.mailbox_write().is_none();
    log.stores.iter().find(later).map(|s| s.instruction.into())
}

/// The same with one number; `None` if it does not come to its end.
fn repeat_with(
    m: &mut dyn Machine,
    case: &Case,
    out: &mut Explored,
    every: u64,
) -> Result<Option<Repeated>, String> {
    let mut log = Log::default();
    let mut boot = |state: &mut State, limit: u64, log: &mut Log| {
        let boot = Boot {
            state,
            seed: limit,
            limit,
            detail: true,
        };
        let ran = m.boot(&boot, log);
        let mut now = state.clone();
        m.state(&mut now);
        *state = now;
        ran
    };
    boot(&mut case.blank(), u64::from(u32::MAX), &mut log);
    let program = sections(&log);
    let program = program.iter().find(|s| s.0 == abi::section::PROGRAM);
    let (Some(format), Some((_, cost))) = (begins(&log), program) else {
        return Err(format!("{}: it has no threads", case.name));
    };
    let mut repeated = Repeated {
        every,
        taken: 0,
        uncut: 0,
        boot: 0,
        restart: 0,
    };
    let mut left = every;
    while repeated.uncut < LONG {
        let mut state = case.blank();
        for life in 0.. {
            // The first life formats the memory.
            let before = if life == 0 { format } else { 0 };
            let ran = boot(&mut state, before + left, &mut log);
            out.booted_instructions += ran.instructions;
            out.boots += 1;
            if life > 0 {
                let begin = begins(&log).unwrap_or(0);
                repeated.boot = repeated.boot.max(begin);
                let first = first_store(&log, begin).unwrap_or(0);
                repeated.restart = repeated.restart.max(first);
            }
            let used = ran.instructions.saturating_sub(before);
            repeated.taken += used;
            match ran.end {
                End::Limit => (out.cuts, left) = (out.cuts + 1, every),
                End::Status(abi::FINISHED) => {
                    left = left.saturating_sub(used).max(1);
                    out.others.push(figures(&log));
                    break;
                }
                _ => {
                    out.failures += 1;
                    return Err(format!("{}: life {life}, {every}: {ran:?}", case.name));
                }
            }
            if life > 50 + 10 * cost.instructions / every {
                return Ok(None);
            }
        }
        repeated.uncut += cost.instructions;
    }
    Ok(Some(repeated))
}

/// The instructions of a boot of a program that has come to its end, to the start of its threads.
fn last_boot(m: &mut dyn Machine, case: &Case, log: &mut Log) -> u64 {
    let mut state = case.blank();
    for _ in 0..2 {
        let boot = Boot {
            state: &state,
            seed: 0,
            limit: u32::MAX.into(),
            detail: true,
        };
        m.boot(&boot, log);
        let mut now = state.clone();
        m.state(&mut now);
        state = now;
    }
    begins(log).unwrap_or(0)
}

/// Runs a program so often. Cuts, boots and what the runs have counted go to `out`. What was wrong,
/// in words.
pub fn run(m: &mut dyn Machine, case: &Case, runs: u64, out: &mut Explored) -> Option<String> {
    let mut log = Log::default();
    let least = last_boot(m, case, &mut log);
    for seed in 0..runs {
        let mean = MEANS[seed as usize % MEANS.len()].max(least);
        let mut state = case.blank();
        let mut life = 0;
        loop {
            let chance = mix(seed << 32 | life);
            let boot = Boot {
                state: &state,
                seed: chance,
                limit: 1 + chance % (2 * mean),
                detail: true,
            };
            let ran = m.boot(&boot, &mut log);
            out.boots += 1;
            out.booted_instructions += ran.instructions;
            let mut now = state.clone();
            m.state(&mut now);
            match ran.end {
                End::Limit => out.cuts += 1,
                End::Status(abi::FINISHED) => {
                    out.others.push(figures(&log));
                    break;
                }
                end => {
                    out.failures += 1;
                    let failure = now.read_cell(abi::cell::FAILURE);
                    return Some(format!(
                        "{}: run {seed}, mean period {mean}, life {life}: {end:?}, failure {failure:#x}",
                        case.name
                    ));
                }
            }
            state = now;
            life += 1;
            if life == LIVES {
                out.failures += 1;
                return Some(format!(
                    "{}: run {seed}, mean period {mean}: no end in {LIVES} lives",
                    case.name
                ));
            }
        }
    }
    None
}
