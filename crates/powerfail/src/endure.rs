//! Simulates a device's life: thousands of power cuts in a row, without going back to earlier
//! states.
//!
//! ```text
//!  boot 0   |--------------x        cut after a random number of events (1 to 2n - 1)
//!  boot 1   |-----x                 the medium keeps what the last cut left: open units get random
//!  boot 2   |------------------x    values, the last word of a device may be torn
//!    ...
//!  boot 1000                        `progress` must change within 100 boots, or the campaign fails
//! ```
//!
//! All choices come from one generator with a fixed seed, so a failure line needs only the plan and
//! the boot number. After a campaign, `least_life` searches the smallest number of events in a boot
//! with which the program still makes progress: one by one up to 64, then by doubling and
//! bisection. A *life* in these names is a power-on period: one boot, up to its cut.

use crate::build;
use crate::chain::{Cut, torn_states};
use crate::engine::{self, Count, Engine, Setup, trace_hash};
use crate::env;
use crate::explore::{Campaign, Explore};
use crate::fresh::{self, Job};
use crate::fuse::RunEnd;
use crate::hash::Wide;
use crate::medium::Media;
use crate::monitor::Shared;
use crate::report::{self, Failure};
use crate::rng::Rng;
use crate::schedule::Schedule;
use crate::summary::Summary;
use crate::torn::{Policy, UnstableWords};
use crate::trace::Event;
use crate::walk::{Walk, part_of};
use crate::world::{Value, World, WorldState, known};
use nvmem::planted;
use std::hash::Hash;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The most events of a boot in a quick look (`POWERFAIL_THIN`).
const THIN_EVENTS: u64 = 40;

/// The number of boots within which there must be progress.
const PROGRESS_WITHIN: u64 = 100;

/// The search for the shortest power-on period tries those up to this length one by one. It bisects
/// longer ones.
const LINEAR_SEARCH_MAX: u64 = 64;

/// The longest power-on period that is tried: a program without progress in it counts as making
/// none.
const LIFE_MAX: u64 = 1 << 14;

/// How long the device has power: the average number of events that persist or that the world sees.
///
/// Power-on periods differ, from 1 to `2 * n - 1` events. With equal ones the cuts of a super-loop
/// could always fall at the same few places. The sequence is pseudo-random and reproducible;
/// `POWERFAIL_SEED=n` in the environment selects another one. [`Endure::fixed_period`] makes all
/// periods equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EveryEvents(pub u64);

/// Runs `program`, usually a super-loop, through a long chain of power cuts.
///
/// Nothing of a run is executed after its cut: no `Drop`, no unwinding. Units that are open at a
/// cut get reproducible pseudo-random values. The program checks itself, as in
/// [`explore`](crate::explore()); [`Endure::run`] starts the campaign.
///
/// `progress` maps the world to a value that changes whenever the program completes something. If
/// the value stays the same for 100 boots, the campaign fails: a program that never completes
/// anything would pass all of its checks. The report and the [`Summary`] say in how short a
/// power-on period the program still makes progress.
///
/// ```
/// use powerfail::{endure, EveryEvents, Mapped, World};
/// use nvmem::InOrder32;
///
/// fn program(nv: nvmem::Region<'_, InOrder32>, world: &World<'_, u32>) {
///     loop {
///         // SAFETY: offset 0 is a unit of the region, and no reference to it exists.
///         let n = unsafe { nv.load(0) };
///         assert!(n >= world.last_acknowledged());
///         // SAFETY: as above.
///         unsafe { nv.store(0, n + 1) };
///         world.acknowledge(n + 1);
///     }
/// }
/// let s = endure(Mapped::<InOrder32>::new(64), EveryEvents(7), program, |sent| *sent)
///     .boots(500)
///     .run();
/// assert_eq!(s.cuts, 500);
/// // A boot needs one event to store and one to acknowledge.
/// assert_eq!(s.least_life, Some(2));
/// ```
pub fn endure<M: Media, T: WorldState + Default, P: Hash>(
    media: M,
    every: EveryEvents,
    program: impl for<'r, 'w> Fn(M::Nv<'r>, &'w World<'r, T>) + Send + Sync + 'static,
    progress: impl Fn(&T) -> P + Sync + 'static,
) -> Endure<M, T> {
    Endure {
        all: crate::explore(media, program),
        chain: Chain {
            progress: Box::new(move |world| Wide::of(&progress(known(world)))),
            every: every.0.max(1),
            most: u64::MAX,
            fixed: false,
            boots: 1000,
            progress_within: PROGRESS_WITHIN,
        },
    }
}

/// A campaign of [`endure`].
#[must_use = "nothing runs before `run`"]
pub struct Endure<M: Media, T> {
    all: Explore<M, T>,
    chain: Chain,
}

/// A value that changes whenever the program completes something.
type Progress = dyn Fn(&Value) -> u128 + Sync;

/// What [`endure`] has beside [`Explore`].
struct Chain {
    progress: Box<Progress>,
    every: u64,
    /// The longest power-on period.
    most: u64,
    fixed: bool,
    boots: u64,
    /// The number of boots within which there must be progress.
    progress_within: u64,
}

/// How long the device has power at each boot. It is part of a failure line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    every: u64,
    /// Lives have 1 to `to` events; if `None`, all have `every` events.
    to: Option<u64>,
    depth: u32,
    seed: u64,
    boots: u64,
}

impl Plan {
    fn text(&self, boot: u64) -> String {
        let lives = match self.to {
            Some(to) => format!("to={to},seed={},", self.seed),
            None => String::new(),
        };
        format!(
            "every={},{lives}depth={},boot={boot}",
            self.every, self.depth
        )
    }

    /// Parses the plan of a line. Without `to` all periods are equal.
    fn parse(text: &str) -> Option<Plan> {
        let mut plan = Plan {
            every: 0,
            to: None,
            depth: 0,
            seed: 0,
            boots: 0,
        };
        for part in text.split(',') {
            let (key, n) = part.split_once('=')?;
            let n: u64 = n.parse().ok()?;
            match key {
                "every" => plan.every = n,
                "to" => plan.to = Some(n),
                "depth" => plan.depth = n.try_into().ok()?,
                "seed" => plan.seed = n,
                "boot" => plan.boots = n,
                _ => return None,
            }
        }
        (plan.every > 0 && plan.depth > 0).then_some(plan)
    }

    fn line(&self, setup: &Setup, model: &str, image: &str, boot: u64, hash: u32) -> String {
        let name = crate::names::plain(&setup.name);
        let plan = self.text(boot);
        format!(
            "{name}@{model}@{image}@{plan}@{hash:08x}{}",
            build::suffix()
        )
    }

    /// The number of events of boot `i`: after each long period come `depth` - 1 periods that are
    /// cut in recovery.
    fn events(&self, i: u64, chance: &mut Rng) -> u64 {
        if !i.is_multiple_of(self.depth.max(1).into()) {
            return 1 + chance.below(self.every);
        }
        match self.to {
            Some(to) if !planted!("powerfail/fixed-period") => 1 + chance.below(to),
            _ => self.every,
        }
    }

    /// The lengths of power-on periods, for reports.
    fn lives(&self) -> String {
        match self.to {
            Some(to) => format!("1 to {to} events"),
            None => format!("{} events", self.every),
        }
    }
}

/// A failure of a chain.
struct ChainFailure {
    boot: u64,
    what: String,
    last: Vec<String>,
    /// The only failure is that there was no progress.
    stuck: bool,
}

/// The result of a chain.
struct ChainResult {
    end: Result<(), ChainFailure>,
    /// The hash of all runs.
    hash: u32,
    count: Count,
    progressed: bool,
}

/// When a chain stops before its last boot.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StopWhen {
    /// After so many boots without progress.
    Stuck(u64),
    /// At the first progress.
    Progress,
    /// Never.
    End,
}

impl<M: Media, T: WorldState> Endure<M, T> {
    /// The number of power cuts; 1000 by default.
    pub fn boots(mut self, boots: u64) -> Self {
        self.chain.boots = boots;
        self
    }
    /// Makes each power-on period exactly as long as [`EveryEvents`] says, for tests that count
    /// what one boot does. The cuts of a super-loop may then always fall at the same few places.
    pub fn fixed_period(mut self) -> Self {
        self.chain.fixed = true;
        self
    }
    /// The number of boots within which there must be progress: 100 by default, or all if there are
    /// fewer.
    pub fn progress_within(mut self, boots: u64) -> Self {
        self.chain.progress_within = boots.max(1);
        self
    }
    /// 2: after each cut, the next boot is cut early, too. 3: and the one after that.
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
    /// See [`Explore::image`].
    pub fn image(mut self, image: Vec<u8>) -> Self {
        self.all = self.all.image(image);
        self
    }
    /// See [`Explore::budget`].
    pub fn budget(mut self, events: usize) -> Self {
        self.all = self.all.budget(events);
        self
    }
    /// No boot has power for more events than this.
    pub fn horizon(mut self, events: u64) -> Self {
        self.chain.most = events.max(1);
        self
    }
    /// See [`Explore::boot_timeout`].
    pub fn boot_timeout(mut self, timeout: Duration) -> Self {
        self.all = self.all.boot_timeout(timeout);
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

    /// Runs the campaign.
    ///
    /// **Panics**: with a report if the program fails a check, stores nothing, or a boot does not
    /// end.
    #[track_caller]
    pub fn run(self) -> Summary {
        let name = self.all.campaign.setup.name.clone();
        match self.try_run() {
            Ok(s) => s,
            Err(e) => {
                e.append(&name);
                panic!("{e}")
            }
        }
    }

    /// [`run`](Self::run), but returns the failure.
    ///
    /// With `POWERFAIL_THIN=n` in the environment it ends after `n` boots of at most 40 events and
    /// does not require progress: a quick look, for Miri.
    ///
    /// **Errors**: the [`Failure`] with whose report [`run`](Self::run) panics.
    pub fn try_run(self) -> Result<Summary, Failure> {
        self.chain.try_run(&self.all.campaign)
    }
}

impl Chain {
    fn try_run(&self, all: &Campaign) -> Result<Summary, Failure> {
        let setup = &all.setup;
        fresh::next_number();
        if Job::of_this_process().is_some() {
            return Ok(Summary {
                partial: true,
                ..Summary::default()
            });
        }
        let thin = env::thin();
        let most = self.most.min(thin.map_or(u64::MAX, |_| THIN_EVENTS));
        let every = self.every.min(most);
        let mut plan = Plan {
            every,
            to: (!self.fixed).then(|| (2 * every - 1).min(most)),
            depth: setup.depth.max(1),
            seed: env::seed().unwrap_or(0),
            boots: self.boots.min(thin.unwrap_or(u64::MAX)),
        };
        let replayed = all
            .line()
            .filter(|l| l.name == crate::names::plain(&setup.name));
        let (mine, shards) = setup.shard;
        if replayed.is_none() && Wide::of(&setup.name[..]) as u32 % shards != mine {
            // A chain cannot be divided, so one shard runs all of it.
            return Ok(Summary {
                partial: true,
                ..Summary::default()
            });
        }
        let (model, image) = {
            let e = engine::engine(setup, 0);
            (e.model(), e.image_print())
        };
        let refuse = |why: &str| Failure::plain(&setup.name, &format!("cannot replay: {why}"));
        if let Some(l) = &replayed {
            if l.model != model || l.image != image {
                return Err(refuse("the line is of another medium or image"));
            }
            plan = match l.cuts[..] {
                [(text, _)] => Plan::parse(text),
                _ => None,
            }
            .ok_or_else(|| refuse("this is not the line of an endurance campaign"))?;
        }
        let until = match thin {
            Some(_) => StopWhen::End,
            None => StopWhen::Stuck(self.progress_within.min(plan.boots)),
        };
        let mut lived = self.run(all, &plan, until);
        let exact = replayed.as_ref().is_none_or(|l| l.hash == lived.hash);
        if let Some(l) = replayed.as_ref().filter(|_| !exact && all.pasted)
            && let Some(why) = build::differs(l.features)
        {
            return Err(refuse(&why));
        }
        let replayed = replayed.is_some();
        let mut least = None;
        let stuck = matches!(&lived.end, Err(b) if b.stuck);
        if !replayed && thin.is_none() && !cfg!(miri) && (lived.end.is_ok() || stuck) {
            match self.least_life(all, lived.count.cuts > 0) {
                Ok(l) => least = l,
                // The search found a failure that the main chain did not.
                Err(was) => (plan, lived) = *was,
            }
        }
        match lived.end {
            Ok(()) if lived.count.cuts == 0 => Err(Failure::plain(
                &setup.name,
                "nothing to endure: the program stored nothing",
            )),
            Ok(()) => {
                let mut s = Summary::of(&lived.count, setup);
                s.partial |= thin.is_some();
                s.least_life = least;
                if replayed {
                    report::survives(&setup.name, exact);
                } else {
                    s.append(&setup.name, 0);
                    s.print(&setup.name, &model);
                }
                Ok(s)
            }
            Err(b) => {
                let line = plan.line(setup, &model, &image, b.boot, lived.hash);
                let note = match (replayed, exact) {
                    (false, _) => "",
                    (true, true) => "\n  (replayed exactly)",
                    (true, false) => "\n  (found again in a program that has changed)",
                };
                let mut what = format!("{}{note}", b.what);
                if b.stuck && !replayed {
                    what += &match least {
                        Some(n) => {
                            format!("\n  there is progress with lives of {n} events and more")
                        }
                        None => format!("\n  nor is there any with lives of {LIFE_MAX} events"),
                    };
                }
                let last = b.last.join("   ");
                let what = format!("{what}\n  before the last cut   {last}");
                let report = report_text(&setup.name, b.boot, &what, &line);
                let done = Summary::of(&lived.count, setup);
                Err(Failure::with_line(report, line, b.boot as usize).after(done))
            }
        }
    }

    /// Runs the plan, with the watchdog beside it.
    fn run(&self, all: &Campaign, plan: &Plan, until: StopWhen) -> ChainResult {
        let setup = &all.setup;
        let shared = Shared::new();
        shared.total.store(plan.boots, Relaxed);
        let mut e = engine::engine_of(setup, 0, shared.clone());
        let (model, image) = (e.model(), e.image_print());
        let hung = |_: &[Cut], _: &Schedule, what: &str| {
            let (boot, hash) = (shared.done.load(Relaxed), shared.lived.load(Relaxed));
            let line = plan.line(setup, &model, &image, boot, hash as u32);
            report_text(&setup.name, boot, what, &line)
        };
        all.with_watchdog(&shared, hung, || e.live(plan, until, &*self.progress))
    }

    /// The shortest power-on period with progress if all are equal; `None` if there is none.
    ///
    /// **Errors**: a failure during the search.
    fn least_life(
        &self,
        all: &Campaign,
        stores: bool,
    ) -> Result<Option<u64>, Box<(Plan, ChainResult)>> {
        let enough = |every: u64| {
            let plan = Plan {
                every,
                to: None,
                depth: 1,
                seed: 0,
                boots: self.progress_within,
            };
            let lived = self.run(all, &plan, StopWhen::Progress);
            match lived.end {
                Ok(()) => Ok(lived.progressed),
                Err(_) => Err(Box::new((plan, lived))),
            }
        };
        let most = if stores { LIFE_MAX } else { 0 };
        let mut high = 1;
        while high <= most && !enough(high)? {
            high = if high < LINEAR_SEARCH_MAX {
                high + 1
            } else {
                2 * high
            };
        }
        if high > most {
            return Ok(None);
        }
        let mut low = if high <= LINEAR_SEARCH_MAX {
            high
        } else {
            high / 2 + 1
        };
        while low < high {
            let middle = (low + high) / 2;
            if enough(middle)? {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Ok(Some(high))
    }
}

fn report_text(name: &str, boot: u64, what: &str, line: &str) -> String {
    let command = build::command(line, name);
    format!("{name}: after {boot} power cuts: {what}\n{command}")
}

impl Engine<'_> {
    fn live(&mut self, plan: &Plan, until: StopWhen, progress: &Progress) -> ChainResult {
        let mut progressed = false;
        let mut hash = Wide::new();
        let end = self.boots_of(plan, until, progress, &mut hash, &mut progressed);
        ChainResult {
            end,
            hash: hash.wide() as u32,
            count: self.count,
            progressed,
        }
    }

    fn boots_of(
        &mut self,
        plan: &Plan,
        until: StopWhen,
        progress: &Progress,
        hash: &mut Wide,
        progressed: &mut bool,
    ) -> Result<(), ChainFailure> {
        let mut chance = Rng::new(plan.seed);
        let mut world = self.setup.world.clone();
        let mut unstable = UnstableWords::default();
        let mut policy = Policy::default();
        let mut last = Vec::new();
        let mut done = progress(&world);
        let mut stuck = 0;
        for boot in 0..=plan.boots {
            let events = plan.events(boot, &mut chance);
            self.shared.lived.store(hash.wide() as u32 as u64, Relaxed);
            let run = self.boot_until(Some(events), &world, false, &unstable, policy);
            let trace = self.take_trace();
            if let Err(what) = run.end {
                return Err(ChainFailure {
                    boot,
                    what,
                    last,
                    stuck: false,
                });
            }
            if boot == plan.boots {
                break;
            }
            self.count.boots += 1;
            hash.word(trace_hash(&trace, &run.past) as u64);
            let mut walk = Walk::new(Vec::new(), unstable);
            let mut ends = trace.events.len();
            // The cut lies anywhere after the last counted event, so a fence after that event may
            // not have run.
            let counts = trace.events.iter().rposition(Walk::counts_in_life);
            let settled = counts.map_or(ends, |i| i + 1);
            let fenced = trace.events[settled..].iter().any(Walk::closes_units);
            if run.ran == RunEnd::Cut && fenced && chance.below(2) == 0 {
                ends = settled;
            }
            // The last word of a device may be torn instead of whole.
            let tears = run.ran == RunEnd::Cut && !planted!("powerfail/endurance-tears-nothing");
            let torn = match trace.events.last() {
                Some(Event::Program { .. }) if tears && chance.below(2) == 0 => {
                    let ways = torn_states(&trace, ends - 1);
                    let n = chance.below(ways.len() as u64) as usize;
                    ways.into_iter().nth(n)
                }
                _ => None,
            };
            for i in 0..ends - usize::from(torn.is_some()) {
                walk.step(&mut self.rec.0.get_mut().arena, &self.parts, &trace, i);
            }
            unstable = std::mem::take(&mut walk.unstable);
            if let Some(w) = &torn {
                w.apply_to(&mut unstable);
                self.patch(&w.patches);
            }
            if planted!("powerfail/endurance-loses-nothing") {
                walk.pend.clear();
            }
            for p in &walk.pend {
                let v = p.vals[chance.below(p.vals.len() as u64) as usize];
                let unit = part_of(&self.parts, p.at).unit;
                self.arena().put_unit(p.at, unit, v);
            }
            policy = Policy(chance.below(u64::from(Policy::ALL)) as u8);
            if trace.events.iter().any(Walk::is_cut) {
                self.count.cuts += 1;
                self.status.cuts.fetch_add(1, Relaxed);
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
            let now = progress(&world);
            stuck = if now == done { stuck + 1 } else { 0 };
            *progressed |= now != done;
            done = now;
            // A program that stores nothing gets another message.
            let fails = self.count.cuts > 0 && !planted!("powerfail/no-progress-passes");
            match until {
                StopWhen::Progress if *progressed => break,
                StopWhen::Stuck(boots) if fails && stuck >= boots => {
                    let lives = plan.lives();
                    return Err(ChainFailure {
                        boot: boot + 1,
                        what: format!(
                            "no progress: in the last {boots} boots, with power for {lives} each, nothing was \
                             completed; the world is {world:?}"
                        ),
                        last,
                        stuck: true,
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Plan;

    #[test]
    fn a_plan_is_what_its_line_says() {
        let plan = Plan {
            every: 11,
            to: Some(21),
            depth: 2,
            seed: 9,
            boots: 40,
        };
        assert_eq!(Plan::parse(&plan.text(40)), Some(plan));
        let fixed = Plan {
            to: None,
            seed: 0,
            ..plan
        };
        assert_eq!(fixed.text(40), "every=11,depth=2,boot=40");
        assert_eq!(Plan::parse("every=11,depth=2,boot=40"), Some(fixed));
        assert_eq!(Plan::parse("every=11,depth=2,boot=x"), None);
        assert_eq!(Plan::parse("every=11,boot=1"), None);
        assert_eq!(Plan::parse("0x0#1=01"), None);
    }
}
