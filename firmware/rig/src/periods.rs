//! Whole programs that are cut after seeded periods, again and again, until they come to their end.
//!
//! Each run has its own mean period. In the shortest ones some lives are hardly longer than the
//! first one, which formats the memory: so there are many cuts in recovery.

use crate::cost::figures;
use crate::explore::{Case, Explored};
use crate::machine::{Boot, End, Machine};
use crate::state::{Log, mix};
use relume_suite::abi;

/// Mean periods, in instructions. Each life has 1 to twice as many.
const MEANS: [u64; 6] = [50_000, 60_000, 80_000, 100_000, 120_000, 160_000];
/// Lives after which a program counts as one that does not come to its end.
const LIVES: u64 = 5_000;

/// Runs a program so often. Cuts, boots and what the runs have counted go to `out`. What was wrong,
/// in words.
pub fn run(m: &mut dyn Machine, case: &Case, runs: u64, out: &mut Explored) -> Option<String> {
    let mut log = Log::default();
    for seed in 0..runs {
        let mean = MEANS[seed as usize % MEANS.len()];
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
