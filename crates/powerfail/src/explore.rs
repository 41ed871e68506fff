//! The entry points.

use crate::engine::{self, Bad, Count, Setup};
use crate::medium::Media;
use crate::world::{Outside, World};
use std::fmt;
use std::sync::Arc;

/// Boots `program` on `media`, cuts the power at every instant that matters, boots it again, and so on.
///
/// The program is a function pointer: a closure that captures anything does not compile, so that nothing of the run
/// before a cut can reach the one after. It checks by itself: a panic is a failure. [`Explore::run`] starts it.
pub fn explore<M: Media, T: Outside + Default>(
    media: M,
    program: for<'r, 'w> fn(M::Nv<'r>, &'w World<'r, T>),
) -> Explore<M, T> {
    Explore::new(media, Box::new(program))
}

/// [`explore`] with an input that the program may read and not change: the operations to do, a configuration.
pub fn explore_with<C, M, T>(
    input: C,
    media: M,
    program: for<'r, 'w, 'c> fn(M::Nv<'r>, &'w World<'r, T>, &'c C),
) -> Explore<M, T>
where
    C: Send + Sync + 'static,
    M: Media,
    T: Outside + Default,
{
    let input = Arc::new(input);
    Explore::new(media, Box::new(move |nv, world| program(nv, world, &input)))
}

/// A campaign of [`explore`].
#[must_use = "nothing runs before `run`"]
pub struct Explore<M: Media, T> {
    setup: Setup<M, T>,
    name: String,
}

/// What a campaign did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Instants at which the power was cut.
    pub cuts: u64,
    /// Distinct states that were booted and checked.
    pub boots: u64,
    /// States that were not booted because they had been before.
    pub same: u64,
    /// Cuts that left more than the limit, so that not all of it was booted.
    pub sampled: u64,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} cuts, {} boots", self.cuts, self.boots)?;
        if self.sampled > 0 {
            write!(f, "; {} cuts only sampled", self.sampled)?;
        }
        Ok(())
    }
}

/// A state that a power cut permits and that the program did not survive. `Display` is the report.
#[derive(Debug, Clone)]
pub struct Failure {
    report: String,
}

impl Failure {
    /// The report, several lines.
    pub fn report(&self) -> &str {
        &self.report
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}
impl std::error::Error for Failure {}

impl<M: Media, T: Outside + Default> Explore<M, T> {
    fn new(media: M, program: Box<engine::Program<M, T>>) -> Self {
        let name = std::thread::current()
            .name()
            .unwrap_or("explore")
            .to_owned();
        Explore {
            setup: Setup {
                media,
                program,
                world: T::default(),
                depth: 1,
                budget: 1_000_000,
                limit: 4096,
                prune: true,
            },
            name,
        }
    }
}

impl<M: Media, T: Outside> Explore<M, T> {
    /// How many cuts one execution may suffer: 1 unless told. At 2, recovery is cut, too.
    pub fn depth(mut self, depth: u32) -> Self {
        self.setup.depth = depth;
        self
    }

    /// The name in reports and failure lines; that of the test unless told.
    pub fn name(mut self, name: &str) -> Self {
        self.name = name.to_owned();
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

    /// Explores.
    ///
    /// **Panics**: with the report, on the first state that the program does not survive; when nothing was
    /// explored; when two runs without a cut differ; when a boot makes no end.
    #[track_caller]
    pub fn run(self) -> Summary {
        match self.try_run() {
            Ok(s) => s,
            Err(e) => panic!("{e}"),
        }
    }

    /// [`run`](Self::run) with the failure as a value.
    pub fn try_run(self) -> Result<Summary, Failure> {
        let setup = &self.setup;
        let mut here = engine::engine(setup, 0);
        let done = self.agree(&mut here).and_then(|()| here.explore());
        match done {
            Ok(()) => Ok(summary(&here.count)),
            Err(bad) => Err(crate::report::failure(&self.name, setup, &bad)),
        }
    }

    /// Two runs without a cut, one of them on a fresh thread and at another address, must not differ.
    fn agree(&self, here: &mut engine::Engine<'_, M, T>) -> Result<(), Bad> {
        let bad = |what: &str| Bad {
            cuts: Vec::new(),
            what: what.into(),
        };
        let (first, cuts) = here.dry()?;
        if cuts == 0 {
            return Err(bad("nothing to explore: the program stored nothing"));
        }
        let (again, _) = here.dry()?;
        if first != again {
            return Err(bad(
                "two runs without a cut differ: something outlives the reboot, or the program depends on time or chance",
            ));
        }
        let setup = &self.setup;
        let there = std::thread::scope(|s| {
            let run = s.spawn(|| engine::engine(setup, 1).dry());
            run.join().expect("a run is caught")
        })?;
        if first != there.0 {
            return Err(bad(
                "a run on another thread, with the medium at another address, differs: a thread local outlives the \
                 reboot, or an address is stored",
            ));
        }
        Ok(())
    }
}

fn summary(c: &Count) -> Summary {
    Summary {
        cuts: c.cuts,
        boots: c.boots,
        same: c.same,
        sampled: c.sampled,
    }
}

impl Failure {
    pub(crate) fn new(report: String) -> Self {
        Failure { report }
    }
}
