//! Boots states.

use crate::arena::Arena;
use crate::chain::{Bad, Link};
use crate::cost::Cost;
use crate::fuse::{Ran, Stack};
use crate::hash::Wide;
use crate::medium::{Attach, Media, media_arena};
use crate::monitor::{Seat, Shared};
use crate::observe::Recorder;
use crate::quiet;
use crate::torn::{Policy, ShakySet};
use crate::trace::{Event, Part, Rec, Trace};
use crate::walk::{Pend, Walk};
use crate::world::{Outside, World};
use std::ops::Range;
use std::sync::Arc;

pub(crate) type Program<M, T> =
    dyn for<'r, 'w> Fn(<M as Media>::Nv<'r>, &'w World<'r, T>) + Send + Sync;

/// What a campaign is about.
pub(crate) struct Setup<M: Media, T> {
    pub(crate) name: String,
    pub(crate) media: M,
    pub(crate) program: Box<Program<M, T>>,
    pub(crate) world: T,
    pub(crate) depth: u32,
    /// No deeper, whatever the environment says.
    pub(crate) deepest: u32,
    /// Which part of how many, from 0.
    pub(crate) shard: (u32, u32),
    /// The environment asked for less than the whole.
    pub(crate) part: bool,
    /// Events after which a boot counts as hanging.
    pub(crate) budget: usize,
    /// Boots of one cut after which its open units are sampled.
    pub(crate) limit: usize,
    /// Open units that a boot does not read are not branched upon.
    pub(crate) prune: bool,
    /// About how many states to boot in all, for a quick look; all of them when none.
    pub(crate) thin: Option<u64>,
    /// Events that persist or are seen outside after which a run ends; it ends by itself when none.
    pub(crate) horizon: Option<u64>,
    /// What the first medium holds at first, when it is not what the medium says.
    pub(crate) seed: Option<Vec<u8>>,
    /// How long a boot may take.
    pub(crate) patience: std::time::Duration,
    /// How many threads may work.
    pub(crate) threads: usize,
    /// Interrupts are a dimension of the campaign.
    pub(crate) interrupts: bool,
    /// The point at which the interrupt comes, in each boot; after the body when none.
    pub(crate) preempt: Option<u64>,
    /// Names of ranges of a medium.
    pub(crate) fields: Vec<(usize, Range<u32>, String)>,
}

/// A state to go on from.
pub(crate) struct State<T> {
    /// Words that differ from the root image.
    pub(crate) diff: Vec<(u32, u32)>,
    pub(crate) free: Vec<Pend>,
    pub(crate) shaky: ShakySet,
    pub(crate) policy: Policy,
    pub(crate) world: T,
    pub(crate) trace_hash: u128,
    pub(crate) link: Option<Arc<Link>>,
    /// What tells it from others.
    pub(crate) key: u128,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) cuts: u64,
    pub(crate) boots: u64,
    pub(crate) same: u64,
    pub(crate) sampled: u64,
    pub(crate) depth: u32,
}

impl Count {
    pub(crate) fn plus(&self, o: &Count) -> Count {
        Count {
            cuts: self.cuts + o.cuts,
            boots: self.boots + o.boots,
            same: self.same + o.same,
            sampled: self.sampled + o.sampled,
            depth: self.depth.max(o.depth),
        }
    }
}

pub(crate) struct Run<T> {
    pub(crate) past: Vec<(T, u128)>,
    pub(crate) end: Result<(), String>,
    pub(crate) cost: Cost,
    pub(crate) ran: Ran,
}

pub(crate) struct Engine<'s, M: Media, T> {
    pub(crate) setup: &'s Setup<M, T>,
    pub(crate) rec: Recorder,
    pub(crate) parts: Vec<Part>,
    pub(crate) root: Vec<u8>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) seat: Arc<Seat>,
    /// The cuts of this level lead nowhere on: only a shard's own are judged.
    pub(crate) last: bool,
    /// The place in the order of one thread of the state that is being cut: level, then number.
    pub(crate) rank: u64,
    pub(crate) count: Count,
    pub(crate) spare: Vec<Trace>,
    stack: Stack,
    /// Every how many of the cuts a quick look judges.
    pub(crate) stride: u64,
    /// Cuts that a quick look has come by.
    pub(crate) passed: u64,
}

/// Runs of one engine use memory at another address than those of an engine of another number.
pub(crate) fn engine<M: Media, T: Outside>(setup: &Setup<M, T>, skew: usize) -> Engine<'_, M, T> {
    engine_of(setup, skew, Shared::new())
}

pub(crate) fn engine_of<M: Media, T: Outside>(
    setup: &Setup<M, T>,
    skew: usize,
    shared: Arc<Shared>,
) -> Engine<'_, M, T> {
    let (arena, parts) = media_arena(&setup.media, setup.seed.as_deref(), skew);
    Engine {
        setup,
        root: arena.bytes().to_vec(),
        rec: Recorder::new(Rec::new(arena, parts.clone())),
        parts,
        seat: shared.seat(),
        shared,
        last: false,
        rank: 0,
        count: Count::default(),
        spare: Vec::new(),
        stack: Stack::default(),
        stride: 1,
        passed: 0,
    }
}

/// What the media are called in a line.
pub(crate) fn names(parts: &[Part]) -> String {
    let names: Vec<&str> = parts.iter().map(|p| p.name).collect();
    crate::place::plain(&names.join("+"))
}

pub(crate) fn trace_hash<T>(trace: &Trace, past: &[(T, u128)]) -> u128 {
    let mut h = Wide::new();
    for e in &trace.events {
        let (kind, at, a, b) = match *e {
            Event::Store { at, len, old, new } => (u32::from(len), at, old, new),
            Event::Touched { at, len, old, new } => (8 + u32::from(len), at, old, new),
            Event::Fence { of } => (16, 0, of >> 1, 0),
            Event::Lend { at, len } => (17, at, len, 0),
            Event::EndLoan { at, len } => (18, at, len, 0),
            Event::World(n) => (19, past[n as usize].1 as u32, n, 0),
            Event::Read { .. } => continue,
            Event::Scratch { at, len } => (20, at, len, 0),
            Event::Program { at, len, side, .. } => (21, at, len, side),
            Event::Steady { at, len } => (22, at, len, 0),
            Event::Shaky { at, len, side } => (23, at, len, side),
            Event::Worn { at } => (24, at, 0, 0),
        };
        let values = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        h.word(values ^ (u64::from(kind) << 32 | u64::from(at)).rotate_left(17));
    }
    std::hash::Hasher::write(&mut h, &trace.side);
    h.wide()
}

impl<M: Media, T: Outside> Engine<'_, M, T> {
    pub(crate) fn arena(&mut self) -> &mut Arena {
        &mut self.rec.0.get_mut().arena
    }

    /// Boots what is in the arena. The record is in the recorder, and the stores are not undone yet.
    pub(crate) fn boot(
        &mut self,
        world: &T,
        want_reads: bool,
        shaky: &ShakySet,
        policy: Policy,
    ) -> Run<T> {
        self.boot_until(self.setup.horizon, world, want_reads, shaky, policy)
    }

    /// [`boot`](Self::boot), and the power goes before event `after` + 1 of those that persist or are seen outside.
    pub(crate) fn boot_until(
        &mut self,
        after: Option<u64>,
        world: &T,
        want_reads: bool,
        shaky: &ShakySet,
        policy: Policy,
    ) -> Run<T> {
        let r = self.rec.0.get_mut();
        r.reset(self.setup.budget, want_reads, shaky, policy);
        self.rec.2.reset(self.setup.preempt);
        let r = self.rec.0.get_mut();
        let base = r.arena.base();
        let rec = &self.rec;
        let world = World::new(world.clone(), rec, &self.shared.watched);
        let mut at = Attach {
            rec,
            base,
            parts: self.parts.iter(),
        };
        let setup = self.setup;
        let stack = &mut self.stack;
        let mut ran = Ran::ToItsEnd;
        self.seat.begin();
        let mut end = quiet::catch(|| {
            nvmem::instrument::observe(rec, || {
                // SAFETY: the arena is in `self` and is not touched by anyone else until the run is over.
                let nv = unsafe { setup.media.attach(&mut at) };
                match after {
                    None => (setup.program)(nv, &world),
                    Some(n) => ran = stack.run(&rec.1, n, || (setup.program)(nv, &world)),
                }
            })
        });
        self.seat.end();
        rec.2.stop();
        let past = world.into_past();
        #[cfg(miri)]
        let blown = rec.1.blown.take();
        let r = self.rec.0.get_mut();
        #[cfg(miri)]
        if let Some(n) = blown {
            r.forget(n);
        }
        if r.hung {
            end = Err(format!(
                "the boot makes no end: more than {} events",
                setup.budget
            ));
        }
        for e in &r.trace.events {
            if let Event::Scratch { at, len } = *e {
                r.arena.forget(at, len);
            }
        }
        if end.is_ok() {
            r.close();
            if !cfg!(miri)
                && let Some(at) = r.arena.stray()
            {
                let p = r.part_of(at);
                end = Err(format!(
                    "a store to {} at {:#x} that was neither made by the library nor inside a loan",
                    p.name,
                    at - p.at
                ));
            }
        } else if !cfg!(miri) {
            r.arena.stray();
        }
        Run {
            past,
            end,
            cost: r.cost,
            ran,
        }
    }

    /// Takes the record of the last boot, with its stores undone.
    pub(crate) fn take_trace(&mut self) -> Trace {
        let spare = self.spare.pop().unwrap_or_default();
        let r = self.rec.0.get_mut();
        let trace = std::mem::replace(&mut r.trace, spare);
        r.undo(&trace);
        trace
    }

    /// Undoes the last boot.
    pub(crate) fn undo(&mut self) {
        let r = self.rec.0.get_mut();
        let trace = std::mem::take(&mut r.trace);
        r.undo(&trace);
        r.trace = trace;
    }

    pub(crate) fn load(&mut self, s: &State<T>) {
        for &(i, w) in &s.diff {
            self.arena().put_unit(i * 4, 4, w);
        }
    }

    pub(crate) fn unload(&mut self) {
        for (i, _) in self.diff() {
            let mut old = [0; 4];
            old.copy_from_slice(&self.root[i as usize * 4..][..4]);
            self.arena().put(i * 4, &old);
        }
    }

    pub(crate) fn diff(&mut self) -> Vec<(u32, u32)> {
        let r = self.rec.0.get_mut();
        let words = r
            .arena
            .bytes()
            .chunks_exact(4)
            .zip(self.root.chunks_exact(4));
        let mut diff = Vec::new();
        for (i, (a, b)) in words.enumerate() {
            if a != b {
                diff.push((i as u32, u32::from_le_bytes([a[0], a[1], a[2], a[3]])));
            }
        }
        diff
    }

    /// The run without a cut: its record's hash, how many instants to cut, and its cost; or how it failed.
    pub(crate) fn dry(&mut self) -> Result<(u128, usize, Cost), Bad> {
        let setup = self.setup;
        let run = self.boot(&setup.world, false, &ShakySet::default(), Policy::default());
        let trace = self.take_trace();
        if let Err(what) = run.end {
            return Err(Bad::uncut(what));
        }
        let cuts = trace.events.iter().filter(|e| Walk::is_cut(e)).count();
        Ok((trace_hash(&trace, &run.past), cuts, run.cost))
    }
}
