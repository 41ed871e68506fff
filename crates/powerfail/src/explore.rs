//! The entry points `explore` and `explore_with`, and the builder of a campaign.
//!
//! ```text
//!  try_run
//!    |- a line to replay? -> replay_line
//!    |- preempt? -> for each point of the interrupt: run_campaign
//!    '- run_campaign:  check_determinism   three runs without a cut must agree
//!                      levels::explore     all cuts, level by level
//!                      on failure: report, and the line repeated in a fresh process
//! ```

use crate::build;
use crate::chain::{Cut, FailedRun};
use crate::engine::{self, Setup};
use crate::env::{self, Samples};
use crate::fresh::{self, Job, RepeatOutcome};
use crate::medium::{Media, MediaLayout};
use crate::monitor::{Shared, last_words};
use crate::replay::{CutSource, Line};
use crate::report::{self, Failure};
use crate::schedule::Schedule;
use crate::summary::Summary;
use crate::world::{Value, World, WorldState};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Boots `program` on `media`, cuts the power at every instant that matters, boots the states that
/// the cut may leave, and cuts those boots again.
///
/// The program is a function, generic or not, or a closure that captures nothing. So no variable of
/// the run before a cut can reach the run after it. A closure that captures does not compile:
///
/// ```compile_fail
/// # use powerfail::{explore, Mapped, World};
/// let runs = std::sync::atomic::AtomicU32::new(0);
/// explore(Mapped::<nvmem::InOrder32>::new(64), move |_, _: &World<()>| {
///     runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
/// });
/// ```
///
/// Pass input that the program only reads to [`explore_with`]: operations, a configuration, a
/// function pointer. The program checks itself: a panic is a failure. [`Explore::run`] starts the
/// campaign.
///
/// On memory-mapped media, with the crate `nvmem`:
///
/// ```
/// use powerfail::{explore, Mapped, World};
/// use nvmem::{InOrder16, Region};
///
/// /// Two copies of a number.
/// fn bump(nv: &Region<'_, InOrder16>) {
///     // SAFETY: units of the region; no reference to it exists.
///     unsafe {
///         let n = nv.load(0);
///         nv.store(2, n + 1);
///         nv.store(0, n + 1);
///     }
/// }
///
/// let failure = explore(Mapped::<InOrder16>::new(64), |nv, _: &World<()>| {
///     // SAFETY: as above.
///     assert_eq!(unsafe { nv.load(0) }, unsafe { nv.load(2) }, "the copies differ");
///     bump(&nv);
/// })
/// .try_run()
/// .unwrap_err();
/// assert!(failure.report().contains("the copies differ"));
/// ```
///
/// A cut between the two stores leaves 0 and 1. A program that expects this, and takes the first
/// number, passes.
pub fn explore<M: Media, T: WorldState + Default>(
    media: M,
    program: impl for<'r, 'w> Fn(M::Nv<'r>, &'w World<'r, T>) + Send + Sync + 'static,
) -> Explore<M, T> {
    captures_nothing(&program);
    Explore::new(media, program)
}

/// [`explore`] with an input that the program only reads: the operations to do, a configuration.
pub fn explore_with<C, M, T>(
    input: C,
    media: M,
    program: impl for<'r, 'w, 'c> Fn(M::Nv<'r>, &'w World<'r, T>, &'c C) + Send + Sync + 'static,
) -> Explore<M, T>
where
    C: Send + Sync + 'static,
    M: Media,
    T: WorldState + Default,
{
    captures_nothing(&program);
    let input = Arc::new(input);
    Explore::new(media, move |nv, world: &World<'_, T>| {
        program(nv, world, &input)
    })
}

/// A function item has size zero, and so has a closure that captures nothing.
pub(crate) fn captures_nothing<P>(_: &P) {
    const {
        assert!(
            size_of::<P>() == 0,
            "this program captures a variable (or is a function pointer), which would survive the power cut: give it to \
             `explore_with`"
        )
    }
}

/// A campaign of [`explore`].
#[must_use = "nothing runs before `run`"]
pub struct Explore<M: Media, T> {
    pub(crate) campaign: Campaign,
    of: PhantomData<fn() -> (M, T)>,
}

/// A campaign whose types of media and of the world only its program knows.
pub(crate) struct Campaign {
    pub(crate) setup: Setup,
    line: Option<String>,
    /// The line comes from the environment: the test that printed it may have had other features.
    pub(crate) pasted: bool,
    /// Whether the results go to the file of `POWERFAIL_STATS`.
    reported: bool,
}

impl<M: Media, T: WorldState + Default> Explore<M, T> {
    pub(crate) fn new(
        media: M,
        program: impl for<'r, 'w> Fn(M::Nv<'r>, &'w World<'r, T>) + Send + Sync + 'static,
    ) -> Self {
        let layout = MediaLayout::of(&media);
        let program: Box<engine::Program> = Box::new(move |run, log| {
            // SAFETY: only `Engine::boot` calls a program, once for each run. The run's memory is
            // the arena of its engine, and nothing else touches it until the run is over.
            let nv = unsafe { media.attach(run) };
            program(nv, &World::of(log))
        });
        Explore {
            campaign: Campaign::new(layout, program, Arc::new(T::default())),
            of: PhantomData,
        }
    }
}

impl Campaign {
    fn new(media: MediaLayout, program: Box<engine::Program>, world: Value) -> Self {
        let name = env::test_name();
        Campaign {
            setup: Setup {
                name,
                media,
                program,
                world,
                depth: 1,
                max_depth: u32::MAX,
                shard: env::shard(),
                partial: false,
                budget: 1_000_000,
                limit: 4096,
                samples: env::samples(),
                prune: true,
                thin: None,
                fields: Vec::new(),
                interrupts: false,
                preempt: None,
                preemptions: None,
                horizon: None,
                image: None,
                boot_timeout: Duration::from_secs(20),
                threads: std::thread::available_parallelism().map_or(1, usize::from),
            },
            line: env::line(),
            pasted: true,
            reported: true,
        }
    }
}

impl<M: Media, T: WorldState> Explore<M, T> {
    /// How many cuts one execution may have; 1 by default. With 2, recovery is cut, too.
    ///
    /// With `POWERFAIL_DEPTH=n` in the environment, campaigns of depth 2 and more go to depth n.
    /// Campaigns of depth 1 stay at 1. Under Miri, which is slow, all go to depth 1 without that
    /// variable.
    pub fn depth(mut self, depth: u32) -> Self {
        self.campaign.setup.depth = depth;
        self
    }

    /// The greatest depth that `POWERFAIL_DEPTH` may select: for campaigns that would not end.
    pub fn max_depth(mut self, depth: u32) -> Self {
        self.campaign.setup.max_depth = depth;
        self
    }

    /// The name in reports and failure lines; by default that of the test.
    pub fn name(mut self, name: &str) -> Self {
        self.campaign.setup.name = name.to_owned();
        self
    }

    /// The world before the first boot; `T::default()` by default.
    pub fn world(mut self, world: T) -> Self {
        self.campaign.setup.world = Arc::new(world);
        self
    }

    /// Events (stores, fences, loans, reads) after which a boot counts as not ending; a million by
    /// default.
    pub fn budget(mut self, events: usize) -> Self {
        self.campaign.setup.budget = events;
        self
    }

    /// How many boots one cut may cost before its open units are only sampled; 4096 by default.
    pub fn limit(mut self, boots: usize) -> Self {
        self.campaign.setup.limit = boots.max(1);
        self
    }

    /// The limit of a campaign that runs often: of a cut that costs more than so many boots, it
    /// boots some states, which differ from run to run.
    ///
    /// `POWERFAIL_SAMPLE=n` in the environment selects them; without it, `n` is 0. With
    /// `POWERFAIL_SAMPLE=all` the [limit](Self::limit) stays as it was.
    pub fn sample(self, boots: usize) -> Self {
        match self.campaign.setup.samples {
            Samples::Seed(_) => self.limit(boots),
            Samples::All => self,
        }
    }

    /// For a campaign that takes too long for each run: of the states that the last cut may leave,
    /// it boots one in `n`. Cuts whose states are others are not counted.
    ///
    /// `POWERFAIL_SAMPLE=i` in the environment selects them: `n` such numbers in a row select all.
    /// Without it, `i` is 0. With `POWERFAIL_SAMPLE=all` all states are booted.
    pub fn one_in(mut self, n: u32) -> Self {
        let setup = &mut self.campaign.setup;
        if let Samples::Seed(seed) = setup.samples {
            let n = n.max(1);
            let (mine, shards) = setup.shard;
            let i = (seed % u64::from(n)) as u32;
            setup.shard = (i + n * mine, n * shards);
        }
        self
    }

    /// Branches also on open units that the boot does not read: for programs that read the medium
    /// without [`nvmem::mapped`].
    pub fn unpruned(mut self) -> Self {
        self.campaign.setup.prune = false;
        self
    }

    /// Runs the interrupt of [`World::interrupted`] at every point, one campaign for each point.
    /// Each campaign cuts the body, the interrupt, the rest of the body, and the boots after it. In
    /// those boots the interrupt comes at the same point.
    ///
    /// The failure line has the point. Finding the points takes one run, and the summary is the sum
    /// of all campaigns.
    ///
    /// ```
    /// use powerfail::{explore, masked, Mapped, World};
    /// use nvmem::{InOrder32, Region};
    ///
    /// /// A number in two words, which an interrupt also increments.
    /// fn raise(nv: &Region<'_, InOrder32>) {
    ///     // SAFETY: units of the region; no reference to it exists.
    ///     masked(|| unsafe {
    ///         let n = nv.load(0) + 1;
    ///         nv.store(0, n);
    ///         nv.store(4, n);
    ///     })
    /// }
    ///
    /// let summary = explore(Mapped::<InOrder32>::new(64), |nv, world: &World<u32>| {
    ///     // SAFETY: as above.
    ///     let n = || unsafe { nv.load(0) };
    ///     let before = n();
    ///     world.interrupted(|| raise(&nv), || raise(&nv));
    ///     assert_eq!(n(), before + 2);
    /// })
    /// .preempt()
    /// .run();
    /// assert!(summary.points > 0);
    /// ```
    ///
    /// Without `masked`, this fails.
    pub fn preempt(mut self) -> Self {
        self.campaign.setup.interrupts = true;
        self
    }

    /// Explores the schedules of [`World::threads`]: each boot runs once for each schedule with at
    /// most `most` preemptions, and each of these runs is cut everywhere. Each boot after a cut is
    /// explored in the same way. One or two preemptions find most bugs; each further one multiplies
    /// the number of schedules by that of the points.
    ///
    /// A preemption is a departure from the default schedule: another thread of the same priority
    /// runs, the clock moves to the next deadline although a thread is ready, or an interrupt
    /// comes. It may come before a store, a read, a loan or a fence of a mapped medium, before a
    /// change of the world, at the end of a critical section ([`masked`](crate::masked)), and where
    /// a thread waits or ends and several could run next. Inside a section there is none.
    ///
    /// The campaign fails if there is no preemption, and if a run depends on something else than
    /// its state and its schedule. The failure line has the schedule of each boot.
    pub fn preemptions(mut self, most: u32) -> Self {
        self.campaign.setup.preemptions = Some(most);
        self
    }

    /// Runs the campaign.
    ///
    /// **Panics**: with the report of the first state that fails; if the program stored nothing; if
    /// two runs without a cut differ; if a boot does not end.
    #[track_caller]
    pub fn run(self) -> Summary {
        self.campaign.run()
    }

    /// How much processor time one boot may use before the watchdog ends the process with a report;
    /// 20 seconds by default. It catches loops that do not touch the medium. Others run into the
    /// [budget](Self::budget).
    ///
    /// A boot that waits, and never runs again, is ended after ten minutes. So is every boot where
    /// the system does not say how long a thread has run; Linux does.
    pub fn boot_timeout(mut self, timeout: Duration) -> Self {
        self.campaign.setup.boot_timeout = timeout;
        self
    }

    /// The number of worker threads; all cores by default.
    pub fn threads(mut self, threads: usize) -> Self {
        self.campaign.setup.threads = threads.max(1);
        self
    }

    /// Ends each run after so many events that persist or that the world sees, as if the power were
    /// cut: for super-loops, which never return. Nothing of a run is executed after that, no `Drop`
    /// either.
    pub fn horizon(mut self, events: u64) -> Self {
        self.campaign.setup.horizon = Some(events);
        self
    }

    /// The first medium's initial image: for example one from a device in the field, or one whose
    /// sequence numbers are about to wrap.
    pub fn image(mut self, image: Vec<u8>) -> Self {
        self.campaign.setup.image = Some(image);
        self
    }

    /// Cuts until no cut leads to a new state, which covers every image that any number of cuts can
    /// leave. Ends only if the program and its world have a bounded number of states.
    pub fn closure(mut self) -> Self {
        self.campaign.setup.depth = u32::MAX;
        self
    }

    /// Marks a campaign of [`random`](crate::random()). Its programs have no names, so no line
    /// refers to one of them; the whole is repeated instead.
    pub(crate) fn of_random(mut self) -> Self {
        self.campaign.reported = false;
        self.campaign.line = None;
        self
    }

    /// Names bytes of the first medium in reports and failure lines, like the name of a field.
    pub fn field(self, name: &str, bytes: Range<u32>) -> Self {
        self.field_of(0, name, bytes)
    }

    /// Names bytes of a medium; media count from 0.
    pub fn field_of(mut self, medium: usize, name: &str, bytes: Range<u32>) -> Self {
        let name = crate::names::plain(name);
        self.campaign.setup.fields.push((medium, bytes, name));
        self
    }

    /// Replays this failure line instead of exploring. The environment variable `POWERFAIL` does
    /// the same for the campaign that the line names.
    pub fn replay(mut self, line: &str) -> Self {
        self.campaign.line = Some(line.to_owned());
        self.campaign.pasted = false;
        self
    }

    /// [`run`](Self::run), but returns the failure.
    ///
    /// With `POWERFAIL_THIN=n` in the environment it boots about `n` cuts, spread over the run, at
    /// depth 1, with one or two boots each, and compares no two runs: a quick look, for Miri. Other
    /// cuts count as sampled.
    ///
    /// **Errors**: the [`Failure`] with whose report [`run`](Self::run) panics.
    pub fn try_run(self) -> Result<Summary, Failure> {
        self.campaign.try_run()
    }
}

impl Campaign {
    #[track_caller]
    fn run(self) -> Summary {
        let (reported, name) = (self.reported, self.setup.name.clone());
        match self.try_run() {
            Ok(s) => s,
            Err(e) => {
                if reported {
                    e.append(&name);
                }
                panic!("{e}")
            }
        }
    }

    pub(crate) fn try_run(mut self) -> Result<Summary, Failure> {
        let asked = self.setup.depth.min(self.setup.max_depth);
        self.setup.depth = env::depth(self.setup.depth).min(self.setup.max_depth);
        if let Some(n) = env::thin() {
            self.setup.thin = Some(n);
            self.setup.depth = self.setup.depth.min(1);
        }
        self.setup.partial =
            self.setup.shard.1 > 1 || self.setup.thin.is_some() || self.setup.depth < asked;
        let number = if self.reported {
            fresh::next_number()
        } else {
            0
        };
        let line = self.line.as_deref().and_then(Line::parse);
        let asked = line.filter(|l| l.name == crate::names::plain(&self.setup.name));
        if let Some(point) = asked.map(|l| l.preempt) {
            self.setup.preempt = point;
        }
        let setup = &self.setup;
        let job = Job::of_this_process();
        if let Some(job) = &job
            && !job.is(number)
        {
            // This process repeats the failure of another campaign, so this one is skipped.
            return Ok(Summary {
                partial: true,
                ..Summary::default()
            });
        }
        if let Some(line) = &self.line
            && let Some(l) = Line::parse(line)
            && l.name == crate::names::plain(&setup.name)
        {
            let again = self.replay_line(&l);
            if let Some(job) = &job {
                job.done(again.1);
            }
            return again.0;
        }
        let done = if self.setup.interrupts {
            self.run_at_all_points(number)
        } else {
            self.run_campaign(number)
        };
        if let Ok(s) = &done
            && self.reported
        {
            s.append(&self.setup.name, 0);
            s.print(&self.setup.name, &self.medium());
        }
        done
    }

    fn medium(&self) -> String {
        engine::names(&self.setup.media.parts)
    }

    /// One campaign for each point at which the program may be interrupted.
    fn run_at_all_points(&mut self, number: u32) -> Result<Summary, Failure> {
        let points = {
            let mut e = engine::engine(&self.setup, 0);
            if let Err(bad) = e.run_uncut() {
                return Err(report::failure(&self.setup, &bad));
            }
            e.rec.2.passed()
        };
        if points == 0 {
            let why = "nothing to interrupt: no body of `World::interrupted` has a point";
            return Err(Failure::plain(&self.setup.name, why));
        }
        // A quick look takes some of the points.
        let step = match self.setup.thin {
            Some(n) => points.div_ceil(n.max(1)),
            None => 1,
        };
        let mut sum = Summary::default();
        for point in (0..points).step_by(step as usize) {
            self.setup.preempt = Some(point);
            sum = sum + self.run_campaign(number)?;
            sum.points += 1;
        }
        sum.programs = 1;
        Ok(sum)
    }

    /// Runs one campaign.
    fn run_campaign(&self, number: u32) -> Result<Summary, Failure> {
        let setup = &self.setup;
        let shared = Shared::new();
        let mut here = engine::engine_of(setup, 0, shared.clone());
        let hung =
            |cuts: &[Cut], s: &Schedule, what: &str| report::hung(setup, cuts, s, what, None);
        let done = self.with_watchdog(&shared, hung, || {
            self.check_determinism(&mut here)?;
            here.explore()
        });
        let s = Summary::of(&here.count, setup);
        match done {
            Ok(()) => Ok(s),
            Err(bad) => {
                let f = report::failure(setup, &bad).after(s);
                let outcome = match f.line() {
                    Some(line) if self.reported => fresh::repeat(line, number),
                    _ => None,
                };
                Err(f.and(fresh::note(outcome)))
            }
        }
    }

    /// The line to replay, if it is valid.
    pub(crate) fn line(&self) -> Option<Line<'_>> {
        Line::parse(self.line.as_deref()?)
    }

    /// Runs `work` with a watchdog beside it, which prints the text of `hung` if a boot does not
    /// end, or overflows a stack.
    pub(crate) fn with_watchdog<R>(
        &self,
        shared: &Shared,
        hung: impl Fn(&[Cut], &Schedule, &str) -> String + Sync,
        work: impl FnOnce() -> R,
    ) -> R {
        if cfg!(miri) {
            return work();
        }
        struct Stop<'a>(&'a Shared);
        impl Drop for Stop<'_> {
            fn drop(&mut self) {
                self.0.stop()
            }
        }
        let setup = &self.setup;
        std::thread::scope(|scope| {
            let _stop = Stop(shared);
            scope.spawn(|| {
                let last =
                    |cuts: &[Cut], s: &Schedule, what: &str| last_words(&hung(cuts, s, what));
                shared.watch(&setup.name, setup.depth, setup.boot_timeout, last)
            });
            work()
        })
    }

    fn replay_line(&self, l: &Line<'_>) -> (Result<Summary, Failure>, RepeatOutcome) {
        let setup = &self.setup;
        let refuse = |why: &str| {
            let f = Failure::plain(&setup.name, &format!("cannot replay: {why}"));
            (Err(f), RepeatOutcome::Elsewhere)
        };
        let mut e = engine::engine(setup, 0);
        if l.model != e.model() {
            return refuse(&format!("the line is of {}, not {}", l.model, e.model()));
        }
        if l.image != e.image_print() {
            return refuse("the line is of another initial image");
        }
        let cuts = l.cuts.iter();
        let sources: Vec<CutSource<'_>> =
            cuts.map(|(c, s)| CutSource::Line(c, s.clone())).collect();
        let shared = e.shared.clone();
        let hung = |cuts: &[Cut], s: &Schedule, what: &str| {
            report::hung(setup, cuts, s, what, self.line.as_deref())
        };
        // The same execution means the same program, even with other features.
        let other = || build::differs(l.features).filter(|_| self.pasted);
        let replayed =
            match self.with_watchdog(&shared, hung, || e.follow(&sources, Some(&l.schedule))) {
                Ok(s) => s,
                Err(why) => return refuse(&other().unwrap_or(why)),
            };
        let exact = replayed.hash == l.hash;
        if !exact && let Some(why) = other() {
            return refuse(&why);
        }
        let outcome = match (exact, &replayed.end) {
            (false, _) => RepeatOutcome::Elsewhere,
            (true, Ok(())) => RepeatOutcome::Survived,
            (true, Err(_)) => RepeatOutcome::Failed,
        };
        let result = match &replayed.end {
            Err(what) => {
                let note = if exact {
                    "\n  (replayed exactly)"
                } else {
                    "\n  (found again in a program that has changed)"
                };
                let line = e.line(&replayed);
                Err(report::build(setup, &replayed, what, Some(line), note))
            }
            Ok(()) => {
                report::survives(&setup.name, exact);
                Ok(Summary {
                    cuts: replayed.steps.len() as u64,
                    boots: 1,
                    depth: replayed.steps.len() as u32,
                    partial: true,
                    ..Summary::default()
                })
            }
        };
        (result, outcome)
    }

    /// Checks that runs without a cut agree, also on another thread with the media at another
    /// address.
    fn check_determinism(&self, here: &mut engine::Engine<'_>) -> Result<(), FailedRun> {
        if self.setup.thin.is_some() {
            return Ok(());
        }
        let (first, ..) = here.run_uncut()?;
        let (again, ..) = here.run_uncut()?;
        if first != again {
            return Err(FailedRun::uncut(
                "two runs without a cut differ: something outlives the reboot, or the program depends on time or chance",
            ));
        }
        let setup = &self.setup;
        let there = std::thread::scope(|s| {
            let run = s.spawn(|| engine::engine(setup, 1).run_uncut());
            run.join().expect("a run is caught")
        })?;
        if first != there.0 {
            return Err(FailedRun::uncut(
                "a run on another thread, with the medium at another address, differs: a thread local outlives the \
                 reboot, or an address is stored",
            ));
        }
        Ok(())
    }
}
