//! Locks that a record tells of: those that may give up, and those of mutexes that are made and
//! deleted at run time.
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
//! # What a cut leaves
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
//! # Delete
//!
//! A delete is refused while a thread has the mutex: what it guards may be half done. To wait until
//! it is free would be a wait inside of a step for a thread that may wait for what the step has
//! claimed. After a boot the thread that the word names may have it; that is known when this thread
//! has passed its records. Until then the delete waits. Between the call of a delete and its commit
//! no thread gets the mutex: a check at the commit, as an abort makes it, would need code in each
//! commit. Other threads wait for the word of the place, which changes with the commit; if the step
//! fails, they are woken.

use crate::error::code;
use crate::kernel::{State, Sys, abort};
use crate::objects::{FOREVER, Waited};
use crate::places::{Alive, Always, Exists, lies_in_a_place};
use crate::ram::{AN_END, Memory, NOTHING};
use crate::schedule::bit;
use crate::system::{Kind, System};
use crate::thread::Thread;
use nv_replay::nvmem::{Persist, planted};
use nv_replay::{Error, pmem_tx};

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
    // the mutex's word named the thread before; then no other thread gets the mutex before this
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

    // INVARIANT "Deleted without a holder": at the commit that deletes a mutex no thread has it,
    // and no thread that has not passed its records had it when the power was cut; no thread gets
    // it between the call and the commit. Also kept by `take_made`, `Sys::delete_mutex` and
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
