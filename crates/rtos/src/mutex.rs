//! Mutexes, and the locks of threads.
//!
//! # Locks that a record tells of
//!
//! Those that may give up, and those of mutexes that are made and deleted at run time.
//!
//! ```text
//!  LOCKS.make(step)            as any object: the place's word + 1, with the commit
//!  th.try_lock(&LOCK)          1 noted among the thread's locks
//!  th.lock_timeout(&LOCK, n)   2 the mutex exists, no step deletes it, nobody has it: taken
//!  th.lock(&LOCKS.at(lock))    3 its word <- the thread, settled
//!                              4 a record: locked, or not in time, or `code::DELETED`
//!  drop(guard)                 as for any mutex: nothing is stored
//!  LOCKS.delete(step, lock)    nobody has it: the place's word + 1, with the commit
//! ```
//!
//! A replay must take the same path as before. By then the mutex may be deleted, or free though
//! another thread had it. So whether such a lock has got its mutex is a record. A
//! [`lock`](Thread::lock) without end of a mutex of the system's description needs none.
//!
//! ## What a cut leaves
//!
//! | cut | the word | the record | the next boot |
//! |---|---|---|---|
//! | in a `make`, before its commit | any | | no mutex: a free place's word counts for nothing |
//! | between 3 and 4 | the thread | none | kept for the thread until it is live, then free |
//! | after 4 | the thread | locked | held again before others get it; no delete |
//! | after the end of the lock | the thread | locked | the same, if no record is after the end |
//! | the same, and another had it since | another | locked | not locked again |
//! | the same, and it was deleted since | any | locked | not locked again; its guard does nothing |
//! | in a `delete`, before its commit | any | | as before the step |
//! | in a `lock` that has found none | | `DELETED`, or none | the same result |
//! | while a lock waits | | none | it waits again, and its time counts anew |
//! | after a lock that has given up | any | not in time | the same result, also if it is free now |
//!
//! Point 3 comes before point 4, so the word named each thread that has a record of a lock. If the
//! word names it at the boot, no other thread got the mutex since, and none could delete it. If the
//! word names another thread, or the mutex is deleted, the thread had released it.
//!
//! A thread may become live in the call that passes its last record. So a replay notes the lock
//! before it knows the record, and forgets it if it had given up. In between the thread may get
//! the mutex, if the word names it: for no longer than this call.
//!
//! ## Delete
//!
//! A delete is refused while a thread has the mutex: what it guards may be half done. To wait until
//! it is free would be a wait inside of a step for a thread that may wait for what the step has
//! claimed. After a boot the thread that the word names may have it; that is known when this thread
//! has passed its records. Until then the delete waits. Between the call of a delete and its commit
//! no thread gets the mutex: a check at the commit, as an abort makes it, would need code in each
//! commit. Other threads wait for the word of the place, which changes with the commit; if the step
//! fails, they are woken.

use crate::error::code;
use crate::kernel::{State, Sys, abort, damaged, kinds};
use crate::made::{Alive, Always, Exists, lies_in_a_place};
use crate::object::{FOREVER, Waited};
use crate::ram::{AN_END, Memory, NOTHING};
use crate::schedule::bit;
use crate::shared::{Find, Held, Shares, UnitOf};
use crate::system::{Kind, Layout, ObjectSpec, System};
use crate::thread::Thread;
use core::marker::PhantomData;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::tagged::TagError;
use nv_replay::nvmem::{Persist, planted};
use nv_replay::{Error, pmem_tx};

/// A mutex of the system `S`. A thread [locks](crate::Thread::lock) it outside of steps, and runs
/// steps while it has it.
///
/// The holder may lock it again: it is free when it was unlocked as often as it was locked.
///
/// A thread that waits for it lends the holder its priority. A power cut does not open it: the
/// holder's first commit under the lock stores who it is, and after the next boot no other thread
/// gets it before the holder has replayed to where it was.
///
/// A mutex from the block `shared` of a system has data of the type `T`: a root that all threads
/// share, and that a step reaches through the [`Guard`](crate::Guard) only.
///
/// ```ignore
/// nv_rtos::system! {
///     Plan on Fram;
///     // table, objects
///     shared { BOARD: Board = Board::NEW; } // a Mutex<Plan, Board>
///     // threads
/// }
///
/// let (places, data) = Plan::share(&mut threads)?;
/// Plan::spawn(&kernel, places, &data, &mut port, sampler, maximum);
///
/// let mut board = th.lock(&BOARD)?;
/// th.step((board.data(), 3), |sys, mine, (mut board, n)| {
///     board.get_mut(sys)?.samples += n; // with the step, or not
///     *mine.get_mut(sys)? += n;
///     Ok(())
/// })?;
/// ```
///
/// A mutex that was [made](crate::Places) at run time is marked [`Alive`], and has no
/// data: those would be a root of the pool, which is made when the pool is.
pub struct Mutex<S: Shares, T = (), G = Always> {
    at: Layout,
    content: u64,
    find: Option<Find<S, T>>,
    pub(crate) exists: G,
}

impl<S: System> Mutex<S> {
    #[doc(hidden)]
    pub const fn at(at: Layout) -> Self {
        Mutex {
            at,
            content: 0,
            find: None,
            exists: Always,
        }
    }

    /// This mutex, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Mutex<S, (), G> {
        Mutex {
            at: self.at,
            content: self.content,
            find: None,
            exists,
        }
    }
}

impl<S: System, T: Persist> Mutex<S, T> {
    #[doc(hidden)]
    pub const fn with(at: Layout, find: Find<S, T>) -> Self {
        assert!(
            size_of::<T>() > 0,
            "the data of a mutex have at least one byte"
        );
        Mutex {
            at,
            content: type_hash::<T>("shared"),
            find: Some(find),
            exists: Always,
        }
    }
}

impl<S: System, T, G> Mutex<S, T, G> {
    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Mutex,
            word: self.at.word,
            words: 1,
            initial: 0,
            content: self.content,
            timer: 0,
            reserved: 0,
        }
    }

    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), 0)
    }

    pub(crate) const fn object(&self) -> u8 {
        self.at.object
    }

    /// The key to its data, if it has some.
    pub(crate) fn data<'c>(&self, cells: S::At<'c>) -> Option<Held<'c, T, UnitOf<S>>> {
        // Known at compile time: a plain mutex has no code for data.
        if size_of::<T>() == 0 {
            return None;
        }
        self.find
            .map(|find| Held::new(Some(find(cells, PhantomData))))
    }
}

/// Whether a system has mutexes.
#[inline(always)]
pub(crate) fn has_mutexes<S: System>() -> bool {
    const { kinds::<S>(Kind::Mutex) > 0 }
}

impl<S: System> State<'_, S> {
    /// Locks a mutex for a thread, if no other thread has it. Returns whether it did.
    #[inline]
    fn try_lock(&mut self, t: usize, object: u8) -> bool {
        let mine = t as u8 + 1;
        match self.object(object) {
            Some(o) if o.taken == 0 || o.taken == mine => {
                o.taken = mine;
                true
            }
            _ => false,
        }
    }

    /// Notes that a thread holds a mutex, or will. Returns whether it held it before. A second lock
    /// of the holder takes one more entry and checks nothing else: a replay that locks again a
    /// mutex that it had released before the cut must not wait here either.
    #[inline]
    fn hold(&mut self, t: usize, object: u8) -> Result<bool, pmem_tx::Error> {
        let c = self.control(t);
        let again = c.held != 0 && c.hold(object).is_some();
        let held = c.held;
        let h = c.holds.get_mut(usize::from(held));
        *h.ok_or(abort(code::LOCKS))? = object;
        c.used &= !(1 << held);
        c.held = held + 1;
        Ok(again)
    }

    /// Notes one unlock of a mutex. Returns whether the thread still holds it: it unlocks as often
    /// as it has locked.
    #[inline]
    fn let_go(&mut self, t: usize, object: u8) -> bool {
        let c = self.control(t);
        let Some(last) = c.held.checked_sub(1) else {
            return false;
        };
        if c.holds.get(usize::from(last)) != Some(&object) {
            c.make_last(object);
        }
        c.held = last;
        last != 0 && c.hold(object).is_some() && !planted!("nv-rtos/inner-unlock-gives-back")
    }

    /// Whether the `i`-th lock of a replay was released in an earlier boot.
    fn has_ended(&mut self, t: usize, i: usize) -> Option<(u8, bool)> {
        let c = self.control(t);
        let (object, used) = (*c.holds().get(i)?, c.used >> i & 1 != 0);
        let owner = self.object(object).map_or(0, |o| o.state);
        Some((object, used && usize::from(owner) != t + 1))
    }

    // INVARIANT "The holder is stored first": a mutex's word names its holder before the holder
    // commits anything under the lock.
    // Noticed by: planted `owner-not-stored`, `owner-ignored-at-boot`.
    /// Stores a thread as the holder of its mutexes, before it commits anything under them.
    #[inline(always)]
    pub fn store_owners(&mut self, t: usize) -> Result<(), TagError> {
        if !has_mutexes::<S>() {
            return Ok(());
        }
        self.store_held(t)
    }

    #[cold]
    #[inline(never)]
    fn store_held(&mut self, t: usize) -> Result<(), TagError> {
        let mine = t as u8 + 1;
        let mut next = 0;
        while let Some(object) = self.control(t).holds().get(next).copied() {
            next += 1;
            let Some(o) = self.ram.objects_mut().get_mut(usize::from(object)) else {
                continue;
            };
            let other = o.taken == mine && o.state != mine;
            if other && !planted!("nv-rtos/owner-not-stored") {
                self.store.put_settled(o.word, mine)?;
                o.state = mine;
            }
        }
        Ok(())
    }

    /// A thread is live: mutexes that it owned at the boot and does not hold now are free.
    #[inline(always)]
    pub fn give_back(&mut self, t: usize) {
        if has_mutexes::<S>() && !planted!("nv-rtos/owner-stays-holder") {
            self.give_back_owned(t);
        }
    }

    #[inline(never)]
    fn give_back_owned(&mut self, t: usize) {
        for object in 0..S::OBJECTS.len() as u8 {
            let mine = self
                .object(object)
                .is_some_and(|o| o.kind == Kind::Mutex && usize::from(o.taken) == t + 1);
            if mine
                && self.control(t).hold(object).is_none()
                && let Some(o) = self.object(object)
            {
                o.taken = 0;
                self.wake(object);
            }
        }
    }
}

impl<'m, S: System> Sys<'_, 'm, S> {
    /// Locks a mutex; or, in a replay, notes that it was. Returns whether the thread had it
    /// already.
    pub(crate) fn lock(&self, object: u8) -> Result<bool, Error> {
        let me = self.me();
        let (again, done) = self.kernel.section(|s| {
            let again = s.hold(me, object)?;
            if again && !planted!("nv-rtos/inner-lock-waits") {
                return Ok((again, true));
            }
            let live = s.control(me).live || planted!("nv-rtos/lock-taken-in-replay");
            Ok::<_, pmem_tx::Error>((again, !live || s.try_lock(me, object)))
        })?;
        if !done {
            self.wait_for_lock(object)?;
        }
        Ok(again)
    }

    #[cold]
    #[inline(never)]
    fn wait_for_lock(&self, object: u8) -> Result<(), pmem_tx::Error> {
        let locked = self.wait(object, u64::MAX, |s| {
            Ok(s.try_lock(self.me(), object).then_some(()))
        });
        locked.map(drop)
    }

    /// Gives a mutex back.
    pub(crate) fn unlock(&self, object: u8) {
        let me = self.me();
        self.kernel.section(|s| {
            if s.let_go(me, object) {
                return;
            }
            let live = s.control(me).live;
            match s.object(object) {
                // In a replay, others wait until the thread is live.
                Some(o) if live && usize::from(o.taken) == me + 1 => o.taken = 0,
                Some(o) if planted!("nv-rtos/unlock-in-a-replay-lets-others-in") => o.taken = 0,
                _ => return,
            }
            // Threads that lend their priority for this mutex wait for it.
            if s.wake(object) {
                s.reschedule(self.port);
            }
        });
    }

    // INVARIANT "A replay locks nothing": a thread locks a mutex when it has passed its records,
    // and only if no other thread had it since its last record under the lock. Also kept by
    // `Sys::lock`.
    // Noticed by: planted `lock-taken-in-replay`, `ended-lock-taken-again`,
    // `unlock-in-a-replay-lets-others-in`, `only-the-inner-lock-is-used`.
    /// The thread has passed its records: locks what it has locked in them.
    ///
    /// If a record was made under the lock, the mutex's word named this thread then. If the word
    /// names another thread, that thread locked the mutex later; so this thread had released it
    /// before the cut and must not lock it again. It commits nothing more under it; locking again
    /// could wait for a thread that waits for what this one does next.
    pub(crate) fn go_live(&self) -> Result<(), pmem_tx::Error> {
        let mut next = 0;
        while has_mutexes::<S>() {
            let object = self.kernel.section(|s| s.has_ended(self.me(), next));
            let Some((object, ended)) = object else {
                break;
            };
            if !ended || planted!("nv-rtos/ended-lock-taken-again") {
                self.wait_for_lock(object)?;
            }
            next += 1;
        }
        self.kernel.section(|s| {
            s.control(self.me()).live = true;
            s.store_owners(self.me()).map_err(damaged)?;
            s.give_back(self.me());
            if const { asks_for_holders::<S>() } && !planted!("nv-rtos/live-wakes-nobody") {
                s.wake_joiners();
            }
            s.reschedule(self.port);
            Ok(())
        })
    }
}

/// How a thread locks a mutex. Sealed by its hidden methods.
pub trait Locks: Exists {
    /// Locks it. Returns the object that the guard unlocks, and whether the thread had it already.
    #[doc(hidden)]
    #[track_caller]
    fn lock<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
    ) -> Result<(u8, bool), Error>;

    /// Locks it, if that takes no more than so many ticks, and records whether it did.
    #[doc(hidden)]
    #[track_caller]
    fn lock_within<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
        ticks: u64,
    ) -> Result<Option<(u8, bool)>, Error>;
}

impl Locks for Always {
    #[inline(always)]
    fn lock<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
    ) -> Result<(u8, bool), Error> {
        Ok((object, th.sys().lock(object)?))
    }

    #[track_caller]
    fn lock_within<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
        ticks: u64,
    ) -> Result<Option<(u8, bool)>, Error> {
        let sys = th.sys();
        let again = sys.kernel.section(|s| s.hold(sys.me(), object))?;
        let locked = recorded(th, object, ticks, |s| s.take_named(sys.me(), object))?;
        Ok(locked.then_some((object, again)))
    }
}

// INVARIANT "A replay finds its mutex, or had given it back": whether a lock found its mutex is a
// record; a replay whose mutex is deleted locks nothing and releases nothing.
// Noticed by: planted `lock-not-recorded`.
impl Locks for Alive {
    #[track_caller]
    fn lock<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
    ) -> Result<(u8, bool), Error> {
        let locked = self.lock_within(th, object, FOREVER)?;
        // No time is over.
        locked.ok_or(Error::Aborted(code::DELETED))
    }

    #[track_caller]
    fn lock_within<S: System, R: Persist>(
        &self,
        th: &mut Thread<'_, '_, '_, S, R>,
        object: u8,
        ticks: u64,
    ) -> Result<Option<(u8, bool)>, Error> {
        let sys = th.sys();
        let noted = sys.kernel.section(|s| {
            // A replay may come to one that was deleted since.
            let noted = match self.check(s, sys.me()) {
                Ok(()) => object,
                Err(_) => NOTHING,
            };
            s.hold(sys.me(), noted)?;
            Ok::<_, pmem_tx::Error>(noted)
        })?;
        let locked = recorded(th, noted, ticks, |s| s.take_made(sys.me(), self, noted))?;
        // Only a mutex of the system's description has data, for which the second one counts.
        Ok(locked.then_some((noted, false)))
    }
}

// INVARIANT "A lock that gave up stays so": whether a lock with an end has got its mutex is a
// record, and the thread has no lock that its record denies.
// Noticed by: planted `late-lock-stays-noted`, `lock-not-recorded`.
/// Locks a mutex that is noted, as the record says, or as `take` does within so many ticks, and
/// records that. Whether it did. The note ends if it did not.
#[track_caller]
fn recorded<'m, S: System, R: Persist>(
    th: &mut Thread<'_, 'm, '_, S, R>,
    noted: u8,
    ticks: u64,
    take: impl FnMut(&mut State<'m, S>) -> Result<Option<u8>, pmem_tx::Error>,
) -> Result<bool, Error> {
    let sys = th.sys();
    let live = th.is_live();
    let lock = || {
        let until = match ticks {
            FOREVER => FOREVER,
            n => sys.after(n),
        };
        sys.wait_while(until, take)
    };
    let waited = if planted!("nv-rtos/lock-not-recorded") {
        match (live, noted) {
            (true, _) => lock(),
            (false, NOTHING) => Waited::new(Err(abort(code::DELETED))),
            (false, _) => Waited::FOUND,
        }
    } else {
        match th.record_with(|| lock().code()) {
            Ok(code) => Waited::of(code),
            Err(e) => {
                sys.unlock(noted);
                return Err(e);
            }
        }
    };
    let locked = waited.found();
    if locked != Ok(true) && !planted!("nv-rtos/late-lock-stays-noted") {
        sys.unlock(noted);
    }
    Ok(locked?)
}

impl<S: System> State<'_, S> {
    // INVARIANT "Named before the record": a record says that a thread has locked a mutex only if
    // the mutex's word named the thread before. Then no other thread gets the mutex before this
    // one is live or has released it. Also kept by `take_named`.
    // Noticed by: planted `owner-of-a-made-mutex-not-stored`, `owner-ignored-at-boot`.
    /// Takes a mutex that was made at run time, if it exists and nobody has it. What to wait for,
    /// if a thread has it or a step is about to delete it. Points 2 and 3.
    fn take_made(
        &mut self,
        t: usize,
        made: &Alive,
        object: u8,
    ) -> Result<Option<u8>, pmem_tx::Error> {
        made.check(self, t)?;
        let claimed = self.object(made.word()).is_some_and(|o| o.given != 0);
        if claimed && !planted!("nv-rtos/mutex-locked-while-it-is-deleted") {
            return Ok(Some(made.word()));
        }
        self.take_named(t, object)
    }

    /// Takes a mutex, if nobody has it, and names the thread in its word. What to wait for, if
    /// another thread has it. Points 2 and 3.
    fn take_named(&mut self, t: usize, object: u8) -> Result<Option<u8>, pmem_tx::Error> {
        let mine = t as u8 + 1;
        let Some(o) = self.ram.objects_mut().get_mut(usize::from(object)) else {
            return Err(abort(code::DELETED));
        };
        let another = o.taken != 0 && o.taken != mine;
        if another && !planted!("nv-rtos/try-takes-what-another-has") {
            return Ok(Some(object));
        }
        if o.state != mine && !planted!("nv-rtos/owner-of-a-made-mutex-not-stored") {
            let stored = self.store.put_settled(o.word, mine);
            stored.map_err(|_| abort(code::DAMAGED))?;
            o.state = mine;
        }
        o.taken = mine;
        Ok(None)
    }

    // INVARIANT "Deleted without a holder": at the commit that deletes a mutex no thread has it.
    // Also no thread had it when the power was cut and has not passed its records yet. No thread
    // gets it between the call and the commit. Also kept by `take_made`, `Sys::delete_mutex` and
    // `go_live`.
    // Noticed by: planted `held-mutex-deleted`, `mutex-deleted-in-a-replay`,
    // `mutex-locked-while-it-is-deleted`, `live-wakes-nobody`.
    /// Whether no thread has a mutex; `false` if that is not known yet. **Errors**: a thread has
    /// it.
    fn is_given_back(&mut self, object: u8) -> Result<bool, pmem_tx::Error> {
        let holder = self.object(object).map_or(0, |o| o.taken);
        let Some(t) = usize::from(holder).checked_sub(1) else {
            return Ok(true);
        };
        let Some(&c) = self.thread(t) else {
            return Ok(true);
        };
        let parked = self.schedule.parked & bit(t) != 0;
        let lends = self.schedule.lends & bit(t) != 0;
        let known = parked || c.live || c.ended.is_some() || lends;
        if !known && !planted!("nv-rtos/mutex-deleted-in-a-replay") {
            return Ok(false);
        }
        if (parked || c.hold(object).is_some()) && !planted!("nv-rtos/held-mutex-deleted") {
            return Err(abort(code::REFUSED));
        }
        Ok(true)
    }

    /// Whether a mutex was deleted. Its word and its state in RAM say nothing then.
    pub fn is_deleted(&self, object: u8) -> bool {
        let before = usize::from(object).checked_sub(1);
        let word = before.and_then(|word| self.ram.objects().get(word));
        let has_none = word.is_some_and(|o| o.state.is_multiple_of(2));
        let deleted = lies_in_a_place::<S>(object) && has_none;
        deleted && !planted!("nv-rtos/deleted-mutex-keeps-a-thread")
    }
}

impl<'m, S: System> Sys<'_, 'm, S> {
    /// Waits for the object that `look` names, and calls it again, until it names none; at most
    /// until `until`.
    fn wait_while(
        &self,
        until: u64,
        mut look: impl FnMut(&mut State<'m, S>) -> Result<Option<u8>, pmem_tx::Error>,
    ) -> Waited {
        loop {
            let waited = self.kernel.section(|s| match look(s) {
                Ok(None) => Some(Waited::FOUND),
                Ok(Some(object)) => (!self.block(s, object, until)).then_some(Waited::TIMED_OUT),
                Err(e) => Some(Waited::new(Err(e))),
            });
            // Otherwise `block` has switched away; we are here because this thread was woken.
            if let Some(waited) = waited {
                return waited;
            }
        }
    }

    /// Deletes a mutex with the commit of this thread's step. Waits while another step is about to
    /// delete it, and until it is known that nobody has it.
    pub(crate) fn delete_mutex(&self, made: Alive) -> Result<(), pmem_tx::Error> {
        let (me, word) = (self.me(), made.word());
        let waited = self.wait_while(FOREVER, |s| {
            made.check(s, me)?;
            if s.others_change_place(me, word) {
                return Ok(Some(word));
            }
            if !s.is_given_back(word + 1)? {
                return Ok(Some(AN_END));
            }
            s.change_place(me, word)?;
            Ok(None)
        });
        waited.done()
    }
}

/// Whether a step may wait until a thread has passed its records: it is to be woken then.
pub(crate) const fn asks_for_holders<S: System>() -> bool {
    let mut i = 0;
    while i < S::OBJECTS.len() {
        if S::OBJECTS[i].kind as u8 == Kind::Mutex as u8 && S::OBJECTS[i].reserved != 0 {
            return true;
        }
        i += 1;
    }
    S::CONTROL.change
}
