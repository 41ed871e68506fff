//! What survives a power cut because it is not in the device.

use crate::hash::Wide;
use crate::observe::Recorder;
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// The outside of the device: what it has sent, what its sensors showed, what a user was promised.
///
/// It survives every cut. Each change is an instant at which the power may go, before it as well as after it.
///
/// `T` is a type of the test's own, as a rule a struct with what was promised:
///
/// ```
/// #[derive(Clone, Hash, Debug, Default)]
/// struct Promised {
///     sent: u32,
///     newest: Vec<u8>,
/// }
/// ```
///
/// It is copied at each cut (`Clone`), tells one state from another (`Hash`), is printed in reports (`Debug`), goes to all
/// threads of a campaign (`Send + Sync + 'static`: no `Rc`, no `Cell`, no reference to something local), and is there before
/// the first boot (`Default`; [`Explore::world`](crate::Explore::world) gives another one). That is [`Outside`].
pub struct World<'r, T> {
    value: RefCell<T>,
    past: RefCell<Vec<(T, u128)>>,
    rec: &'r Recorder,
    watched: &'r Watched,
}

/// What was watched in the first boot that came by, in words.
pub(crate) type Watched = Mutex<HashMap<String, String>>;

/// What a value of the world must be able to do: see [`World`]. Implemented for every type that can.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the world of a power-fail test",
    label = "the `T` of `World<T>`",
    note = "a world is copied, compared and printed: `#[derive(Clone, Hash, Debug, Default)]`",
    note = "and it goes to other threads: `Send + Sync + 'static`, so no `Rc`, no `Cell` and no borrowed reference in it"
)]
pub trait Outside: Clone + Hash + std::fmt::Debug + Send + Sync + 'static {}
#[diagnostic::do_not_recommend]
impl<T: Clone + Hash + std::fmt::Debug + Send + Sync + 'static> Outside for T {}

impl<'r, T: Outside> World<'r, T> {
    pub(crate) fn new(value: T, rec: &'r Recorder, watched: &'r Watched) -> Self {
        World {
            value: RefCell::new(value),
            past: RefCell::new(Vec::new()),
            rec,
            watched,
        }
    }

    /// The value now.
    pub fn get(&self) -> T {
        self.value.borrow().clone()
    }

    /// Looks at the value.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.value.borrow())
    }

    /// Replaces the value.
    pub fn set(&self, value: T) {
        self.update(|v| *v = value)
    }

    /// Changes the value, all at once.
    pub fn update(&self, f: impl FnOnce(&mut T)) {
        self.rec.point();
        self.rec.tick();
        f(&mut self.value.borrow_mut());
        let v = self.value.borrow();
        let mut past = self.past.borrow_mut();
        past.push((v.clone(), Wide::of(&*v)));
        let n = past.len() as u32 - 1;
        drop(past);
        drop(v);
        self.rec.0.borrow_mut().world(n);
    }

    /// The device has told the outside that `value` is safe. The same as [`set`](World::set).
    pub fn acknowledge(&self, value: T) {
        self.set(value)
    }

    /// What was acknowledged last. The same as [`get`](World::get).
    pub fn last_acknowledged(&self) -> T {
        self.get()
    }

    /// Runs `body`, and at one point of it `handler`, on the same stack and to its end: an
    /// interrupt, or another thread that the scheduler prefers. A campaign with
    /// [`Explore::preempt`](crate::Explore::preempt) tries every point: before each store, read,
    /// loan and fence of a mapped medium, before each change of the world, and at the end of each
    /// critical section ([`masked`](crate::masked)), in which there is none. In other campaigns,
    /// and in a boot that has fewer points, `handler` runs after `body`.
    ///
    /// **Panics**: inside of another body.
    pub fn interrupted<R>(&self, handler: impl FnOnce(), body: impl FnOnce() -> R) -> R {
        self.rec.interrupted(handler, body)
    }

    /// Says that `value` is the same in every boot that comes by here, whatever was executed before and whatever was
    /// bypassed because it had been committed: for the volatile side effects that types cannot see, as a `static` that a
    /// step fills. The first boot is the one without a cut.
    ///
    /// **Panics**, which is how a program fails its check, when it is not.
    pub fn watch(&self, name: &str, value: impl std::fmt::Debug) {
        let value = format!("{value:?}");
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let first = watched
            .entry(name.to_owned())
            .or_insert_with(|| value.clone())
            .clone();
        drop(watched);
        assert!(
            first == value,
            "`{name}` is {value} here, and was {first} in a boot that executed all: something that was bypassed had a \
             side effect"
        );
    }

    pub(crate) fn into_past(self) -> Vec<(T, u128)> {
        self.past.into_inner()
    }
}
