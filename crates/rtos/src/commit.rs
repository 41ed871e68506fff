//! The commit of a step: what its calls have claimed, and what the commit does to the objects.
//!
//! ```text
//!  step of thread 2                        RAM                          medium
//!    take(SEM)    an operation of 2        SEM.taken + 1: others
//!                                          see one less
//!    send(Q, m)   an operation of 2        slot 3 is not free           slot 3 <- m
//!  commit, one critical section
//!    1 a part of the old words is settled, if it is due                 0, s, s
//!    2 for each operation                  SEM.state - 1, taken - 1     2, n, old, old - 1
//!                                          slot 3 behind the last one   2, n, empty, full 17
//!      the threads that wait for the object are ready
//!    3 fence
//!    4 header or state word of the step's record                        n: the commit store
//!    5 fence; pick the next thread
//! ```
//!
//! After point 4 the RAM copy equals the words. No thread can see a difference, because points 1 to
//! 5 are one critical section. A cut before 4 loses the RAM. The next boot reverts the words with
//! number n, and makes the RAM from all words.

use crate::error::code;
use crate::kernel::{State, Sys, abort, is, kinds, stamp};
use crate::made::has_places;
use crate::me::Me;
use crate::object::Change;
use crate::port::Port;
use crate::ram::{A_THREAD, Memory, Operation, READS};
use crate::store;
use crate::system::{Kind, System};
use crate::timer::has_timers;
use crate::{OPERATIONS_MAX, events, queue, semaphore};
use nv_replay::nvmem::planted;
use nv_replay::nvmem::tagged::TagError;
use nv_replay::{Commit, Committed, Error, Token, pmem_tx};

/// The result of the work before a commit store: one of these, or the error code of a step that
/// must not commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
struct Staged(u16);

impl Staged {
    const QUIET: Self = Staged(0);
    /// A thread is ready that was not.
    const WOKE: Self = Staged(1);
}

/// Flag: this operation needs `apply_rest`.
const MORE: u16 = 0x100;

/// Whether each step needs more than its operations.
const fn prepares_always<S: System>() -> bool {
    S::CONTROL.change || has_places::<S>()
}

/// Whether steps of this system can change words of the kernel. Only then is there something to
/// sweep before a sequence number is used again, so only then are numbers counted.
pub(crate) const fn changes_words<S: System>() -> bool {
    store::staged::<S>() > 0
}

/// Whether an operation may need `apply_rest`: flags that are set again, and changed threads.
const fn has_more<S: System>() -> bool {
    kinds::<S>(Kind::Events) > 0 || S::CONTROL.change
}

impl<S: System> State<'_, S> {
    /// Notes an operation of a thread's step on an object: there is one at most for a semaphore or
    /// an event group, and `f` adds to it.
    #[inline(always)]
    pub fn operate(
        &mut self,
        t: usize,
        object: u8,
        f: impl FnOnce(&mut Operation),
    ) -> Result<(), pmem_tx::Error> {
        let c = self.control(t);
        if c.len() == 0 {
            let mut first = Operation::new(object, 0, 0);
            f(&mut first);
            c.operations[0] = first;
            c.done += 1;
            return Ok(());
        }
        f(c.find(object).ok_or(abort(code::TOO_MANY))?);
        Ok(())
    }

    /// The same on a slot of a queue.
    #[inline(always)]
    pub fn operate_slot(
        &mut self,
        t: usize,
        object: u8,
        plus: u8,
        minus: u8,
    ) -> Result<(), pmem_tx::Error> {
        let c = self.control(t);
        let len = usize::from(c.len());
        let o = c.operations.get_mut(len);
        let o = o.ok_or(abort(code::TOO_MANY))?;
        (o.object, o.plus, o.minus) = (object, plus, minus);
        c.done += 1;
        Ok(())
    }

    // INVARIANT "Old words are settled": no word carries a number that comes round again: a
    // thread's numbers are counted, and between two visits of a word lie fewer than there are. Also
    // kept by `settle_part`, and by turns.rs, which counts the numbers of turns.
    // Noticed by: planted `no-sweep`, `records-not-counted`, `turns-not-counted`,
    // `sweep-skips-a-word`.
    /// A thread may use a number: settles a part of its words, if that is due. Counting numbers in
    /// RAM takes five instructions; the sweep of `nvmem::tagged`, which derives from the number
    /// which word is due, takes 90 in every commit. The count need not be stored, because an open
    /// settles all words.
    ///
    /// Between two visits of a word lie at most twice the numbers that may be unswept: fewer than
    /// there are.
    #[inline]
    fn use_number(&mut self, t: usize) -> Result<(), TagError> {
        let c = self.control(t);
        c.numbers = c.numbers.saturating_sub(1);
        if c.numbers == 0 {
            return self.settle_part(t);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn settle_part(&mut self, t: usize) -> Result<(), TagError> {
        let most = store::max_unswept::<S>();
        let part = store::staged::<S>().div_ceil(most);
        let first = self.control(t).unsettled;
        let (mut from, mut len) = (first, part);
        if first == 0 && planted!("nv-rtos/sweep-skips-a-word") {
            (from, len) = (1, part - 1);
        }
        if !planted!("nv-rtos/no-sweep") {
            self.store.settle(from, len, t as u32)?;
        }
        let next = first + part;
        let c = self.control(t);
        (c.unsettled, c.numbers) = if next < store::staged::<S>() {
            (next, 1)
        } else {
            (0, most)
        };
        Ok(())
    }

    /// Prepares for a call that may use `N` sequence numbers, and does not ask the kernel to join.
    pub fn before_numbers<const N: usize>(&mut self, t: usize) -> Result<(), TagError> {
        if !planted!("nv-rtos/records-not-counted") {
            for _ in 0..N {
                self.use_number(t)?;
            }
        }
        let c = self.control(t);
        if c.held != 0 {
            c.used = u8::MAX;
            if planted!("nv-rtos/only-the-inner-lock-is-used") {
                c.used = 1 << (c.held - 1);
            }
            if c.live {
                self.store_owners(t)?;
            }
        }
        Ok(())
    }

    /// Whether nothing comes before the commit store of a thread's step but one more number: it has
    /// used no object, and no old word is due.
    #[inline(always)]
    fn stages_nothing(&mut self, t: usize) -> bool {
        let c = self.control(t);
        if const { !changes_words::<S>() } {
            return c.done == 0;
        }
        let nothing = c.done == 0 && c.numbers > 1;
        c.numbers -= u16::from(nothing);
        nothing
    }

    /// Points 1 and 2: everything before the commit store of a thread's step. The path of a step
    /// with one operation, as most are, is the shortest.
    #[inline(never)]
    fn stage(&mut self, sys: &Sys<'_, '_, S>, number: u32) -> Staged {
        let c = self.control(sys.me());
        if const { prepares_always::<S>() } || c.numbers <= 1 || c.reads() {
            let code = self.prepare(sys);
            if code != 0 {
                return Staged(code);
            }
            if self.control(sys.me()).done == 0 {
                return Staged::QUIET;
            }
        } else {
            c.numbers -= 1;
        }
        // The operations count until here: a timer that the step starts is armed above, and a
        // refused step ends its claims.
        let found = self.apply(sys.me, 0, number);
        let c = self.control(sys.me());
        if c.done == 1 && found == 0 {
            c.done = 0;
            return Staged::QUIET;
        }
        self.stage_others(sys.me, number, found)
    }

    /// Applies the step's second and later operations, then wakes the waiters of all of them.
    #[inline(never)]
    fn stage_others(&mut self, me: Me<S>, number: u32, found: u16) -> Staged {
        let len = core::mem::take(&mut self.control(me.get()).done) as u8;
        let mut found = found;
        for i in 1..usize::from(len) {
            found |= self.apply_next(me, i, number);
        }
        self.follow(me.get(), len, number, found)
    }

    /// [`apply`](Self::apply) for each operation but the first one.
    #[inline(never)]
    fn apply_next(&mut self, t: Me<S>, i: usize, number: u32) -> u16 {
        self.apply(t, i, number)
    }

    // INVARIANT "Refused before anything changes": all that may refuse a step's commit comes before
    // the first change of an operation, a claim or a timer. A refused step leaves nothing.
    // Noticed by: planted `refused-step-arms-timers`.
    /// Slow path before a commit: settles old words if due, checks aborts, stores the clock if the
    /// step read it, arms timers. Returns 0 or an error code.
    #[cold]
    #[inline(never)]
    fn prepare(&mut self, sys: &Sys<'_, '_, S>) -> u16 {
        let me = sys.me();
        if self.use_number(me).is_err() {
            return code::DAMAGED;
        }
        let late = planted!("nv-rtos/refused-step-arms-timers");
        if S::CONTROL.change && !late && self.refuses(me) {
            return code::REFUSED;
        }
        let c = self.control(me);
        if c.reads() {
            c.done &= !READS;
            let now = self.now(sys.port);
            // This time is not before the time that the step has read.
            if self.reach(now).is_err() {
                return code::DAMAGED;
            }
            if const { has_timers::<S>() } {
                let single = self.control(me).len() == 1;
                if single && planted!("nv-rtos/single-timer-not-armed") {
                    return 0;
                }
                self.arm(me, now);
            }
        }
        if late && self.refuses(me) {
            return code::REFUSED;
        }
        if const { has_places::<S>() } {
            self.gather_waiters(me);
        }
        0
    }

    /// Applies one operation of a step. Returns the threads that waited for the object, and
    /// [`MORE`] if the operation needs `apply_rest`.
    #[inline(always)]
    fn apply(&mut self, t: Me<S>, i: usize, number: u32) -> u16 {
        let (threads, objects, slots) = self.ram.parts();
        let t = t.get();
        let Operation {
            object,
            plus,
            minus,
            ..
        } = threads[t].operations[i % OPERATIONS_MAX];
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return MORE;
        };
        let mut found = u16::from(core::mem::take(&mut o.waiters));
        let change = if is::<S>(o, Kind::Queue) {
            queue::commit(o, slots, plus, minus)
        } else if is::<S>(o, Kind::Events) {
            let (change, again) = events::commit(o, plus, minus);
            if again {
                found |= MORE;
            }
            change
        } else {
            semaphore::commit(o, plus, minus)
        };
        // Fails only for a word that was damaged since the boot, which the next open finds.
        let Change {
            word,
            before,
            after,
        } = change;
        let _ = self.store.put(word, stamp(t, number), before, after);
        found
    }

    /// Wakes the waiters that a step's operations have found, and applies the rest of the
    /// operations.
    #[inline(always)]
    fn follow(&mut self, t: usize, len: u8, number: u32, found: u16) -> Staged {
        let more = const { has_more::<S>() } && found & MORE != 0;
        let waiters = found as u8;
        let mut woke = waiters != 0 && self.wake_now(waiters);
        // Afterwards: one of the waiters may be a thread that this step aborts.
        woke |= more && self.apply_rest(t, len.into(), number);
        if planted!("nv-rtos/aborted-thread-is-woken") {
            self.wake_now(waiters);
        }
        if woke { Staged::WOKE } else { Staged::QUIET }
    }

    /// The part of a commit that few steps need: operations on threads, and flags that were set
    /// again.
    #[cold]
    #[inline(never)]
    fn apply_rest(&mut self, t: usize, len: usize, number: u32) -> bool {
        let mut woke = false;
        for i in 0..len {
            let Some(&o) = self.control(t).operations.get(i) else {
                break;
            };
            let events = self
                .object(o.object)
                .is_some_and(|o| o.kind == Kind::Events);
            if events {
                self.keep_set(o.object, o.plus);
            } else if S::CONTROL.change && o.object & A_THREAD != 0 {
                woke |= self.apply_to_thread(o, stamp(t, number));
            }
        }
        woke
    }

    // INVARIANT "Nothing kept": a step that fails leaves no operation, and wakes the threads that
    // wait for its objects.
    // Noticed by: planted `claims-kept-after-an-abort`.
    /// The thread's step is undone: its claims end.
    fn abandon(&mut self, t: usize, port: &dyn Port) {
        if planted!("nv-rtos/claims-kept-after-an-abort") {
            return;
        }
        if self.give_up(t) {
            self.reschedule(port);
        }
    }

    /// The claims of a thread's step end. Whether that has woken a thread.
    pub fn give_up(&mut self, t: usize) -> bool {
        let c = self.control(t);
        let len = usize::from(core::mem::take(&mut c.done) as u8);
        let mut woke = false;
        for i in 0..len {
            let Some(&o) = self.control(t).operations.get(i) else {
                break;
            };
            let Operation {
                object,
                plus,
                minus,
                ..
            } = o;
            let (_, objects, slots) = self.ram.parts();
            let Some(o) = objects.get_mut(usize::from(object)) else {
                woke |= self.give_up_thread();
                continue;
            };
            match o.kind {
                Kind::Semaphore => semaphore::give_up(o, plus, minus),
                Kind::Events => events::give_up(o, minus),
                Kind::Queue => queue::give_up(o, slots, plus, minus),
                Kind::Mutex => {}
            }
            if !planted!("nv-rtos/timer-given-up-unseen") {
                self.gather_daemons(object);
            }
            woke |= self.wake(object);
        }
        woke
    }
}

impl<S: System> Token<S::Model> for Sys<'_, '_, S> {
    // The commit word is data in `Commit`, which the kernel stores itself: a store behind a
    // function pointer took 36 instructions of each commit.

    // INVARIANT "No doubt outside of a section": outside of a critical section no word of an object
    // is in doubt: words are staged, committed or reverted in one (`State::stage`, and recovery at
    // the open).
    // Noticed by: planted `early-commit`, `nothing-is-reverted`.
    #[inline(always)]
    fn join<'c>(&self, commit: Commit<'c, S::Model>) -> Result<Committed<'c>, Error> {
        let number = commit.number().get();
        let done = self.kernel.section(|s| {
            if planted!("nv-rtos/early-commit") {
                let done = commit.store();
                let _ = s.stage(self, number);
                s.reschedule(self.port);
                return Ok(done);
            }
            self.port.check_stack();
            #[cfg(feature = "instrument")]
            s.tell_commit(self.port);
            let staged = if s.stages_nothing(self.me()) {
                Staged::QUIET
            } else {
                s.stage(self, number)
            };
            if staged > Staged::WOKE {
                return Err((staged.0, commit));
            }
            let done = commit.store();
            s.progressed(self.me());
            let woke = staged == Staged::WOKE;
            if woke && !planted!("nv-rtos/no-preemption-after-a-commit") {
                s.reschedule(self.port);
            }
            Ok(done)
        });
        done.map_err(|(code, _commit)| {
            self.undone();
            Error::Aborted(code)
        })
    }

    fn undone(&self) {
        // The error becomes a record.
        self.port.check_stack();
        self.kernel.section(|s| s.abandon(self.me(), self.port));
    }
}
