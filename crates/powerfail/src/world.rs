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
pub struct World<'r, T> {
    value: RefCell<T>,
    past: RefCell<Vec<(T, u128)>>,
    rec: &'r Recorder,
    watched: &'r Watched,
}

/// What was watched in the first boot that came by, in words.
pub(crate) type Watched = Mutex<HashMap<String, String>>;

/// What a value of the world must be able to do. Implemented for every type that can.
pub trait Outside: Clone + Hash + std::fmt::Debug + Send + Sync + 'static {}
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
