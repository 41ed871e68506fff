//! A device's life: thousands of power cuts, one after the other, without ever going back.

use crate::build;
use crate::chain::{Cut, wrecks};
use crate::engine::{self, Count, Engine, Setup, trace_hash};
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
use nvmem::planted;
use std::hash::Hash;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// For how many events a quick look lets the device have power at most.
const QUICK: u64 = 40;

/// In how many boots there must be progress.
const PATIENT: u64 = 100;

/// Lives up to this are tried one by one for the smallest one; longer ones by halves.
const SMALL: u64 = 64;

/// A program that makes no progress in a life of so many events makes none.
const LARGE: u64 = 1 << 14;

/// How long the device has power: so many events that persist or that the world sees, on average.
///
/// Each life is another one, from 1 to `2 * n - 1` events: with the same in each boot the cuts of a super-loop could fall at the
/// same few places for ever. The lives look random and are always the same; `POWERFAIL_SEED=n` in the environment gives
/// others. [`Endure::fixed_period`] turns that off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EveryEvents(pub u64);

/// Runs `program`, a super-loop as a rule, through a long chain of power cuts.
///
/// Nothing of a run is executed after its cut: no `Drop`, no unwinding. What was still open at a cut is decided by chance,
/// always the same. It checks by itself, as in [`explore`](crate::explore()); [`Endure::run`] starts it.
///
/// `progress` says what gets on: it makes of the world a value that changes whenever something is completed. When it stays
/// the same for 100 boots, that is a failure: a program that never comes to anything passes all of its checks. The report
/// has the smallest life that is enough, and so has the [`Summary`].
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
/// // A boot stores, and then has time to say so.
/// assert_eq!(s.least_life, Some(2));
/// ```
pub fn endure<M: Media, T: Outside + Default, P: Hash>(
    media: M,
    every: EveryEvents,
    program: impl for<'r, 'w> Fn(M::Nv<'r>, &'w World<'r, T>) + Send + Sync + 'static,
    progress: impl Fn(&T) -> P + Sync + 'static,
) -> Endure<M, T> {
    Endure {
        all: crate::explore(media, program),
        progress: Box::new(move |world| Wide::of(&progress(world))),
        every: every.0.max(1),
        most: u64::MAX,
        fixed: false,
        boots: 1000,
        patient: PATIENT,
    }
}

/// A campaign of [`endure`].
#[must_use = "nothing runs before `run`"]
pub struct Endure<M: Media, T> {
    all: Explore<M, T>,
    progress: Box<dyn Fn(&T) -> u128 + Sync>,
    every: u64,
    /// No life is longer.
    most: u64,
    fixed: bool,
    boots: u64,
    /// In how many boots there must be progress.
    patient: u64,
}

/// How long the device has power at each boot; in a line, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Plan {
    every: u64,
    /// Lives are of 1 to so many events; all of `every` events when none.
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

    /// What a line says; lives are all the same unless it says otherwise.
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

    fn line<M: Media, T>(
        &self,
        setup: &Setup<M, T>,
        model: &str,
        image: &str,
        boot: u64,
        hash: u32,
    ) -> String {
        let name = crate::place::plain(&setup.name);
        let plan = self.text(boot);
        format!("{name}@{model}@{image}@{plan}@{hash:08x}{}", build::mark())
    }

    /// For how many events boot `i` has power: after each long one, `depth` - 1 that are cut in recovery.
    fn events(&self, i: u64, chance: &mut Chance) -> u64 {
        if !i.is_multiple_of(self.depth.max(1).into()) {
            return 1 + chance.below(self.every);
        }
        match self.to {
            Some(to) if !planted!("powerfail/fixed-period") => 1 + chance.below(to),
            _ => self.every,
        }
    }

    /// In words.
    fn lives(&self) -> String {
        match self.to {
            Some(to) => format!("1 to {to} events"),
            None => format!("{} events", self.every),
        }
    }
}

/// Numbers that look random and are always the same.
struct Chance(u64);

impl Chance {
    fn new(seed: u64) -> Self {
        Chance(0x9e37_79b9 ^ seed.wrapping_mul(0xff51_afd7_ed55_8ccd))
    }

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
    /// Nothing was wrong but that nothing was completed.
    stuck: bool,
}

/// What became of a chain.
struct Lived {
    end: Result<(), Broken>,
    /// Of all runs.
    hash: u32,
    count: Count,
    progressed: bool,
}

/// When a chain is over before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// When there was no progress in so many boots.
    Stuck(u64),
    /// With the first progress.
    Progress,
    /// Never.
    End,
}

impl<M: Media, T: Outside> Endure<M, T> {
    /// How many power cuts: 1000 unless told.
    pub fn boots(mut self, boots: u64) -> Self {
        self.boots = boots;
        self
    }
    /// The device has power for exactly as many events in each boot as [`EveryEvents`] says, where its place in the program
    /// matters: for a count of what one boot does. Cuts of a super-loop may then fall at the same few places for ever.
    pub fn fixed_period(mut self) -> Self {
        self.fixed = true;
        self
    }
    /// In how many boots there must be progress: 100 unless told, and in all of them when there are fewer.
    pub fn progress_within(mut self, boots: u64) -> Self {
        self.patient = boots.max(1);
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
        self.most = events.max(1);
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
    /// With `POWERFAIL_THIN=n` in the environment it ends after `n` boots, none of more than 40 events, and asks for no
    /// progress: a quick look, for Miri.
    pub fn try_run(self) -> Result<Summary, Failure> {
        let setup = &self.all.setup;
        fresh::next_number();
        if Job::of_this_process().is_some() {
            return Ok(Summary {
                part: true,
                ..Summary::default()
            });
        }
        let thin = env::thin();
        let most = self.most.min(thin.map_or(u64::MAX, |_| QUICK));
        let every = self.every.min(most);
        let mut plan = Plan {
            every,
            to: (!self.fixed).then(|| (2 * every - 1).min(most)),
            depth: setup.depth.max(1),
            seed: env::seed().unwrap_or(0),
            boots: self.boots.min(thin.unwrap_or(u64::MAX)),
        };
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
        let (model, image) = {
            let e = engine::engine(setup, 0);
            (e.model(), e.image_print())
        };
        let refuse = |why: &str| Failure::plain(&setup.name, &format!("cannot replay: {why}"));
        if let Some(l) = &replayed {
            if l.model != model || l.image != image {
                return Err(refuse("the line is about another medium or image"));
            }
            plan = match l.cuts[..] {
                [text] => Plan::parse(text),
                _ => None,
            }
            .ok_or_else(|| refuse("that is not a line of an endurance"))?;
        }
        let until = match thin {
            Some(_) => Until::End,
            None => Until::Stuck(self.patient.min(plan.boots)),
        };
        let mut lived = self.chain(&plan, until);
        let exact = replayed.as_ref().is_none_or(|l| l.hash == lived.hash);
        if let Some(l) = replayed.as_ref().filter(|_| !exact && self.all.pasted)
            && let Some(why) = build::differs(l.features)
        {
            return Err(refuse(&why));
        }
        let replayed = replayed.is_some();
        let mut least = None;
        let stuck = matches!(&lived.end, Err(b) if b.stuck);
        if !replayed && thin.is_none() && !cfg!(miri) && (lived.end.is_ok() || stuck) {
            match self.least_life(lived.count.cuts > 0) {
                Ok(l) => least = l,
                // It has found what the chain before has not.
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
                s.part |= thin.is_some();
                s.least_life = least;
                if replayed {
                    report::survives(&setup.name, exact);
                } else {
                    s.append(&setup.name, 0);
                    s.tell(&setup.name, &model);
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
                        None => format!("\n  nor is there any with lives of {LARGE} events"),
                    };
                }
                let last = b.last.join("   ");
                let what = format!("{what}\n  before the last cut   {last}");
                let report = told(&setup.name, b.boot, &what, &line);
                let done = Summary::of(&lived.count, setup);
                Err(Failure::with_line(report, line, b.boot as usize).after(done))
            }
        }
    }

    /// Lives through the plan, with the watchdog beside it.
    fn chain(&self, plan: &Plan, until: Until) -> Lived {
        let setup = &self.all.setup;
        let shared = Shared::new();
        shared.total.store(plan.boots, Relaxed);
        let mut e = engine::engine_of(setup, 0, shared.clone());
        let (model, image) = (e.model(), e.image_print());
        let hung = |_: &[Cut]| {
            let (boot, hash) = (shared.done.load(Relaxed), shared.lived.load(Relaxed));
            let line = plan.line(setup, &model, &image, boot, hash as u32);
            told(&setup.name, boot, &report::no_end(setup.patience), &line)
        };
        self.all
            .watched(&shared, hung, || e.live(plan, until, &*self.progress))
    }

    /// The smallest life that is enough for progress when all are the same; none when no life is.
    ///
    /// **Errors**: what was not survived on the way.
    fn least_life(&self, stores: bool) -> Result<Option<u64>, Box<(Plan, Lived)>> {
        let enough = |every: u64| {
            let plan = Plan {
                every,
                to: None,
                depth: 1,
                seed: 0,
                boots: self.patient,
            };
            let lived = self.chain(&plan, Until::Progress);
            match lived.end {
                Ok(()) => Ok(lived.progressed),
                Err(_) => Err(Box::new((plan, lived))),
            }
        };
        let most = if stores { LARGE } else { 0 };
        let mut high = 1;
        while high <= most && !enough(high)? {
            high = if high < SMALL { high + 1 } else { 2 * high };
        }
        if high > most {
            return Ok(None);
        }
        let mut low = if high <= SMALL { high } else { high / 2 + 1 };
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

fn told(name: &str, boot: u64, what: &str, line: &str) -> String {
    let command = build::command(line, name);
    format!("{name}: after {boot} power cuts: {what}\n{command}")
}

impl<M: Media, T: Outside> Engine<'_, M, T> {
    fn live(&mut self, plan: &Plan, until: Until, progress: &dyn Fn(&T) -> u128) -> Lived {
        let mut progressed = false;
        let mut hash = Wide::new();
        let end = self.boots_of(plan, until, progress, &mut hash, &mut progressed);
        Lived {
            end,
            hash: hash.wide() as u32,
            count: self.count,
            progressed,
        }
    }

    fn boots_of(
        &mut self,
        plan: &Plan,
        until: Until,
        progress: &dyn Fn(&T) -> u128,
        hash: &mut Wide,
        progressed: &mut bool,
    ) -> Result<(), Broken> {
        let mut chance = Chance::new(plan.seed);
        let mut world = self.setup.world.clone();
        let mut shaky = ShakySet::default();
        let mut policy = Policy::default();
        let mut last = Vec::new();
        let mut done = progress(&world);
        let mut stuck = 0;
        for boot in 0..=plan.boots {
            let events = plan.events(boot, &mut chance);
            self.shared.lived.store(hash.wide() as u32 as u64, Relaxed);
            let run = self.boot_until(Some(events), &world, false, &shaky, policy);
            let trace = self.take_trace();
            if let Err(what) = run.end {
                return Err(Broken {
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
            let mut walk = Walk::new(Vec::new(), shaky);
            let mut ends = trace.events.len();
            // The power went at any instant since the last event that counts: a fence after it may not have been reached.
            let counts = trace.events.iter().rposition(Walk::ticks);
            let settled = counts.map_or(ends, |i| i + 1);
            let fenced = trace.events[settled..].iter().any(Walk::forgets);
            if run.ran == Ran::Cut && fenced && chance.below(2) == 0 {
                ends = settled;
            }
            // The last word of a device may be torn instead of whole.
            let torn = match trace.events.last() {
                Some(Event::Program { .. })
                    if run.ran == Ran::Cut
                        && chance.below(2) == 0
                        && !planted!("powerfail/endurance-tears-nothing") =>
                {
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
            let now = progress(&world);
            stuck = if now == done { stuck + 1 } else { 0 };
            *progressed |= now != done;
            done = now;
            match until {
                Until::Progress if *progressed => break,
                // Where nothing is stored there is another thing to say.
                Until::Stuck(boots)
                    if stuck >= boots
                        && self.count.cuts > 0
                        && !planted!("powerfail/no-progress-passes") =>
                {
                    let lives = plan.lives();
                    return Err(Broken {
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
