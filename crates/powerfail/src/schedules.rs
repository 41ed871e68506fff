//! Runs a state under all schedules with at most `k` preemptions.
//!
//! ```text
//!  default run   lists its points:   0 1 2 3 4
//!  one more      ~0>1  ~1>1 ... ~4>1            each lists its points, too
//!  two           ~0>1~1>0  ~0>1~2>0 ...         only points after the last preemption
//! ```
//!
//! A run shares everything before its last preemption with the run it comes from. That is checked:
//! the hash of both up to there must agree, or the program depends on something else than its
//! schedule. Cuts in the shared part were tried with the other run and are not tried again.

use crate::chain::DIFFER;
use crate::engine::{Engine, Run, trace_hash};
use crate::schedule::{Preemption, Schedule};
use crate::torn::{Policy, UnstableWords};
use crate::world::Value;
use nvmem::planted;
use std::collections::VecDeque;

/// How many schedules a quick look runs of each state, beside the default one.
const THIN_SCHEDULES: usize = 4;

/// A schedule to run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Planned {
    pub(crate) schedule: Schedule,
    /// The number of events that it shares with a run that comes before it in the search.
    pub(crate) shared: u32,
    /// The hash of those.
    prefix: u64,
}

/// What all runs of a state together gave.
pub(crate) struct AllRuns {
    /// The hash of the runs.
    pub(crate) hash: u128,
    /// The number of runs with a preemption.
    pub(crate) preempted: u64,
    /// The number of points of the default run.
    pub(crate) points: u64,
}

/// A schedule with which a state fails.
pub(crate) struct BadRun {
    pub(crate) schedule: Schedule,
    pub(crate) what: String,
}

/// The state in the arena, as a boot finds it.
pub(crate) struct Start<'a> {
    pub(crate) world: &'a Value,
    pub(crate) record_reads: bool,
    pub(crate) unstable: &'a UnstableWords,
    pub(crate) policy: Policy,
}

// INVARIANT "One state and schedule, one boot": two boots of the same state with the same schedule
// give the same events. A run with one more preemption is the same up to that preemption.
// `Engine::boot_planned` compares prefixes, `Engine::compare` whole boots, and
// `Explore::check_determinism` boots at another address.
// Noticed by: leaked statics and stored addresses in tests/suite/planted.rs;
// tests/suite/process.rs.

impl Engine<'_> {
    /// Boots once with a schedule. Its record stays in the recorder.
    pub(crate) fn boot_planned(&mut self, start: &Start<'_>, p: &Planned) -> Run {
        self.schedule = p.schedule.clone();
        self.status.under(&self.schedule);
        let mut run = self.boot(
            start.world,
            start.record_reads,
            start.unstable,
            start.policy,
        );
        self.schedule = Schedule::default();
        let same = self.rec.3.hash_of_prefix() == Some(p.prefix);
        if !same {
            run.end = Err(DIFFER.into());
        }
        run
    }

    /// Runs the state in the arena under each schedule. `each` sees the run before it is undone.
    ///
    /// **Errors**: the first run that fails.
    pub(crate) fn run_all(
        &mut self,
        start: &Start<'_>,
        mut each: impl FnMut(&mut Self, &Planned),
    ) -> Result<AllRuns, BadRun> {
        let most = match self.setup.preemptions {
            Some(n) if planted!("powerfail/one-preemption-at-most") => n.min(1) as usize,
            n => n.unwrap_or(0) as usize,
        };
        let mut todo = VecDeque::from([Planned::default()]);
        let mut all = AllRuns {
            hash: 0,
            preempted: 0,
            points: 0,
        };
        while let Some(p) = todo.pop_front() {
            let run = self.boot_planned(start, &p);
            if let Err(what) = run.end {
                let schedule = p.schedule;
                self.undo();
                return Err(BadRun { schedule, what });
            }
            let hash = trace_hash(&self.rec.0.get_mut().trace, &run.past);
            each(self, &p);
            self.undo();
            if most == 0 {
                all.hash = hash;
                return Ok(all);
            }
            let ran = u128::from(self.rec.3.hash()) << 32;
            all.hash = all.hash.rotate_left(7) ^ hash.wrapping_add(ran);
            let log = self.rec.3.take_log();
            if p.schedule.is_default() {
                all.points = log.len() as u64;
            } else {
                all.preempted += 1;
            }
            if p.schedule.preemptions().len() < most {
                self.plan_more(&p, &log, &mut todo);
            }
            self.rec.3.reuse_log(log);
        }
        Ok(all)
    }

    /// The schedules that have one preemption more than `p`, after its last one.
    fn plan_more(&self, p: &Planned, log: &[crate::threads::Point], todo: &mut VecDeque<Planned>) {
        let after = p.schedule.preemptions().last().map_or(0, |l| l.point + 1);
        let end = match planted!("powerfail/last-point-is-none") {
            true => log.len().saturating_sub(1),
            false => log.len(),
        };
        let new = todo.len();
        for (point, l) in log.iter().enumerate().take(end).skip(after as usize) {
            for choice in l.choices.iter() {
                let point = point as u32;
                todo.push_back(Planned {
                    schedule: p.schedule.and(Preemption { point, choice }),
                    shared: l.shared,
                    prefix: l.hash,
                });
            }
        }
        if self.setup.thin.is_some() {
            let found: Vec<Planned> = todo.drain(new..).collect();
            let step = found.len().div_ceil(THIN_SCHEDULES).max(1);
            let some = match p.schedule.is_default() {
                true => THIN_SCHEDULES,
                false => 0,
            };
            todo.extend(found.into_iter().step_by(step).take(some));
        }
    }
}
