//! What threads do with each other, and what the kernel does with threads that do not come on.
//!
//! # Priorities, and the end of a thread from outside
//!
//! ```text
//!  boss:    step { worker.set_priority(7); victim.abort(); GO.give() }
//!  commit   words of worker and victim <- (boss, n, old, new), GO's, then the commit store
//!           in RAM: levels anew; the victim has no claim, waits for nothing and never runs again
//! ```
//!
//! Both are operations of a step on a thread's word. A thread that is aborted may be in the middle
//! of a step: its transaction stays open, nothing it has stored is seen by anybody, and the next
//! open undoes it. It must not hold a mutex, because what that guards may be half done. Whether it
//! does is known when it has passed its records, or waits for a mutex behind them. Before that, the
//! step that aborts it waits. It may lock one between the call and the commit, so the commit looks
//! again, before it changes anything.
//!
//! # Lives without progress
//!
//! ```text
//!  life 1    ....|    the power is cut early: nobody looks
//!  life 2    ........L.....|    thread 1 is live, ready, and has added nothing:  word of 1 <- 1
//!  life 3    ........L..+..|    the same: 2; then it adds a record:                          0
//!  life 4    ..+.....L.....|    it has added something: nothing is stored
//! ```
//!
//! A step that needs more than a life has begins anew in each life, and its thread never comes on.
//! So the kernel looks after a number of ticks that the system names, and again after twice as
//! many, after four times: seldom enough to let a machine sleep. A thread that waits is not
//! counted, nor one that has not passed its records.
//!
//! A word on the medium has the number of lives, and the end of the last number that the thread had
//! committed then. If an open finds that the thread has another one, it has come on since: a cut
//! between its record and the store that clears the word changes nothing. An open parks the threads
//! for which the word is at the limit.

use crate::error::code;
use crate::kernel::{Kernel, State, Sys, abort, check_state};
use crate::objects::Step;
use crate::port::Port;
use crate::ram::{A_THREAD, ABORTED, AN_END, FAILED, Memory, NOTHING, Operation};
use crate::schedule::{bit, each};
use crate::spawn::is_reserved;
use crate::system::{Changes, Kind, Parks, System, ThreadId};
use crate::tags;
use nv_replay::nvmem::planted;
use nv_replay::nvmem::tagged::{Stamp, TagError};
use nv_replay::{Error, pmem_tx};

/// The word with a thread's number of lives.
fn lives_word<S: System>(t: usize) -> u16 {
    const { assert!(S::CONTROL.lives < LIVES, "a system's `lives` are at most 7") };
    tags::all::<S>() - S::THREADS.len() as u16 + t as u16
}

/// A thread's word.
pub(crate) fn thread_word<S: System>(t: usize) -> u16 {
    S::END.word + t as u16
}

/// A word's state is a number of lives below this one, and as often this one as the number says.
const LIVES: u8 = 8;
const NUMBERS: u32 = 32;
/// It does not look later than after so many times twice the ticks.
const LOOKS_MAX: u8 = 30;

impl<S: System> State<'_, S> {
    /// At the boot: whether a thread is parked, whose last number this is.
    pub fn stays_parked(&mut self, t: usize, number: u32) -> Result<bool, TagError> {
        if S::CONTROL.lives == 0 {
            return Ok(false);
        }
        let number = (number % NUMBERS) as u8;
        if let Some(mark) = self.ram.marks_mut().get_mut(t) {
            mark.number = number;
        }
        let word = lives_word::<S>(t);
        let state = self.store.get(word)?;
        // A number without a life is never stored. A program may have lowered its limit.
        check_state(word, state == 0 || state % LIVES != 0)?;
        let mut same = state / LIVES == number;
        if planted!("nv-rtos/progress-not-seen-at-boot") {
            same = true;
        }
        let s = &mut self.schedule;
        s.trying |= bit(t);
        if state != 0 {
            s.stalled |= bit(t);
        }
        if same && state % LIVES >= S::CONTROL.lives {
            s.parked |= bit(t);
        }
        let parked = s.parked & bit(t) != 0;
        if s.parked != 0 && planted!("nv-rtos/parking-stops-all") {
            return Ok(true);
        }
        if parked && planted!("nv-rtos/parked-thread-runs") {
            return Ok(false);
        }
        Ok(parked)
    }

    /// The system starts: the kernel is to look at its threads.
    pub fn watch(&mut self, port: &dyn Port) {
        if S::CONTROL.lives != 0 {
            self.set_timer(Some(self.next_look()), port);
        }
    }

    /// A spawned thread begins: the kernel is to look at it, too.
    pub fn watch_spawned(&mut self, port: &dyn Port) {
        if S::CONTROL.lives == 0 || planted!("nv-rtos/spawned-thread-not-watched") {
            return;
        }
        let now = self.now(port);
        while now >= self.next_look() {
            self.schedule.looks += 1;
        }
        let next = self.next_look();
        if next != u64::MAX {
            self.set_timer_by(next, port);
        }
    }

    /// When it looks next: never, if each thread has added something, or was counted.
    fn next_look(&self) -> u64 {
        if self.schedule.trying == 0 || self.schedule.looks > LOOKS_MAX {
            return u64::MAX;
        }
        let mut ticks = u64::from(S::CONTROL.ticks);
        if planted!("nv-rtos/short-life-counted") {
            ticks = 1;
        }
        let after = ticks.max(1) << self.schedule.looks;
        self.base.saturating_add(after)
    }

    /// Looks at the threads if it is time: counts the life against those that are ready and have
    /// added nothing. Returns when it looks next.
    #[inline]
    pub fn look(&mut self, now: u64) -> u64 {
        if S::CONTROL.lives == 0 {
            return u64::MAX;
        }
        if now >= self.next_look() {
            self.count_lives();
            while now >= self.next_look() {
                self.schedule.looks += 1;
            }
        }
        self.next_look()
    }

    fn count_lives(&mut self) {
        each(self.schedule.trying, |t| {
            let live = self.thread(t).is_some_and(|c| c.live);
            if !live || !self.is_ready(t) || planted!("nv-rtos/life-not-counted") {
                return;
            }
            self.schedule.trying &= !bit(t);
            let word = lives_word::<S>(t);
            let number = self.ram.marks().get(t).map_or(0, |m| m.number);
            // A word that was damaged in this life is found by the next open.
            let Ok(state) = self.store.get(word) else {
                return;
            };
            let before = if state / LIVES == number {
                state % LIVES
            } else {
                0
            };
            self.schedule.stalled |= bit(t);
            let lives = (before + 1).min(LIVES - 1);
            let _ = self.store.put_settled(word, number * LIVES + lives);
        });
    }

    /// A thread has added a record or a turn.
    #[inline(always)]
    pub fn progressed(&mut self, t: usize) {
        if S::CONTROL.lives == 0 {
            return;
        }
        self.schedule.trying &= !bit(t);
        if self.schedule.stalled & bit(t) != 0 && !planted!("nv-rtos/lives-never-reset") {
            self.forget_lives(t);
        }
    }

    #[cold]
    #[inline(never)]
    fn forget_lives(&mut self, t: usize) {
        self.schedule.stalled &= !bit(t);
        let _ = self.store.put_settled(lives_word::<S>(t), 0);
    }

    /// Why a thread does not run any more: 0 if it has ended without an error.
    pub fn stopped(&self, t: usize) -> Option<u16> {
        if S::CONTROL.lives != 0 && self.schedule.parked & bit(t) != 0 {
            return Some(code::PARKED);
        }
        if self.is_aborted(t) {
            return Some(code::ABORTED);
        }
        let ended = self.thread(t)?.ended?;
        Some(if ended.is_ok() { 0 } else { code::FAILED })
    }

    // Words of threads.

    /// At the boot: a thread's state. Each is one that it may have: a program may have changed the
    /// priorities of its threads.
    pub fn load_thread(&mut self, t: usize) -> Result<(), TagError> {
        if S::CONTROL.change {
            let state = self.store.get(thread_word::<S>(t))?;
            self.set_state(t, state);
        }
        Ok(())
    }

    /// At the boot: those that were aborted do not run, and the others have their priorities.
    pub fn stop_aborted(&mut self) {
        if !S::CONTROL.change {
            return;
        }
        for t in 0..S::THREADS.len() {
            if self.is_aborted(t) && !planted!("nv-rtos/aborted-thread-runs-again") {
                self.stop(t);
            }
            if self.is_empty(t) {
                self.rest_at_boot(t);
            }
        }
        self.make_levels();
    }

    pub fn is_aborted(&self, t: usize) -> bool {
        S::CONTROL.change && self.state(t) == ABORTED
    }

    /// What a thread's word says.
    pub fn state(&self, t: usize) -> u8 {
        self.ram.marks().get(t).map_or(0, |m| m.state)
    }

    pub fn set_state(&mut self, t: usize, state: u8) {
        if let Some(mark) = self.ram.marks_mut().get_mut(t) {
            mark.state = state;
        }
    }

    /// A thread's own priority.
    pub fn priority(&self, t: usize) -> u8 {
        let first = S::THREADS.get(t).map_or(0, |s| s.priority);
        match self.state(t) {
            0 | FAILED | ABORTED => first,
            state => state - 1,
        }
    }

    /// Makes the levels of all threads from their priorities.
    pub fn make_levels(&mut self) {
        for c in self.ram.threads_mut() {
            c.level = 0;
        }
        for t in 0..S::THREADS.len() {
            let own = self.priority(t);
            let lower = |p: &u8| (0..S::THREADS.len()).any(|t| self.priority(t) == *p);
            let level = (0..own).filter(lower).count();
            self.control(level).level |= bit(t);
        }
    }

    /// A step commits a new state of a thread.
    #[cold]
    #[inline(never)]
    pub fn apply_to_thread(&mut self, operation: Operation, stamp: Stamp) -> bool {
        let t = usize::from(operation.object & !A_THREAD);
        if self.is_empty(t) {
            return self.apply_to_place(t, operation, stamp);
        }
        let (before, after) = (self.state(t), operation.plus);
        let aborts = after == ABORTED;
        if before == ABORTED || (aborts && self.control(t).ended.is_some()) {
            return false;
        }
        self.set_state(t, after);
        if !planted!("nv-rtos/thread-word-not-stored") {
            // Refused only for a word that was damaged in this life, which the next open finds.
            let _ = self
                .store
                .put(thread_word::<S>(t).into(), stamp, before, after);
        }
        if aborts {
            self.stop(t);
        }
        self.make_levels();
        true
    }

    /// An aborted thread does not run any more: its claims end, it waits for nothing.
    fn stop(&mut self, t: usize) {
        if !planted!("nv-rtos/aborted-thread-keeps-claims") {
            self.give_up(t);
        }
        let c = self.control(t);
        let object = core::mem::replace(&mut c.waits_for, NOTHING);
        c.held = 0;
        c.ended = Some(Err(Error::Aborted(code::ABORTED)));
        let mut waiter = bit(t);
        if planted!("nv-rtos/aborted-thread-still-waits") {
            waiter = 0;
        }
        if let Some(o) = self.object(object) {
            o.waiters &= !waiter;
        }
        let s = &mut self.schedule;
        for set in [&mut s.lends, &mut s.sleepers, &mut s.joiners, &mut s.trying] {
            *set &= !bit(t);
        }
        self.not_ready(t);
        // What it owned at the boot, and had given back before.
        self.give_back(t);
        self.wake_joiners();
    }

    /// Whether a thread can be aborted: `None` if that is not known yet, `false` if it has ended.
    /// **Errors**: it holds a mutex.
    fn may_abort(&mut self, t: usize) -> Result<Option<bool>, pmem_tx::Error> {
        let Some(&c) = self.thread(t) else {
            return Ok(Some(false));
        };
        if c.ended.is_some() {
            return Ok(Some(false));
        }
        let parked = S::CONTROL.lives != 0 && self.schedule.parked & bit(t) != 0;
        let known = parked || c.live || self.schedule.lends & bit(t) != 0;
        if !known && !planted!("nv-rtos/aborts-in-replay") {
            return Ok(None);
        }
        let holds = |(object, o): (u8, &crate::ram::Object)| {
            let its = o.kind == Kind::Mutex && usize::from(o.taken) == t + 1;
            its && (parked || c.hold(object).is_some()) && !self.is_deleted(object)
        };
        if (0..).zip(self.ram.objects()).any(holds) {
            return Err(abort(code::REFUSED));
        }
        Ok(Some(true))
    }

    /// Before a commit: whether a thread that the step of `t` aborts holds a mutex by now.
    #[inline]
    pub fn refuses(&mut self, t: usize) -> bool {
        let mut all = self.control(t).operations();
        let aborts = all.any(|o| o.object & A_THREAD != 0 && o.plus == ABORTED);
        drop(all);
        aborts && self.holds_by_now(t)
    }

    #[cold]
    #[inline(never)]
    fn holds_by_now(&mut self, t: usize) -> bool {
        if planted!("nv-rtos/abort-looks-once") {
            return false;
        }
        (0..S::THREADS.len()).any(|victim| {
            let object = A_THREAD | victim as u8;
            let aborts = self
                .control(t)
                .operations()
                .any(|o| o.object == object && o.plus == ABORTED);
            // If it is not known any more, it has just got the mutex that it waited for.
            aborts && !matches!(self.may_abort(victim), Ok(Some(_)))
        })
    }

    /// Changes a thread's state with the commit of the step of `me`.
    fn change(&mut self, me: usize, t: usize, state: u8) -> Result<(), pmem_tx::Error> {
        if planted!("nv-rtos/priority-changes-at-once") {
            self.set_state(t, state);
        }
        self.operate(me, A_THREAD | t as u8, |o| {
            if o.plus != ABORTED {
                o.plus = state;
            }
        })
    }
}

impl<S: System, A> ThreadId<S, A> {
    /// Gives a thread another priority, from 0 to 252 or the one that the system says, with the
    /// commit of the step. Who holds a mutex that a thread of a higher priority waits for runs at
    /// that one.
    ///
    /// **Power loss**: changed if and only if the step has committed. It stays so in all lives.
    /// **Cost**: one store, two on 16-bit units; in RAM a pass over all threads for each.
    /// A thread of a reserved place has it until it ends.
    /// **Errors**: the step ends with [`code::REFUSED`] for a higher one; [`code::TOO_MANY`].
    pub fn set_priority(
        self,
        step: &Step<'_, '_, '_, '_, S>,
        priority: u8,
    ) -> Result<(), pmem_tx::Error>
    where
        S: Changes,
    {
        const {
            assert!(
                S::CONTROL.change,
                "the system has no `change: true` in its block `control`"
            )
        };
        let own = S::THREADS.get(self.number).map(|s| s.priority);
        let state = match priority {
            p if Some(p) == own && !is_reserved::<S>(self.number) => 0,
            p if p < FAILED - 1 => p + 1,
            _ => return Err(abort(code::REFUSED)),
        };
        let sys = step.token();
        sys.kernel
            .section(|s| s.change(sys.me(), self.number, state))
    }

    /// Aborts another thread, with the commit of the step: it never runs again, in no life. What
    /// its step has claimed is there again. What its step has changed nobody sees, and the next
    /// open undoes it; until then, what the step has allocated is in use. Its stack is not unwound.
    /// Its root stays as it is. If it has ended already, nothing happens; after a cut it may be
    /// aborted on its way there, when it has done all that it had done before.
    ///
    /// The call waits until the thread has passed its records, if it has not.
    ///
    /// **Power loss**: aborted if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units; in RAM a pass over the objects. The next open begins a run without records for
    /// it. **Errors**: the step ends with [`code::REFUSED`] if the thread holds a mutex, if it is
    /// the running one, or if this step spawns it; [`code::TOO_MANY`].
    pub fn abort(self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error>
    where
        S: Changes,
    {
        const {
            assert!(
                S::CONTROL.change,
                "the system has no `change: true` in its block `control`"
            )
        };
        let sys = step.token();
        let victim = self.number;
        let spawned = || sys.kernel.section(|s| s.spawns(sys.me(), victim));
        if victim == sys.me() || (is_reserved::<S>(victim) && spawned()) {
            return Err(abort(code::REFUSED));
        }
        let found = sys.wait(AN_END, u64::MAX, |s| s.may_abort(victim))?;
        if found != Some(true) {
            return Ok(());
        }
        sys.kernel.section(|s| s.change(sys.me(), victim, ABORTED))
    }
}

impl<S: System> Kernel<'_, S> {
    pub(crate) fn is_aborted(&self, t: usize) -> bool {
        self.section(|s| s.is_aborted(t))
    }

    /// When the kernel's timer is due, in ticks since the boot: the first instant at which a thread
    /// may become ready without an interrupt. `None`: it waits for an interrupt only. For a port
    /// that has no thread to run.
    pub fn next_deadline(&self) -> Option<u64> {
        self.section(|s| {
            let at = s.schedule.timer.filter(|at| *at != u64::MAX)?;
            Some(at.saturating_sub(s.base))
        })
    }

    /// A thread's own priority, as the last commit has left it. 0 if there is no such thread.
    pub fn priority(&self, thread: usize) -> u8 {
        self.section(|s| s.priority(thread))
    }

    /// Whether a thread is parked: in so many lives in a row as
    /// [`ThreadControl::lives`](crate::ThreadControl) says, it has added no record and no turn of a
    /// loop. It does not run, the mutexes that it held stay locked, and who joins it gets
    /// [`code::PARKED`](crate::code). The others run.
    ///
    /// A life counts if it has lasted for [`ThreadControl::ticks`](crate::ThreadControl), and the
    /// thread had passed its records then, was ready or ran, and had added nothing. If it waited,
    /// or had not passed its records, the kernel looks again after twice as many ticks, and so on.
    /// A shorter life counts for nothing.
    ///
    /// **Power loss**: the count stays; the next boot parks the thread. **Cost**: in a life without
    /// progress one store, and one when the thread comes on again; on 16-bit units two each. No
    /// store otherwise.
    pub fn parked(&self, thread: usize) -> bool {
        self.section(|s| thread < S::THREADS.len() && s.schedule.parked & bit(thread) != 0)
    }

    /// Sets a parked thread going again. Whether it was parked. May be called in an interrupt's
    /// handler, too.
    ///
    /// **Power loss**: parked, or not. **Cost**: one settled store, two on 16-bit units.
    /// **Errors**: the word is damaged.
    pub fn unpark(&self, thread: usize, port: &dyn Port) -> Result<bool, Error>
    where
        S: Parks,
    {
        if !self.parked(thread) {
            return Ok(false);
        }
        self.section(|s| {
            let done = s.store.put_settled(lives_word::<S>(thread), 0);
            done.map_err(|_| Error::Aborted(code::DAMAGED))?;
            let m = &mut s.schedule;
            m.parked &= !bit(thread);
            m.stalled &= !bit(thread);
            m.trying |= bit(thread);
            let next = s.next_look();
            s.set_timer_by(next, port);
            s.ready(thread);
            s.reschedule(port);
            Ok(true)
        })
    }
}

impl<S: System> Sys<'_, '_, S> {
    /// This thread has added a record.
    pub(crate) fn progressed(&self) {
        self.kernel.section(|s| s.progressed(self.me()));
    }
}
