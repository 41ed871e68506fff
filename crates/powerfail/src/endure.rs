//! A device's life: thousands of power cuts, one after the other, without ever going back.

use crate::chain::{Cut, wrecks};
use crate::engine::{self, Engine, Setup, trace_hash};
use crate::env;
use crate::explore::Explore;
use crate::fresh::{self, Job};
use crate::fuse::Ran;
use crate::hash::Wide;
use crate::medium::Media;
use crate::monitor::Shared;
use crate::report::{self, Failure};
use crate::summary::Summary;
use crate::torn::{Policy, ShakySet};
use crate::trace::Event;
use crate::walk::{Walk, part_of};
use crate::world::{Outside, World};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// For how many events a quick look lets the device have power at most.
const QUICK: u64 = 40;

/// How long the device has power each time: so many events that persist or that the world sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EveryEvents(pub u64);

/// Runs `program`, a super-loop as a rule, through a long chain of power cuts.
///
/// Nothing of a run is executed after its cut: no `Drop`, no unwinding. What was still open at a cut is decided by chance,
/// always the same. It checks by itself, as in [`explore`](crate::explore()); [`Endure::run`] starts it.
///
/// ```
/// use powerfail::{endure, EveryEvents, Mapped, World};
/// use nvmem::InOrder32;
///
/// let s = endure(Mapped::<InOrder32>::new(64), EveryEvents(7), |nv, world: &World<u32>| loop {
///     // SAFETY: offset 0 is a unit of the region, and no reference to it exists.
///     let n = unsafe { nv.load(0) };
///     assert!(n >= world.last_acknowledged());
///     // SAFETY: as above.
///     unsafe { nv.store(0, n + 1) };
///     world.acknowledge(n + 1);
/// })
/// .boots(500)
/// .run();
/// assert_eq!(s.cuts, 500);
/// ```
pub fn endure<M: Media, T: Outside + Default>(
    media: M,
    every: EveryEvents,
    program: for<'r, 'w> fn(M::Nv<'r>, &'w World<'r, T>),
) -> Endure<M, T> {
    Endure {
        all: crate::explore(media, program),
        every: every.0.max(1),
        boots: 1000,
    }
}

/// A campaign of [`endure`].
#[must_use = "nothing runs before `run`"]
pub struct Endure<M: Media, T> {
    all: Explore<M, T>,
    every: u64,
    boots: u64,
}

/// What the line says of a chain that is as long as this.
struct Plan {
    every: u64,
    depth: u32,
    boots: u64,
}

impl Plan {
    fn text(&self, boot: u64) -> String {
        format!("every={},depth={},boot={boot}", self.every, self.depth)
    }

    fn line<M: Media, T>(
        &self,
        setup: &Setup<M, T>,
        model: &str,
        image: &str,
        boot: u64,
        hash: u32,
    ) -> String {
        let name = crate::place::plain(&setup.name);
        format!("{name}@{model}@{image}@{}@{hash:08x}", self.text(boot))
    }

    /// For how many events boot `i` has power: after each long one, `depth` - 1 that are cut in recovery.
    fn events(&self, i: u64, chance: &mut Chance) -> u64 {
        if i.is_multiple_of(self.depth.max(1).into()) {
            self.every
        } else {
            1 + chance.below(self.every)
        }
    }
}

/// Numbers that look random and are always the same.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % n.max(1)
    }
}

/// Where a chain ended badly.
struct Broken {
    boot: u64,
    what: String,
    last: Vec<String>,
}

impl<M: Media, T: Outside> Endure<M, T> {
    /// How many power cuts: 1000 unless told.
    pub fn boots(mut self, boots: u64) -> Self {
        self.boots = boots;
        self
    }
    /// 2: after each cut, the boot that follows is cut early, too. 3: and the one after that.
    pub fn depth(mut self, depth: u32) -> Self {
        self.all = self.all.depth(depth);
        self
    }
    /// See [`Explore::name`].
    pub fn name(mut self, name: &str) -> Self {
        self.all = self.all.name(name);
        self
    }
    /// See [`Explore::world`].
    pub fn world(mut self, world: T) -> Self {
        self.all = self.all.world(world);
        self
    }
    /// See [`Explore::seed`].
    pub fn seed(mut self, image: Vec<u8>) -> Self {
        self.all = self.all.seed(image);
        self
    }
    /// See [`Explore::budget`].
    pub fn budget(mut self, events: usize) -> Self {
        self.all = self.all.budget(events);
        self
    }
    /// No boot has power for more events than this, whatever the schedule says.
    pub fn horizon(mut self, events: u64) -> Self {
        self.every = self.every.min(events.max(1));
        self
    }
    /// See [`Explore::patience`].
    pub fn patience(mut self, patience: Duration) -> Self {
        self.all = self.all.patience(patience);
        self
    }
    /// See [`Explore::field`].
    pub fn field(mut self, name: &str, bytes: Range<u32>) -> Self {
        self.all = self.all.field(name, bytes);
        self
    }
    /// See [`Explore::replay`].
    pub fn replay(mut self, line: &str) -> Self {
        self.all = self.all.replay(line);
        self
    }

    /// Runs the chain.
    ///
    /// **Panics**: with a report when the program does not survive; when it stored nothing; when a boot makes no end.
    #[track_caller]
    pub fn run(self) -> Summary {
        let name = self.all.setup.name.clone();
        match self.try_run() {
            Ok(s) => s,
            Err(e) => {
                e.append(&name);
                panic!("{e}")
            }
        }
    }

    /// [`run`](Self::run) with the failure as a value.
    ///
    /// With `POWERFAIL_THIN=n` in the environment it ends after `n` boots, none of more than 40 events: a quick look, for
    /// Miri. Its lines are replayed with the same variable.
    pub fn try_run(self) -> Result<Summary, Failure> {
        let setup = &self.all.setup;
        fresh::next_number();
        if Job::of_this_process().is_some() {
            return Ok(Summary {
                part: true,
                ..Summary::default()
            });
        }
        let mut plan = Plan {
            every: self.every,
            depth: setup.depth,
            boots: self.boots,
        };
        let thin = env::thin();
        if let Some(n) = thin {
            plan.boots = plan.boots.min(n);
            plan.every = plan.every.min(QUICK);
        }
        let replayed = self
            .all
            .line()
            .filter(|l| l.name == crate::place::plain(&setup.name));
        let (mine, shards) = setup.shard;
        if replayed.is_none() && Wide::of(&setup.name[..]) as u32 % shards != mine {
            // A chain cannot be divided: one shard goes all of it.
            return Ok(Summary {
                part: true,
                ..Summary::default()
            });
        }
        let shared = Shared::new();
        shared.total.store(plan.boots, Relaxed);
        let mut e = engine::engine_of(setup, 0, shared.clone());
        let (model, image) = (e.model(), e.image_print());
        let refuse = |why: &str| Failure::plain(&setup.name, &format!("cannot replay: {why}"));
        if let Some(l) = &replayed {
            plan.boots = l
                .cuts
                .first()
                .and_then(|c| c.rsplit_once("boot=")?.1.parse().ok())
                .ok_or_else(|| refuse("that is not a line of an endurance"))?;
            if l.model != model || l.image != image {
                return Err(refuse("the line is about another medium or image"));
            }
            if l.cuts != [plan.text(plan.boots)] {
                return Err(refuse("the schedule is not the one of the line"));
            }
        }
        let line = |boot, hash| plan.line(setup, &model, &image, boot, hash);
        let hung = |_: &[Cut]| {
            let (boot, hash) = (shared.done.load(Relaxed), shared.lived.load(Relaxed));
            told(
                &setup.name,
                boot,
                &report::no_end(setup.patience),
                &line(boot, hash as u32),
            )
        };
        let (done, hash) = self.all.watched(&shared, hung, || e.live(&plan));
        let exact = replayed.as_ref().is_none_or(|l| l.hash == hash);
        let replayed = replayed.is_some();
        match done {
            Ok(()) if e.count.cuts == 0 => Err(Failure::plain(
                &setup.name,
                "nothing to endure: the program stored nothing",
            )),
            Ok(()) => {
                let mut s = Summary::of(&e.count, setup);
                s.part |= thin.is_some();
                if replayed {
                    eprintln!("{}: replayed: survives", setup.name);
                } else {
                    s.append(&setup.name, 0);
                }
                Ok(s)
            }
            Err(b) => {
                let line = line(b.boot, hash);
                let note = match (replayed, exact) {
                    (false, _) => "",
                    (true, true) => "\n  (replayed exactly)",
                    (true, false) => "\n  (found again in a program that has changed)",
                };
                let last = b.last.join("   ");
                let what = format!("{}{note}\n  before the last cut   {last}", b.what);
                let report = told(&setup.name, b.boot, &what, &line);
                let done = Summary::of(&e.count, setup);
                Err(Failure::with_line(report, line, b.boot as usize).after(done))
            }
        }
    }
}

fn told(name: &str, boot: u64, what: &str, line: &str) -> String {
    format!(
        "{name}: after {boot} power cuts: {what}\nreplay this:  POWERFAIL='{line}' cargo test {name}"
    )
}

impl<M: Media, T: Outside> Engine<'_, M, T> {
    /// Lives through the plan. Also the hash of all runs.
    fn live(&mut self, plan: &Plan) -> (Result<(), Broken>, u32) {
        let mut chance = Chance(0x9e37_79b9);
        let mut world = self.setup.world.clone();
        let mut shaky = ShakySet::default();
        let mut policy = Policy::default();
        let mut hash = Wide::new();
        let mut last = Vec::new();
        for boot in 0..=plan.boots {
            let events = plan.events(boot, &mut chance);
            self.shared.lived.store(hash.wide() as u32 as u64, Relaxed);
            let run = self.boot_until(Some(events), &world, false, &shaky, policy);
            let trace = self.take_trace();
            if let Err(what) = run.end {
                return (Err(Broken { boot, what, last }), hash.wide() as u32);
            }
            if boot == plan.boots {
                break;
            }
            self.count.boots += 1;
            hash.word(trace_hash(&trace, &run.past) as u64);
            let mut walk = Walk::new(Vec::new(), shaky);
            let ends = trace.events.len();
            // The last word of a device may be torn instead of whole.
            let torn = match trace.events.last() {
                Some(Event::Program { .. }) if run.ran == Ran::Cut && chance.below(2) == 0 => {
                    let ways = wrecks(&trace, ends - 1);
                    let n = chance.below(ways.len() as u64) as usize;
                    ways.into_iter().nth(n)
                }
                _ => None,
            };
            for i in 0..ends - usize::from(torn.is_some()) {
                walk.step(&mut self.rec.0.get_mut().arena, &self.parts, &trace, i);
            }
            shaky = std::mem::take(&mut walk.shaky);
            if let Some(w) = &torn {
                w.mark(&mut shaky);
                self.patch(&w.patches);
            }
            for p in &walk.pend {
                let v = p.vals[chance.below(p.vals.len() as u64) as usize];
                let unit = part_of(&self.parts, p.at).unit;
                self.arena().put_unit(p.at, unit, v);
            }
            policy = Policy(chance.below(u64::from(Policy::ALL)) as u8);
            if trace.events.iter().any(Walk::is_cut) {
                self.count.cuts += 1;
                self.seat.cuts.fetch_add(1, Relaxed);
            }
            last.clear();
            for e in &trace.events[ends.saturating_sub(6)..] {
                last.extend(self.say(&trace, e));
            }
            if let Some((w, _)) = run.past.into_iter().last() {
                world = w;
            }
            self.spare.push(trace);
            self.shared.done.fetch_add(1, Relaxed);
        }
        (Ok(()), hash.wide() as u32)
    }
}
