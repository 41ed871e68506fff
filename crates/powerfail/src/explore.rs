//! The entry points.

use crate::build;
use crate::chain::{Bad, Cut};
use crate::engine::{self, Setup};
use crate::env;
use crate::fresh::{self, Came, Job};
use crate::medium::{Media, media_arena};
use crate::monitor::{Shared, last_words};
use crate::replay::{Line, Mark};
use crate::report::{self, Failure};
use crate::summary::Summary;
use crate::world::{Outside, World};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Boots `program` on `media`, cuts the power at every instant that matters, boots it again, and so on.
///
/// The program is a function, generic or not, or a closure that captures nothing: nothing of the run before a cut can reach
/// the one after. One that captures does not compile:
///
/// ```compile_fail
/// # use powerfail::{explore, Mapped, World};
/// let runs = std::sync::atomic::AtomicU32::new(0);
/// explore(Mapped::<nvmem::InOrder32>::new(64), move |_, _: &World<()>| {
///     runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
/// });
/// ```
///
/// What it may read and not change goes to [`explore_with`]: operations, a configuration, a function pointer. It checks by
/// itself: a panic is a failure. [`Explore::run`] starts it.
pub fn explore<M: Media, T: Outside + Default>(
    media: M,
    program: impl for<'r, 'w> Fn(M::Nv<'r>, &'w World<'r, T>) + Send + Sync + 'static,
) -> Explore<M, T> {
    captures_nothing(&program);
    Explore::new(media, Box::new(program))
}

/// [`explore`] with an input that the program may read and not change: the operations to do, a configuration.
pub fn explore_with<C, M, T>(
    input: C,
    media: M,
    program: impl for<'r, 'w, 'c> Fn(M::Nv<'r>, &'w World<'r, T>, &'c C) + Send + Sync + 'static,
) -> Explore<M, T>
where
    C: Send + Sync + 'static,
    M: Media,
    T: Outside + Default,
{
    captures_nothing(&program);
    let input = Arc::new(input);
    Explore::new(media, Box::new(move |nv, world| program(nv, world, &input)))
}

/// A function has no size, nor has a closure that captures nothing.
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
    pub(crate) setup: Setup<M, T>,
    line: Option<String>,
    /// The line comes from the environment: whoever pasted it may have built the test otherwise.
    pub(crate) pasted: bool,
    /// Whether the results go to the file of statistics.
    reported: bool,
}

impl<M: Media, T: Outside + Default> Explore<M, T> {
    pub(crate) fn new(media: M, program: Box<engine::Program<M, T>>) -> Self {
        let name = env::test_name();
        Explore {
            setup: Setup {
                name,
                media,
                program,
                world: T::default(),
                depth: 1,
                deepest: u32::MAX,
                shard: env::shard(),
                part: false,
                budget: 1_000_000,
                limit: 4096,
                prune: true,
                thin: None,
                fields: Vec::new(),
                interrupts: false,
                preempt: None,
                horizon: None,
                seed: None,
                patience: Duration::from_secs(20),
                threads: std::thread::available_parallelism().map_or(1, usize::from),
            },
            line: env::line(),
            pasted: true,
            reported: true,
        }
    }
}

impl<M: Media, T: Outside> Explore<M, T> {
    /// How many cuts one execution may suffer: 1 unless told. At 2, recovery is cut, too.
    ///
    /// With `POWERFAIL_DEPTH=n` in the environment, campaigns of depth 2 and more go to depth n. One of depth 1 stays: it
    /// is about what a single cut leaves. Under Miri, which is slow, all go to depth 1 without that variable.
    pub fn depth(mut self, depth: u32) -> Self {
        self.setup.depth = depth;
        self
    }

    /// Not deeper than this, whatever `POWERFAIL_DEPTH` says: for campaigns that would make no end.
    pub fn deepest(mut self, depth: u32) -> Self {
        self.setup.deepest = depth;
        self
    }

    /// The name in reports and failure lines; that of the test unless told.
    pub fn name(mut self, name: &str) -> Self {
        self.setup.name = name.to_owned();
        self
    }

    /// The world before the first boot; `T::default()` unless told.
    pub fn world(mut self, world: T) -> Self {
        self.setup.world = world;
        self
    }

    /// Events (stores, fences, loans, reads) after which a boot counts as hanging: a million unless told.
    pub fn budget(mut self, events: usize) -> Self {
        self.setup.budget = events;
        self
    }

    /// How many boots one cut may cost before its open units are sampled: 4096 unless told.
    pub fn limit(mut self, boots: usize) -> Self {
        self.setup.limit = boots.max(1);
        self
    }

    /// Also branch on open units that the boot does not read. For programs that read the medium behind the back of
    /// [`nvmem::mapped`].
    pub fn unpruned(mut self) -> Self {
        self.setup.prune = false;
        self
    }

    /// Brings the interrupt of [`World::interrupted`] at every point, and at each of them cuts as
    /// without: in the body, in the interrupt, in the rest of the body, and in the boots after it,
    /// in which the interrupt comes at the same point again.
    ///
    /// The failure line has the point. Finding the points takes one run; each is a campaign of its
    /// own, and the summary is their sum.
    pub fn preempt(mut self) -> Self {
        self.setup.interrupts = true;
        self
    }

    /// Explores.
    ///
    /// **Panics**: with the report, on the first state that the program does not survive; when nothing was
    /// explored; when two runs without a cut differ; when a boot makes no end.
    #[track_caller]
    pub fn run(self) -> Summary {
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

    /// How long one boot may take before the watchdog ends the process with a report: 20 seconds unless told. For
    /// loops that do not touch the medium; others run into the [budget](Self::budget).
    pub fn patience(mut self, patience: Duration) -> Self {
        self.setup.patience = patience;
        self
    }

    /// How many threads may work: all cores unless told.
    pub fn threads(mut self, threads: usize) -> Self {
        self.setup.threads = threads.max(1);
        self
    }

    /// Ends each run after so many events that persist or that the world sees, as if the power went there: for
    /// super-loops, which never return. Nothing of a run is executed after its end, no `Drop` either.
    pub fn horizon(mut self, events: u64) -> Self {
        self.setup.horizon = Some(events);
        self
    }

    /// What the first medium holds when the first run begins: an image from a device in the field, one whose sequence
    /// numbers are about to wrap.
    pub fn seed(mut self, image: Vec<u8>) -> Self {
        self.setup.seed = Some(image);
        self
    }

    /// Cuts until no cut leads to a new state: every image that any number of cuts can leave. Ends only if the program
    /// and its world have a bounded number of states.
    pub fn closure(mut self) -> Self {
        self.setup.depth = u32::MAX;
        self
    }

    /// Of a campaign of [`random`](crate::random()): its programs are not known by name, so no line is about one of them;
    /// the whole is repeated instead.
    pub(crate) fn one_of_many(mut self) -> Self {
        self.reported = false;
        self.line = None;
        self
    }

    /// Names bytes of the first medium for reports and failure lines, as field names are.
    pub fn field(self, name: &str, bytes: Range<u32>) -> Self {
        self.field_of(0, name, bytes)
    }

    /// Names bytes of a medium, counted from 0.
    pub fn field_of(mut self, medium: usize, name: &str, bytes: Range<u32>) -> Self {
        let name = crate::place::plain(name);
        self.setup.fields.push((medium, bytes, name));
        self
    }

    /// Replays this failure line instead of exploring; what the environment variable `POWERFAIL` does for the
    /// campaign whose name is in it.
    pub fn replay(mut self, line: &str) -> Self {
        self.line = Some(line.to_owned());
        self.pasted = false;
        self
    }

    /// [`run`](Self::run) with the failure as a value.
    ///
    /// With `POWERFAIL_THIN=n` in the environment it judges about `n` cuts, spread over the run, at depth 1, with one or two
    /// boots each, and compares no two runs: a quick look, for Miri. The rest counts as sampled.
    pub fn try_run(mut self) -> Result<Summary, Failure> {
        let asked = self.setup.depth.min(self.setup.deepest);
        self.setup.depth = env::depth(self.setup.depth).min(self.setup.deepest);
        if let Some(n) = env::thin() {
            self.setup.thin = Some(n);
            self.setup.depth = self.setup.depth.min(1);
        }
        self.setup.part =
            self.setup.shard.1 > 1 || self.setup.thin.is_some() || self.setup.depth < asked;
        let number = if self.reported {
            fresh::next_number()
        } else {
            0
        };
        let line = self.line.as_deref().and_then(Line::parse);
        let asked = line.filter(|l| l.name == crate::place::plain(&self.setup.name));
        if let Some(point) = asked.map(|l| l.preempt) {
            self.setup.preempt = point;
        }
        let setup = &self.setup;
        let job = Job::of_this_process();
        if let Some(job) = &job
            && !job.is(number)
        {
            // What this process is to find out is about another one.
            return Ok(Summary {
                part: true,
                ..Summary::default()
            });
        }
        if let Some(line) = &self.line
            && let Some(l) = Line::parse(line)
            && l.name == crate::place::plain(&setup.name)
        {
            let again = self.again(&l);
            if let Some(job) = &job {
                job.done(again.1);
            }
            return again.0;
        }
        let done = if self.setup.interrupts {
            self.at_all_points(number)
        } else {
            self.whole(number)
        };
        if let Ok(s) = &done
            && self.reported
        {
            s.append(&self.setup.name, 0);
            s.tell(&self.setup.name, &self.medium());
        }
        done
    }

    fn medium(&self) -> String {
        engine::names(&media_arena(&self.setup.media, None, 0).1)
    }

    /// One campaign for each point at which the program may be interrupted.
    fn at_all_points(&mut self, number: u32) -> Result<Summary, Failure> {
        let points = {
            let mut e = engine::engine(&self.setup, 0);
            if let Err(bad) = e.dry() {
                return Err(report::failure(&self.setup, &bad));
            }
            e.rec.2.passed()
        };
        if points == 0 {
            let why =
                "nothing to interrupt: there is no point in the body of a `World::interrupted`";
            return Err(Failure::plain(&self.setup.name, why));
        }
        // A quick look takes some of them.
        let step = match self.setup.thin {
            Some(n) => points.div_ceil(n.max(1)),
            None => 1,
        };
        let mut sum = Summary::default();
        for point in (0..points).step_by(step as usize) {
            self.setup.preempt = Some(point);
            sum = sum + self.whole(number)?;
            sum.points += 1;
        }
        Ok(sum)
    }

    /// A campaign, whatever was asked for.
    fn whole(&self, number: u32) -> Result<Summary, Failure> {
        let setup = &self.setup;
        let shared = Shared::new();
        let mut here = engine::engine_of(setup, 0, shared.clone());
        let hung = |cuts: &[Cut]| report::hung(setup, cuts, None);
        let done = self.watched(&shared, hung, || {
            self.agree(&mut here)?;
            here.explore()
        });
        let s = Summary::of(&here.count, setup);
        match done {
            Ok(()) => Ok(s),
            Err(bad) => {
                let f = report::failure(setup, &bad).after(s);
                let came = match f.line() {
                    Some(line) if self.reported => fresh::repeat(line, number, setup.patience),
                    _ => None,
                };
                Err(f.and(fresh::note(came)))
            }
        }
    }

    /// The line to replay, if it is one.
    pub(crate) fn line(&self) -> Option<Line<'_>> {
        Line::parse(self.line.as_deref()?)
    }

    /// Runs `work` with a watchdog beside it, which says what `hung` says when a boot makes no end.
    pub(crate) fn watched<R>(
        &self,
        shared: &Shared,
        hung: impl Fn(&[Cut]) -> String + Sync,
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
                let last = |cuts: &[Cut]| last_words(&hung(cuts));
                shared.watch(&setup.name, setup.depth, setup.patience, last)
            });
            work()
        })
    }

    fn again(&self, l: &Line<'_>) -> (Result<Summary, Failure>, Came) {
        let setup = &self.setup;
        let refuse = |why: &str| {
            let f = Failure::plain(&setup.name, &format!("cannot replay: {why}"));
            (Err(f), Came::Elsewhere)
        };
        let mut e = engine::engine(setup, 0);
        if l.model != e.model() {
            return refuse(&format!("the line is about {}, not {}", l.model, e.model()));
        }
        if l.image != e.image_print() {
            return refuse("the first image is not the one of the line");
        }
        let marks: Vec<Mark<'_>> = l.cuts.iter().map(|c| Mark::Line(c)).collect();
        let shared = e.shared.clone();
        let hung = |cuts: &[Cut]| report::hung(setup, cuts, self.line.as_deref());
        // The same executions are the same program, whatever the features.
        let other = || build::differs(l.features).filter(|_| self.pasted);
        let story = match self.watched(&shared, hung, || e.follow(&marks, true)) {
            Ok(s) => s,
            Err(why) => return refuse(&other().unwrap_or(why)),
        };
        let exact = story.hash == l.hash;
        if !exact && let Some(why) = other() {
            return refuse(&why);
        }
        let came = match (exact, &story.end) {
            (false, _) => Came::Elsewhere,
            (true, Ok(())) => Came::Survived,
            (true, Err(_)) => Came::Failed,
        };
        let result = match &story.end {
            Err(what) => {
                let note = if exact {
                    "\n  (replayed exactly)"
                } else {
                    "\n  (found again in a program that has changed)"
                };
                let line = e.line(&story);
                Err(report::tell(setup, &story, what, Some(line), note))
            }
            Ok(()) => {
                report::survives(&setup.name, exact);
                Ok(Summary {
                    cuts: story.steps.len() as u64,
                    boots: 1,
                    depth: story.steps.len() as u32,
                    part: true,
                    ..Summary::default()
                })
            }
        };
        (result, came)
    }

    /// Two runs without a cut, one of them on a fresh thread and at another address, must not differ.
    fn agree(&self, here: &mut engine::Engine<'_, M, T>) -> Result<(), Bad> {
        if self.setup.thin.is_some() {
            return Ok(());
        }
        let (first, ..) = here.dry()?;
        let (again, ..) = here.dry()?;
        if first != again {
            return Err(Bad::uncut(
                "two runs without a cut differ: something outlives the reboot, or the program depends on time or chance",
            ));
        }
        let setup = &self.setup;
        let there = std::thread::scope(|s| {
            let run = s.spawn(|| engine::engine(setup, 1).dry());
            run.join().expect("a run is caught")
        })?;
        if first != there.0 {
            return Err(Bad::uncut(
                "a run on another thread, with the medium at another address, differs: a thread local outlives the \
                 reboot, or an address is stored",
            ));
        }
        Ok(())
    }
}
