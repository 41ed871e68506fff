//! The engine: puts a state into the arena, boots the program on it, and takes the record of the
//! run.
//!
//! ```text
//!  load(state) -> boot: reset record -> attach media -> program runs -> record (trace)
//!                                                        |  stores, loans, fences, reads, world
//!                                                        v
//!  unload     <- undo the stores        <- close loans, look for stray stores
//! ```
//!
//! Each worker thread has an engine with its own arena at another address. An engine returns its
//! arena to the state's start by undoing the recorded stores in reverse, so booting costs no copy
//! of the image.
//!
//! Why this is safe: between runs nothing refers to the arena. A store that no event recorded would
//! survive the undo; `Arena::find_stray` compares memory with the shadow after each run and fails
//! the campaign.

use crate::arena::Arena;
use crate::chain::{FailedRun, Link};
use crate::cost::Cost;
use crate::env::Samples;
use crate::fuse::{RunEnd, Stack};
use crate::hash::Wide;
use crate::medium::{Attach, MediaLayout};
use crate::monitor::{EngineStatus, Shared};
use crate::observe::Recorder;
use crate::quiet;
use crate::schedule::Schedule;
use crate::torn::{Policy, UnstableWords};
use crate::trace::{Event, MediumInfo, Record, Trace};
use crate::walk::{OpenUnit, Walk};
use crate::world::{Value, WorldLog};
use std::ops::Range;
use std::sync::Arc;

/// The program under test: attaches its media, and runs on them in the world of this log. Only here
/// are the types of the media and of the world known, so that the rest of a campaign is compiled
/// once and not for each test.
pub(crate) type Program = dyn for<'r> Fn(&mut Attach<'r>, &'r WorldLog<'r>) + Send + Sync;

/// The configuration of a campaign.
pub(crate) struct Setup {
    pub(crate) name: String,
    pub(crate) media: MediaLayout,
    pub(crate) program: Box<Program>,
    pub(crate) world: Value,
    pub(crate) depth: u32,
    /// The greatest depth that the environment may select.
    pub(crate) max_depth: u32,
    /// This process's shard, from 0, and the number of shards.
    pub(crate) shard: (u32, u32),
    /// The environment selected less than the whole campaign.
    pub(crate) partial: bool,
    /// Events after which a boot counts as not ending.
    pub(crate) budget: usize,
    /// Boots of one cut after which its open units are only sampled.
    pub(crate) limit: usize,
    /// Which states are booted of a cut that leaves too many.
    pub(crate) samples: Samples,
    /// Do not branch on open units that a boot does not read.
    pub(crate) prune: bool,
    /// The approximate number of states to boot, for a quick look; all if `None`.
    pub(crate) thin: Option<u64>,
    /// Events that persist or that the world sees, after which a run ends; `None`: it ends by
    /// itself.
    pub(crate) horizon: Option<u64>,
    /// The initial image of the first medium, if it is not the medium's own.
    pub(crate) image: Option<Vec<u8>>,
    /// The longest time that a boot may take.
    pub(crate) boot_timeout: std::time::Duration,
    /// The number of worker threads.
    pub(crate) threads: usize,
    /// Interrupts are a dimension of the campaign.
    pub(crate) interrupts: bool,
    /// The point of the interrupt in each boot; `None`: after the body.
    pub(crate) preempt: Option<u64>,
    /// The most preemptions in one boot, if schedules are a dimension of the campaign.
    pub(crate) preemptions: Option<u32>,
    /// Names of ranges of a medium.
    pub(crate) fields: Vec<(usize, Range<u32>, String)>,
}

/// A state that a cut left, to be booted and cut again.
pub(crate) struct State {
    /// Words that differ from the root image.
    pub(crate) diff: Vec<(u32, u32)>,
    pub(crate) free: Vec<OpenUnit>,
    pub(crate) unstable: UnstableWords,
    pub(crate) policy: Policy,
    pub(crate) world: Value,
    pub(crate) trace_hash: u128,
    pub(crate) link: Option<Arc<Link>>,
    /// The key that identifies it.
    pub(crate) key: u128,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) cuts: u64,
    pub(crate) boots: u64,
    pub(crate) duplicates: u64,
    pub(crate) sampled: u64,
    pub(crate) depth: u32,
    /// Schedules with a preemption.
    pub(crate) schedules: u64,
    /// Points of the first boot at which something else could run.
    pub(crate) points: u64,
}

impl Count {
    pub(crate) fn plus(&self, o: &Count) -> Count {
        Count {
            cuts: self.cuts + o.cuts,
            boots: self.boots + o.boots,
            duplicates: self.duplicates + o.duplicates,
            sampled: self.sampled + o.sampled,
            depth: self.depth.max(o.depth),
            schedules: self.schedules + o.schedules,
            points: self.points + o.points,
        }
    }
}

pub(crate) struct Run {
    pub(crate) past: Vec<(Value, u128)>,
    pub(crate) end: Result<(), String>,
    pub(crate) cost: Cost,
    pub(crate) ran: RunEnd,
    /// The preemption of the schedule that did not come.
    pub(crate) missed: Option<String>,
}

pub(crate) struct Engine<'s> {
    pub(crate) setup: &'s Setup,
    pub(crate) rec: Recorder,
    pub(crate) parts: Vec<MediumInfo>,
    pub(crate) root: Vec<u8>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) status: Arc<EngineStatus>,
    /// This is the last level: its cuts lead to no further level, and only this shard's own are
    /// booted.
    pub(crate) last: bool,
    /// The rank of the state being cut in the order of a single thread: level, then number.
    pub(crate) rank: u64,
    pub(crate) count: Count,
    pub(crate) spare: Vec<Trace>,
    stack: Stack,
    /// The schedule of the next boot.
    pub(crate) schedule: Schedule,
    /// A quick look boots every `stride`-th cut.
    pub(crate) stride: u64,
    /// Cuts that a quick look has passed.
    pub(crate) passed: u64,
}

/// Makes an engine. Engines with different `skew` have their media at different addresses.
pub(crate) fn engine(setup: &Setup, skew: usize) -> Engine<'_> {
    engine_of(setup, skew, Shared::new())
}

pub(crate) fn engine_of(setup: &Setup, skew: usize, shared: Arc<Shared>) -> Engine<'_> {
    let (arena, parts) = setup.media.arena(setup.image.as_deref(), skew);
    Engine {
        setup,
        root: arena.bytes().to_vec(),
        rec: Recorder::new(Record::new(arena, parts.clone())),
        parts,
        status: shared.status(),
        shared,
        last: false,
        rank: 0,
        count: Count::default(),
        spare: Vec::new(),
        stack: Stack::default(),
        schedule: Schedule::default(),
        stride: 1,
        passed: 0,
    }
}

/// The names of the media in a line.
pub(crate) fn names(parts: &[MediumInfo]) -> String {
    let names: Vec<&str> = parts.iter().map(|p| p.name).collect();
    crate::names::plain(&names.join("+"))
}

/// An event as a number; `None` if it does not distinguish runs.
pub(crate) fn event_word(e: &Event) -> Option<u64> {
    event_with(e, |_| 0)
}

fn event_with(e: &Event, world: impl Fn(u32) -> u32) -> Option<u64> {
    let (kind, at, a, b) = match *e {
        Event::Store { at, len, old, new } => (u32::from(len), at, old, new),
        Event::Touched { at, len, old, new } => (8 + u32::from(len), at, old, new),
        Event::Fence { of } => (16, 0, of >> 1, 0),
        Event::Lend { at, len } => (17, at, len, 0),
        Event::EndLoan { at, len } => (18, at, len, 0),
        Event::World(n) => (19, world(n), n, 0),
        Event::Read { .. } => return None,
        Event::Scratch { at, len } => (20, at, len, 0),
        Event::Program { at, len, side, .. } => (21, at, len, side),
        Event::Stable { at, len } => (22, at, len, 0),
        Event::Unstable { at, len, side } => (23, at, len, side),
        Event::Erased { at } => (24, at, 0, 0),
    };
    let values = (u64::from(a) << 32 | u64::from(b)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Some(values ^ (u64::from(kind) << 32 | u64::from(at)).rotate_left(17))
}

pub(crate) fn trace_hash(trace: &Trace, past: &[(Value, u128)]) -> u128 {
    let mut h = Wide::new();
    let world = |n: u32| past[n as usize].1 as u32;
    for e in trace.events.iter().filter_map(|e| event_with(e, world)) {
        h.word(e);
    }
    std::hash::Hasher::write(&mut h, &trace.side);
    h.wide()
}

impl Engine<'_> {
    pub(crate) fn arena(&mut self) -> &mut Arena {
        &mut self.rec.0.get_mut().arena
    }

    /// Boots the state in the arena. The record stays in the recorder, and its stores are not
    /// undone yet.
    pub(crate) fn boot(
        &mut self,
        world: &Value,
        record_reads: bool,
        unstable: &UnstableWords,
        policy: Policy,
    ) -> Run {
        self.boot_until(self.setup.horizon, world, record_reads, unstable, policy)
    }

    /// [`boot`](Self::boot), with a cut before event `after` + 1 of those that persist or that the
    /// world sees.
    pub(crate) fn boot_until(
        &mut self,
        after: Option<u64>,
        world: &Value,
        record_reads: bool,
        unstable: &UnstableWords,
        policy: Policy,
    ) -> Run {
        let r = self.rec.0.get_mut();
        r.reset(self.setup.budget, record_reads, unstable, policy);
        self.rec.2.reset(self.setup.preempt);
        let counting = self.setup.preemptions.is_some();
        self.rec.3.reset(&self.schedule, counting);
        let r = self.rec.0.get_mut();
        let base = r.arena.base();
        let rec = &self.rec;
        let world = WorldLog::new(world.clone(), rec, &self.shared.watched);
        let mut at = Attach {
            rec,
            base,
            parts: self.parts.iter(),
        };
        let setup = self.setup;
        let stack = &mut self.stack;
        let mut ran = RunEnd::Returned;
        self.status.begin();
        let mut end = quiet::catch(|| {
            nvmem::instrument::observe(rec, || {
                let mut program = || (setup.program)(&mut at, &world);
                match after {
                    None => program(),
                    Some(n) => ran = stack.run(&rec.1, n, program),
                }
            })
        });
        self.status.end();
        rec.2.stop();
        rec.3.end_boot();
        let missed = rec.3.missed();
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
                "the boot does not end: more than {} events",
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
                && let Some(at) = r.arena.find_stray()
            {
                let p = r.part_of(at);
                end = Err(format!(
                    "a store to {} at {:#x} that was neither made by the library nor inside a loan",
                    p.name,
                    at - p.at
                ));
            }
        } else if !cfg!(miri) {
            r.arena.find_stray();
        }
        Run {
            past,
            end,
            cost: r.cost,
            ran,
            missed,
        }
    }

    /// Takes the record of the last boot and undoes its stores.
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

    pub(crate) fn load(&mut self, s: &State) {
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

    /// Runs the program without a cut. Returns the record's hash, the number of cuts, and the cost.
    pub(crate) fn run_uncut(&mut self) -> Result<(u128, usize, Cost), FailedRun> {
        let setup = self.setup;
        let run = self.boot(
            &setup.world,
            false,
            &UnstableWords::default(),
            Policy::default(),
        );
        let trace = self.take_trace();
        if let Err(what) = run.end {
            return Err(FailedRun::uncut(what));
        }
        let cuts = trace.events.iter().filter(|e| Walk::is_cut(e)).count();
        Ok((trace_hash(&trace, &run.past), cuts, run.cost))
    }
}
