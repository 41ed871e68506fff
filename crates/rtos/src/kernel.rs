//! The kernel: what a step's calls claim, and what its commit does to the objects.
//!
//! Everything here is in RAM, but for the [`Store`]. It changes in critical sections only.
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
//!      who waits for the object is ready
//!    3 fence
//!    4 header or state word of the step's record                        n: the commit store
//!    5 fence; pick the next thread
//! ```
//!
//! After point 4 the RAM copy equals the words. No thread can see a difference, because points 1 to
//! 5 are one critical section. A cut before 4 loses the RAM. The next boot reverts the words with
//! number n, and makes the RAM from all words.

use crate::error::{OpenError, code};
use crate::locks::asks_for_holders;
use crate::me::Me;
use crate::places::has_places;
use crate::port::{Port, Runs};
use crate::ram::{A_THREAD, AN_END, Memory, NO_SLOT, NOTHING, Object, Operation, READS, Slot};
use crate::schedule::Schedule;
use crate::section::InSection;
use crate::system::{Kind, ObjectSpec, System, fingerprint};
use crate::tags::{self, Store};
use crate::timers::has_timers;
use crate::{OPERATIONS_MAX, THREADS_MAX};
use core::mem::MaybeUninit;
use nv_replay::nvmem::LayoutMismatch;
use nv_replay::nvmem::superblock::{self, Difference, State as Found, Superblock};
use nv_replay::nvmem::tagged::{Stamp, TagError};
use nv_replay::nvmem::{Model, NumberOwner, Region, planted};
use nv_replay::{Commit, Committed, Error, Outlet, Token, pmem_tx};

/// The superblock's kind, the format's version, and where its parameters are.
pub(crate) const KIND: [u8; 4] = *b"RTOS";
pub(crate) const VERSION: u16 = 2;
pub(crate) mod param {
    pub const SEQ_BITS: usize = 0;
    pub const WORDS: usize = 1;
    pub const SLOTS: usize = 2;
    pub const UNIT: usize = 3;
    /// If threads have words: how many they are, 16 times how many of them are reserved places, and
    /// 256 times the first word. 0 otherwise.
    pub const THREADS: usize = 4;
}

/// Tickets of messages run from 0 to 127. Those in a queue lie within half of that.
pub(crate) const TICKETS: u8 = 128;
pub(crate) const FULL: u8 = 0x80;

/// The kernel's state.
pub(crate) struct State<'m, S: System> {
    pub store: Store<'m, S>,
    pub ram: S::Ram,
    pub schedule: Schedule,
    /// The clock at the boot, and the last time that is on the medium.
    pub base: u64,
    stored: u64,
}

/// Flag: this operation needs `apply_rest`.
const MORE: u16 = 0x100;

/// The largest time that an open accepts: no clock runs so long. At `u64::MAX`, which stands for no
/// deadline, even a timeout of 0 ticks would never end.
const TIME_MAX: u64 = u64::MAX / 2;

/// The result of the work before a commit store: one of these, or the error code of a step that
/// must not commit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd)]
struct Staged(u16);

impl Staged {
    const QUIET: Self = Staged(0);
    /// A thread is ready that was not.
    const WOKE: Self = Staged(1);
}

/// The stamp of the words of a thread's step with this number.
fn stamp(t: usize, number: u32) -> Stamp {
    Stamp {
        owner: t as u32,
        sequence: number,
    }
}

/// The error with which a call inside a step fails.
pub(crate) fn abort(code: u16) -> pmem_tx::Error {
    pmem_tx::Error::Aborted(code)
}

fn damaged(_: TagError) -> pmem_tx::Error {
    abort(code::DAMAGED)
}

/// The system's description of an object.
fn spec<S: System>(object: u8) -> Option<&'static ObjectSpec> {
    S::OBJECTS.get(usize::from(object))
}

/// Whether an object is of a kind. The compiler knows it where all objects are, or none is.
#[inline(always)]
fn is<S: System>(o: &Object, kind: Kind) -> bool {
    let n = kinds::<S>(kind);
    n == S::OBJECTS.len() || n > 0 && o.kind == kind
}

/// How many objects are of a kind.
const fn kinds<S: System>(kind: Kind) -> usize {
    let (mut n, mut i) = (0, 0);
    while i < S::OBJECTS.len() {
        n += (S::OBJECTS[i].kind as u8 == kind as u8) as usize;
        i += 1;
    }
    n
}

/// Whether steps of this system can change words of the kernel. Only then is there something to
/// sweep before a sequence number is used again, so only then are numbers counted.
const fn changes_words<S: System>() -> bool {
    tags::staged::<S>() > 0
}

/// Whether an operation may need `apply_rest`: flags that are set again, and changed threads.
const fn has_more<S: System>() -> bool {
    kinds::<S>(Kind::Events) > 0 || S::CONTROL.change
}

/// Whether a system has mutexes.
#[inline(always)]
pub(crate) fn has_mutexes<S: System>() -> bool {
    const { kinds::<S>(Kind::Mutex) > 0 }
}

fn word_of<S: System>(object: u8) -> u16 {
    spec::<S>(object).map_or(0, |s| s.word)
}

impl<S: System> State<'_, S> {
    /// The clock.
    pub fn now(&self, port: &dyn Port) -> u64 {
        self.base.saturating_add(port.now())
    }

    // INVARIANT "Time is stored before it is known": a boot after a thread has learned a time never
    // begins with an earlier clock.
    // Noticed by: planted `clock-not-stored`.
    /// Stores a time before a thread knows it.
    pub fn reach(&mut self, time: u64) -> Result<(), TagError> {
        if time > self.stored && !planted!("nv-rtos/clock-not-stored") {
            self.store.set_time(time)?;
            self.stored = time;
        }
        Ok(())
    }

    // Operations.

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
    fn operate_slot(
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

    // Semaphores.

    /// Gives one with the commit. Whether there is room for it.
    #[inline]
    pub fn give(&mut self, t: usize, object: u8, max: u8) -> Result<bool, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(false);
        };
        let mut given = u32::from(o.given);
        if planted!("nv-rtos/given-ignored") {
            given = 0;
        }
        if u32::from(o.state) + given >= max.into() {
            return Ok(false);
        }
        self.operate(t, object, |o| o.plus += 1)?;
        if let Some(o) = self.object(object) {
            o.given += 1;
        }
        Ok(true)
    }

    // INVARIANT "Claimed once": no step gets what an operation of another running step has claimed
    // or reserved, before that step has ended. Also kept by `clear`, `claim` and `reserve`.
    // Noticed by: planted `claims-ignored`, `reserved-slot-given-away`, `given-ignored`.
    /// Takes one with the commit, if there is one that nobody has claimed.
    #[inline]
    pub fn take(&mut self, t: usize, object: u8) -> Result<Option<()>, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(None);
        };
        if o.state <= o.taken {
            return Ok(None);
        }
        self.operate(t, object, |o| o.minus += 1)?;
        if let Some(o) = self.object(object) {
            o.taken += 1;
        }
        Ok(Some(()))
    }

    // Event groups.

    /// Sets flags with the commit.
    #[inline]
    pub fn set(&mut self, t: usize, object: u8, flags: u8) -> Result<(), pmem_tx::Error> {
        self.operate(t, object, |o| o.plus |= flags)
    }

    /// Clears those of some flags with the commit that are set and that nobody has claimed, if
    /// they are enough.
    #[inline]
    pub fn clear(
        &mut self,
        t: usize,
        object: u8,
        flags: u8,
        enough: impl FnOnce(u8) -> bool,
    ) -> Result<Option<u8>, pmem_tx::Error> {
        let Some(o) = self.object(object) else {
            return Ok(None);
        };
        let seen = o.state & !o.taken & flags;
        if !enough(seen) {
            return Ok(None);
        }
        self.operate(t, object, |o| o.minus |= seen)?;
        if let Some(o) = self.object(object) {
            o.taken |= seen;
        }
        Ok(Some(seen))
    }

    /// Flags that were just set are not those that other steps have claimed: they stay set when
    /// those steps commit, as in a kernel that clears flags when the wait ends.
    #[cold]
    #[inline(never)]
    fn keep_set(&mut self, object: u8, now_set: u8) {
        if planted!("nv-rtos/flag-set-again-is-lost") {
            return;
        }
        let claimed = self.object(object).map_or(0, |o| o.taken);
        let again = claimed & now_set;
        if again == 0 {
            return;
        }
        for c in self.ram.threads_mut() {
            let mine = c.operations().filter(|o| o.object == object);
            mine.for_each(|o| o.minus &= !again);
        }
        if let Some(o) = self.object(object) {
            o.taken &= !again;
        }
    }

    // Queues.

    /// A slot for a message, with its number in the queue: reserved until the commit.
    #[inline]
    pub fn reserve(&mut self, t: usize, object: u8) -> Result<Option<u8>, pmem_tx::Error> {
        let Some(slot) = self.free_slot(object) else {
            return Ok(None);
        };
        let (sends, free) = self.object(object).map_or((0, 0), |o| (o.sends, o.free));
        self.operate_slot(t, object, slot, NO_SLOT)?;
        if let Some(o) = self.object(object) {
            o.sends = sends.wrapping_sub(1);
            if !planted!("nv-rtos/reserved-slot-given-away") {
                o.free = free & free.wrapping_sub(1);
            }
        }
        Ok(Some(slot))
    }

    /// An empty slot of a queue that nobody has reserved, if a message may be sent now.
    #[inline(always)]
    pub fn free_slot(&mut self, object: u8) -> Option<u8> {
        let o = self.object(object)?;
        if o.free == 0 {
            return None;
        }
        let slot = o.free.trailing_zeros() as u8;
        let may = o.sends != 0 || self.may_send(object);
        may.then_some(slot)
    }

    /// The slots of a queue, with their numbers.
    fn slots(&mut self, object: u8) -> impl Iterator<Item = (u8, &mut Slot)> {
        let (word, n) = spec::<S>(object).map_or((0, 0), |s| (s.word, s.words));
        let (_, _, slots) = self.ram.parts();
        let slots = slots.iter_mut().skip(word.into()).take(n.into());
        (0..).zip(slots)
    }

    /// Counts how many messages may be sent before the tickets of those in a queue lie further
    /// apart than half of a round. Whether there is one.
    #[cold]
    #[inline(never)]
    pub(crate) fn may_send(&mut self, object: u8) -> bool {
        let Some(&mut Object { free, state, .. }) = self.object(object) else {
            return false;
        };
        // The age of the oldest and the newest message, in tickets.
        let (mut oldest, mut newest) = (0, TICKETS);
        let mut reserved = 0;
        for (slot, s) in self.slots(object) {
            if s.state & FULL != 0 {
                let ago = state.wrapping_sub(s.state) % TICKETS;
                (oldest, newest) = (oldest.max(ago), newest.min(ago));
            } else {
                reserved += u8::from(free >> slot & 1 == 0);
            }
        }
        // Tickets after the newest one can be used again.
        let again = if oldest == 0 { 0 } else { newest - 1 };
        let most = (TICKETS / 2).saturating_sub(oldest - again + reserved);
        if let Some(o) = self.object(object) {
            o.state = state.wrapping_sub(again) % TICKETS;
            o.sends = most;
        }
        most > 0 || planted!("nv-rtos/tickets-lap")
    }

    /// Claims the oldest message that nobody has: the number of its slot.
    #[inline]
    pub fn claim(&mut self, t: usize, object: u8) -> Result<Option<u8>, pmem_tx::Error> {
        let slot = self.object(object).map_or(NO_SLOT, |o| o.first);
        if slot == NO_SLOT {
            return Ok(None);
        }
        self.operate_slot(t, object, NO_SLOT, slot)?;
        if planted!("nv-rtos/claims-ignored") {
            return Ok(Some(slot));
        }
        let (_, objects, slots) = self.ram.parts();
        if let Some(o) = objects.get_mut(usize::from(object))
            && let Some(s) = slots.get(usize::from(o.word) + usize::from(slot))
        {
            o.first = s.next;
        }
        Ok(Some(slot))
    }

    /// Returns a message to those that nobody has claimed, in the order of tickets: not to the end.
    fn put_back(&mut self, object: u8, slot: u8) {
        let first_word = usize::from(word_of::<S>(object));
        let (_, objects, slots) = self.ram.parts();
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return;
        };
        let slots = slots.get_mut(first_word..).unwrap_or_default();
        let ticket = slots.get(usize::from(slot)).map_or(0, |s| s.state);
        let (mut before, mut behind) = (NO_SLOT, o.first);
        while let Some(s) = slots.get(usize::from(behind)) {
            let newest_first = planted!("nv-rtos/newest-first");
            if behind == NO_SLOT || is_before(ticket, s.state) ^ newest_first {
                break;
            }
            (before, behind) = (behind, s.next);
        }
        if let Some(s) = slots.get_mut(usize::from(slot)) {
            s.next = behind;
        }
        match slots.get_mut(usize::from(before)) {
            Some(s) if before != NO_SLOT => s.next = slot,
            _ => o.first = slot,
        }
        if behind == NO_SLOT {
            o.last = slot;
        }
    }

    // Mutexes.

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
    pub fn hold(&mut self, t: usize, object: u8) -> Result<bool, pmem_tx::Error> {
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
    fn store_owners(&mut self, t: usize) -> Result<(), TagError> {
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

    // Commits.

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
        let most = tags::max_unswept::<S>();
        let part = tags::staged::<S>().div_ceil(most);
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
        (c.unsettled, c.numbers) = if next < tags::staged::<S>() {
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
        let mut word = usize::from(o.word);
        let before;
        let after;
        if is::<S>(o, Kind::Queue) {
            if minus == NO_SLOT {
                before = 0;
                (word, after) = append(o, slots, plus);
            } else {
                word += usize::from(minus);
                let s = slots.get_mut(word);
                before = s.map_or(0, |s| core::mem::take(&mut s.state));
                after = 0;
                if !planted!("nv-rtos/slot-never-free-again") {
                    o.free |= 1 << (minus % 32);
                }
            }
        } else {
            before = o.state;
            if is::<S>(o, Kind::Events) {
                after = before & !minus | plus;
                o.taken &= !minus;
                if o.taken & plus != 0 {
                    found |= MORE;
                }
            } else {
                after = before.wrapping_add(plus).wrapping_sub(minus);
                o.given = o.given.wrapping_sub(plus);
                o.taken = o.taken.wrapping_sub(minus);
            }
            o.state = after;
        }
        // Fails only for a word that was damaged since the boot, which the next open finds.
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
            let Some(o) = self.object(object) else {
                woke |= self.give_up_thread();
                continue;
            };
            match o.kind {
                Kind::Semaphore => {
                    o.given -= plus;
                    o.taken -= minus;
                }
                Kind::Events => o.taken &= !minus,
                Kind::Queue if minus == NO_SLOT => o.free |= 1 << (plus % 32),
                Kind::Queue => self.put_back(object, minus),
                Kind::Mutex => {}
            }
            if !planted!("nv-rtos/timer-given-up-unseen") {
                self.gather_daemons(object);
            }
            woke |= self.wake(object);
        }
        woke
    }

    // INVARIANT "The RAM follows the words": outside of a critical section the state of an object
    // in RAM is that of its word: both change in one, after all that can fail, and an open makes
    // the RAM from the words. Also kept by `apply`, `store_owners`, `post` and `Isr::publish`.
    // Noticed by: planted `states-not-loaded`, `tickets-begin-anew`, `slot-never-free-again`,
    // `owner-ignored-at-boot`, `superblock-before-the-states`,
    // `tickets-counted-as-of-an-empty-queue`.
    /// Makes the states of all objects from their words. Recovery has settled or reverted them all.
    fn load(&mut self) -> Result<(), TagError> {
        for (object, spec) in (0..).zip(S::OBJECTS) {
            if let Some(o) = self.object(object) {
                o.begin(spec);
            }
            if spec.kind == Kind::Queue {
                self.load_queue(object, spec)?;
                continue;
            }
            let state = self.store.get(spec.word)?;
            let most = match spec.kind {
                Kind::Semaphore => spec.content,
                Kind::Mutex => S::THREADS.len() as u64,
                // The slot with its deadline, or none.
                Kind::Events if spec.timer != 0 => 2,
                Kind::Events | Kind::Queue => u64::from(u8::MAX),
            };
            check_state(spec.word, u64::from(state) <= most)?;
            let Some(o) = self.object(object) else {
                continue;
            };
            o.state = state;
            if planted!("nv-rtos/states-not-loaded") {
                o.state = spec.initial;
            }
            if spec.kind == Kind::Mutex && !planted!("nv-rtos/owner-ignored-at-boot") {
                // Until the owner has replayed to where it was.
                o.taken = state;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn load_queue(&mut self, object: u8, spec: &ObjectSpec) -> Result<(), TagError> {
        // A bit for each slot, as in its RAM.
        let (mut free, mut bit) = (0, 1_u32);
        for (slot, word) in (0..).zip(spec.word..spec.word + spec.words) {
            // Most slots are empty, and most words of empty ones were never written.
            let state = match self.store.is_zero(word) {
                true => 0,
                false => self.store.get(word)?,
            };
            if state == 0 {
                free |= bit;
            } else {
                check_state(word, state & FULL != 0)?;
                let (_, _, slots) = self.ram.parts();
                if let Some(s) = slots.get_mut(usize::from(word)) {
                    s.state = state;
                }
                self.put_back(object, slot);
            }
            bit = bit.rotate_left(1);
        }
        let (_, objects, slots) = self.ram.parts();
        let Some(o) = objects.get_mut(usize::from(object)) else {
            return Ok(());
        };
        let ticket = |slot: u8| {
            let s = slots.get(usize::from(spec.word) + usize::from(slot));
            s.map_or(0, |s| s.state % TICKETS)
        };
        o.free = free;
        // As `may_send` finds it when no slot is reserved.
        let mut oldest = 0;
        if o.last != NO_SLOT && !planted!("nv-rtos/tickets-begin-anew") {
            o.state = (ticket(o.last) + 1) % TICKETS;
            oldest = o.state.wrapping_sub(ticket(o.first)) % TICKETS;
        }
        if planted!("nv-rtos/tickets-counted-as-of-an-empty-queue") {
            oldest = 0;
        }
        o.sends = (TICKETS / 2).saturating_sub(oldest);
        Ok(())
    }
}

/// Whether each step needs more than its operations.
const fn prepares_always<S: System>() -> bool {
    S::CONTROL.change || has_places::<S>()
}

/// Appends the message in `slot` to the queue. Returns the slot's word index and its new state.
#[inline(always)]
pub(crate) fn append(o: &mut Object, slots: &mut [Slot], slot: u8) -> (usize, u8) {
    let first = usize::from(o.word);
    let (word, last) = (first + usize::from(slot), first + usize::from(o.last));
    let full = FULL | o.state;
    o.state = (o.state + 1) % TICKETS;
    if let Some(s) = slots.get_mut(word) {
        (s.state, s.next) = (full, NO_SLOT);
    }
    if o.first == NO_SLOT {
        o.first = slot;
    } else if let Some(s) = slots.get_mut(last) {
        s.next = slot;
    }
    o.last = slot;
    (word, full)
}

/// Checks that a word's state is one of its object's kind: otherwise the image is damaged.
pub(crate) fn check_state(word: u16, is_known: bool) -> Result<(), TagError> {
    if is_known || planted!("nv-rtos/states-unchecked") {
        return Ok(());
    }
    Err(TagError::Damaged { index: word.into() })
}

/// Whether a ticket is older than another one in the same queue.
fn is_before(a: u8, b: u8) -> bool {
    let distance = b.wrapping_sub(a) % TICKETS;
    distance != 0 && distance < TICKETS / 2
}

/// The kernel of a system. [`System::open`](crate::system!) makes it at each boot.
pub struct Kernel<'m, S: System> {
    state: InSection<State<'m, S>>,
}

impl<'m, S: System> Kernel<'m, S> {
    /// Bytes of the kernel's part of the region.
    pub(crate) const BYTES: usize = Superblock::BYTES
        + tags::bytes::<S::Model>(tags::all::<S>() as usize, S::END.slots as usize);

    /// The superblock of that part. A constant: a boot compares it, and builds nothing.
    const SUPERBLOCK: Superblock = {
        let mut params = [0; 8];
        params[param::SEQ_BITS] = S::TABLE.seq_bits as u32;
        params[param::WORDS] = tags::all::<S>() as u32;
        params[param::SLOTS] = S::END.slots;
        params[param::UNIT] = size_of::<<S::Model as Model>::Unit>() as u32;
        if S::CONTROL.change {
            let (threads, places) = (S::THREADS.len() as u32, S::PLACES.len() as u32);
            params[param::THREADS] = threads | places << 4 | (S::END.word as u32) << 8;
        }
        Superblock {
            kind: KIND,
            version: VERSION,
            fingerprint: fingerprint::<S>(),
            params,
        }
    };

    // On an MSP430 a word that is moved takes six cycles or more, and a result by value is moved
    // once for each function that returns it. So a boot makes everything in its final place, and
    // lends the numbers of the last commits where they lie.
    /// Opens the kernel's part of the region, in `place`. `numbers` are those of the threads' last
    /// commits. Its fields are made there, so that a boot moves nothing.
    #[inline(always)]
    #[allow(unsafe_code)]
    pub(crate) fn open_in<'p>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, S::Model>,
        numbers: &[u32],
    ) -> Result<&'p mut Self, OpenError> {
        // SAFETY: invariant "Open in its place": the one field of `place`, which is borrowed
        // mutably, and a field of that.
        let (at, store) = unsafe {
            let at = InSection::value_in(&raw mut (*place.as_mut_ptr()).state);
            let store = &raw mut (*at).store;
            (at, &mut *store.cast::<MaybeUninit<Store<'m, S>>>())
        };
        let time = Self::recover(store, region, numbers)?.time()?;
        if time > TIME_MAX && !planted!("nv-rtos/any-clock-accepted") {
            return Err(OpenError::Damaged);
        }
        // SAFETY: invariant "Open in its place": all other fields.
        let kernel = unsafe {
            (&raw mut (*at).ram).write(S::Ram::NEW);
            (&raw mut (*at).schedule).write(Schedule::NEW);
            (&raw mut (*at).base).write(time);
            (&raw mut (*at).stored).write(time);
            place.assume_init_mut()
        };
        kernel.load(numbers)?;
        Ok(kernel)
    }

    /// Formats or recovers the kernel's words, in `place`.
    #[inline(always)]
    fn recover<'p>(
        place: &'p mut MaybeUninit<Store<'m, S>>,
        mut region: Region<'m, S::Model>,
        numbers: &[u32],
    ) -> Result<&'p mut Store<'m, S>, OpenError> {
        let mine = const { &Self::SUPERBLOCK };
        let blank = match superblock::probe_view(&region, mine) {
            Found::Ready(stored) if stored.is_expected() => false,
            Found::Ready(stored) => {
                let mut copy = *mine;
                match stored.agrees(&mut copy, 0) {
                    Err(Difference::Layout) if !planted!("nv-rtos/layout-not-compared") => {
                        let (stored, expected) = (stored.layout(), mine.layout());
                        return Err(LayoutMismatch { stored, expected }.into());
                    }
                    Err(Difference::Param(_)) => return Err(OpenError::Foreign),
                    _ => {}
                }
                false
            }
            Found::Blank | Found::Formatting => true,
            Found::Foreign => return Err(OpenError::Foreign),
            Found::Damaged => return Err(OpenError::Damaged),
        };
        let begun = blank.then(|| superblock::begin_marked(&mut region, mine));
        let split = region.split_at(Superblock::BYTES);
        let (mut head, rest) = split.map_err(|_| OpenError::TooSmall)?;
        if let Some(marker) = begun {
            let store = place.write(Store::format(rest)?);
            if planted!("nv-rtos/superblock-before-the-states") {
                superblock::finish_marked(&mut head, marker, mine);
            }
            for spec in S::OBJECTS.iter().filter(|s| s.initial != 0) {
                store.put_settled(spec.word, spec.initial)?;
            }
            superblock::finish_marked(&mut head, marker, mine);
            Ok(store)
        } else {
            let last: &[u32] = if planted!("nv-rtos/nothing-is-reverted") {
                &[u32::MAX; THREADS_MAX]
            } else {
                numbers
            };
            Ok(place.write(Store::recover(rest, last)?))
        }
    }

    /// Makes the RAM from the words.
    fn load(&mut self, numbers: &[u32]) -> Result<(), TagError> {
        let state = self.state.get_mut();
        state.load()?;
        for t in 0..S::THREADS.len() {
            let c = state.control(t);
            c.begin();
            c.numbers = tags::max_unswept::<S>();
            state.load_thread(t)?;
            if !state.stays_parked(t, numbers.get(t).map_or(0, |n| *n))? {
                state.ready(t);
            }
        }
        state.stop_aborted();
        Ok(())
    }

    // INVARIANT "Threads of its own": the numbers that commit a kernel's words are those of its own
    // threads, whose region begins where the kernel's ends.
    // Noticed by: `places_of_another_kernel` in tests/suite/system.rs; planted
    // `places-of-any-kernel`.
    /// **Panics**: the place of the first thread is one of another kernel.
    #[doc(hidden)]
    #[inline(never)]
    pub fn has_places(&self, first: NumberOwner) {
        let base = self
            .section(|s| s.store.base())
            .wrapping_sub(Superblock::BYTES);
        let own = NumberOwner::at(base.wrapping_add(Self::BYTES));
        if first != own && !planted!("nv-rtos/places-of-any-kernel") {
            panic!("the places are those of another kernel")
        }
    }

    /// Runs `f` in a critical section.
    #[inline(always)]
    pub(crate) fn section<R>(&self, f: impl FnOnce(&mut State<'m, S>) -> R) -> R {
        self.state.with::<S::Model, R>(f)
    }

    /// Starts the system: switches to the first thread. The machine calls it once, when all threads
    /// are made.
    pub fn start(&self, port: &dyn Port) {
        self.section(|s| {
            s.watch(port);
            s.begin(port);
        });
    }

    /// The time of the timer has come. The machine calls it in the timer's handler.
    ///
    /// **Power loss**: the clock is stored before a thread that was due wakes. **Cost**: three
    /// stores, on 16-bit units five, if one was.
    pub fn tick(&self, port: &dyn Port) {
        self.section(|s| {
            let now = s.now(port);
            s.timer_due(now, port);
            s.reschedule(port);
        });
    }

    /// Lets the next thread of the running one's priority run. The machine calls it at the end of
    /// each time slice, in a handler. Stores nothing.
    pub fn slice(&self, port: &dyn Port) {
        self.section(|s| s.end_slice(port));
    }

    /// How a thread has ended; `None` if it has not.
    ///
    /// **Errors**: the one with which the thread's function returned.
    pub fn ended(&self, thread: usize) -> Option<Result<(), Error>> {
        self.section(|s| s.thread(thread)?.ended)
    }

    /// The bytes that a thread has never used of its stack, in this boot: those above its guard
    /// that still hold zeros. `None` if the port does not know. The stack was made as zeros; where
    /// it was not, the number means nothing. It does not know what a thread needs in other
    /// circumstances, such as an interrupt at its deepest point.
    ///
    /// **Cost**: a load for each of these bytes. Stores nothing.
    pub fn unused_stack(&self, port: &dyn Port, thread: usize) -> Option<usize> {
        port.unused_stack(thread)
    }

    /// The kernel's calls for an interrupt's handler.
    pub fn isr<'k>(&'k self, port: &'k dyn Port) -> Isr<'k, 'm, S> {
        Isr { kernel: self, port }
    }
}

impl<S: System> Runs for Kernel<'_, S> {
    const THREADS: usize = S::THREADS.len();
    const SLICES: bool = {
        let (mut equals, mut i) = (false, 0);
        while i < S::THREADS.len() {
            let mut j = 0;
            while j < i {
                equals |= S::THREADS[i].priority == S::THREADS[j].priority;
                j += 1;
            }
            i += 1;
        }
        equals
    };

    fn start(&self, port: &dyn Port) {
        Kernel::start(self, port);
    }
    fn tick(&self, port: &dyn Port) {
        Kernel::tick(self, port);
    }
    fn slice(&self, port: &dyn Port) {
        Kernel::slice(self, port);
    }
    fn has_ended(&self, thread: usize) -> bool {
        self.section(|s| s.stopped(thread).is_some())
    }
    fn next_deadline(&self) -> Option<u64> {
        Kernel::next_deadline(self)
    }
}

/// The calls that an interrupt's handler may make.
pub struct Isr<'k, 'm, S: System> {
    pub(crate) kernel: &'k Kernel<'m, S>,
    pub(crate) port: &'k dyn Port,
}

impl<S: System> Isr<'_, '_, S> {
    /// Changes the state of a semaphore or an event group at once, wakes the threads that wait for
    /// it, and picks the next thread. `set` are flags that are set now.
    pub(crate) fn publish(
        &self,
        object: u8,
        set: u8,
        f: impl FnOnce(&Object) -> Option<u8>,
    ) -> Result<bool, Error> {
        let published = self.kernel.section(|s| {
            let Some(new) = s.object(object).and_then(|o| f(o)) else {
                return Ok(false);
            };
            s.store
                .put_settled(word_of::<S>(object), new)
                .map_err(damaged)?;
            if let Some(o) = s.object(object) {
                o.state = new;
            }
            if set != 0 {
                s.keep_set(object, set);
            }
            s.wake(object);
            s.reschedule(self.port);
            Ok::<_, pmem_tx::Error>(true)
        });
        Ok(published?)
    }
}

/// A thread's access to the kernel: the token of its steps, and the environment of its runtime.
pub struct Sys<'k, 'm, S: System> {
    pub(crate) kernel: &'k Kernel<'m, S>,
    pub(crate) port: &'k dyn Port,
    pub(crate) me: Me<S>,
}

impl<S: System> Clone for Sys<'_, '_, S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S: System> Copy for Sys<'_, '_, S> {}

/// The result of a check of an object.
enum Look<R> {
    Found(R),
    TimedOut,
    Waits,
}

impl<'m, S: System> Sys<'_, 'm, S> {
    /// The thread's number.
    #[inline(always)]
    pub(crate) fn me(&self) -> usize {
        self.me.get()
    }

    /// Waits until `find` finds something, at most until `until`.
    #[inline]
    pub(crate) fn wait<R>(
        &self,
        object: u8,
        until: u64,
        mut find: impl FnMut(&mut State<'m, S>) -> Result<Option<R>, pmem_tx::Error>,
    ) -> Result<Option<R>, pmem_tx::Error> {
        loop {
            let look = self.kernel.section(|s| {
                if let Some(found) = find(s)? {
                    return Ok(Look::Found(found));
                }
                if !self.block(s, object, until) {
                    return Ok(Look::TimedOut);
                }
                Ok::<_, pmem_tx::Error>(Look::Waits)
            })?;
            match look {
                Look::Found(found) => return Ok(Some(found)),
                Look::TimedOut => return Ok(None),
                // The section's end has switched away, and this thread was woken.
                Look::Waits => {}
            }
        }
    }

    /// Waits, unless the time has come.
    #[cold]
    #[inline(never)]
    pub(crate) fn block(&self, s: &mut State<'m, S>, object: u8, until: u64) -> bool {
        if until != u64::MAX && s.now(self.port) >= until {
            return false;
        }
        s.block(self.me(), object, until, self.port);
        true
    }

    /// The time after so many ticks; never, for the largest number.
    pub(crate) fn after(&self, ticks: u64) -> u64 {
        let now = self.kernel.section(|s| s.now(self.port));
        now.saturating_add(ticks)
    }

    /// Waits until the clock shows `at`. Then this time is stored.
    pub(crate) fn sleep_until(&self, at: u64) -> Result<(), Error> {
        let port = self.port;
        self.wait(NOTHING, at, |s| {
            let now = s.now(port);
            if now < at {
                return Ok(None);
            }
            s.reach(now).map_err(damaged)?;
            Ok(Some(()))
        })?;
        Ok(())
    }

    /// The time. It is stored before the caller knows it.
    pub(crate) fn now_stored(&self) -> Result<u64, Error> {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.reach(now).map_err(|_| Error::Aborted(code::DAMAGED))?;
            Ok(now)
        })
    }

    /// The time, which the step's commit stores.
    pub(crate) fn now_in_step(&self) -> u64 {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.control(self.me()).done |= READS;
            now
        })
    }

    /// Waits until a thread has ended.
    pub(crate) fn join(&self, thread: usize) -> Result<(), Error> {
        let ended = self.wait(AN_END, u64::MAX, |s| Ok(s.stopped(thread)));
        match ended?.unwrap_or(code::FAILED) {
            0 => Ok(()),
            code => Err(Error::Aborted(code)),
        }
    }

    pub(crate) fn yield_now(&self) {
        self.kernel.section(|s| s.next_turn(self.port));
    }

    /// Before a call that may use a number.
    pub(crate) fn before_a_number(&self) -> Result<(), Error> {
        self.before_numbers::<1>()
    }

    /// Before a call that may use `N` sequence numbers. A system whose steps change no words has
    /// nothing to sweep and no mutexes: then there is nothing to do.
    pub(crate) fn before_numbers<const N: usize>(&self) -> Result<(), Error> {
        if const { !changes_words::<S>() } {
            return Ok(());
        }
        let done = self.kernel.section(|s| s.before_numbers::<N>(self.me()));
        done.map_err(|_| Error::Aborted(code::DAMAGED))
    }

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
    fn go_live(&self) -> Result<(), pmem_tx::Error> {
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

    /// The thread has ended.
    #[cold]
    #[inline(never)]
    pub(crate) fn end(&self, r: Result<(), Error>) {
        self.kernel.section(|s| {
            let c = s.control(self.me());
            c.ended = Some(r);
            c.held = 0;
            if c.live {
                s.give_back(self.me());
            }
            s.wake_joiners();
            s.leave(self.me(), self.port);
        });
    }
}

impl<S: System> Outlet for Sys<'_, '_, S> {
    fn live(&mut self) {
        // An error comes again from the first call on a damaged object.
        let _ = self.go_live();
    }
    /// A kernel has no outlet: a program links no code that sends messages.
    fn discards(&self) -> bool {
        true
    }
    #[inline(always)]
    fn sends_nothing() -> bool {
        S::TABLE.outbox_bytes == 0
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
