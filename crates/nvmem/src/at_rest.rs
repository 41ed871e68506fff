//! Owners of regions can prove that no operation on their region is under way. Savers, such as
//! `nv-mirror`, save such a region to a medium while its owner keeps it.
//!
//! ```text
//! owner (a pool, a runtime)                  saver (a mirror)
//!    committed  ------------------------->  counts; due? as below
//!    durable    ------------------------->  owner.resting(|region| copy what changed)  one instant
//!                                           write the copy to the medium   others may run again
//! ```
//!
//! A saver copies the region once, while nothing is under way in it, and writes the copy. So what
//! it saves is the region at one instant: as if the power had been cut there.

use crate::model::{Model, Ram};
use crate::planted;
use crate::region::Region;
use core::cell::{Cell, RefCell, RefMut};
use core::fmt;
use core::future::poll_fn;
use core::ops::Range;
use core::task::{Poll, Waker};

/// A region whose owner does nothing with it now. All its bytes are initialised.
#[derive(Debug, Clone)]
pub struct RestingRegion {
    /// The address of the region's first byte.
    pub base: *mut u8,
    /// Its length in bytes.
    pub len: usize,
    /// Offsets of bytes that do not matter now: if all of them were zero, the next open would find
    /// the same content. Empty while a transaction is open.
    pub scratch: Range<usize>,
}

/// A type that owns a region that may be saved, such as a [`Region`] of the model [`Ram`] or a pool
/// in one. A caller with `&mut` to the owner knows that none of its operations on the region is
/// under way.
///
/// # Safety
/// Until `f` returns, nothing else writes the region, and no `&mut` into it is used again before
/// the owner is. `base` and `len` are those of the region. Each byte of it is initialised: that is
/// what libraries promise of a region of the model [`Ram`], and of no other. An owner whose open
/// finds other content if the bytes of `scratch` are zeros gives an empty range there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be saved as bytes",
    label = "does not implement `AtRest`",
    note = "a saver reads all bytes of a region, so the region has the model `nvmem::Ram`: a mirror's open returns a `Region<'_, Ram<M>>`",
    note = "name that model where the owner is opened: `Pool::<Root, Ram>::open(region, ..)`, `NodePool::<T, 1, Ram>::open(region)`"
)]
pub unsafe trait AtRest {
    /// Calls `f` with the region, which is at rest until `f` returns. An owner that shares the
    /// region with other threads excludes them meanwhile.
    ///
    /// **Cost**: that of `f`, a few instructions, and a critical section if there are other
    /// threads.
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T;
}

// SAFETY: invariants "Sole region" and "Saved bytes have values": nothing else uses the bytes of a
// region while it is borrowed mutably, and the model says that they are initialised.
unsafe impl<M: Model> AtRest for Region<'_, Ram<M>> {
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        f(RestingRegion {
            base: self.base(),
            len: self.len(),
            scratch: 0..0,
        })
    }
}

/// Saves regions that lie in volatile memory to a medium, as a mirror does.
pub trait Save {
    /// The error of a save.
    type Error;
    /// Called when the owner has committed something. Saves if a save is due.
    ///
    /// **Power loss**, **Errors**: as for [`Save::durable`]. A save that failed stays due.
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error>;
    /// Called when the owner has been opened. Saves if a save is due: a cut may take back what an
    /// open has found on flash.
    ///
    /// **Power loss**, **Errors**: as for [`Save::committed`].
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error>;
    /// Makes durable what the owner holds.
    ///
    /// **Power loss**: the last save or this one. **Errors**: those of the medium; what was durable
    /// stays durable.
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), Self::Error>;
}

/// [`Save`] on a medium whose driver waits for interrupts. A commit does not wait, so it is only
/// counted.
///
/// A future that is dropped before it is ready leaves the medium as a power cut at that moment
/// would. The region is used only in [`AtRest::resting`], so others may change it while a future
/// waits.
pub trait AsyncSave {
    /// The error of a save.
    type Error;
    /// The owner has committed something.
    fn count_commit(&mut self);
    /// Saves if the commits since the last save make it due.
    ///
    /// **Power loss**, **Errors**: as for [`Save::durable`].
    fn durable_if_due<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> impl Future<Output = Result<(), Self::Error>>;
    /// Makes durable what the owner holds.
    ///
    /// **Power loss**, **Errors**: as for [`Save::durable`].
    fn durable<T: AtRest>(
        &mut self,
        owner: &mut T,
    ) -> impl Future<Output = Result<(), Self::Error>>;
}

impl<S: Save> Save for &mut S {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        (**self).committed(owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        (**self).durable_if_due(owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        (**self).durable(owner)
    }
}

impl<S: AsyncSave> AsyncSave for &mut S {
    type Error = S::Error;
    fn count_commit(&mut self) {
        (**self).count_commit()
    }
    async fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        (**self).durable_if_due(owner).await
    }
    async fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        (**self).durable(owner).await
    }
}

/// A saver for a region that is a part of what it saves: beside it lie regions of other owners, for
/// example the lists that take part in a runtime's commits.
///
/// ```text
/// | lists | runtime |        Beside::new(mirror, lists, 0): a save of the runtime saves both
/// ```
#[derive(Debug)]
pub struct Beside<S> {
    saver: S,
    before: usize,
    after: usize,
}

impl<S> Beside<S> {
    /// A saver for a region that has `before` bytes before it and `after` bytes after it.
    ///
    /// # Safety
    /// The region that is saved and these bytes are one allocation, such as the parts of
    /// [`Region::split_at`], and their model is [`Ram`]. While a save copies the region, nobody
    /// writes these bytes, and no `&mut` into them is used again after it: so an owner of them does
    /// not lend such a reference to a closure that calls the runtime.
    pub unsafe fn new(saver: S, before: usize, after: usize) -> Self {
        Beside {
            saver,
            before,
            after,
        }
    }
}

/// An owner and what lies beside its region.
struct Widened<'a, T> {
    owner: &'a mut T,
    before: usize,
    after: usize,
}

impl<T> Widened<'_, T> {
    fn widen(before: usize, after: usize, mut r: RestingRegion) -> RestingRegion {
        r.base = r.base.wrapping_sub(before);
        r.len = r.len.saturating_add(before).saturating_add(after);
        if !r.scratch.is_empty() {
            r.scratch = r.scratch.start + before..r.scratch.end + before;
        }
        r
    }
}

// SAFETY: invariant "At rest": the owner's own region is at rest, and the caller of `Beside::new`
// has promised the same of the bytes beside it.
unsafe impl<T: AtRest> AtRest for Widened<'_, T> {
    fn resting<R>(&mut self, f: impl FnOnce(RestingRegion) -> R) -> R {
        let (before, after) = (self.before, self.after);
        self.owner.resting(|r| f(Self::widen(before, after, r)))
    }
}

impl<S> Beside<S> {
    fn split<'a, T>(&'a mut self, owner: &'a mut T) -> (&'a mut S, Widened<'a, T>) {
        let owner = Widened {
            owner,
            before: self.before,
            after: self.after,
        };
        (&mut self.saver, owner)
    }
}

impl<S: Save> Save for Beside<S> {
    type Error = S::Error;
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        let (saver, mut owner) = self.split(owner);
        saver.committed(&mut owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        let (saver, mut owner) = self.split(owner);
        saver.durable_if_due(&mut owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        let (saver, mut owner) = self.split(owner);
        saver.durable(&mut owner)
    }
}

impl<S: AsyncSave> AsyncSave for Beside<S> {
    type Error = S::Error;
    fn count_commit(&mut self) {
        self.saver.count_commit()
    }
    async fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        let (saver, mut owner) = self.split(owner);
        saver.durable_if_due(&mut owner).await
    }
    async fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        let (saver, mut owner) = self.split(owner);
        saver.durable(&mut owner).await
    }
}

/// A saver that several tasks of one thread share. A save covers the whole region, so the save of
/// one task makes the commits of the others durable too (group commit).
///
/// `&SharedSaver<S>` is a saver. With an async saver, a task waits while another one's save is
/// under way; the others run.
pub struct SharedSaver<S> {
    saver: RefCell<S>,
    /// The tasks that wait.
    waits: Waits,
    /// Commits while a save was under way.
    late: Cell<u32>,
}

impl<S: fmt::Debug> fmt::Debug for SharedSaver<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut s = f.debug_struct("SharedSaver");
        s.field("saver", &self.saver).finish_non_exhaustive()
    }
}

impl<S> SharedSaver<S> {
    /// Shares a saver.
    pub const fn new(saver: S) -> Self {
        SharedSaver {
            saver: RefCell::new(saver),
            waits: Waits([const { Cell::new(None) }; WAITERS]),
            late: Cell::new(0),
        }
    }

    /// The saver, when no task has it. Cancel safe: a future that is dropped only stops waiting.
    async fn wait(&self) -> Lent<'_, S> {
        let saver = poll_fn(|context| match self.saver.try_borrow_mut() {
            Ok(saver) => Poll::Ready(saver),
            Err(_) => {
                self.waits.register(context.waker());
                Poll::Pending
            }
        })
        .await;
        Lent {
            saver,
            _wake: Wake(&self.waits),
        }
    }

    /// Gives the saver back.
    pub fn into_inner(self) -> S {
        self.saver.into_inner()
    }
}

/// The saver while a task uses it. It is given back before the other task is woken.
struct Lent<'a, S> {
    saver: RefMut<'a, S>,
    _wake: Wake<'a>,
}

struct Wake<'a>(&'a Waits);

impl Drop for Wake<'_> {
    fn drop(&mut self) {
        // Each of these tasks tries again.
        for waker in self.0.0.iter().filter_map(Cell::take) {
            waker.wake();
        }
    }
}

/// As many tasks as a pool has contexts wait without waking each other.
const WAITERS: usize = 8;

/// The wakers of the tasks that wait.
struct Waits([Cell<Option<Waker>>; WAITERS]);

impl Waits {
    fn register(&self, mine: &Waker) {
        let mut place = None;
        for slot in &self.0 {
            let known = slot.take();
            let is_mine = known.as_ref().is_some_and(|k| k.will_wake(mine));
            if known.is_none() || is_mine {
                place = place.or(Some(slot));
            }
            slot.set(known.filter(|_| !is_mine));
        }
        if planted!("nvmem/one-place-to-wait") {
            place = None;
        }
        match (place, &self.0) {
            (Some(slot), _) => slot.set(Some(mine.clone())),
            // All slots are taken: this waker replaces the first one, whose task is woken and tries
            // again.
            (None, [first, ..]) => {
                let mut other = first.replace(Some(mine.clone()));
                if planted!("nvmem/waiter-forgotten") {
                    other = None;
                }
                if let Some(other) = other {
                    other.wake();
                }
            }
        }
    }
}

impl<S: Save> Save for &SharedSaver<S> {
    type Error = S::Error;
    // No save runs code of a program, so the saver is not borrowed when a save begins.
    fn committed<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.saver.borrow_mut().committed(owner)
    }
    fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.saver.borrow_mut().durable_if_due(owner)
    }
    fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.saver.borrow_mut().durable(owner)
    }
}

impl<S: AsyncSave> SharedSaver<S> {
    /// The saver, after it has counted all commits.
    async fn informed(&self) -> Lent<'_, S> {
        let mut lent = self.wait().await;
        for _ in 0..self.late.take() {
            lent.saver.count_commit();
        }
        lent
    }
}

impl<S: AsyncSave> AsyncSave for &SharedSaver<S> {
    type Error = S::Error;
    fn count_commit(&mut self) {
        match self.saver.try_borrow_mut() {
            Ok(mut saver) => saver.count_commit(),
            Err(_) => self.late.set(self.late.get().saturating_add(1)),
        }
    }
    async fn durable_if_due<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.informed().await.saver.durable_if_due(owner).await
    }
    async fn durable<T: AtRest>(&mut self, owner: &mut T) -> Result<(), S::Error> {
        self.informed().await.saver.durable(owner).await
    }
}
