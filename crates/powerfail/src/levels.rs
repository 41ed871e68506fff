//! Explores level by level: level n holds the states that n - 1 cuts can leave.
//!
//! ```text
//!  level 1        level 2             level 3
//!  first image -> states after 1 cut -> states after 2 cuts -> ...
//!                 each is booted, checked, and cut everywhere (`search`)
//! ```
//!
//! From 256 states on, all cores take states of a level in parallel. A state that two threads reach
//! goes on from the rank that a single thread would reach first, so results do not depend on the
//! number of threads. At the end some early states are booted once more: a cache that recovery
//! fills would show.

use crate::chain::FailedRun;
use crate::engine::{Count, Engine, State, engine_of};
use crate::quick::require_cuts;
use crate::schedules::{Planned, Start};
use crate::search::NextStates;
use crate::torn::{Policy, UnstableWords};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// From this many states on, a level runs on all threads.
const MANY: usize = 256;

/// How many states of each level are booted once more at the end.
const EARLY: usize = 8;

/// A part of a level's work.
enum Item {
    /// All runs of a state.
    State(usize),
    /// One run of a state.
    Run(usize, Planned),
}

impl Engine<'_> {
    pub(crate) fn explore(&mut self) -> Result<(), FailedRun> {
        let setup = self.setup;
        // A quick look compares no runs, so it needs no hash.
        let trace_hash = if setup.thin.is_some() {
            0
        } else {
            let (hash, cuts, _) = self.run_uncut()?;
            require_cuts(cuts)?;
            hash
        };
        let mut states = vec![State {
            diff: Vec::new(),
            free: Vec::new(),
            unstable: UnstableWords::default(),
            policy: Policy::default(),
            world: setup.world.clone(),
            trace_hash,
            link: None,
            key: 0,
        }];
        if setup.preemptions.is_some() {
            let root = &mut states[0];
            root.trace_hash = self.require_preemptions()?;
        }
        let most = if setup.thin.is_some() { 0 } else { EARLY };
        let mut early = Vec::new();
        for level in 1..=setup.depth {
            let mut next = Vec::new();
            let keep = if level < setup.depth {
                usize::MAX
            } else {
                most
            };
            if states.is_empty() {
                break;
            }
            let boots = self.count.boots;
            self.shared.level.store(level.into(), Relaxed);
            self.shared.done.store(0, Relaxed);
            self.last = level == setup.depth;
            self.rank = u64::from(level) << 32;
            let items = self.items(&states)?;
            self.shared.total.store(items.len() as u64, Relaxed);
            let many = items.len() >= MANY && (level > 1 || setup.preemptions.is_some());
            if many && setup.threads > 1 {
                next = self.cut_in_parallel(&states, &items, keep)?;
            } else {
                for item in &items {
                    self.cut_item(&states, item, &mut NextStates(&mut next, keep))?;
                    self.rank += 1;
                    self.shared.done.fetch_add(1, Relaxed);
                }
            }
            if self.count.boots > boots {
                self.count.depth = level;
            }
            early.extend(std::mem::replace(&mut states, next).into_iter().take(most));
        }
        // A cache that recovery fills once shows only in a comparison with a boot before it was
        // filled.
        for s in early.iter().chain(states.iter().take(most)) {
            self.load(s);
            let same = self.compare(s);
            self.unload();
            same?;
        }
        Ok(())
    }

    /// Runs the first state under all schedules. Returns the hash of the runs.
    ///
    /// **Errors**: one of them fails, or there is no preemption: such a campaign would find
    /// nothing.
    fn require_preemptions(&mut self) -> Result<u128, FailedRun> {
        let setup = self.setup;
        let start = Start {
            world: &setup.world,
            record_reads: false,
            unstable: &UnstableWords::default(),
            policy: Policy::default(),
        };
        match self.run_all(&start, |_, _| ()) {
            Ok(all) if all.preempted == 0 => Err(FailedRun::uncut(
                "nothing to preempt: at no point could another thread of `World::threads` run, the clock move, or \
                 an interrupt come",
            )),
            Ok(all) => {
                self.count.points = all.points;
                if setup.shard.0 == 0 {
                    self.count.schedules += all.preempted;
                }
                Ok(all.hash)
            }
            Err(bad) => Err(FailedRun {
                schedule: bad.schedule,
                ..FailedRun::uncut(bad.what)
            }),
        }
    }

    /// What the engines of a level share out: the states, or, if these are few and have schedules,
    /// the runs of each.
    fn items(&mut self, states: &[State]) -> Result<Vec<Item>, FailedRun> {
        if states.len() >= MANY || self.setup.preemptions.is_none() {
            return Ok((0..states.len()).map(Item::State).collect());
        }
        let mut items = Vec::new();
        for (i, s) in states.iter().enumerate() {
            self.load(s);
            let plans = self.plans(s);
            self.unload();
            items.extend(plans?.into_iter().map(|p| Item::Run(i, p)));
        }
        Ok(items)
    }

    fn cut_item(
        &mut self,
        states: &[State],
        item: &Item,
        next: &mut NextStates<'_>,
    ) -> Result<(), FailedRun> {
        let s = &states[match item {
            Item::State(i) | Item::Run(i, _) => *i,
        }];
        self.load(s);
        let r = match item {
            Item::State(_) => self.cut_everywhere(s, next),
            Item::Run(_, p) => self.cut_run(s, p, next),
        };
        self.unload();
        r
    }

    /// All threads take items from one counter.
    fn cut_in_parallel(
        &mut self,
        states: &[State],
        items: &[Item],
        keep: usize,
    ) -> Result<Vec<State>, FailedRun> {
        let taken = AtomicUsize::new(0);
        let found = Mutex::new((Vec::new(), None::<(usize, FailedRun)>, Count::default()));
        let (setup, shared) = (self.setup, &self.shared);
        let (last, rank) = (self.last, self.rank);
        std::thread::scope(|scope| {
            for worker in 0..setup.threads {
                let (taken, found) = (&taken, &found);
                scope.spawn(move || {
                    let mut e = engine_of(setup, 2 + worker, shared.clone());
                    e.last = last;
                    loop {
                        let i = taken.fetch_add(1, Relaxed);
                        let Some(item) = items.get(i) else { break };
                        let mut next = Vec::new();
                        e.rank = rank + i as u64;
                        let r = e.cut_item(states, item, &mut NextStates(&mut next, keep));
                        shared.done.fetch_add(1, Relaxed);
                        let mut f = found.lock().unwrap_or_else(PoisonError::into_inner);
                        f.0.push((i, next));
                        if let Err(bad) = r {
                            taken.store(items.len(), Relaxed);
                            if f.1.as_ref().is_none_or(|(at, _)| i < *at) {
                                f.1 = Some((i, bad));
                            }
                        }
                    }
                    let mut f = found.lock().unwrap_or_else(PoisonError::into_inner);
                    f.2 = f.2.plus(&e.count);
                });
            }
        });
        let (mut next, bad, count) = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.count = self.count.plus(&count);
        if let Some((_, bad)) = bad {
            return Err(bad);
        }
        next.sort_by_key(|(i, _)| *i);
        // A state that two threads reached continues from the first rank, as with one thread.
        let mut all = Vec::new();
        for (i, n) in next {
            let mine = |s: &State| self.shared.belongs_to(s.key, rank + i as u64);
            all.extend(n.into_iter().filter(mine));
        }
        Ok(all)
    }
}
