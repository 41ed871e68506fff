//! The world outside of the device, which survives power cuts.

use crate::hash::Wide;
use crate::observe::Recorder;
use crate::threads::Threads;
use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

/// The world outside of the device: messages that it sent, sensor values, promises made to a user.
///
/// It survives every cut. Each change is an instant where the power may be cut, before it and after
/// it.
///
/// `T` is the test's own type, usually a struct with the promises made:
///
/// ```
/// #[derive(Clone, Hash, Debug, Default)]
/// struct Promised {
///     sent: u32,
///     newest: Vec<u8>,
/// }
/// ```
///
/// It is copied at each cut (`Clone`), distinguishes states (`Hash`) and is printed in reports
/// (`Debug`). It goes to all threads of a campaign (`Send + Sync + 'static`: no `Rc`, no `Cell`, no
/// local reference). It has a value before the first boot (`Default`, or
/// [`Explore::world`](crate::Explore::world)). These bounds are [`WorldState`].
pub struct World<'r, T> {
    log: &'r WorldLog<'r>,
    of: PhantomData<fn() -> T>,
}

/// No type implements it: it is the compiler's message for a [`World`] that goes to a thread of the
/// host.
#[diagnostic::on_unimplemented(
    message = "a `World` cannot go to a thread of the host",
    label = "this runs in a thread of the host",
    note = "`World::threads` runs the threads of a program: a campaign decides who of them runs when, \
            so that a failure can be repeated"
)]
pub trait GoesToAThread {}

// SAFETY: never, because nothing implements the trait.
#[allow(unsafe_code)]
unsafe impl<T> Sync for World<'_, T> where Self: GoesToAThread {}

/// A world's value of any type, as the engine sees it: it never changes.
pub(crate) type Value = Arc<dyn AnyWorld>;

pub(crate) trait AnyWorld: Any + Debug + Send + Sync {
    fn digest(&self) -> u128;
}
impl<T: WorldState> AnyWorld for T {
    fn digest(&self) -> u128 {
        Wide::of(self)
    }
}

/// The value as what it is.
pub(crate) fn known<T: WorldState>(value: &Value) -> &T {
    let any: &dyn Any = &**value;
    any.downcast_ref()
        .expect("a campaign has one type of world")
}

/// The world in one run, and its values from the first change on, each with its hash.
pub(crate) struct WorldLog<'r> {
    value: RefCell<Value>,
    past: RefCell<Vec<(Value, u128)>>,
    rec: &'r Recorder,
    watched: &'r Watched,
}

impl<'r> WorldLog<'r> {
    pub(crate) fn new(value: Value, rec: &'r Recorder, watched: &'r Watched) -> Self {
        WorldLog {
            value: RefCell::new(value),
            past: RefCell::new(Vec::new()),
            rec,
            watched,
        }
    }

    fn push(&self, v: Value) {
        let hash = v.digest();
        let mut past = self.past.borrow_mut();
        past.push((v, hash));
        self.rec.0.borrow_mut().world(past.len() as u32 - 1);
    }

    fn watch(&self, name: &str, value: String) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let first = watched
            .entry(name.to_owned())
            .or_insert_with(|| value.clone())
            .clone();
        drop(watched);
        assert!(
            first == value,
            "`{name}` is {value} here, and was {first} in a boot that executed everything: a bypassed step had a \
             side effect"
        );
    }

    pub(crate) fn into_past(self) -> Vec<(Value, u128)> {
        self.past.into_inner()
    }
}

/// The values passed to `watch` in the first boot, as text.
pub(crate) type Watched = Mutex<HashMap<String, String>>;

/// The bounds of a world's value: see [`World`]. Implemented for every type that meets them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the world of a power-fail test",
    label = "used as the `T` of `World<T>`",
    note = "a world is copied, compared and printed: `#[derive(Clone, Hash, Debug, Default)]`",
    note = "it is sent to other threads: `Send + Sync + 'static`, so it holds no `Rc`, no `Cell` and no borrowed reference"
)]
pub trait WorldState: Clone + Hash + Debug + Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Clone + Hash + Debug + Send + Sync + 'static> WorldState for T {}

impl<'r, T: WorldState> World<'r, T> {
    pub(crate) fn of(log: &'r WorldLog<'r>) -> Self {
        World {
            log,
            of: PhantomData,
        }
    }

    /// The current value.
    pub fn get(&self) -> T {
        self.with(T::clone)
    }

    /// Passes the current value to `f`.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(known(&self.log.value.borrow()))
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.update(|v| *v = value)
    }

    /// Changes the value atomically.
    pub fn update(&self, f: impl FnOnce(&mut T)) {
        self.log.rec.point();
        self.log.rec.tick();
        let mut value = self.log.value.borrow_mut();
        let mut new = known::<T>(&value).clone();
        f(&mut new);
        *value = Arc::new(new);
        self.log.push(value.clone());
    }

    /// The device promised the outside that `value` is safe. The same as [`set`](World::set).
    pub fn acknowledge(&self, value: T) {
        self.set(value)
    }

    /// The last acknowledged value. The same as [`get`](World::get).
    pub fn last_acknowledged(&self) -> T {
        self.get()
    }

    /// Runs `body`, and at one point of it `handler`, on the same stack and to its end: an
    /// interrupt, or a thread that the scheduler prefers. A campaign with
    /// [`Explore::preempt`](crate::Explore::preempt) tries every point. Points are before each
    /// store, read, loan and fence of a mapped medium, before each change of the world, and at the
    /// end of each critical section ([`masked`](crate::masked)). Inside a section there is none. In
    /// other campaigns, and in a boot with fewer points, `handler` runs after `body`.
    ///
    /// **Panics**: inside another `body`.
    pub fn interrupted<R>(&self, handler: impl FnOnce(), body: impl FnOnce() -> R) -> R {
        self.log.rec.interrupted(handler, body)
    }

    /// Runs several threads of control, each on a stack of its own, and returns when all of them
    /// have ended. `f` adds them with [`Threads::spawn`]; they run when it returns.
    ///
    /// A campaign with [`Explore::preemptions`](crate::Explore::preemptions) explores the
    /// schedules: which thread runs when, when the clock moves, and when an interrupt comes. In
    /// other campaigns they run in the default schedule: the ready thread of the highest priority
    /// until it waits or ends, and of equals the one that was added first.
    ///
    /// A thread that is left when the power is cut is gone, with its stack. No destructor runs. So
    /// it must not lend what is on its stack to a thread of the host (`std::thread::scope`) or to a
    /// thread local: no destructor would end that loan.
    ///
    /// Here two threads share an undo log of one entry, which is a bug. A cut alone does not show
    /// it, and a preemption alone does not either. Together they do:
    ///
    /// ```
    /// use nvmem::{InOrder32, Region};
    /// use powerfail::{Mapped, World, explore};
    ///
    /// /// Two pairs of words. The words of a pair are equal, except while it is updated.
    /// const PAIRS: [usize; 2] = [0, 8];
    /// /// The undo log: the old value, and which pair is being updated (0: none).
    /// const LOG: usize = 16;
    ///
    /// fn get(nv: &Region<'_, InOrder32>, at: usize) -> u32 {
    ///     // SAFETY: `at` is a unit of the region, and no reference to it exists.
    ///     unsafe { nv.load(at) }
    /// }
    /// fn put(nv: &Region<'_, InOrder32>, at: usize, v: u32) {
    ///     // SAFETY: as above.
    ///     unsafe { nv.store(at, v) }
    /// }
    ///
    /// fn increment(nv: &Region<'_, InOrder32>, pair: usize) {
    ///     let n = get(nv, PAIRS[pair]);
    ///     put(nv, LOG, n);
    ///     put(nv, LOG + 4, 1 + pair as u32);
    ///     put(nv, PAIRS[pair], n + 1);
    ///     put(nv, PAIRS[pair] + 4, n + 1);
    ///     put(nv, LOG + 4, 0);
    /// }
    ///
    /// fn recover(nv: &Region<'_, InOrder32>) {
    ///     if let Some(pair) = get(nv, LOG + 4).checked_sub(1) {
    ///         let old = get(nv, LOG);
    ///         put(nv, PAIRS[pair as usize], old);
    ///         put(nv, PAIRS[pair as usize] + 4, old);
    ///         put(nv, LOG + 4, 0);
    ///     }
    /// }
    ///
    /// let found = explore(Mapped::<InOrder32>::new(32), |nv, world: &World<()>| {
    ///     recover(&nv);
    ///     for pair in PAIRS {
    ///         assert_eq!(get(&nv, pair), get(&nv, pair + 4), "half of an update");
    ///     }
    ///     let nv = &nv;
    ///     world.threads(|threads| {
    ///         threads.spawn("meter", 1, move || increment(nv, 0));
    ///         threads.spawn("radio", 1, move || increment(nv, 1));
    ///     });
    /// })
    /// .field("meter", 0..8)
    /// .field("radio", 8..16)
    /// .field("log", 16..24)
    /// .preemptions(1)
    /// .try_run();
    /// let failure = found.expect_err("a shared log");
    /// assert!(failure.report().contains("half of an update"));
    /// ```
    ///
    /// **Panics**, which fails the campaign: if a thread panics; if every thread waits, and neither
    /// a deadline nor an interrupt can wake one; inside a thread.
    pub fn threads<'env>(&'env self, f: impl for<'scope> FnOnce(&'scope Threads<'scope, 'env>)) {
        self.log.rec.threads(f)
    }

    /// Asserts that `value` is the same in every boot that passes here, whatever it executed and
    /// whatever it bypassed because it was committed before. It finds volatile side effects that
    /// types cannot see, like a `static` that a step fills. The first boot is the one without a
    /// cut.
    ///
    /// **Panics** if the value differs, which fails the campaign.
    pub fn watch(&self, name: &str, value: impl Debug) {
        self.log.watch(name, format!("{value:?}"))
    }
}
