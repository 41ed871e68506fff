//! Random programs made by proptest, with every cut of each.

use crate::engine;
use crate::env;
use crate::explore::{Explore, captures_nothing};
use crate::medium::{Media, MediaLayout};
use crate::report::Failure;
use crate::summary::Summary;
use crate::world::{World, WorldState};
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use std::cell::Cell;
use std::sync::Arc;

type With<M, T, V> =
    dyn for<'r, 'w, 'c> Fn(<M as Media>::Nv<'r>, &'w World<'r, T>, &'c V) + Send + Sync;

/// Explores `program` for inputs from `strategy`, usually the operations that it does. If one
/// fails, the input is shrunk. The cut is the first failing one of the smallest program, and is not
/// shrunk.
///
/// ```
/// use powerfail::{random, Mapped, World};
/// use nvmem::InOrder32;
///
/// random(
///     proptest::collection::vec(0..8_usize, 1..6),
///     || Mapped::<InOrder32>::new(64),
///     |nv, _: &World<()>, cells| {
///         for &c in cells {
///             // SAFETY: units of the region, and no reference to them exists.
///             unsafe { nv.store(4 * c, nv.load(4 * c) + 1) };
///         }
///     },
/// )
/// .cases(20)
/// .run();
/// ```
pub fn random<S, M, T>(
    strategy: S,
    media: fn() -> M,
    program: impl for<'r, 'w, 'c> Fn(M::Nv<'r>, &'w World<'r, T>, &'c S::Value) + Send + Sync + 'static,
) -> Random<S, M, T>
where
    S: Strategy,
    S::Value: Send + Sync + 'static,
    M: Media,
    T: WorldState + Default,
{
    captures_nothing(&program);
    Random {
        strategy,
        media,
        program: Arc::new(program),
        name: None,
        cases: 64,
        depth: 1,
        seed: 0,
    }
}

/// A campaign of [`random`].
#[must_use = "nothing runs before `run`"]
pub struct Random<S: Strategy, M: Media, T> {
    strategy: S,
    media: fn() -> M,
    program: Arc<With<M, T, S::Value>>,
    name: Option<String>,
    cases: u32,
    depth: u32,
    seed: u64,
}

impl<S, M, T> Random<S, M, T>
where
    S: Strategy,
    S::Value: Send + Sync + 'static,
    M: Media,
    T: WorldState + Default,
{
    /// The number of programs; 64 by default.
    pub fn cases(mut self, cases: u32) -> Self {
        self.cases = cases;
        self
    }
    /// See [`Explore::depth`].
    pub fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }
    /// See [`Explore::name`].
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }
    /// The seed of the programs; the same seed makes the same programs. Without it, or with 0, the
    /// environment variable `POWERFAIL_SEED` is used.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    fn one(&self, input: S::Value) -> Explore<M, T> {
        let program = self.program.clone();
        let e = Explore::new((self.media)(), move |nv, world: &World<'_, T>| {
            program(nv, world, &input)
        })
        .depth(self.depth)
        .of_random();
        match &self.name {
            Some(n) => e.name(n),
            None => e,
        }
    }

    /// Runs the campaign.
    ///
    /// **Panics**: with the smallest failing program, and the report of [`Explore::run`] for it.
    #[track_caller]
    pub fn run(self) -> Summary {
        let name = self.name.clone().unwrap_or_else(env::test_name);
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
    /// **Errors**: the [`Failure`] with whose report [`run`](Self::run) panics.
    pub fn try_run(self) -> Result<Summary, Failure> {
        let seed = match self.seed {
            0 => env::seed().unwrap_or(0),
            s => s,
        };
        let mut runner = TestRunner::new(Config {
            cases: self.cases,
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(seed),
            // By default it depends on the number of cases.
            max_shrink_iters: 2000,
            ..Config::default()
        });
        let sum = Cell::new(Summary::default());
        let medium = engine::names(&MediaLayout::of(&(self.media)()).parts);
        let r = runner.run(&self.strategy, |input| match self.one(input).try_run() {
            Ok(s) => {
                sum.set(sum.get() + s);
                Ok(())
            }
            Err(e) => Err(TestCaseError::fail(e.report().to_owned())),
        });
        let name = self.name.clone().unwrap_or_else(env::test_name);
        match r {
            Ok(()) => {
                sum.get().append(&name, 0);
                sum.get().print(&name, &medium);
                Ok(sum.get())
            }
            Err(TestError::Abort(why)) => Err(Failure::plain(
                &name,
                &format!("proptest made no programs: {why}"),
            )),
            Err(TestError::Fail(why, input)) => {
                let program = format!("{input:#?}");
                let again = self.one(input).try_run();
                let end = format!(
                    "\nwith the smallest program that fails:\n{program}\nrepeat all of it:  POWERFAIL_SEED={seed} cargo \
                     test {name}"
                );
                let line = env::line();
                Err(match again {
                    Err(e) if line.is_some() && e.line() == line.as_deref() => {
                        e.and("\n(replayed exactly)").and(&end)
                    }
                    Err(e) => e.and(&end),
                    Ok(_) => {
                        Failure::plain(&name, &format!("{why}\nbut it passed when repeated{end}"))
                    }
                })
            }
        }
    }
}
