//! Threads that come on, and those that do not.
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
use crate::kernel::{Kernel, State, Sys};
use crate::port::Port;
use crate::schedule::{bit, each};
use crate::system::System;
use crate::tags;
use nv_replay::Error;
use nv_replay::nvmem::planted;
use nv_replay::nvmem::tagged::TagError;

/// The word with a thread's number of lives.
fn lives_word<S: System>(t: usize) -> u16 {
    const { assert!(S::CONTROL.lives < LIVES, "a system's `lives` are at most 7") };
    tags::all::<S>() - S::THREADS.len() as u16 + t as u16
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
        self.control(t).number = number;
        let state = self.store.get(lives_word::<S>(t))?;
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
        Ok(parked && !planted!("nv-rtos/parked-thread-runs"))
    }

    /// The system starts: the kernel is to look at its threads.
    pub fn watch(&mut self, port: &dyn Port) {
        if S::CONTROL.lives != 0 {
            self.set_timer(Some(self.next_look()), port);
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
            let number = self.control(t).number;
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

    /// Whether each thread has ended, or is parked.
    pub fn is_over(&self) -> bool {
        (0..S::THREADS.len()).all(|t| self.stopped(t).is_some())
    }

    /// How a thread has ended, or why it does not run any more.
    pub fn stopped(&self, t: usize) -> Option<Result<(), Error>> {
        if S::CONTROL.lives != 0 && self.schedule.parked & bit(t) != 0 {
            return Some(Err(Error::Aborted(code::PARKED)));
        }
        self.thread(t)?.ended
    }
}

impl<S: System> Kernel<'_, S> {
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

    /// Whether each thread has ended, or is parked: what a port asks.
    pub fn is_over(&self) -> bool {
        self.section(|s| s.is_over())
    }

    /// Sets a parked thread going again. Whether it was parked. May be called in an interrupt's
    /// handler, too.
    ///
    /// **Power loss**: parked, or not. **Cost**: one settled store, two on 16-bit units.
    /// **Errors**: the word is damaged.
    pub fn unpark(&self, thread: usize, port: &dyn Port) -> Result<bool, Error> {
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
        self.kernel.section(|s| s.progressed(self.me));
    }
}
