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
use crate::medium::Media;
use crate::quick::require_cuts;
use crate::search::NextStates;
use crate::torn::{Policy, UnstableWords};
use crate::world::WorldState;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// From this many states on, a level runs on all threads.
const MANY: usize = 256;

/// How many states of each level are booted once more at the end.
const EARLY: usize = 8;

impl<M: Media, T: WorldState> Engine<'_, M, T> {
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
            self.shared.total.store(states.len() as u64, Relaxed);
            self.shared.done.store(0, Relaxed);
            self.last = level == setup.depth;
            self.rank = u64::from(level) << 32;
            if level > 1 && states.len() >= MANY && setup.threads > 1 {
                next = self.cut_in_parallel(&states, keep)?;
            } else {
                for s in &states {
                    self.load(s);
                    let r = self.cut_everywhere(s, &mut NextStates(&mut next, keep));
                    self.unload();
                    r?;
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
            let run = self.boot(&s.world, !s.free.is_empty(), &s.unstable, s.policy);
            let trace = self.take_trace();
            self.unload();
            s.compare(&run, &trace)?;
        }
        Ok(())
    }

    /// All threads take states from one counter.
    fn cut_in_parallel(
        &mut self,
        states: &[State<T>],
        keep: usize,
    ) -> Result<Vec<State<T>>, FailedRun> {
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
                        let Some(s) = states.get(i) else { break };
                        let mut next = Vec::new();
                        e.rank = rank + i as u64;
                        e.load(s);
                        let r = e.cut_everywhere(s, &mut NextStates(&mut next, keep));
                        e.unload();
                        shared.done.fetch_add(1, Relaxed);
                        let mut f = found.lock().unwrap_or_else(PoisonError::into_inner);
                        f.0.push((i, next));
                        if let Err(bad) = r {
                            taken.store(states.len(), Relaxed);
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
            let mine = |s: &State<T>| self.shared.belongs_to(s.key, rank + i as u64);
            all.extend(n.into_iter().filter(mine));
        }
        Ok(all)
    }
}
