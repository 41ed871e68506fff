//! Finds all states that one more cut of a state's run can leave.
//!
//! ```text
//!  record of the run:   store  store  fence  world  read  program ...
//!  cut candidates:    ^      ^      ^      ^      ^     ^        ^
//!                          at each: the image so far, and the open units (`walk`)
//!
//!  boot_all_states(cut):
//!    choices = {}                                  open units undecided
//!    boot -> the program reads open units a, b     (it never reads c: no branch for c)
//!    push_alternatives:   {a = other value}   {a = as read, b = other value}  ...
//!    boot each; repeat with the open units that these boots read
//!    more than `limit` boots: sample the rest
//! ```
//!
//! A cut is tried only before an event that takes possibilities away or changes the world; cuts
//! between such events leave a subset of the same states. Each program or erase of a device is also
//! tried torn, in each of its ways, and each state with unstable words is booted once for each read
//! policy.
//!
//! Why nothing is missed: a unit that a boot does not read before it overwrites it cannot change
//! that boot. It stays undecided in the next state (`carry_over`), so a later boot that reads it
//! branches then. Two states with the same key (image, unstable words, open units, world) are
//! booted once.

use crate::chain::{Cut, DIFFER, FailedRun, Link, chain, torn_states};
use crate::engine::{Engine, State, trace_hash};
use crate::hash::{Wide, item};
use crate::monitor::Claim;
use crate::schedule::Schedule;
use crate::schedules::{Planned, Start};
use crate::torn::{Policy, UnstableWords};
use crate::walk::{OpenUnit, Walk, part_of, read_first};
use crate::world::Value;
use nvmem::planted;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// An instant at which the power is cut.
struct CrashPoint<'a> {
    event: u32,
    torn: Option<u8>,
    unstable: &'a UnstableWords,
    world: &'a Value,
    world_hash: u128,
    from: &'a State,
    /// The schedule of the run that is cut.
    schedule: &'a Schedule,
}

/// The states of the next level, and how many of them to store.
pub(crate) struct NextStates<'n>(pub(crate) &'n mut Vec<State>, pub(crate) usize);

impl State {
    fn start(&self) -> Start<'_> {
        Start {
            world: &self.world,
            record_reads: !self.free.is_empty(),
            unstable: &self.unstable,
            policy: self.policy,
        }
    }

    fn failed(&self, schedule: Schedule, what: impl Into<String>) -> FailedRun {
        FailedRun {
            cuts: chain(&self.link),
            schedule,
            what: what.into(),
        }
    }
}

/// Decided units with their values, and the units that are still open.
type Branch = (Vec<(u32, u32)>, Vec<OpenUnit>);

/// The open units that a boot read, and their values.
type Reads = (Vec<OpenUnit>, Vec<u32>);

impl Engine<'_> {
    /// Boots the state in the arena again, under each schedule, and compares with the first time.
    /// Returns the schedules.
    pub(crate) fn compare(&mut self, s: &State) -> Result<Vec<Planned>, FailedRun> {
        let mut plans = Vec::new();
        match self.run_all(&s.start(), |_, p| plans.push(p.clone())) {
            Ok(all) if all.hash == s.trace_hash => Ok(plans),
            Ok(_) => Err(s.failed(Schedule::default(), DIFFER)),
            Err(bad) => Err(s.failed(bad.schedule, DIFFER)),
        }
    }

    /// The schedules with which the state in the arena is to be cut.
    pub(crate) fn plans(&mut self, s: &State) -> Result<Vec<Planned>, FailedRun> {
        match self.setup.preemptions {
            None => Ok(vec![Planned::default()]),
            Some(_) => self.compare(s),
        }
    }

    /// Cuts the runs of the state in the arena at every instant, with every schedule.
    pub(crate) fn cut_everywhere(
        &mut self,
        s: &State,
        next: &mut NextStates<'_>,
    ) -> Result<(), FailedRun> {
        for (i, p) in self.plans(s)?.iter().enumerate() {
            if i > 0 && !planted!("powerfail/next-run-begins-at-the-end") {
                // The run before has left its own end there.
                self.unload();
                self.load(s);
            }
            self.cut_run(s, p, next)?;
        }
        Ok(())
    }

    /// Cuts the run of the state in the arena with one schedule at every instant that no other run
    /// has. Leaves the end of the run there.
    pub(crate) fn cut_run(
        &mut self,
        s: &State,
        p: &Planned,
        next: &mut NextStates<'_>,
    ) -> Result<(), FailedRun> {
        let run = self.boot_planned(&s.start(), p);
        let trace = self.take_trace();
        if let Some(n) = self.setup.thin {
            if p.schedule.is_default() {
                self.choose_stride(n, &run, &trace)?;
            }
        } else if self.setup.preemptions.is_none() {
            if run.end.is_err() || trace_hash(&trace, &run.past) != s.trace_hash {
                return Err(s.failed(Schedule::default(), DIFFER));
            }
        } else if run.end.is_err() {
            return Err(s.failed(p.schedule.clone(), DIFFER));
        }
        if !p.schedule.is_default() && planted!("powerfail/preempted-run-is-not-cut") {
            return Ok(());
        }
        let mut walk = Walk::new(s.free.clone(), s.unstable.clone());
        let mut world = s.world.clone();
        let mut world_hash = world.digest();
        // Instants since the last tried cut; they are covered by the next one.
        let mut instants = 0;
        for i in 0..=trace.events.len() {
            let event = trace.events.get(i);
            let own = i >= p.shared as usize;
            if own
                && event.is_none_or(|e| walk.must_cut_before(e, &self.parts))
                && self.is_selected(&mut instants)
            {
                let point = CrashPoint {
                    event: i as u32,
                    torn: None,
                    unstable: &walk.unstable,
                    world: &world,
                    world_hash,
                    from: s,
                    schedule: &p.schedule,
                };
                self.boot_all_states(&point, &walk.pend, std::mem::take(&mut instants), next)?;
            }
            let Some(e) = event else { break };
            instants += u64::from(own && Walk::is_cut(e));
            let torn = match own {
                true => torn_states(&trace, i),
                false => Vec::new(),
            };
            // A quick look takes one of the ways.
            let one = self.setup.thin.map(|_| i % torn.len().max(1));
            for (k, w) in torn.into_iter().enumerate() {
                if one.is_some_and(|one| one != k) || !self.is_selected(&mut 1) {
                    continue;
                }
                let mut unstable = walk.unstable.clone();
                w.apply_to(&mut unstable);
                let was = self.patch(&w.patches);
                let point = CrashPoint {
                    event: i as u32,
                    torn: Some(k as u8),
                    unstable: &unstable,
                    world: &world,
                    world_hash,
                    from: s,
                    schedule: &p.schedule,
                };
                self.boot_all_states(&point, &walk.pend, 1, next)?;
                self.patch(&was);
            }
            let r = self.rec.0.get_mut();
            walk.step(&mut r.arena, &self.parts, &trace, i);
            if let crate::trace::Event::World(n) = *e {
                (world, world_hash) = run.past[n as usize].clone();
            }
        }
        self.spare.push(trace);
        Ok(())
    }

    /// Writes bytes into the arena. Returns the old bytes, in the order in which to write them
    /// back.
    pub(crate) fn patch(&mut self, patches: &[(u32, Vec<u8>)]) -> Vec<(u32, Vec<u8>)> {
        let arena = self.arena();
        let mut was = Vec::new();
        for (at, p) in patches {
            was.push((*at, arena.bytes()[*at as usize..][..p.len()].to_vec()));
            arena.put(*at, p);
        }
        was.reverse();
        was
    }

    /// The key that identifies a state.
    fn key(&mut self, point: &CrashPoint<'_>, free: &[OpenUnit]) -> u128 {
        let arena = &self.rec.0.get_mut().arena;
        let mut key = arena.hash() ^ point.world_hash ^ point.unstable.hash();
        for p in free {
            let mut vals: Vec<u32> = p.vals.clone();
            vals.sort_unstable();
            key ^= item(1, p.at, Wide::of(&vals[..]) as u64);
            if p.len == 4 {
                key ^= item(0, p.at / 4, arena.unit(p.at, 4).into());
            }
        }
        key
    }

    // INVARIANT "Each cut in one shard": the shards' cuts are those of the whole campaign, each
    // once. `boot_all_states` asks here for each cut.
    // Noticed by: `shards_together_judge_exactly_the_cuts_of_the_whole` and
    // `three_shares_are_disjoint_and_complete_at_depth_1_and_2` in tests/suite/shards.rs.

    /// Whether this shard counts the state of this key and, on the last level, boots it.
    fn owns(&self, key: u128) -> bool {
        let (mine, shards) = self.setup.shard;
        shards == 1 || (key >> 96) as u32 % shards == mine
    }

    /// Boots every state that a cut at this point may leave. `instants` cuts are covered by that.
    ///
    /// All shards explore the levels before the last, because each needs the states that lead
    /// there. The states of the last level are divided. So one shard counts and boots each cut.
    fn boot_all_states(
        &mut self,
        point: &CrashPoint<'_>,
        pend: &[OpenUnit],
        instants: u64,
        next: &mut NextStates<'_>,
    ) -> Result<(), FailedRun> {
        if self.setup.shard.1 > 1 {
            let key = self.key(point, pend);
            if self.owns(key) {
                self.count.cuts += instants;
            } else if self.last {
                return Ok(());
            }
        } else {
            self.count.cuts += instants;
        }
        self.status.cuts.fetch_add(instants, Relaxed);
        let mut todo: Vec<Branch> = Vec::new();
        let mut choices = Vec::new();
        let mut free = pend.to_vec();
        let mut boots = 0;
        loop {
            if let Some((reads, vals)) = self.boot_state(point, &choices, &free, next)? {
                boots += 1;
                push_alternatives(&choices, &free, &reads, &vals, &mut todo);
            }
            match todo.pop() {
                Some(_) if boots == 2 && self.setup.thin.is_some() => {
                    self.count.sampled += 1;
                    return Ok(());
                }
                Some(t) if boots < self.setup.limit => (choices, free) = t,
                Some(_) => break,
                None => return Ok(()),
            }
        }
        self.count.sampled += 1;
        let seed = self
            .setup
            .samples
            .seed()
            .wrapping_add(u64::from(point.event) + 1);
        for c in crate::sample::choices(pend, seed) {
            self.boot_state(point, &c, &[], next)?;
        }
        Ok(())
    }

    /// Boots one state with each read policy, unless it was booted before.
    fn boot_state(
        &mut self,
        point: &CrashPoint<'_>,
        choices: &[(u32, u32)],
        free: &[OpenUnit],
        next: &mut NextStates<'_>,
    ) -> Result<Option<Reads>, FailedRun> {
        let mut old = Vec::with_capacity(choices.len());
        let arena = &mut self.rec.0.get_mut().arena;
        for &(at, v) in choices {
            let len = part_of(&self.parts, at).unit;
            old.push((at, len, arena.unit(at, len)));
            arena.put_unit(at, len, v);
        }
        let key = self.key(point, free);
        let mut reads = None;
        let claim = self.shared.claim(key, self.rank);
        if claim != Claim::Taken {
            let counted = claim == Claim::New && (self.last || self.owns(key));
            let five = planted!("powerfail/five-ways-of-reading");
            for policy in 0..Policy::ALL - u8::from(five) {
                self.count.boots += u64::from(counted);
                let (found, read_unstable) =
                    self.boot_once(point, (choices, key), free, (Policy(policy), counted), next)?;
                match &mut reads {
                    None => reads = Some(found),
                    Some((p, v)) => {
                        for (q, w) in found.0.into_iter().zip(found.1) {
                            if !p.contains(&q) {
                                p.push(q);
                                v.push(w);
                            }
                        }
                    }
                }
                if !read_unstable {
                    break;
                }
            }
        } else {
            self.count.duplicates += 1;
        }
        let arena = &mut self.rec.0.get_mut().arena;
        for (at, len, v) in old.into_iter().rev() {
            arena.put_unit(at, len, v);
        }
        Ok(reads)
    }

    fn boot_once(
        &mut self,
        point: &CrashPoint<'_>,
        (choices, key): (&[(u32, u32)], u128),
        free: &[OpenUnit],
        (policy, counted): (Policy, bool),
        next: &mut NextStates<'_>,
    ) -> Result<(Reads, bool), FailedRun> {
        let cut = Cut {
            event: point.event,
            torn: point.torn,
            choices: choices.to_vec(),
            policy,
            schedule: point.schedule.clone(),
        };
        self.status.at(&point.from.link, &cut);
        let start = Start {
            world: point.world,
            record_reads: !free.is_empty(),
            unstable: point.unstable,
            policy,
        };
        let link = || {
            Some(Arc::new(Link {
                parent: point.from.link.clone(),
                cut: cut.clone(),
            }))
        };
        let mut reads = match self.setup.prune {
            true => Vec::new(),
            false => free.to_vec(),
        };
        let prune = self.setup.prune && !free.is_empty();
        let mut read_unstable = false;
        let all = self.run_all(&start, |e, _| {
            let r = e.rec.0.get_mut();
            read_unstable |= r.read_unstable;
            if prune {
                let found = read_first(free, &r.trace);
                let new = |p: &OpenUnit| !reads.iter().any(|q| q.at == p.at);
                let new: Vec<OpenUnit> = found.into_iter().filter(new).collect();
                reads.extend(new);
            }
        });
        let all = match all {
            Ok(all) => all,
            Err(bad) => {
                return Err(FailedRun {
                    cuts: chain(&link()),
                    schedule: bad.schedule,
                    what: bad.what,
                });
            }
        };
        if counted {
            self.count.schedules += all.preempted;
        }
        let keep = next.0.len() < next.1;
        let hash = keep.then_some(all.hash);
        let arena = &self.rec.0.get_mut().arena;
        let vals = reads.iter().map(|p| arena.unit(p.at, p.len)).collect();
        if let Some(trace_hash) = hash {
            let unstable = match planted!("powerfail/unstable-for-one-boot") {
                true => UnstableWords::default(),
                false => point.unstable.clone(),
            };
            next.0.push(State {
                diff: self.diff(),
                free: carry_over(free),
                unstable,
                policy,
                world: point.world.clone(),
                trace_hash,
                link: link(),
                key,
            });
        }
        Ok(((reads, vals), read_unstable))
    }
}

/// The units that stay open at the next boot until they are read or overwritten.
pub(crate) fn carry_over(free: &[OpenUnit]) -> Vec<OpenUnit> {
    if planted!("powerfail/open-forgotten-at-boot") {
        return Vec::new();
    }
    let open = |p: &OpenUnit| OpenUnit {
        free: true,
        lent: false,
        ..p.clone()
    };
    free.iter().map(open).collect()
}

/// The alternatives to the values that a boot read: the first unit differs, or the second, and so
/// on.
fn push_alternatives(
    choices: &[(u32, u32)],
    free: &[OpenUnit],
    reads: &[OpenUnit],
    vals: &[u32],
    todo: &mut Vec<Branch>,
) {
    for (j, p) in reads.iter().enumerate().rev() {
        let most = match planted!("powerfail/one-other-value") {
            true => 1,
            false => usize::MAX,
        };
        let others = p.vals.iter().rev().filter(|v| **v != vals[j]);
        for &other in others.take(most) {
            let mut c = choices.to_vec();
            c.extend(reads[..j].iter().zip(vals).map(|(p, v)| (p.at, *v)));
            c.push((p.at, other));
            let f = free
                .iter()
                .filter(|p| !reads[..=j].iter().any(|r| r.at == p.at))
                .cloned()
                .collect();
            todo.push((c, f));
        }
    }
}
