//! Boots states and walks the records of their runs.

use crate::arena::Arena;
use crate::hash::{Seen, Wide, item};
use crate::medium::{Attach, Media, PartsOut};
use crate::quiet;
use crate::trace::{Event, Part, Rec, Recorder};
use crate::walk::{Pend, Walk, read_first};
use crate::world::{Outside, World};
use std::cell::RefCell;
use std::sync::Arc;

pub(crate) type Program<M, T> =
    dyn for<'r, 'w> Fn(<M as Media>::Nv<'r>, &'w World<'r, T>) + Send + Sync;

/// What a campaign is about.
pub(crate) struct Setup<M: Media, T> {
    pub(crate) media: M,
    pub(crate) program: Box<Program<M, T>>,
    pub(crate) world: T,
    pub(crate) depth: u32,
    /// Events after which a boot counts as hanging.
    pub(crate) budget: usize,
    /// Boots of one cut after which its open units are sampled.
    pub(crate) limit: usize,
    /// Open units that a boot does not read are not branched upon.
    pub(crate) prune: bool,
}

/// One cut: when, and what the open units kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// The power goes before the event of this number.
    pub(crate) event: u32,
    /// Unit and value, where it was open.
    pub(crate) choices: Vec<(u32, u32)>,
}

pub(crate) struct Link {
    parent: Option<Arc<Link>>,
    cut: Cut,
}

pub(crate) fn chain(link: &Option<Arc<Link>>) -> Vec<Cut> {
    let (mut cuts, mut at) = (Vec::new(), link);
    while let Some(l) = at {
        cuts.push(l.cut.clone());
        at = &l.parent;
    }
    cuts.reverse();
    cuts
}

/// A state to go on from.
struct State<T> {
    /// Words that differ from the root image.
    diff: Vec<(u32, u32)>,
    free: Vec<Pend>,
    world: T,
    trace_hash: u128,
    link: Option<Arc<Link>>,
}

/// How a boot ended badly.
#[derive(Debug, Clone)]
pub(crate) struct Bad {
    pub(crate) cuts: Vec<Cut>,
    pub(crate) what: String,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Count {
    pub(crate) cuts: u64,
    pub(crate) boots: u64,
    pub(crate) same: u64,
    pub(crate) sampled: u64,
}

pub(crate) struct Run<T> {
    pub(crate) past: Vec<(T, u128)>,
    pub(crate) end: Result<(), String>,
}

pub(crate) struct Engine<'s, M: Media, T> {
    setup: &'s Setup<M, T>,
    rec: Recorder,
    parts: Vec<Part>,
    root: Vec<u8>,
    seen: Seen,
    pub(crate) count: Count,
    spare: Vec<Vec<Event>>,
}

/// Runs of one engine use memory at another address than those of an engine of another number.
pub(crate) fn engine<M: Media, T: Outside>(setup: &Setup<M, T>, skew: usize) -> Engine<'_, M, T> {
    let mut out = PartsOut {
        parts: Vec::new(),
        image: Vec::new(),
    };
    setup.media.parts(&mut out);
    let arena = Arena::new(&out.image, skew);
    Engine {
        setup,
        root: arena.bytes().to_vec(),
        rec: Recorder(RefCell::new(Rec {
            arena,
            parts: out.parts.clone(),
            trace: Vec::new(),
            loans: Vec::new(),
            want_reads: false,
            budget: 0,
            hung: false,
        })),
        parts: out.parts,
        seen: Seen::default(),
        count: Count::default(),
        spare: Vec::new(),
    }
}

pub(crate) fn trace_hash<T>(trace: &[Event], past: &[(T, u128)]) -> u128 {
    let mut h = Wide::new();
    for e in trace {
        let (kind, at, a, b) = match *e {
            Event::Store { at, len, old, new } => (u32::from(len), at, old, new),
            Event::Touched { at, len, old, new } => (8 + u32::from(len), at, old, new),
            Event::Fence => (16, 0, 0, 0),
            Event::Lend { at, len } => (17, at, len, 0),
            Event::EndLoan { at, len } => (18, at, len, 0),
            Event::World(n) => (19, past[n as usize].1 as u32, n, 0),
            Event::Read { .. } => continue,
            Event::Scratch { at, len } => (20, at, len, 0),
        };
        h.word(u64::from(kind) << 32 | u64::from(at));
        h.word(u64::from(a) << 32 | u64::from(b));
    }
    h.wide()
}

impl<'s, M: Media, T: Outside> Engine<'s, M, T> {
    pub(crate) fn arena(&mut self) -> &mut Arena {
        &mut self.rec.0.get_mut().arena
    }

    /// Boots what is in the arena. The record is in the recorder, and the stores are not undone yet.
    pub(crate) fn boot(&mut self, world: &T, want_reads: bool) -> Run<T> {
        let r = self.rec.0.get_mut();
        r.trace.clear();
        r.loans.clear();
        r.want_reads = want_reads;
        r.hung = false;
        r.budget = self.setup.budget;
        let base = r.arena.base();
        let rec = &self.rec;
        let world = World::new(world.clone(), rec);
        let mut at = Attach {
            rec,
            base,
            parts: self.parts.iter(),
        };
        let setup = self.setup;
        let mut end = quiet::catch(|| {
            nvmem::instrument::observe(rec, || {
                // SAFETY: the arena is in `self` and is not touched by anyone else until the run is over.
                let nv = unsafe { setup.media.attach(&mut at) };
                (setup.program)(nv, &world)
            })
        });
        let past = world.into_past();
        let r = self.rec.0.get_mut();
        if r.hung {
            end = Err(format!(
                "the boot makes no end: more than {} events",
                setup.budget
            ));
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
        Run { past, end }
    }

    /// Takes the record of the last boot, with its stores undone.
    pub(crate) fn take_trace(&mut self) -> Vec<Event> {
        let spare = self.spare.pop().unwrap_or_default();
        let r = self.rec.0.get_mut();
        let trace = std::mem::replace(&mut r.trace, spare);
        r.undo(&trace);
        trace
    }

    /// Undoes the last boot.
    fn undo(&mut self) {
        let r = self.rec.0.get_mut();
        let trace = std::mem::take(&mut r.trace);
        r.undo(&trace);
        r.trace = trace;
    }

    fn load(&mut self, s: &State<T>) {
        for &(i, w) in &s.diff {
            self.arena().put_unit(i * 4, 4, w);
        }
    }

    fn unload(&mut self) {
        for (i, w) in self.diff() {
            let _ = w;
            let mut old = [0; 4];
            old.copy_from_slice(&self.root[i as usize * 4..][..4]);
            self.arena().put(i * 4, &old);
        }
    }

    fn diff(&mut self) -> Vec<(u32, u32)> {
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

    /// The run without a cut: its record's hash, or how it failed.
    pub(crate) fn dry(&mut self) -> Result<(u128, usize), Bad> {
        let setup = self.setup;
        let run = self.boot(&setup.world, false);
        let trace = self.take_trace();
        let bad = |what| Bad {
            cuts: Vec::new(),
            what,
        };
        run.end.map_err(bad)?;
        Ok((
            trace_hash(&trace, &run.past),
            trace.iter().filter(|e| Walk::is_cut(e)).count(),
        ))
    }

    /// All states that up to `depth` cuts can lead to.
    pub(crate) fn explore(&mut self) -> Result<(), Bad> {
        let setup = self.setup;
        let (trace_hash, _) = self.dry()?;
        let mut states = vec![State {
            diff: Vec::new(),
            free: Vec::new(),
            world: setup.world.clone(),
            trace_hash,
            link: None,
        }];
        for level in 1..=setup.depth {
            let mut next = Vec::new();
            for s in &states {
                self.load(s);
                let r = self.cut_everywhere(s, (level < setup.depth).then_some(&mut next));
                self.unload();
                r?;
            }
            states = next;
        }
        Ok(())
    }

    fn cut_everywhere(
        &mut self,
        s: &State<T>,
        mut next: Option<&mut Vec<State<T>>>,
    ) -> Result<(), Bad> {
        let run = self.boot(&s.world, !s.free.is_empty());
        let trace = self.take_trace();
        if run.end.is_err() || trace_hash(&trace, &run.past) != s.trace_hash {
            return Err(Bad {
                cuts: chain(&s.link),
                what: "two boots of the same state differ: something outlives the reboot (a static, a thread local), \
                       or the program depends on time, addresses or chance"
                    .into(),
            });
        }
        let mut walk = Walk::new(s.free.clone());
        let mut world = s.world.clone();
        let mut world_hash = Wide::of(&world);
        for i in 0..=trace.len() {
            let judge = match trace.get(i) {
                Some(e) => walk.settles(e, &self.parts),
                None => true,
            };
            if judge {
                self.judge(
                    i as u32,
                    &walk.pend,
                    (&world, world_hash),
                    s,
                    next.as_deref_mut(),
                )?;
            }
            if let Some(e) = trace.get(i) {
                self.count.cuts += u64::from(Walk::is_cut(e));
                let r = self.rec.0.get_mut();
                walk.step(&mut r.arena, &self.parts, &trace, i);
                if let Event::World(n) = *e {
                    (world, world_hash) = run.past[n as usize].clone();
                }
            }
        }
        self.spare.push(trace);
        Ok(())
    }

    /// Boots everything that a cut now may have left.
    fn judge(
        &mut self,
        event: u32,
        pend: &[Pend],
        world: (&T, u128),
        from: &State<T>,
        mut next: Option<&mut Vec<State<T>>>,
    ) -> Result<(), Bad> {
        let mut todo = Vec::new();
        let mut choices = Vec::new();
        let mut free = pend.to_vec();
        let mut boots = 0;
        loop {
            let more = self.try_one(event, &choices, &free, world, from, next.as_deref_mut())?;
            if let Some((reads, vals)) = more {
                boots += 1;
                siblings(&choices, &free, &reads, &vals, &mut todo);
            }
            match todo.pop() {
                Some(t) if boots < self.setup.limit => (choices, free) = t,
                Some(_) => break,
                None => return Ok(()),
            }
        }
        self.count.sampled += 1;
        for c in crate::sample::choices(pend, u64::from(event) + 1) {
            self.try_one(event, &c, &[], world, from, next.as_deref_mut())?;
        }
        Ok(())
    }

    /// Boots one state, unless it was booted before. Returns the open units that were read, and their values.
    #[allow(clippy::type_complexity)]
    fn try_one(
        &mut self,
        event: u32,
        choices: &[(u32, u32)],
        free: &[Pend],
        (world, world_hash): (&T, u128),
        from: &State<T>,
        next: Option<&mut Vec<State<T>>>,
    ) -> Result<Option<(Vec<Pend>, Vec<u32>)>, Bad> {
        let mut old = Vec::new();
        let arena = &mut self.rec.0.get_mut().arena;
        for &(at, v) in choices {
            let len = crate::walk::part_of(&self.parts, at).unit;
            old.push((at, len, arena.unit(at, len)));
            arena.put_unit(at, len, v);
        }
        let mut key = arena.hash() ^ world_hash;
        for p in free {
            let mut vals: Vec<u32> = p.vals.clone();
            vals.sort_unstable();
            key ^= item(1, p.at, Wide::of(&vals[..]) as u64);
            if p.len == 4 {
                key ^= item(0, p.at / 4, arena.unit(p.at, 4).into());
            }
        }
        let result = if self.seen.insert(key) {
            self.count.boots += 1;
            let run = self.boot(world, !free.is_empty());
            let link = || {
                Some(Arc::new(Link {
                    parent: from.link.clone(),
                    cut: Cut {
                        event,
                        choices: choices.to_vec(),
                    },
                }))
            };
            if let Err(what) = run.end {
                return Err(Bad {
                    cuts: chain(&link()),
                    what,
                });
            }
            let trace = &self.rec.0.get_mut().trace;
            let reads = if !self.setup.prune {
                free.to_vec()
            } else if free.is_empty() {
                Vec::new()
            } else {
                read_first(free, trace)
            };
            let hash = next.is_some().then(|| trace_hash(trace, &run.past));
            self.undo();
            let arena = &self.rec.0.get_mut().arena;
            let vals = reads.iter().map(|p| arena.unit(p.at, p.len)).collect();
            if let (Some(next), Some(trace_hash)) = (next, hash) {
                next.push(State {
                    diff: self.diff(),
                    free: free
                        .iter()
                        .map(|p| Pend {
                            free: true,
                            lent: false,
                            ..p.clone()
                        })
                        .collect(),
                    world: world.clone(),
                    trace_hash,
                    link: link(),
                });
            }
            Some((reads, vals))
        } else {
            self.count.same += 1;
            None
        };
        let arena = &mut self.rec.0.get_mut().arena;
        for (at, len, v) in old.into_iter().rev() {
            arena.put_unit(at, len, v);
        }
        Ok(result)
    }
}

/// Decided units with their values, and the units that stay open.
type Branch = (Vec<(u32, u32)>, Vec<Pend>);

/// What else the units that were read may have held: the first differs, or the second, …, each value once.
fn siblings(
    choices: &[(u32, u32)],
    free: &[Pend],
    reads: &[Pend],
    vals: &[u32],
    todo: &mut Vec<Branch>,
) {
    for (j, p) in reads.iter().enumerate().rev() {
        for &other in p.vals.iter().rev().filter(|v| **v != vals[j]) {
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

impl<M: Media, T: Outside> Engine<'_, M, T> {
    /// Goes through the cuts again, from the root; one line for each.
    pub(crate) fn describe(&mut self, cuts: &[Cut]) -> Vec<String> {
        let mut lines = Vec::new();
        let mut world = self.setup.world.clone();
        let mut free = Vec::new();
        for c in cuts {
            let run = self.boot(&world, !free.is_empty());
            let trace = self.take_trace();
            let mut walk = Walk::new(std::mem::take(&mut free));
            let mut last = Vec::new();
            for (i, e) in trace.iter().enumerate().take(c.event as usize) {
                let r = self.rec.0.get_mut();
                walk.step(&mut r.arena, &self.parts, &trace, i);
                match *e {
                    Event::World(n) => {
                        world = run.past[n as usize].0.clone();
                        last.push(format!("world = {world:?}"));
                    }
                    Event::Store { at, new, .. } | Event::Touched { at, new, .. } => {
                        let p = crate::walk::part_of(&self.parts, at);
                        last.push(format!("{}+{:#x} = {new:#x}", p.name, at - p.at));
                    }
                    _ => {}
                }
            }
            let from = last.len().saturating_sub(4);
            let mut line = format!("after   {}", last[from..].join("   "));
            for &(at, v) in &c.choices {
                let unit = crate::walk::part_of(&self.parts, at).unit;
                self.arena().put_unit(at, unit, v);
                line += &format!("\n         where unit {at:#x} kept {v:#x}");
            }
            free = walk
                .pend
                .into_iter()
                .filter(|p| !c.choices.iter().any(|(at, _)| *at == p.at))
                .map(|p| Pend {
                    free: true,
                    lent: false,
                    ..p
                })
                .collect();
            lines.push(line);
        }
        lines
    }
}
