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
use crate::engine::{Engine, Run, State, trace_hash};
use crate::hash::{Wide, item};
use crate::medium::Media;
use crate::monitor::Claim;
use crate::torn::{Policy, UnstableWords};
use crate::trace::Trace;
use crate::walk::{OpenUnit, Walk, part_of, read_first};
use crate::world::WorldState;
use nvmem::planted;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// An instant at which the power is cut.
struct CrashPoint<'a, T> {
    event: u32,
    torn: Option<u8>,
    unstable: &'a UnstableWords,
    world: &'a T,
    world_hash: u128,
    from: &'a State<T>,
}

/// The states of the next level, and how many of them to store.
pub(crate) struct NextStates<'n, T>(pub(crate) &'n mut Vec<State<T>>, pub(crate) usize);

impl<T> State<T> {
    pub(crate) fn compare(&self, run: &Run<T>, trace: &Trace) -> Result<(), FailedRun> {
        if run.end.is_ok() && trace_hash(trace, &run.past) == self.trace_hash {
            return Ok(());
        }
        Err(FailedRun {
            cuts: chain(&self.link),
            what: DIFFER.into(),
        })
    }
}

/// Decided units with their values, and the units that are still open.
type Branch = (Vec<(u32, u32)>, Vec<OpenUnit>);

/// The open units that a boot read, and their values.
type Reads = (Vec<OpenUnit>, Vec<u32>);

impl<M: Media, T: WorldState> Engine<'_, M, T> {
    /// Cuts the run of a state at every instant.
    pub(crate) fn cut_everywhere(
        &mut self,
        s: &State<T>,
        next: &mut NextStates<'_, T>,
    ) -> Result<(), FailedRun> {
        let run = self.boot(&s.world, !s.free.is_empty(), &s.unstable, s.policy);
        let trace = self.take_trace();
        match self.setup.thin {
            None => s.compare(&run, &trace)?,
            Some(n) => self.choose_stride(n, &run, &trace)?,
        }
        let mut walk = Walk::new(s.free.clone(), s.unstable.clone());
        let mut world = s.world.clone();
        let mut world_hash = Wide::of(&world);
        // Instants since the last tried cut; they are covered by the next one.
        let mut instants = 0;
        for i in 0..=trace.events.len() {
            let event = trace.events.get(i);
            if event.is_none_or(|e| walk.must_cut_before(e, &self.parts))
                && self.is_selected(&mut instants)
            {
                let point = CrashPoint {
                    event: i as u32,
                    torn: None,
                    unstable: &walk.unstable,
                    world: &world,
                    world_hash,
                    from: s,
                };
                self.boot_all_states(&point, &walk.pend, std::mem::take(&mut instants), next)?;
            }
            let Some(e) = event else { break };
            instants += u64::from(Walk::is_cut(e));
            let torn = torn_states(&trace, i);
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
    fn key(&mut self, point: &CrashPoint<'_, T>, free: &[OpenUnit]) -> u128 {
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
        point: &CrashPoint<'_, T>,
        pend: &[OpenUnit],
        instants: u64,
        next: &mut NextStates<'_, T>,
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
        for c in crate::sample::choices(pend, u64::from(point.event) + 1) {
            self.boot_state(point, &c, &[], next)?;
        }
        Ok(())
    }

    /// Boots one state with each read policy, unless it was booted before.
    fn boot_state(
        &mut self,
        point: &CrashPoint<'_, T>,
        choices: &[(u32, u32)],
        free: &[OpenUnit],
        next: &mut NextStates<'_, T>,
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
                    self.boot_once(point, (choices, key), free, Policy(policy), next)?;
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
        point: &CrashPoint<'_, T>,
        (choices, key): (&[(u32, u32)], u128),
        free: &[OpenUnit],
        policy: Policy,
        next: &mut NextStates<'_, T>,
    ) -> Result<(Reads, bool), FailedRun> {
        let cut = Cut {
            event: point.event,
            torn: point.torn,
            choices: choices.to_vec(),
            policy,
        };
        self.status.at(&point.from.link, &cut);
        let run = self.boot(point.world, !free.is_empty(), point.unstable, policy);
        let link = || {
            Some(Arc::new(Link {
                parent: point.from.link.clone(),
                cut: cut.clone(),
            }))
        };
        if let Err(what) = run.end {
            return Err(FailedRun {
                cuts: chain(&link()),
                what,
            });
        }
        let r = self.rec.0.get_mut();
        let (trace, read_unstable) = (&r.trace, r.read_unstable);
        let reads = if !self.setup.prune {
            free.to_vec()
        } else if free.is_empty() {
            Vec::new()
        } else {
            read_first(free, trace)
        };
        let keep = next.0.len() < next.1;
        let hash = keep.then(|| trace_hash(trace, &run.past));
        self.undo();
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
