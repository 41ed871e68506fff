//! Priorities, aborting a thread, and parking threads that make no progress.
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
//! of a step: its transaction stays open, no other thread sees what it has stored, and the next
//! open undoes it. It must not hold a mutex, because the guarded data may be half done. The kernel
//! knows whether it does when the thread has passed its records, or waits for a mutex after them.
//! Before that, the step that aborts it waits. The thread may lock a mutex between the call and the
//! commit, so the commit checks again, before it changes anything. To stop the thread at the call
//! instead would be a claim, which an undone step has to give back.
//!
//! # Power-on periods without progress
//!
//! ```text
//!  period 1  ....|    the power is cut early: no check
//!  period 2  ........L.....|    thread 1 is live, ready, and has added nothing:  word of 1 <- 1
//!  period 3  ........L..+..|    the same: 2; then it adds a record:                          0
//!  period 4  ..+.....L.....|    it has added something: nothing is stored
//! ```
//!
//! If a step needs more energy than one power-on period gives, it restarts in every period and its
//! thread never advances. So the kernel checks (L) after a number of ticks that the system names,
//! and again after twice as many, after four times: seldom enough to let a machine sleep. The count
//! is stored in advance, because nobody says when the power fails. A thread that waits is not
//! counted, because it may wait for ever; nor is one that has not passed its records.
//!
//! A word on the medium has the count, and the low bits of the last number that the thread had
//! committed then. If an open finds another number, the thread has made progress since: a cut
//! between its record and the store that clears the word does no harm. To clear the word before the
//! record would lose counts. An open parks the threads whose word is at the limit. It does so at
//! the boot only: until the power fails a thread may still make progress, and nothing is in the
//! middle of a step.

use crate::boot::check_state;
use crate::error::code;
use crate::kernel::{Kernel, State, Sys, abort};
use crate::object::Step;
use crate::port::Port;
use crate::ram::{A_THREAD, ABORTED, AN_END, FAILED, Memory, NOTHING, Operation};
use crate::schedule::{bit, each};
use crate::spawn::is_reserved;
use crate::store;
use crate::system::{Changes, Kind, Parks, System, ThreadId};
use nv_replay::nvmem::planted;
use nv_replay::nvmem::tagged::{Stamp, TagError};
use nv_replay::{Error, pmem_tx};

/// The word with a thread's count of boots without progress.
fn lives_word<S: System>(t: usize) -> u16 {
    const { assert!(S::CONTROL.lives < LIVES, "a system's `lives` are at most 7") };
    store::all::<S>() - S::THREADS.len() as u16 + t as u16
}

/// A thread's word.
pub(crate) fn thread_word<S: System>(t: usize) -> u16 {
    S::END.word + t as u16
}

/// `state = LIVES * sequence_bits + lives`, with `lives < LIVES`.
const LIVES: u8 = 8;
const NUMBERS: u32 = 32;
/// The check interval doubles at most this many times.
const LOOKS_MAX: u8 = 30;

impl<S: System> State<'_, S> {
    /// At the boot: whether a thread is parked. `number` is its last one.
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
        // No word is ever stored with a count of 0 and a number. A count may be above the limit: a
        // program may have lowered that.
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

    /// The system starts: the kernel is to check its threads.
    pub fn watch(&mut self, port: &dyn Port) {
        if S::CONTROL.lives != 0 {
            self.set_timer(Some(self.next_look()), port);
        }
    }

    /// A spawned thread begins: the kernel is to check it, too.
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

    /// The time of the next check: never, if each thread has made progress, or was counted.
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

    /// Checks the threads if it is time: counts this boot against those that are ready and have
    /// made no progress. Returns the time of the next check.
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

    // INVARIANT "Only long lives count": the kernel counts a boot against a thread at most once,
    // only after the ticks that the system names, and only if the thread is live and ready and has
    // made no progress; progress since then clears the count, also if a cut comes before that
    // store. Also kept by `progressed` and `stays_parked`.
    // Noticed by: planted `short-life-counted`, `life-not-counted`, `lives-never-reset`,
    // `progress-not-seen-at-boot`, `parked-thread-runs`, `parking-stops-all`.
    fn count_lives(&mut self) {
        each(self.schedule.trying, |t| {
            let live = self.thread(t).is_some_and(|c| c.live);
            if !live || !self.is_ready(t) || planted!("nv-rtos/life-not-counted") {
                return;
            }
            self.schedule.trying &= !bit(t);
            let word = lives_word::<S>(t);
            let number = self.ram.marks().get(t).map_or(0, |m| m.number);
            // The next open finds a word that was damaged since the boot.
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

    /// The reason why a thread does not run any more: 0 if it has ended without an error.
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

    // INVARIANT "A level for each priority": between critical sections the levels have the order of
    // the threads' committed priorities. Also kept by `apply_to_thread`.
    // Noticed by: planted `thread-word-not-stored`, `priority-changes-at-once`.
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
            // Fails only for a word that was damaged since the boot, which the next open finds.
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
        for set in [&mut s.lends, &mut s.joiners, &mut s.trying] {
            *set &= !bit(t);
        }
        if !planted!("nv-rtos/aborted-thread-still-sleeps") {
            s.sleepers &= !bit(t);
        }
        if !planted!("nv-rtos/aborted-thread-stays-parked") {
            s.parked &= !bit(t);
        }
        self.not_ready(t);
        // Mutexes that it owned at the boot and had released before.
        self.give_back(t);
        self.wake_joiners();
    }

    // INVARIANT "Aborted without a mutex": a thread that is aborted holds no mutex at that commit,
    // has no claim after it, waits for nothing, and is ready in no later boot. Also kept by
    // `refuses`, `stop` and `stop_aborted`.
    // Noticed by: planted `aborts-in-replay`, `abort-looks-once`, `aborted-thread-keeps-claims`,
    // `aborted-thread-still-waits`, `aborted-thread-runs-again`, `aborted-thread-is-woken`,
    // `aborted-thread-stays-parked`, `aborted-thread-still-sleeps`.
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
            // `None` here means that it has just got the mutex that it waited for.
            aborts && !matches!(self.may_abort(victim), Ok(Some(_)))
        })
    }

    /// Changes a thread's state with the commit of the step of `me`. In a place without a thread
    /// there is nothing to change, unless this step spawns one.
    fn change(&mut self, me: usize, t: usize, state: u8) -> Result<(), pmem_tx::Error> {
        if self.is_empty(t) && !self.spawns(me, t) {
            return Ok(());
        }
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
    /// commit of the step. The holder of a mutex runs at the highest priority of the threads that
    /// wait for it.
    ///
    /// ```ignore
    /// th.step((), |sys, _, ()| {
    ///     Plan::worker().set_priority(sys, 7)?; // with the commit, and in all boots from then on
    ///     Plan::stuck().abort(sys) // it never runs again
    /// })?;
    /// ```
    ///
    /// **Power loss**: changed if and only if the step has committed. It stays so in all boots.
    /// **Cost**: one store, two on 16-bit units; in RAM a pass over all threads for each. A thread
    /// of a reserved place has it until it ends; in a place without a thread the call does nothing.
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

    /// Aborts another thread, with the commit of the step: it never runs again, in this boot or a
    /// later one. Its step's claims end. No thread sees what its step has changed, and the next
    /// open undoes that; until then, blocks that the step has allocated are in use. Its stack is
    /// not unwound. Its root stays as it is. Aborting a thread that has ended does nothing. If a
    /// cut makes the thread replay, the abort may stop the replay before it reaches its end; its
    /// effects are unchanged.
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
        // Found and noted in one section: between two, another thread may be spawned there.
        let noted = sys.wait(AN_END, u64::MAX, |s| match s.may_abort(victim)? {
            Some(true) => s.change(sys.me(), victim, ABORTED).map(Some),
            Some(false) => Ok(Some(())),
            None => Ok(None),
        });
        noted.map(drop)
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

    /// Whether a thread is parked: in as many counted boots in a row as
    /// [`ThreadControl::lives`](crate::ThreadControl) says, it has added no record and no turn of a
    /// loop. It does not run, the mutexes that it held stay locked, and a thread that joins it gets
    /// [`code::PARKED`](crate::code). The others run.
    ///
    /// A boot counts if it has lasted for [`ThreadControl::ticks`](crate::ThreadControl), and the
    /// thread had passed its records then, was ready or ran, and had made no progress. If it
    /// waited, or had not passed its records, the kernel checks again after twice as many ticks,
    /// and so on. A shorter boot counts for nothing.
    ///
    /// **Power loss**: the count stays; the next boot parks the thread. **Cost**: in a boot without
    /// progress one store, and one when the thread makes progress again; on 16-bit units two each.
    /// No store otherwise.
    pub fn parked(&self, thread: usize) -> bool {
        self.section(|s| thread < S::THREADS.len() && s.schedule.parked & bit(thread) != 0)
    }

    /// Makes a parked thread run again. Returns whether it was parked. May be called in an
    /// interrupt's handler, too.
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
