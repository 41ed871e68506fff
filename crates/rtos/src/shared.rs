//! Data that a mutex guards: the key to a shared root, kept where only the holder gets it.
//!
//! ```text
//!  open          keys of nv-replay ---> a cell for each mutex with data
//!  lock          the guard has a stand-in: same hash, refused by every step
//!  guard.data()  live, and the kernel says that this thread holds the mutex:
//!                the key moves from the cell into the guard
//!  step          the key is an argument; its root is in the step
//!  drop          the key moves back; then the mutex is unlocked
//! ```
//!
//! A key is moved, never shared, so there is one at a time, without `unsafe`. A replay passes steps
//! that have a key as an argument, and does not hold the mutex: another thread may have the key.
//! The stand-in is for that: a record says only which root it was.

use crate::kernel::Sys;
use crate::system::System;
use crate::thread::Guard;
use core::cell::Cell;
use core::marker::PhantomData;
use nv_replay::nvmem::cross::Arg;
use nv_replay::nvmem::{Model, Persist, planted};
use nv_replay::pmem_tx::{Root, Shared, SharedRoots, Width};

/// The data of a system's mutexes. [`system!`](crate::system!) implements it.
#[doc(hidden)]
pub trait Shares {
    /// The unit of the medium.
    type Unit: Width;
    /// The roots.
    type Data: SharedRoots;
    /// A cell for each.
    type Cells<'c>;
    /// Where they are: nothing, for a system whose mutexes have no data.
    type At<'c>: Copy;
    /// The first values.
    fn init<'p>(_: In<'p>) -> <Self::Data as SharedRoots>::Init<'p>;
    /// Puts each key into its cell.
    fn cells<'c>(
        _: In<'c>,
        keys: <Self::Data as SharedRoots>::Keys<'c, Self::Unit>,
    ) -> Self::Cells<'c>;
}

/// Names a lifetime among the arguments of a function.
#[doc(hidden)]
pub type In<'c> = PhantomData<&'c ()>;

/// The unit of a system's medium.
pub(crate) type UnitOf<S> = <<S as System>::Model as Model>::Unit;

/// Where the key to a mutex's data is while no guard has it.
#[doc(hidden)]
pub struct KeyCell<'c, T, W: Width> {
    key: Cell<Option<Shared<'c, T, W>>>,
    index: u8,
}

impl<'c, T, W: Width> KeyCell<'c, T, W> {
    /// With the key to the root of this number.
    pub const fn new(key: Shared<'c, T, W>, index: u8) -> Self {
        KeyCell {
            key: Cell::new(Some(key)),
            index,
        }
    }
}

/// Where a mutex finds the key to its data.
#[doc(hidden)]
pub type Find<S, T> =
    for<'c> fn(<S as Shares>::At<'c>, In<'c>) -> &'c KeyCell<'c, T, <S as Shares>::Unit>;

/// A guard's key, or what stands in for it.
pub(crate) struct Held<'c, T, W: Width> {
    /// Where it comes from; the mutex of `()` has none.
    cell: Option<&'c KeyCell<'c, T, W>>,
    key: Shared<'c, T, W>,
    is_key: bool,
}

impl<'c, T, W: Width> Held<'c, T, W> {
    pub fn new(cell: Option<&'c KeyCell<'c, T, W>>) -> Self {
        Held {
            cell,
            key: Shared::stand_in(cell.map_or(u8::MAX, |c| c.index)),
            is_key: false,
        }
    }

    // INVARIANT "Data with its lock": the key to the data of a mutex is in the guard of a thread
    // that is live and holds the mutex, or in its cell. The key is moved in sections, here and by
    // `put_back`; a replay gets a stand-in, which every transaction refuses.
    // Noticed by: `data_*.rs` in tests/ui; planted `key-without-the-lock`, `key-not-put-back`.
    /// Takes the key, if the thread holds the mutex.
    pub fn fetch<S: System>(&mut self, sys: &Sys<'_, '_, S>, object: u8) {
        let Some(cell) = self.cell.filter(|_| !self.is_key) else {
            return;
        };
        let key = sys.kernel.section(|s| {
            let live = s.control(sys.me()).live;
            let holder = s.object(object).map_or(0, |o| o.taken);
            let holds = live && usize::from(holder) == sys.me() + 1;
            let holds = holds || planted!("nv-rtos/key-without-the-lock");
            holds.then(|| cell.key.take()).flatten()
        });
        if let Some(key) = key {
            (self.key, self.is_key) = (key, true);
        }
    }

    /// The key, or its stand-in.
    pub fn key(&mut self) -> impl for<'p> Arg<In<'p> = Root<'p, T::At<'p>, W>>
    where
        T: Persist,
    {
        &mut self.key
    }

    /// Puts the key back.
    pub fn put_back<S: System>(&mut self) {
        let Some(cell) = self.cell.filter(|_| self.is_key) else {
            return;
        };
        self.is_key = false;
        let key = core::mem::replace(&mut self.key, Shared::stand_in(cell.index));
        if !planted!("nv-rtos/key-not-put-back") {
            S::Model::section(|| cell.key.set(Some(key)));
        }
    }
}

impl<S: System, T: Persist> Guard<'_, '_, '_, S, T> {
    /// The mutex's data, as an argument of a step: `th.step((guard.data(), 3), |sys, mine, (mut
    /// board, n)| ...)`. The step's body gets a [`Root`].
    ///
    /// **Power loss**: what a step has done with the data belongs to the step. After a cut the
    /// holder gets its data back before any other thread reaches them. **Cost**: nothing on the
    /// medium. **Errors**: none here. A step fails with
    /// [`Error::WrongPool`](crate::Error::WrongPool), and has not begun, if the thread does not
    /// hold the mutex: a replay has ended after the lock's last commit, and another thread has had
    /// the mutex since. The same for a guard of a mutex that the thread had locked already: the
    /// outermost guard has the data.
    pub fn data(&mut self) -> impl for<'p> Arg<In<'p> = Root<'p, T::At<'p>, UnitOf<S>>> {
        let data = self.data.get_or_insert_with(|| Held::new(None));
        data.fetch(&self.sys, self.object);
        data.key()
    }
}
