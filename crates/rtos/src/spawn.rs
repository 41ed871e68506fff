//! Threads that are spawned at run time, in places that the system reserves.
//!
//! ```text
//!  place of worker      free          free         runs, priority 1              free
//!  its word             0             0            2                             0, or 0xfe
//!  boss:    step { worker.spawn(job) }             |                             |
//!  commit             job -> its slot, word <- (boss, n, 0, 2), commit store     |
//!  worker:                                         worker(th, job) ... returns   |
//!  end                                        1 the word <- 0, settled           |
//!                                             2 its records are dropped          |
//!                                             3 who joins it is woken; the place may be used again
//! ```
//!
//! A reserved thread has a body, a stack, a table and a root from the boot on, as any other. Only
//! its word says whether it runs. To spawn it is an operation on that word, as to change a priority
//! is. So it runs in a boot if and only if the step that spawned it has committed, and no record of
//! the spawn is needed.
//!
//! The word is free again before the records are gone, never after: a cut between 1 and 2 finds a
//! free place with records, and the next boot drops them before a thread runs. So a step that
//! spawns there finds none. To set the root anew would be a transaction of another thread's context
//! in the spawning step, so the root stays; a thread's first step sets it where that matters. A
//! thread that was cut before 1 passes its records, and comes to its end again.
//!
//! The argument lies in a slot of the place. It is written when a step has claimed the place, and
//! read while the word says that a thread runs there. The claim is the operation itself: another
//! step sees it among the operations of all threads, and when the step fails, it is gone with them.

use crate::control::thread_word;
use crate::error::code;
use crate::kernel::{Kernel, State, Sys};
use crate::me::Me;
use crate::object::Step;
use crate::port::Port;
use crate::ram::{A_BEGIN, A_THREAD, ABORTED, AN_END, FAILED, Memory, NOTHING, Operation};
use crate::schedule::bit;
use crate::store::MESSAGE_MAX;
use crate::system::{System, ThreadId};
use crate::thread::{InPlace, Thread, open};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nv_replay::nvmem::cross::type_hash;
use nv_replay::nvmem::tagged::Stamp;
use nv_replay::nvmem::{Persist, Plain, planted};
use nv_replay::{Error, Place, pmem_tx};

/// Of an operation on a thread's word: it spawns the thread.
const BEGIN: u8 = 1;

/// Marks the [`ThreadId`] of a reserved place, whose threads get an argument of the type `A`.
pub struct Reserved<A>(PhantomData<fn() -> A>);

/// What the kernel knows of a reserved place.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceSpec {
    /// Bytes of its argument's slot.
    stride: u32,
    /// A hash of what its argument is.
    pub(crate) content: u64,
}

impl PlaceSpec {
    /// That of a place whose threads get an `A`.
    pub const fn of<A: Plain>() -> Self {
        assert!(
            size_of::<A>() <= MESSAGE_MAX,
            "an argument has at most 64 bytes"
        );
        PlaceSpec {
            stride: size_of::<A>().next_multiple_of(4) as u32,
            content: type_hash::<A>("argument"),
        }
    }
}

/// Bytes of the arguments of these places.
#[doc(hidden)]
pub const fn arguments(mut places: &[PlaceSpec]) -> u32 {
    let mut bytes = 0;
    while let [first, rest @ ..] = places {
        bytes += first.stride;
        places = rest;
    }
    bytes
}

/// Whether this is the thread of a reserved place. These are the last ones.
pub(crate) const fn is_reserved<S: System>(t: usize) -> bool {
    !S::PLACES.is_empty() && t + S::PLACES.len() >= S::THREADS.len()
}

/// The offset of a place's argument: after the objects' slots.
fn argument_at<S: System>(t: usize) -> u32 {
    let place = (t + S::PLACES.len()).saturating_sub(S::THREADS.len());
    S::END.slots - arguments(S::PLACES.get(place..).unwrap_or_default())
}

/// Whether a state is one of a place without a thread.
fn is_empty(state: u8) -> bool {
    matches!(state, 0 | FAILED | ABORTED)
}

/// How the last thread of an empty place has ended.
fn end_of(state: u8) -> Result<(), Error> {
    match state {
        FAILED => Err(Error::Aborted(code::FAILED)),
        ABORTED => Err(Error::Aborted(code::ABORTED)),
        _ => Ok(()),
    }
}

impl<S: System> State<'_, S> {
    /// Whether a thread may be spawned in a place.
    pub fn is_free(&self, t: usize) -> bool {
        is_reserved::<S>(t) && self.thread(t).is_some_and(|c| c.waits_for == A_BEGIN)
    }

    /// Whether a place has no thread. It is free then, or the thread is just ending.
    pub fn is_empty(&self, t: usize) -> bool {
        is_reserved::<S>(t) && is_empty(self.state(t))
    }

    /// At the boot: a place without a thread is free.
    pub fn rest_at_boot(&mut self, t: usize) {
        let state = self.state(t);
        let c = self.control(t);
        c.ended = Some(end_of(state));
        c.waits_for = A_BEGIN;
        self.not_ready(t);
        self.schedule.parked &= !bit(t);
        self.progressed(t);
        // What a thread has locked that was there before.
        if !planted!("nv-rtos/free-place-keeps-its-locks") {
            self.give_back(t);
        }
    }

    /// Whether the step of `me` spawns a thread in a place.
    pub fn spawns(&mut self, me: usize, t: usize) -> bool {
        let object = A_THREAD | t as u8;
        let begins = |o: &mut Operation| o.object == object && o.minus == BEGIN;
        self.control(me).operations().any(begins)
    }

    // INVARIANT "One thread in a place": one step at a time claims a reserved place, only while it
    // is free; only that step writes its argument, and not while a thread is there. Also kept by
    // `apply_to_place`.
    // Noticed by: planted `place-given-twice`, `argument-of-the-next-thread`,
    // `place-begins-at-once`, `place-word-not-stored`.
    /// If a place is free and no other step has claimed it: claims it for a thread's step, and
    /// writes the argument of the thread to spawn.
    fn claim_place<A: Plain>(
        &mut self,
        me: usize,
        t: usize,
        argument: &A,
    ) -> Result<Option<()>, pmem_tx::Error> {
        let at = argument_at::<S>(t);
        if planted!("nv-rtos/argument-of-the-next-thread") {
            self.store.write_slot(at, argument);
        }
        let mut claimed = (0..S::THREADS.len()).any(|other| self.spawns(other, t));
        if planted!("nv-rtos/place-given-twice") {
            claimed = false;
        }
        if claimed || !self.is_free(t) {
            return Ok(None);
        }
        let first = S::THREADS.get(t).map_or(0, |s| s.priority);
        self.operate(me, A_THREAD | t as u8, |o| {
            (o.plus, o.minus) = (first + 1, BEGIN)
        })?;
        if planted!("nv-rtos/place-begins-at-once") {
            self.set_state(t, first + 1);
            self.spawned(t);
        }
        self.store.write_slot(at, argument);
        Ok(Some(()))
    }

    /// A step that has failed has claimed a place, or has changed a thread. Whether a thread wakes.
    pub fn give_up_thread(&mut self) -> bool {
        let waits = !S::PLACES.is_empty() && self.schedule.joiners != 0;
        if waits && !planted!("nv-rtos/claim-on-a-place-given-up-unseen") {
            self.wake_joiners();
        }
        waits
    }

    /// A step commits an operation on the word of a place that has no thread. Whether it spawns
    /// one.
    pub fn apply_to_place(&mut self, t: usize, operation: Operation, stamp: Stamp) -> bool {
        if operation.minus != BEGIN {
            // Its thread has ended since the call.
            return false;
        }
        let before = self.state(t);
        self.set_state(t, operation.plus);
        if !planted!("nv-rtos/place-word-not-stored") {
            // Fails only for a word that was damaged since the boot, which the next open finds.
            let word = thread_word::<S>(t);
            let _ = self.store.put(word.into(), stamp, before, operation.plus);
        }
        self.spawned(t);
        true
    }

    fn spawned(&mut self, t: usize) {
        self.control(t).begin();
        self.schedule.trying |= bit(t);
        self.make_levels();
        self.ready(t);
    }

    // INVARIANT "An operation names one thread": what a step has called for the thread of a
    // reserved place is an operation on that thread, and not on a later one there: it is forgotten
    // when the thread ends. Also kept by `State::change`.
    // Noticed by: planted `next-thread-aborted`.
    /// Forgets what open steps have called for the thread of a place: its end comes first. To count
    /// the lives of a place, and to compare at the commit, would take a number that wraps.
    fn forget_calls(&mut self, t: usize) {
        if planted!("nv-rtos/next-thread-aborted") {
            return;
        }
        for c in self.ram.threads_mut() {
            c.forget(A_THREAD | t as u8);
        }
    }

    /// The thread of a place has ended: point 1 of the above.
    fn empty(&mut self, t: usize, failed: bool) {
        self.forget_calls(t);
        let mut state = if failed { FAILED } else { 0 };
        if planted!("nv-rtos/failure-of-a-place-forgotten") {
            state = 0;
        }
        self.set_state(t, state);
        // Fails only for a word that was damaged since the boot, which the next open finds.
        let _ = self.store.put_settled(thread_word::<S>(t), state);
        // No count remains against its next thread.
        self.progressed(t);
    }
}

impl<S: System> Sys<'_, '_, S> {
    /// What the step that has spawned this thread gave to it.
    fn argument<A: Plain>(&self) -> Result<A, Error> {
        let at = argument_at::<S>(self.me());
        let found = self.kernel.section(|s| s.store.read_slot(at));
        found.ok_or(Error::Aborted(code::DAMAGED))
    }

    /// The place is free: waits until a step spawns its next thread. Point 3.
    fn rest(&self, r: Result<(), Error>) {
        let me = self.me();
        self.kernel.section(|s| {
            let c = s.control(me);
            (c.ended, c.held) = (Some(r), 0);
            s.give_back(me);
            s.wake_joiners();
            s.block(me, A_BEGIN, u64::MAX, self.port);
        });
        // Nothing in it fails.
        let _ = self.wait(A_BEGIN, u64::MAX, |s| Ok((!s.is_empty(me)).then_some(())));
    }
}

/// The place of a reserved thread: without records, if no thread is there.
#[doc(hidden)]
pub fn reserved<'c, S: System, R: Persist>(
    kernel: &Kernel<'_, S>,
    me: usize,
    place: Place<'c, R, S::Model>,
) -> Option<Place<'c, R, S::Model>> {
    let free = kernel.section(|s| s.is_free(me));
    if !free || planted!("nv-rtos/free-place-keeps-records") {
        return Some(place);
    }
    let counted = kernel.section(|s| s.before_numbers::<1>(me)).ok();
    let place = counted.and_then(|()| place.start_over().ok());
    if place.is_none() {
        kernel.section(|s| s.control(me).waits_for = NOTHING);
    }
    place
}

// INVARIANT "Free without records": between the boot and the power cut, a reserved place in which a
// thread may be spawned has no records, and its word says that no thread is there. The word is
// freed before records are dropped, and an open drops the rest before threads run. Also kept by
// `reserved`, `State::empty` and `rest_at_boot`.
// Noticed by: planted `old-records-in-a-new-run`, `records-dropped-before-the-end`,
// `free-place-keeps-records`.
/// Runs the threads of a reserved place, one after the other. The function that `system!` generates
/// calls it.
#[doc(hidden)]
#[allow(unsafe_code)]
pub fn run_place<'k, 'm, 'c, S: System, R: Persist, A: Plain>(
    kernel: &'k Kernel<'m, S>,
    port: &'k dyn Port,
    me: usize,
    place: Option<Place<'c, R, S::Model>>,
    cells: S::At<'c>,
    mut body: impl FnMut(&mut Thread<'k, 'm, 'c, S, R>, A) -> Result<(), Error>,
) {
    let sys = Sys {
        kernel,
        port,
        me: Me::new(me),
    };
    let mut at = MaybeUninit::uninit();
    let opened = place.map(|p| open(sys, p.untyped(), cells, &mut at));
    let Some(Ok(())) = opened else {
        return sys.end(Err(Error::Other));
    };
    // SAFETY: invariant "Open in its place": the thread is there.
    let th = InPlace(unsafe { at.assume_init_mut() });
    // SAFETY: invariant "Roots are types only": the place's root is an `R`.
    let th = unsafe { th.0.with_root() };
    loop {
        kernel.section(|s| s.watch_spawned(port));
        let r = sys.argument().and_then(|a| body(th, a));
        let empty = || kernel.section(|s| s.empty(me, r.is_err()));
        let late = planted!("nv-rtos/records-dropped-before-the-end");
        if !late {
            empty();
        }
        let mut over = sys.before_a_number().is_ok();
        if !planted!("nv-rtos/old-records-in-a-new-run") {
            over &= th.rt.start_over().is_ok();
        }
        if late {
            empty();
        }
        if !over {
            // The place is not free until the next boot: the aborted thread's transaction is still
            // open.
            return sys.end(r);
        }
        sys.rest(r);
    }
}

impl<S: System, A: Plain> ThreadId<S, Reserved<A>> {
    /// Spawns a thread in this reserved place, with the commit of the step; waits until no other
    /// thread is there, and no other step is about to spawn one. It runs the function that the
    /// program has named for the place, with this argument, at the priority that the system says;
    /// [`set_priority`](Self::set_priority) in the same step gives it another one. It has no
    /// records, and finds the place's root as the last thread there has left it.
    /// Notifications that were set for the last thread stay set, too.
    ///
    /// When its function returns, the thread has ended, and the place may be used again. If it was
    /// [aborted](Self::abort), the place may be used after the next boot.
    ///
    /// **Power loss**: spawned if and only if the step has committed; then it runs in each boot
    /// until it has ended. A step that waits has changed nothing. **Cost**: the argument and one
    /// store, two on 16-bit units. The end of the thread takes one store, two on 16-bit units, and
    /// two or three to drop its records. **Errors**: [`code::TOO_MANY`].
    pub fn spawn(self, step: &Step<'_, '_, '_, '_, S>, argument: A) -> Result<(), pmem_tx::Error> {
        self.spawn_until(step.token(), u64::MAX, argument).map(drop)
    }

    /// Like [`spawn`](Self::spawn), without waiting. Whether the place was free.
    /// **Errors**: as there.
    pub fn try_spawn(
        self,
        step: &Step<'_, '_, '_, '_, S>,
        argument: A,
    ) -> Result<bool, pmem_tx::Error> {
        self.spawn_until(step.token(), 0, argument)
    }

    fn spawn_until(
        self,
        sys: &Sys<'_, '_, S>,
        until: u64,
        argument: A,
    ) -> Result<bool, pmem_tx::Error> {
        let claim = |s: &mut State<'_, S>| s.claim_place(sys.me(), self.number, &argument);
        Ok(sys.wait(AN_END, until, claim)?.is_some())
    }
}
