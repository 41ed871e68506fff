//! Software timers.
//!
//! ```text
//!  BLINK.start(step)   an operation; with the commit     deadline -> the slot that does not count
//!                                                        word <- active, that slot
//!  expired(step)       waits for the earliest deadline   nothing
//!                      of all timers, and claims it
//!                      with the commit: one-shot         word <- inactive
//!                                       periodic         deadline + period -> the other slot
//!                                                        word <- active, that slot
//! ```
//!
//! A timer has a word and two slots for its deadline. The word says which one counts. So a deadline
//! is written where a cut does not find it, and becomes valid with the word, in the commit's
//! section.
//!
//! Steps of several threads may have operations on one timer. Each sets its state, so the last
//! commit counts. An expiry is different: it belongs to one start. If another step has started or
//! stopped the timer since it was claimed, its commit leaves the timer alone.
//!
//! A handler starts or stops a timer as a step would that commits at once: the deadline into the
//! slot that does not count, a fence, and the word, settled. The time of the call is that of the
//! start, and the work is bounded. A command to a daemon, as in FreeRTOS, would need a queue with
//! room.
//!
//! `State::apply` treats a timer like an event group: the operation clears all flags and sets new
//! ones. `State::arm` runs just before it, when the time of the commit is known, and decides which.
//! Until then `plus` of the operation says what the step has asked for.

use crate::error::code;
use crate::kernel::{Isr, State, Sys, abort};
use crate::made::{Always, Exists, has_places};
use crate::object::Step;
use crate::port::Port;
use crate::ram::{Memory, NOTHING, Object, Operation, READS};
use crate::system::{Kind, Layout, ObjectSpec, System};
use core::marker::PhantomData;
use nv_replay::nvmem::planted;
use nv_replay::{Error, pmem_tx};

/// What an operation does with a timer.
mod to {
    pub const START: u8 = 1;
    pub const STOP: u8 = 2;
    /// It has expired.
    pub const EXPIRE: u8 = 3;
    /// It has expired, and another step has started or stopped it since.
    pub const NOTHING: u8 = 4;
}

/// All bits of a state: the operation sets it.
const ALL: u8 = 0xff;
/// Bytes of a deadline.
const DEADLINE: u32 = 8;
/// And of a timer's slots.
pub(crate) const SLOTS: u32 = 2 * DEADLINE;

/// What the kernel knows of a timer.
#[derive(Clone, Copy)]
pub(crate) struct TimerSpec {
    /// Where its deadlines are.
    slots: u32,
    period: u32,
    periodic: bool,
}

impl TimerSpec {
    fn of(spec: &ObjectSpec) -> Option<Self> {
        (spec.timer != 0).then_some(TimerSpec {
            slots: (spec.content >> 32) as u32,
            period: spec.content as u32,
            periodic: spec.timer > 1,
        })
    }

    fn slot(&self, n: u8) -> u32 {
        self.slots + u32::from(n % 2) * DEADLINE
    }
}

/// A software timer of the system `S`.
///
/// Steps start and stop it; a thread that calls [`expired`] in its steps, the timers' daemon,
/// handles its end. A program without such a thread has timers that never end.
pub struct Timer<S, G = Always> {
    at: Layout,
    timer: TimerSpec,
    exists: G,
    _s: PhantomData<fn() -> S>,
}

/// The timer that has expired: see [`Timer::is`].
pub struct TimerId<S> {
    object: u8,
    /// If it was made at run time: the state of its place's word.
    made: u8,
    _s: PhantomData<fn() -> S>,
}

impl<S> Clone for TimerId<S> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<S> Copy for TimerId<S> {}

impl<S: System> Timer<S> {
    #[doc(hidden)]
    pub const fn one_shot(at: Layout, period: u32) -> Self {
        Self::new(at, period, false)
    }
    #[doc(hidden)]
    pub const fn periodic(at: Layout, period: u32) -> Self {
        Self::new(at, period, true)
    }
    const fn new(at: Layout, period: u32, periodic: bool) -> Self {
        assert!(period > 0, "a timer's period is at least one tick");
        Timer {
            at,
            timer: TimerSpec {
                slots: at.slots,
                period,
                periodic,
            },
            exists: Always,
            _s: PhantomData,
        }
    }
    #[doc(hidden)]
    pub const fn spec(&self) -> ObjectSpec {
        ObjectSpec {
            kind: Kind::Events,
            word: self.at.word,
            words: 1,
            initial: 0,
            content: (self.timer.slots as u64) << 32 | self.timer.period as u64,
            timer: 1 + self.timer.periodic as u8,
            reserved: 0,
        }
    }
    #[doc(hidden)]
    pub const fn behind(&self) -> Layout {
        self.at.behind(self.spec(), SLOTS)
    }
    /// This timer, if it exists.
    pub(crate) fn if_it<G>(self, exists: G) -> Timer<S, G> {
        Timer {
            at: self.at,
            timer: self.timer,
            exists,
            _s: PhantomData,
        }
    }
}

impl<S: System, G: Exists> Timer<S, G> {
    /// Starts the timer, with the commit of the step: it expires one period later. A timer that is
    /// active begins anew.
    ///
    /// **Power loss**: started if and only if the step has committed. The next boot waits for the
    /// rest of the period; an outage counts as nothing. **Cost**: the deadline, two stores, and one
    /// for all that the step does with this timer; on 16-bit units four and two. The stores of the
    /// clock. **Errors**: [`code::TOO_MANY`].
    pub fn start(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.note(step, to::START)
    }

    /// The same as [`start`](Self::start). **Errors**: as there.
    pub fn reset(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.start(step)
    }

    /// Stops the timer, with the commit of the step. An expiry that a step has claimed may still
    /// commit; it does not start the timer again.
    ///
    /// **Power loss**: stopped if and only if the step has committed. **Cost**: one store, two on
    /// 16-bit units, and those of the clock. **Errors**: [`code::TOO_MANY`].
    pub fn stop(&self, step: &Step<'_, '_, '_, '_, S>) -> Result<(), pmem_tx::Error> {
        self.note(step, to::STOP)
    }

    /// Starts the timer at once, from an interrupt's handler: it expires one period later. A timer
    /// that is active begins anew. The commit of a step that starts or stops it comes later, and
    /// counts.
    ///
    /// **Power loss**: started, or as before. **Cost**: the deadline, two stores, and one settled
    /// store; on 16-bit units four and two. The stores of the clock. Bounded: it checks each
    /// operation of the steps that run at most once. **Errors**: the word or the clock is damaged.
    pub fn start_from_isr(&self, isr: &Isr<'_, '_, S>) -> Result<(), Error> {
        self.change_at_once(isr, true)
    }

    /// The same as [`start_from_isr`](Self::start_from_isr). **Errors**: as there.
    pub fn reset_from_isr(&self, isr: &Isr<'_, '_, S>) -> Result<(), Error> {
        self.start_from_isr(isr)
    }

    /// Stops the timer at once, from an interrupt's handler. An expiry that a step has claimed may
    /// still commit; it does not start the timer again.
    ///
    /// **Power loss**: stopped, or as before. **Cost**: one settled store, two on 16-bit units.
    /// **Errors**: the word is damaged.
    pub fn stop_from_isr(&self, isr: &Isr<'_, '_, S>) -> Result<(), Error> {
        self.change_at_once(isr, false)
    }

    fn change_at_once(&self, isr: &Isr<'_, '_, S>, starts: bool) -> Result<(), Error> {
        self.exists.check_in(isr)?;
        let changed = isr.kernel.section(|s| {
            let now = s.now(isr.port);
            let deadline = starts.then(|| now.saturating_add(self.timer.period.into()));
            if starts {
                s.reach(now).map_err(|_| abort(code::DAMAGED))?;
            }
            s.set_timer_state(self.at.object, &self.timer, deadline)?;
            s.reschedule(isr.port);
            Ok::<_, pmem_tx::Error>(())
        });
        Ok(changed?)
    }

    /// Whether the timer is active: as it is committed, and as this step has changed it.
    pub fn is_active(&self, step: &Step<'_, '_, '_, '_, S>) -> bool {
        let sys = step.token();
        let (object, periodic) = (self.at.object, self.timer.periodic);
        sys.kernel.section(|s| {
            if self.exists.check(s, sys.me()).is_err() {
                return false;
            }
            let mine = s
                .control(sys.me())
                .operations()
                .find(|o| o.object == object);
            match mine.map(|o| o.plus) {
                Some(to::START) => true,
                Some(to::STOP) => false,
                Some(to::EXPIRE) => periodic,
                _ => s.deadline(object, &self.timer).is_some(),
            }
        })
    }

    /// Whether this timer has expired.
    pub fn is(&self, expired: TimerId<S>) -> bool {
        (self.at.object, self.exists.made()) == (expired.object, expired.made)
    }

    /// Its period, in ticks.
    pub const fn period(&self) -> u32 {
        self.timer.period
    }

    fn note(&self, step: &Step<'_, '_, '_, '_, S>, what: u8) -> Result<(), pmem_tx::Error> {
        let sys = step.token();
        sys.kernel.section(|s| {
            self.exists.check(s, sys.me())?;
            s.note_timer(sys.me(), self.at.object, |o| o.plus = what)
        })
    }
}

/// Waits until a timer of the system expires, and says which: the one whose deadline is the
/// earliest. The expiry belongs to the step. With its commit a one-shot timer is inactive, and a
/// periodic one waits for its next deadline, one period after this one, however late it is handled.
/// A body may start or stop the timer instead.
///
/// A thread that calls this in a loop of one step is the daemon of the system's timers. Its
/// priority is that of its thread; what it does for a timer, the other timers wait for.
///
/// ```ignore
/// th.forever_step((), |sys, state, _, ()| {
///     let timer = nv_rtos::expired(sys)?;
///     if BLINK.is(timer) {
///         *state.get_mut(sys)? ^= 1;
///     }
///     Ok(())
/// })?;
/// ```
///
/// **Power loss**: each expiry is handled once: with the step's commit, or by the next boot. The
/// clock is stored before the program knows of the expiry, so it never comes too early in a later
/// boot. **Cost**: those of [`Timer::start`]. **Errors**: [`code::TOO_MANY`]; [`code::DAMAGED`] for
/// the clock.
pub fn expired<S: System>(step: &Step<'_, '_, '_, '_, S>) -> Result<TimerId<S>, pmem_tx::Error> {
    let (object, made) = step.token().expired()?;
    Ok(TimerId {
        object,
        made,
        _s: PhantomData,
    })
}

impl<S: System> Isr<'_, '_, S> {
    /// The time, in ticks of all power-on periods, in an interrupt's handler: see
    /// [`Thread::now`](crate::Thread::now).
    ///
    /// **Power loss**: it is stored before the handler knows it, so time never runs backwards.
    /// **Cost**: the stores of the clock: three, on 16-bit units five. **Errors**: the clock is
    /// damaged.
    pub fn now(&self) -> Result<u64, Error> {
        self.kernel.section(|s| {
            let now = s.now(self.port);
            s.reach(now).map_err(|_| Error::Aborted(code::DAMAGED))?;
            Ok(now)
        })
    }
}

impl<S: System> Sys<'_, '_, S> {
    fn expired(&self) -> Result<(u8, u8), pmem_tx::Error> {
        loop {
            let found = self
                .kernel
                .section(|s| s.expire_or_block(self.me(), self.port))?;
            if let Some(found) = found {
                return Ok(found);
            }
            // The section's end has switched away, and this thread was woken.
        }
    }
}

/// The object for which daemons wait: the first timer of a system, if it has one.
const fn meeting<S: System>() -> u8 {
    let mut i = 0;
    while i < S::OBJECTS.len() {
        if S::OBJECTS[i].timer != 0 {
            return i as u8;
        }
        i += 1;
    }
    NOTHING
}

/// Whether a system has timers.
pub(crate) const fn has_timers<S: System>() -> bool {
    meeting::<S>() != NOTHING
}

/// The timers of a system, with the numbers of their objects.
fn timers<S: System>() -> impl Iterator<Item = (u8, TimerSpec)> {
    let all = (0..).zip(S::OBJECTS);
    all.filter_map(|(object, spec)| Some((object, TimerSpec::of(spec)?)))
}

impl<S: System> State<'_, S> {
    /// When an active timer expires.
    fn deadline(&mut self, object: u8, timer: &TimerSpec) -> Option<u64> {
        let deleted = const { has_places::<S>() } && self.made(object) == Some(0);
        if deleted && !planted!("nv-rtos/deleted-timer-expires") {
            return None;
        }
        let slot = self.object(object)?.state.checked_sub(1)?;
        let [low, high]: [u32; 2] = self.store.read_slot(timer.slot(slot))?;
        Some(u64::from(high) << 32 | u64::from(low))
    }

    /// Notes an operation of a thread's step on a timer. The last call counts.
    fn note_timer(
        &mut self,
        t: usize,
        object: u8,
        f: impl FnOnce(&mut Operation),
    ) -> Result<(), pmem_tx::Error> {
        self.operate(t, object, f)?;
        // The commit needs the time.
        self.control(t).done |= READS;
        Ok(())
    }

    // INVARIANT "An expiry belongs to one start": a step has the expiry of a timer for itself until
    // it ends, and changes the timer only if it was neither started nor stopped since; a deadline
    // is written into the slot that does not count. Also kept by `arm` and `set_timer_state`.
    // Noticed by: planted `timer-expires-twice`, `timer-expiry-ends-a-start`,
    // `timer-deadline-in-place`, `expiry-ends-a-handlers-start`, `handler-starts-without-a-fence`,
    // `expiry-claimed-twice-after-a-start`, `period-begins-at-the-commit`.
    /// Claims the expiry of a timer that is due and that nobody has; otherwise waits for the
    /// earliest deadline, or until a timer is started.
    fn expire_or_block(
        &mut self,
        t: usize,
        port: &dyn Port,
    ) -> Result<Option<(u8, u8)>, pmem_tx::Error> {
        let now = self.now(port);
        let mut next: Option<(u64, u8)> = None;
        for (object, timer) in timers::<S>() {
            let deadline = self.deadline(object, &timer);
            let Some(o) = self.object(object) else {
                continue;
            };
            let open = o.taken == 0 || planted!("nv-rtos/timer-expires-twice");
            if let Some(deadline) = deadline
                && open
                && next.is_none_or(|(earliest, _)| deadline < earliest)
            {
                next = Some((deadline, object));
            }
        }
        let until = next.map_or(u64::MAX, |(deadline, _)| deadline);
        if let Some((_, object)) = next
            && until <= now
        {
            self.reach(now).map_err(|_| abort(code::DAMAGED))?;
            self.note_timer(t, object, |o| (o.plus, o.minus) = (to::EXPIRE, ALL))?;
            if let Some(o) = self.object(object) {
                o.taken = ALL;
            }
            return Ok(Some((object, self.made(object).unwrap_or(0))));
        }
        self.block(t, meeting::<S>(), until, port);
        Ok(None)
    }

    /// A step commits at the time `now`: its operations on timers become states, and the deadlines
    /// of those that it starts are written.
    pub fn arm(&mut self, t: usize, now: u64) {
        for (object, timer) in timers::<S>() {
            let mine = self.control(t).operations().find(|o| o.object == object);
            let Some(what) = mine.map(|o| o.plus) else {
                continue;
            };
            let (mut plus, mut minus) = (0, ALL);
            let deadline = match what {
                to::START => Some(now.saturating_add(timer.period.into())),
                to::EXPIRE if timer.periodic => {
                    let mut this = self.deadline(object, &timer).unwrap_or(now);
                    if planted!("nv-rtos/period-begins-at-the-commit") {
                        this = now;
                    }
                    Some(this.saturating_add(timer.period.into()))
                }
                _ => None,
            };
            if let Some(deadline) = deadline {
                let state = self.object(object).map_or(0, |o| o.state);
                // The slot that does not count.
                plus = if state == 1 { 2 } else { 1 };
                if planted!("nv-rtos/timer-deadline-in-place") {
                    plus = state.max(1);
                }
                self.write_deadline(&timer, plus, deadline);
            }
            if what == to::NOTHING {
                minus = 0;
            } else {
                self.expiries_end(t, object);
            }
            if let Some(o) = self.control(t).operations().find(|o| o.object == object) {
                (o.plus, o.minus) = (plus, minus);
            }
            if !planted!("nv-rtos/timer-started-unseen") {
                self.gather_daemons(object);
            }
        }
    }

    /// A handler starts a timer, with its deadline, or stops it: like a step that has committed.
    fn set_timer_state(
        &mut self,
        object: u8,
        timer: &TimerSpec,
        deadline: Option<u64>,
    ) -> Result<(), pmem_tx::Error> {
        let Some(&mut Object { word, state, .. }) = self.object(object) else {
            return Ok(());
        };
        let mut new = 0;
        if let Some(deadline) = deadline {
            // The slot that does not count.
            new = if state == 1 { 2 } else { 1 };
            self.write_deadline(timer, new, deadline);
            if !planted!("nv-rtos/handler-starts-without-a-fence") {
                self.store.fence();
            }
        }
        let stored = self.store.put_settled(word, new);
        stored.map_err(|_| abort(code::DAMAGED))?;
        if !planted!("nv-rtos/expiry-ends-a-handlers-start") {
            // Of no thread: all claims end.
            self.expiries_end(usize::MAX, object);
        }
        if let Some(o) = self.object(object) {
            (o.state, o.taken) = (new, 0);
        }
        if !planted!("nv-rtos/handlers-start-unseen") {
            self.gather_daemons(object);
        }
        self.wake(object);
        Ok(())
    }

    /// Writes the deadline that counts in this state.
    fn write_deadline(&mut self, timer: &TimerSpec, state: u8, deadline: u64) {
        let value = [deadline as u32, (deadline >> 32) as u32];
        self.store.write_slot(timer.slot(state - 1), &value);
    }

    /// The state of an object changes, or a claim of it ends. If it is a timer, the daemons that
    /// wait for any timer wait for this one, just before they are woken.
    #[inline(always)]
    pub fn gather_daemons(&mut self, object: u8) {
        let timer = |object| S::OBJECTS.get(usize::from(object)).map_or(0, |s| s.timer);
        if const { !has_timers::<S>() } || timer(object) == 0 {
            return;
        }
        let at_meeting = self.object(meeting::<S>());
        let waiters = at_meeting.map_or(0, |o| core::mem::take(&mut o.waiters));
        if let Some(o) = self.object(object) {
            o.waiters |= waiters;
        }
    }

    /// A timer is started or stopped: what other steps have claimed of it was of an earlier start.
    fn expiries_end(&mut self, t: usize, object: u8) {
        if planted!("nv-rtos/timer-expiry-ends-a-start") {
            return;
        }
        for (other, c) in self.ram.threads_mut().iter_mut().enumerate() {
            let on_it = |o: &&mut Operation| o.object == object;
            if other != t
                && let Some(o) = c.operations().find(on_it)
            {
                let expires = o.plus == to::EXPIRE;
                if expires {
                    o.plus = to::NOTHING;
                }
                // Its claim has ended, also if the step starts or stops the timer itself.
                if expires || !planted!("nv-rtos/expiry-claimed-twice-after-a-start") {
                    o.minus = 0;
                }
            }
        }
    }
}
