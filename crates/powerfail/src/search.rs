//! All states that one more cut can lead to.

use crate::chain::{Bad, Cut, DIFFER, Link, chain, wrecks};
use crate::engine::{Engine, Run, State, trace_hash};
use crate::hash::{Wide, item};
use crate::medium::Media;
use crate::monitor::Claim;
use crate::torn::{Policy, ShakySet};
use crate::trace::Trace;
use crate::walk::{Pend, Walk, part_of, read_first};
use crate::world::Outside;
use nvmem::planted;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// An instant at which the power goes.
struct Spot<'a, T> {
    event: u32,
    torn: Option<u8>,
    shaky: &'a ShakySet,
    world: &'a T,
    world_hash: u128,
    from: &'a State<T>,
}

/// States to go on from, and how many of them to keep.
pub(crate) struct Next<'n, T>(pub(crate) &'n mut Vec<State<T>>, pub(crate) usize);

impl<T> State<T> {
    pub(crate) fn compare(&self, run: &Run<T>, trace: &Trace) -> Result<(), Bad> {
        if run.end.is_ok() && trace_hash(trace, &run.past) == self.trace_hash {
            return Ok(());
        }
        Err(Bad {
            cuts: chain(&self.link),
            what: DIFFER.into(),
        })
    }
}

/// Decided units with their values, and the units that stay open.
type Branch = (Vec<(u32, u32)>, Vec<Pend>);

/// The open units that a boot read, and the values that it found.
type Reads = (Vec<Pend>, Vec<u32>);

impl<M: Media, T: Outside> Engine<'_, M, T> {
    /// Cuts the run of a state at every instant.
    pub(crate) fn cut_everywhere(
        &mut self,
        s: &State<T>,
        next: &mut Next<'_, T>,
    ) -> Result<(), Bad> {
        let run = self.boot(&s.world, !s.free.is_empty(), &s.shaky, s.policy);
        let trace = self.take_trace();
        match self.setup.thin {
            None => s.compare(&run, &trace)?,
            Some(n) => self.pace(n, &run, &trace)?,
        }
        let mut walk = Walk::new(s.free.clone(), s.shaky.clone());
        let mut world = s.world.clone();
        let mut world_hash = Wide::of(&world);
        // Instants since the last that was judged: they are judged with it.
        let mut instants = 0;
        for i in 0..=trace.events.len() {
            let event = trace.events.get(i);
            if event.is_none_or(|e| walk.settles(e, &self.parts)) && self.turn(&mut instants) {
                let spot = Spot {
                    event: i as u32,
                    torn: None,
                    shaky: &walk.shaky,
                    world: &world,
                    world_hash,
                    from: s,
                };
                self.judge(&spot, &walk.pend, std::mem::take(&mut instants), next)?;
            }
            let Some(e) = event else { break };
            instants += u64::from(Walk::is_cut(e));
            let torn = wrecks(&trace, i);
            // A quick look takes one of them.
            let one = self.setup.thin.map(|_| i % torn.len().max(1));
            for (k, w) in torn.into_iter().enumerate() {
                if one.is_some_and(|one| one != k) || !self.turn(&mut 1) {
                    continue;
                }
                let mut shaky = walk.shaky.clone();
                w.mark(&mut shaky);
                let was = self.patch(&w.patches);
                let spot = Spot {
                    event: i as u32,
                    torn: Some(k as u8),
                    shaky: &shaky,
                    world: &world,
                    world_hash,
                    from: s,
                };
                self.judge(&spot, &walk.pend, 1, next)?;
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

    /// Puts bytes into the arena; what was there comes back, in the order in which to put it back.
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

    /// What tells this state from others.
    fn key(&mut self, spot: &Spot<'_, T>, free: &[Pend]) -> u128 {
        let arena = &self.rec.0.get_mut().arena;
        let mut key = arena.hash() ^ spot.world_hash ^ spot.shaky.hash();
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

    /// Whether what has this key is counted, and on the last level judged, by this shard.
    fn owns(&self, key: u128) -> bool {
        let (mine, shards) = self.setup.shard;
        shards == 1 || (key >> 96) as u32 % shards == mine
    }

    /// Boots everything that a cut now may have left; `instants` are judged by that.
    ///
    /// All shards go the way to the last level, since each needs the states that lead there; what comes of the last
    /// level is divided. So each cut is counted by one shard, and judged by it.
    fn judge(
        &mut self,
        spot: &Spot<'_, T>,
        pend: &[Pend],
        instants: u64,
        next: &mut Next<'_, T>,
    ) -> Result<(), Bad> {
        if self.setup.shard.1 > 1 {
            let key = self.key(spot, pend);
            if self.owns(key) {
                self.count.cuts += instants;
            } else if self.last {
                return Ok(());
            }
        } else {
            self.count.cuts += instants;
        }
        self.seat.cuts.fetch_add(instants, Relaxed);
        let mut todo: Vec<Branch> = Vec::new();
        let mut choices = Vec::new();
        let mut free = pend.to_vec();
        let mut boots = 0;
        loop {
            if let Some((reads, vals)) = self.decide(spot, &choices, &free, next)? {
                boots += 1;
                siblings(&choices, &free, &reads, &vals, &mut todo);
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
        for c in crate::sample::choices(pend, u64::from(spot.event) + 1) {
            self.decide(spot, &c, &[], next)?;
        }
        Ok(())
    }

    /// Boots one state, unless it was booted before, however its unstable words read.
    fn decide(
        &mut self,
        spot: &Spot<'_, T>,
        choices: &[(u32, u32)],
        free: &[Pend],
        next: &mut Next<'_, T>,
    ) -> Result<Option<Reads>, Bad> {
        let mut old = Vec::with_capacity(choices.len());
        let arena = &mut self.rec.0.get_mut().arena;
        for &(at, v) in choices {
            let len = part_of(&self.parts, at).unit;
            old.push((at, len, arena.unit(at, len)));
            arena.put_unit(at, len, v);
        }
        let key = self.key(spot, free);
        let mut reads = None;
        if let claim = self.shared.claim(key, self.rank)
            && claim != Claim::Taken
        {
            let counted = claim == Claim::New && (self.last || self.owns(key));
            let five = planted!("powerfail/five-ways-of-reading");
            for policy in 0..Policy::ALL - u8::from(five) {
                self.count.boots += u64::from(counted);
                let (found, shook) =
                    self.boot_one(spot, (choices, key), free, Policy(policy), next)?;
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
                if !shook {
                    break;
                }
            }
        } else {
            self.count.same += 1;
        }
        let arena = &mut self.rec.0.get_mut().arena;
        for (at, len, v) in old.into_iter().rev() {
            arena.put_unit(at, len, v);
        }
        Ok(reads)
    }

    fn boot_one(
        &mut self,
        spot: &Spot<'_, T>,
        (choices, key): (&[(u32, u32)], u128),
        free: &[Pend],
        policy: Policy,
        next: &mut Next<'_, T>,
    ) -> Result<(Reads, bool), Bad> {
        let cut = Cut {
            event: spot.event,
            torn: spot.torn,
            choices: choices.to_vec(),
            policy,
        };
        self.seat.at(&spot.from.link, &cut);
        let run = self.boot(spot.world, !free.is_empty(), spot.shaky, policy);
        let link = || {
            Some(Arc::new(Link {
                parent: spot.from.link.clone(),
                cut: cut.clone(),
            }))
        };
        if let Err(what) = run.end {
            return Err(Bad {
                cuts: chain(&link()),
                what,
            });
        }
        let r = self.rec.0.get_mut();
        let (trace, shook) = (&r.trace, r.shook);
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
            next.0.push(State {
                diff: self.diff(),
                free: leftover(free),
                shaky: match planted!("powerfail/unstable-for-one-boot") {
                    true => ShakySet::default(),
                    false => spot.shaky.clone(),
                },
                policy,
                world: spot.world.clone(),
                trace_hash,
                link: link(),
                key,
            });
        }
        Ok(((reads, vals), shook))
    }
}

/// What is open at the next boot, too, until it is read or overwritten.
pub(crate) fn leftover(free: &[Pend]) -> Vec<Pend> {
    if planted!("powerfail/open-forgotten-at-boot") {
        return Vec::new();
    }
    let open = |p: &Pend| Pend {
        free: true,
        lent: false,
        ..p.clone()
    };
    free.iter().map(open).collect()
}

/// What else the units that were read may have held: the first differs, or the second, …, each value once.
fn siblings(
    choices: &[(u32, u32)],
    free: &[Pend],
    reads: &[Pend],
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
