//! The scheduler: which thread runs, and which threads wait for what.
//!
//! ```text
//!  ready:  01111    level 2: members 00100    the highest level with a ready member; of these the
//!  turn:   01110    level 1: members 10000    first one whose turn is not over, or if there is
//!                   level 0: members 01011    none, the first one
//!  lends:  00100    thread 2 waits for a mutex: who has it runs instead
//! ```
//!
//! # Waiting for what is no object
//!
//! A handler wakes the thread, which checks again.
//!
//! ```text
//!  thread, in a step               handler
//!    look: nothing there
//!                                    the event is there
//!                                    wake: woken 1
//!    woken? yes: woken 0, look again                      no wake-up is lost
//!    look: nothing there
//!    woken? no: wait
//!                                    the event is there
//!                                    wake: woken 1, ready
//!    woken 0, look again
//! ```
//!
//! Nothing of it is stored: what the thread waits for is on the medium already, and each boot
//! checks before it waits.

use crate::THREADS_MAX;
use crate::kernel::{Isr, State, Sys};
use crate::mutex::asks_for_holders;
use crate::mutex::has_mutexes;
use crate::object::{FOREVER, Step};
use crate::port::Port;
use crate::ram::{A_WAKE, AN_END, Control, Memory, NOTHING, Object};
use crate::system::{Kind, System, ThreadId, members, takes_turns};
use nv_replay::nvmem::planted;
use nv_replay::pmem_tx;

/// No thread.
const NOBODY: u8 = 0xff;

/// Which threads are ready, run and sleep. Equals run in the order of their numbers, from the turn
/// on: a queue for each level would order them by when they woke, and cost a walk.
pub(crate) struct Schedule {
    /// A bit for each thread that is ready, or lends its place.
    pub ready: u8,
    /// A bit for each thread that waits for a mutex. Its bit in `ready` stays.
    pub lends: u8,
    /// A bit for each thread that waits until a time.
    pub sleepers: u8,
    /// Threads that wait for the end of a thread.
    pub joiners: u8,
    /// Threads without progress that this boot has not been counted against; threads with a count;
    /// parked threads. And how often the kernel has checked.
    pub trying: u8,
    pub stalled: u8,
    pub parked: u8,
    pub looks: u8,
    /// Threads that a handler has woken, and that have not checked since.
    pub woken: u8,
    /// The thread that runs, or [`NOBODY`].
    current: u8,
    /// The thread that is first: whose turn it is in its level. It runs, or lends its place to the
    /// one that runs. In a system without mutexes it runs, and this is not kept.
    top: u8,
    /// A bit for each thread whose turn is not over in its level.
    turn: u8,
    /// When the timer is due: not after the first of the sleepers.
    pub timer: Option<u64>,
}

impl Schedule {
    /// Nobody is ready.
    pub const NEW: Self = Schedule {
        ready: 0,
        lends: 0,
        sleepers: 0,
        joiners: 0,
        trying: 0,
        stalled: 0,
        parked: 0,
        looks: 0,
        woken: 0,
        current: NOBODY,
        top: 0,
        turn: 0,
        timer: None,
    };
}

/// The bit of a thread.
pub(crate) fn bit(t: usize) -> u8 {
    1 << (t % 8)
}

/// Calls `f` with each thread whose bit is set.
pub(crate) fn each(mut bits: u8, mut f: impl FnMut(usize)) {
    while bits != 0 {
        f(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

impl<S: System> State<'_, S> {
    pub fn thread(&self, t: usize) -> Option<&Control> {
        self.ram.threads().get(t)
    }

    pub fn control(&mut self, t: usize) -> &mut Control {
        // Never out of range: a thread's number comes from the system.
        &mut self.ram.threads_mut()[t.min(S::THREADS.len() - 1)]
    }

    pub fn object(&mut self, object: u8) -> Option<&mut Object> {
        self.ram.objects_mut().get_mut(usize::from(object))
    }

    // INVARIANT "A bit for each ready thread": a thread's bit is set if and only if it is ready, or
    // waits for a mutex and lends its place. Also kept by `not_ready` and `resume`.
    // Noticed by: planted `lowest-level-first`, `woken-and-still-lends`.
    /// Makes a thread ready.
    pub fn ready(&mut self, t: usize) {
        self.schedule.ready |= bit(t);
    }

    pub fn not_ready(&mut self, t: usize) {
        self.schedule.ready &= !bit(t);
    }

    /// Whether a thread is ready at its own priority.
    pub fn is_ready(&self, t: usize) -> bool {
        self.schedule.ready & !self.schedule.lends & bit(t) != 0
    }

    /// The threads of a level: a constant, where no priority changes.
    #[inline(always)]
    fn members(&self, level: usize) -> u8 {
        if S::CONTROL.change {
            return self.thread(level).map_or(0, |c| c.level);
        }
        let members: &[u8; THREADS_MAX] = const { &members::<S>() };
        members[level % THREADS_MAX]
    }

    /// Thread `t` waits for an object, until the clock shows a time.
    pub fn block(&mut self, t: usize, object: u8, until: u64, port: &dyn Port) {
        self.control(t).waits_for = object;
        let of_end = object == AN_END;
        match self.object(object) {
            Some(o) => o.waiters |= bit(t),
            None if of_end => self.schedule.joiners |= bit(t),
            None => {}
        }
        if until != u64::MAX {
            self.control(t).until = until;
            self.schedule.sleepers |= bit(t);
            self.set_timer_by(until, port);
        }
        if self.kind(object) == Some(Kind::Mutex) {
            self.schedule.lends |= bit(t);
            if const { asks_for_holders::<S>() } && !self.control(t).live {
                // A thread that wants to abort it, or to delete a mutex that it may have, checks
                // again.
                self.wake_joiners();
            }
        } else {
            self.not_ready(t);
        }
        self.reschedule(port);
    }

    /// Makes the threads ready that wait for an object. Whether there was one.
    #[inline(always)]
    pub fn wake(&mut self, object: u8) -> bool {
        match self.object(object) {
            Some(o) if o.waiters != 0 => {
                let waiters = core::mem::take(&mut o.waiters);
                self.wake_all(waiters)
            }
            _ => false,
        }
    }

    /// Makes threads ready, which do not wait any more.
    #[inline(never)]
    pub fn wake_all(&mut self, waiters: u8) -> bool {
        self.wake_now(waiters)
    }

    /// The same, where it is done most often.
    #[inline(always)]
    pub fn wake_now(&mut self, waiters: u8) -> bool {
        if planted!("nv-rtos/missed-wake-up") {
            return false;
        }
        self.resume(waiters);
        true
    }

    #[inline(always)]
    fn resume(&mut self, threads: u8) {
        if has_mutexes::<S>() && !planted!("nv-rtos/woken-and-still-lends") {
            self.schedule.lends &= !threads;
        }
        self.schedule.sleepers &= !threads;
        self.schedule.ready |= threads;
    }

    /// Makes those ready that wait for the end of a thread.
    pub fn wake_joiners(&mut self) {
        let joiners = core::mem::take(&mut self.schedule.joiners);
        if !planted!("nv-rtos/end-wakes-nobody") {
            self.resume(joiners);
        }
    }

    /// Thread `t` has ended.
    pub fn leave(&mut self, t: usize, port: &dyn Port) {
        self.not_ready(t);
        self.control(t).waits_for = NOTHING;
        port.ended(t);
        self.schedule.current = NOBODY;
        self.reschedule(port);
        if self.schedule.current == NOBODY {
            port.switch(None);
        }
    }

    /// A time slice has ended.
    pub fn end_slice(&mut self, port: &dyn Port) {
        if self.schedule.current != NOBODY {
            self.next_turn(port);
        }
    }

    /// The thread that runs lets the next one of its level run: of the one from which it has
    /// inherited its place, if it has.
    pub fn next_turn(&mut self, port: &dyn Port) {
        let top = if has_mutexes::<S>() {
            self.schedule.top
        } else {
            self.schedule.current
        };
        self.schedule.turn &= !bit(top.into());
        self.reschedule(port);
    }

    /// The time is `now`: makes the sleepers ready that are due, and sets the timer to the next.
    pub fn timer_due(&mut self, now: u64, port: &dyn Port) {
        let (mut due, mut next) = (0, self.look(now));
        each(self.schedule.sleepers, |t| {
            let until = self.control(t).until;
            if until <= now {
                due |= bit(t);
            } else {
                next = next.min(until);
            }
        });
        if due != 0 {
            // A clock that is damaged stops the sleepers: each finds it again itself.
            let _ = self.reach(now);
        }
        each(due, |t| {
            let object = self.control(t).waits_for;
            if let Some(o) = self.object(object) {
                o.waiters &= !bit(t);
            }
            self.schedule.joiners &= !bit(t);
        });
        self.resume(due);
        self.set_timer((next != u64::MAX).then_some(next), port);
    }

    /// The timer is to be due at a time, if it is not before.
    pub fn set_timer_by(&mut self, at: u64, port: &dyn Port) {
        if self.schedule.timer.is_none_or(|timer| at < timer) {
            self.set_timer(Some(at), port);
        }
    }

    pub fn set_timer(&mut self, at: Option<u64>, port: &dyn Port) {
        self.schedule.timer = at;
        port.set_timer(at.map(|at| at.saturating_sub(self.base)));
    }

    // INVARIANT "Priority at each commit": when a step commits, no thread of a higher priority is
    // ready: each wake is followed by this.
    // Noticed by: `Event::Commit` in the test kit; planted `no-preemption-after-a-commit`.
    /// Switches to the thread that is to run now: of those that are ready, or wait for a mutex
    /// whose holder is, the first of the highest level. Where it waits, the holder.
    #[inline(never)]
    pub fn reschedule(&mut self, port: &dyn Port) {
        #[cfg(feature = "instrument")]
        self.tell(port);
        for level in 0..S::THREADS.len() {
            let top = if planted!("nv-rtos/lowest-level-first") {
                level
            } else {
                S::THREADS.len() - 1 - level
            };
            let ready = self.schedule.ready & self.members(top);
            if ready == 0 {
                continue;
            }
            if has_mutexes::<S>() && self.schedule.lends & ready != 0 {
                return self.reschedule_lender(port);
            }
            let first = self.begin_turn(top, ready);
            return self.switch(first, port);
        }
        self.switch(NOBODY, port)
    }

    /// Of these threads of one level, the first one whose turn is not over, or the first one. They
    /// are not none.
    #[inline(always)]
    fn first(&self, ready: u8) -> u8 {
        let mut first = ready;
        if takes_turns::<S>() && self.schedule.turn & ready != 0 {
            first &= self.schedule.turn;
        }
        first.trailing_zeros() as u8
    }

    /// It is the turn of this one.
    #[inline(always)]
    fn begin_turn(&mut self, level: usize, ready: u8) -> u8 {
        let first = self.first(ready);
        if takes_turns::<S>() {
            let members = self.members(level);
            let later = u8::MAX << (first % 8);
            self.schedule.turn = self.schedule.turn & !members | later & members;
        }
        if has_mutexes::<S>() {
            self.schedule.top = first;
        }
        first
    }

    #[inline(always)]
    fn switch(&mut self, next: u8, port: &dyn Port) {
        if next != self.schedule.current {
            self.schedule.current = next;
            port.switch((next != NOBODY).then_some(next.into()));
        }
    }

    /// The same, where the first thread waits for a mutex.
    #[cold]
    #[inline(never)]
    fn reschedule_lender(&mut self, port: &dyn Port) {
        for top in (0..S::THREADS.len()).rev() {
            let mut left = self.schedule.ready & self.members(top);
            while left != 0 {
                let first = self.first(left);
                if let Some(runs) = self.runs_for(first.into()) {
                    self.begin_turn(top, left);
                    return self.switch(runs, port);
                }
                left &= !bit(first.into());
            }
        }
        self.switch(NOBODY, port)
    }

    /// Priority inheritance: follows the chain of mutex holders from `t` to a thread that can run.
    fn runs_for(&self, t: usize) -> Option<u8> {
        let mut t = t;
        for _ in S::THREADS {
            if self.is_ready(t) {
                return Some(t as u8);
            }
            if self.schedule.lends & bit(t) == 0 || planted!("nv-rtos/priority-not-inherited") {
                return None;
            }
            let object = usize::from(self.thread(t)?.waits_for);
            let holder = self.ram.objects().get(object)?.taken;
            t = usize::from(holder.checked_sub(1)?);
        }
        None
    }

    /// The system starts: no port has switched to what a handler may have picked before.
    pub fn begin(&mut self, port: &dyn Port) {
        if !planted!("nv-rtos/handler-before-the-start") {
            self.schedule.current = NOBODY;
        }
        self.reschedule(port);
    }

    /// Reports to a test kit which threads are ready.
    #[cfg(feature = "instrument")]
    fn tell(&self, port: &dyn Port) {
        for thread in 0..S::THREADS.len() {
            let at = self.is_ready(thread).then_some(self.priority(thread));
            port.observe(crate::port::Event::Ready { thread, at });
            if crate::spawn::is_reserved::<S>(thread) {
                let free = self.is_free(thread);
                port.observe(crate::port::Event::Free { thread, free });
            }
            if self.is_aborted(thread) && !self.is_free(thread) {
                port.observe(crate::port::Event::Aborted { thread });
            }
        }
    }

    /// Reports to a test kit that a step commits, and at which priority.
    #[cfg(feature = "instrument")]
    pub fn tell_commit(&mut self, port: &dyn Port) {
        self.tell(port);
        let top = if has_mutexes::<S>() {
            self.schedule.top
        } else {
            self.schedule.current
        };
        let priority = self.priority(top.into());
        port.observe(crate::port::Event::Commit { priority });
    }

    fn kind(&self, object: u8) -> Option<Kind> {
        S::OBJECTS.get(usize::from(object)).map(|s| s.kind)
    }
}

impl<S: System> State<'_, S> {
    /// Whether thread `t` was woken. Forgets it.
    fn was_woken(&mut self, t: usize) -> Option<()> {
        let woken = self.schedule.woken & bit(t);
        self.schedule.woken &= !bit(t);
        (woken != 0).then_some(())
    }
}

impl<S: System> ThreadId<S> {
    /// Wakes the thread, which calls `look` of [`wait_until`] again. If it does not wait, its next
    /// wait calls `look` twice. The handler calls this when the event that the thread waits for is
    /// posted.
    ///
    /// **Power loss**: nothing is stored; each boot checks before it waits. **Cost**: no store, a
    /// bounded number of instructions.
    pub fn wake_from_isr(self, isr: &Isr<'_, '_, S>) {
        let t = self.number();
        isr.kernel.section(|s| {
            let waits = s.control(t).waits_for == A_WAKE && !s.is_ready(t);
            if !waits && planted!("nv-rtos/wake-before-the-wait-is-lost") {
                return;
            }
            s.schedule.woken |= bit(t);
            if waits {
                s.wake_all(bit(t));
                s.reschedule(isr.port);
            }
        });
    }
}

/// Calls `look` until it finds something. Between two calls the thread waits until an interrupt's
/// handler [wakes](ThreadId::wake_from_isr) it.
///
/// `look` may find nothing though the thread was woken. It is called outside of critical sections.
///
/// **Power loss**: a step that waits has changed nothing. **Cost**: no store. **Errors**: those of
/// `look`.
pub fn wait_until<S: System, O>(
    step: &Step<'_, '_, '_, '_, S>,
    look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<O, pmem_tx::Error> {
    let mut look = look;
    loop {
        if let Some(found) = until(step.token(), FOREVER, &mut look)? {
            return Ok(found);
        }
    }
}

/// Like [`wait_until`], for at most so many ticks.
///
/// **Power loss**: the time counts anew. **Cost**: no store; if the time is over, those of the
/// clock. **Errors**: as there.
pub fn wait_until_timeout<S: System, O>(
    step: &Step<'_, '_, '_, '_, S>,
    ticks: u64,
    look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<Option<O>, pmem_tx::Error> {
    let sys = step.token();
    until(sys, sys.after(ticks), look)
}

// INVARIANT "No wake-up is lost": a thread that waits for what a handler makes does so only if no
// handler has woken it since its last check: `ThreadId::wake_from_isr` sets a bit for each thread,
// which is taken in the section in which the thread begins to wait.
// Noticed by: planted `wake-before-the-wait-is-lost`.
fn until<S: System, O>(
    sys: &Sys<'_, '_, S>,
    time: u64,
    mut look: impl FnMut() -> Result<Option<O>, pmem_tx::Error>,
) -> Result<Option<O>, pmem_tx::Error> {
    loop {
        if let Some(found) = look()? {
            return Ok(Some(found));
        }
        if sys
            .wait(A_WAKE, time, |s| Ok(s.was_woken(sys.me())))?
            .is_none()
        {
            // It may have come with the end of the time.
            return look();
        }
    }
}
