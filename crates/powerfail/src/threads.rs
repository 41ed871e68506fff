//! Several threads of control in one boot, and the scheduler that runs them.
//!
//! ```text
//!  World::threads(f)          f spawns; the threads run when it returns
//!    |
//!    '- loop:  pick -> resume --------> thread's stack:  . store . read . fence . park
//!                ^                                       ^ a point: the schedule may say that
//!                '------- suspend <----------------------  another thread runs, the clock moves,
//!                                                          or an interrupt comes
//! ```
//!
//! All threads run on one thread of the host, each on a stack of its own (`corosensei`), so exactly
//! one of them runs at a time and a boot depends on its schedule alone. A switch costs some 30 ns;
//! threads of the host, handed a baton, would cost some microseconds for each switch, and every
//! value that a program uses would have to be `Send`.
//!
//! **Default schedule.** The ready thread of the highest priority runs until it waits or ends.
//! Among equals the first in the queue runs. A thread that yields or wakes goes to the queue's end.
//! Where several could come next, the others are choices of a point.
//!
//! **Points.** Before each store, read, loan and fence of a mapped medium, before each change of
//! the world, and at the end of each critical section. The observer is told before the store, so a
//! switch there comes before the store is recorded and made. A point with nothing to choose from
//! does not count.
//!
//! **Time.** The clock starts at 0 in each boot. It moves to the next deadline when every thread
//! waits, or where the schedule says so, and at no other time.
//!
//! **The cut.** At the end of a boot every stack that is left is dropped like RAM: no destructor
//! runs.

use crate::coroutine::{Coroutine, CoroutineResult, DefaultStack, new_stack};
use crate::observe::Recorder;
use crate::overflow::{self, Extent};
use crate::preempt;
use crate::schedule::{Choice, Choices, INTERRUPTS_MAX, Schedule, THREADS_MAX};
use crate::trace::Event;
use nvmem::planted;
use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

// INVARIANT "Threads end with their boot": a stack is resumed only inside the call of
// `World::threads` that made it. That call returns when all of its threads have ended or were
// abandoned, so what they borrow outlives them. An abandoned stack, and after a cut each one, is
// dropped like RAM. `Recorder::run_threads` and `Scheduler::drop_threads` keep it.
// Noticed by: `no_destructor_of_a_stack_runs_at_a_cut` in tests/suite/schedules.rs; Miri.

type Yielder = crate::coroutine::Yielder<(), Suspended>;
type Stack = Coroutine<(), Suspended, (), DefaultStack>;

/// Why a thread gave its processor away.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Suspended {
    /// Another one is to run.
    Switch,
    /// The power was cut.
    Cut,
}

/// A thread of [`Threads`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread(u8);

/// What a thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Ready,
    /// For [`Threads::unpark`], at most until this instant.
    Parked(Option<u64>),
    /// Until this instant.
    Sleeping(u64),
    Ended,
}

impl Status {
    fn deadline(self) -> Option<u64> {
        match self {
            Status::Parked(at) => at,
            Status::Sleeping(at) => Some(at),
            Status::Ready | Status::Ended => None,
        }
    }
}

/// One thread of control.
struct Control {
    name: Box<str>,
    priority: u8,
    status: Status,
    /// It was unparked when it did not wait.
    token: bool,
    /// What a kernel under test says of it: ready at this priority, or not ready.
    declared: Option<Option<u8>>,
    /// `None` while it runs, and after its end.
    stack: Option<Stack>,
    extent: Extent,
    /// Set while the stack lives.
    yielder: Option<*const Yielder>,
}

struct Handler {
    name: Box<str>,
    run: Box<dyn Fn()>,
}

/// A point of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    pub(crate) choices: Choices,
    /// The number of events before it that a run with a preemption here has, too, and with them
    /// what a cut among them leaves.
    pub(crate) shared: u32,
    /// The hash of the run before it.
    pub(crate) hash: u64,
}

/// A preemption that came, for reports.
#[derive(Debug, Clone)]
pub(crate) struct Preempted {
    /// The number of events before it.
    pub(crate) events: usize,
    pub(crate) text: String,
}

#[derive(Default)]
struct Data {
    controls: Vec<Control>,
    handlers: Vec<Handler>,
    /// The numbers of the threads that have not ended; the first ready one of a priority is next.
    queue: Vec<u8>,
    current: Option<u8>,
    now: u64,
    in_handler: bool,
    /// A thread of higher priority became ready where nothing may switch.
    switch_pending: bool,
    schedule: Schedule,
    /// The number of preemptions that came.
    came: usize,
    preempted: Vec<Preempted>,
    log: Vec<Point>,
    hash: u64,
    /// The number of events in `hash`.
    hashed: usize,
    /// The threads that ran, each with the number of events before it.
    ran: Vec<(usize, u8)>,
    /// Names of all threads of the boot, for reports.
    names: Vec<Box<str>>,
    /// Interrupts that came one after the other while all threads waited.
    idle_interrupts: usize,
    free: Vec<DefaultStack>,
}

/// The scheduler of an engine's boots.
#[derive(Default)]
pub(crate) struct Scheduler {
    /// Inside [`World::threads`](crate::World::threads).
    running: Cell<bool>,
    /// Points count: the campaign explores schedules, or replays one.
    counting: Cell<bool>,
    data: RefCell<Data>,
}

impl Scheduler {
    /// Prepares for a boot.
    pub(crate) fn reset(&self, schedule: &Schedule, counting: bool) {
        self.end_boot();
        self.counting.set(counting || !schedule.is_default());
        let mut d = self.data.borrow_mut();
        d.schedule = schedule.clone();
        d.came = 0;
        d.preempted.clear();
        d.log.clear();
        (d.hash, d.hashed) = (0, 0);
        d.ran.clear();
        d.names.clear();
        if !planted!("powerfail/clock-survives-a-cut") {
            d.now = 0;
        }
    }

    /// Drops what is left of the threads, like RAM at a cut.
    pub(crate) fn end_boot(&self) {
        self.running.set(false);
        self.drop_threads();
    }

    fn drop_threads(&self) {
        let mut d = self.data.borrow_mut();
        (d.current, d.in_handler, d.switch_pending) = (None, false, false);
        // What a handler owns may borrow from the program, which is gone.
        d.handlers.drain(..).for_each(std::mem::forget);
        d.queue.clear();
        let controls = std::mem::take(&mut d.controls);
        drop(d);
        self.drop_stacks(controls);
    }

    /// Drops stacks like RAM. What has ended has none.
    fn drop_stacks(&self, controls: Vec<Control>) {
        for c in controls {
            let Some(mut stack) = c.stack else { continue };
            if !stack.done() {
                if planted!("powerfail/stacks-unwind-at-a-cut") {
                    stack.force_unwind();
                } else {
                    // SAFETY: invariant "Threads end with their boot": nothing resumes it or looks
                    // into it any more. What it owned is lost, like RAM.
                    unsafe { stack.force_reset() };
                }
            }
            self.data.borrow_mut().free.push(stack.into_stack());
        }
    }

    /// The points of the last boot.
    pub(crate) fn take_log(&self) -> Vec<Point> {
        std::mem::take(&mut self.data.borrow_mut().log)
    }

    /// Gives a log back, so that its memory is used again.
    pub(crate) fn reuse_log(&self, log: Vec<Point>) {
        self.data.borrow_mut().log = log;
    }

    /// The hash of the last boot up to its last preemption; `None` if that never came.
    pub(crate) fn hash_of_prefix(&self) -> Option<u64> {
        let d = self.data.borrow();
        let Some(last) = d.schedule.preemptions().last() else {
            return Some(0);
        };
        let came = d.came == d.schedule.preemptions().len();
        came.then(|| d.log[last.point as usize].hash)
    }

    /// The preemption of the schedule that did not come in the last boot.
    pub(crate) fn missed(&self) -> Option<String> {
        let d = self.data.borrow();
        let p = d.schedule.preemptions().get(d.came)?;
        Some(format!(
            "at point {} the program has no such preemption any more",
            p.point
        ))
    }

    /// The preemptions of the last boot, for reports.
    pub(crate) fn preempted(&self) -> Vec<Preempted> {
        self.data.borrow().preempted.clone()
    }

    /// The name of the thread that made event `i` of the last boot.
    pub(crate) fn thread_of(&self, i: usize) -> Option<String> {
        let d = self.data.borrow();
        let at = d.ran.partition_point(|(events, _)| *events <= i);
        let (_, t) = *d.ran.get(at.checked_sub(1)?)?;
        Some(d.names.get(usize::from(t))?.to_string())
    }

    /// A number that depends on who ran when.
    pub(crate) fn hash(&self) -> u64 {
        let d = self.data.borrow();
        let ran = |h: u64, (events, t): &(usize, u8)| mix(h, (*events as u64) << 8 | u64::from(*t));
        d.ran.iter().fold(0, ran)
    }

    /// Whether threads run.
    pub(crate) fn is_running(&self) -> bool {
        self.running.get()
    }

    /// Whether a switch may happen at a point now.
    #[inline]
    pub(crate) fn may_preempt(&self) -> bool {
        self.running.get() && self.counting.get()
    }
}

fn mix(h: u64, v: u64) -> u64 {
    (h.rotate_left(5) ^ v).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Data {
    fn control(&mut self, t: u8) -> &mut Control {
        &mut self.controls[usize::from(t)]
    }
    fn is_ready(&self, t: u8) -> bool {
        self.controls[usize::from(t)].status == Status::Ready
    }
    fn priority(&self, t: u8) -> u8 {
        self.controls[usize::from(t)].priority
    }
    fn ready(&self) -> impl Iterator<Item = u8> {
        self.queue.iter().copied().filter(|t| self.is_ready(*t))
    }
    fn highest(&self) -> Option<u8> {
        self.ready().map(|t| self.priority(t)).max()
    }
    fn next_deadline(&self) -> Option<u64> {
        self.controls
            .iter()
            .filter_map(|c| c.status.deadline())
            .min()
    }

    fn move_to_front(&mut self, t: u8) {
        self.queue.retain(|q| *q != t);
        self.queue.insert(0, t);
    }
    fn move_to_back(&mut self, t: u8) {
        self.queue.retain(|q| *q != t);
        self.queue.push(t);
    }

    /// Makes a waiting thread ready.
    fn wake(&mut self, t: u8) {
        self.control(t).status = Status::Ready;
        self.move_to_back(t);
    }

    /// Moves the clock to the next deadline and wakes whose time it is. Returns these threads.
    fn move_clock(&mut self) -> Vec<u8> {
        let Some(at) = self.next_deadline() else {
            return Vec::new();
        };
        self.now = self.now.max(at);
        let now = self.now;
        let due = |t: &u8| {
            let d = self.controls[usize::from(*t)].status.deadline();
            d.is_some_and(|d| d <= now)
        };
        let woken: Vec<u8> = self.queue.iter().copied().filter(due).collect();
        for t in &woken {
            self.wake(*t);
        }
        woken
    }

    /// Whether a ready thread has a higher priority than the one that runs.
    fn is_outranked(&self) -> bool {
        if planted!("powerfail/waking-does-not-preempt") {
            return false;
        }
        let current = self.current.map(|t| self.priority(t));
        current.is_some_and(|p| self.highest().is_some_and(|h| h > p))
    }

    /// Hashes the events since the last point. Returns the number of all.
    fn hash_events(&mut self, events: &[Event]) -> usize {
        for e in &events[self.hashed..] {
            self.hash = mix(self.hash, crate::engine::event_word(e).unwrap_or(0));
        }
        self.hashed = events.len();
        events.len()
    }

    /// Counts a point with these choices. Returns what the schedule says to do there.
    fn count_point(&mut self, choices: Choices, rec: &Recorder) -> Option<Choice> {
        let (events, shared) = {
            let r = rec.0.borrow();
            let events = self.hash_events(&r.trace.events);
            // What a loan will have changed at its end decides what a cut inside it leaves.
            (events, if r.loans.is_empty() { events } else { 0 })
        };
        let point = self.log.len() as u32;
        let by = self.current.map_or(0xff, u64::from);
        self.hash = mix(self.hash, by);
        self.log.push(Point {
            choices,
            shared: shared as u32,
            hash: self.hash,
        });
        let next = self.schedule.preemptions().get(self.came)?;
        if next.point != point || !choices.has(next.choice) {
            return None;
        }
        let choice = next.choice;
        self.came += 1;
        let name = |t: u8| self.controls[usize::from(t)].name.clone();
        let by = self.current.map_or("no thread".into(), name);
        let what = match choice {
            Choice::Thread(t) => format!("{} runs", name(t)),
            Choice::Clock => {
                let at = self.next_deadline().unwrap_or(self.now);
                format!("the clock moves from {} to {at}", self.now)
            }
            Choice::Interrupt(i) => {
                format!("{} interrupts", self.handlers[usize::from(i)].name)
            }
        };
        self.preempted.push(Preempted {
            events,
            text: format!("at point {point}, {by} runs: {what}"),
        });
        Some(choice)
    }
}

impl Recorder {
    /// A point of the running thread: see the module's documentation.
    #[cold]
    pub(crate) fn thread_point(&self) {
        if std::thread::panicking() {
            return;
        }
        let choice = {
            let d = &mut *self.3.data.borrow_mut();
            if planted!("powerfail/time-runs-while-ready") {
                d.move_clock();
            }
            let Some(current) = d.current.filter(|_| !d.in_handler) else {
                return;
            };
            let mut choices = Choices::default();
            let priority = d.priority(current);
            for t in d.ready() {
                let equal = t != current && d.priority(t) == priority;
                if equal && !planted!("powerfail/equals-do-not-preempt") {
                    choices.add(Choice::Thread(t));
                }
            }
            if d.next_deadline().is_some() {
                choices.add(Choice::Clock);
            }
            for i in 0..d.handlers.len() {
                choices.add(Choice::Interrupt(i as u8));
            }
            if choices.is_empty() {
                return;
            }
            d.count_point(choices, self)
        };
        match choice {
            None => {}
            Some(Choice::Thread(t)) => {
                self.3.data.borrow_mut().move_to_front(t);
                self.suspend();
            }
            Some(Choice::Clock) => {
                let switch = {
                    let d = &mut *self.3.data.borrow_mut();
                    let woken = d.move_clock();
                    let current = d.current.map_or(0, |t| d.priority(t));
                    let first = woken.into_iter().find(|t| d.priority(*t) == current);
                    if let Some(t) = first {
                        d.move_to_front(t);
                    }
                    first.is_some() || d.is_outranked()
                };
                if switch {
                    self.suspend();
                }
            }
            Some(Choice::Interrupt(i)) => self.handle(i),
        }
    }

    /// Runs an interrupt's handler on the stack of the running thread, or on none.
    fn handle(&self, i: u8) {
        let run = {
            let d = &mut *self.3.data.borrow_mut();
            d.in_handler = true;
            &raw const *d.handlers[usize::from(i)].run
        };
        // SAFETY: invariant "Threads end with their boot": the handler stays until the call of
        // `World::threads` that this runs in returns.
        unsafe { (*run)() };
        self.3.data.borrow_mut().in_handler = false;
        self.switch_if_pending();
    }

    /// Switches if a thread of higher priority became ready where nothing may switch, or if the
    /// running one was suspended there.
    pub(crate) fn switch_if_pending(&self) {
        let switch = {
            let d = &mut *self.3.data.borrow_mut();
            let may = d.current.is_some() && !d.in_handler && !preempt::is_masked();
            let pending = d.switch_pending && may;
            d.switch_pending &= !may;
            pending && (d.is_outranked() || d.current.is_some_and(|t| !d.is_ready(t)))
        };
        if switch && !std::thread::panicking() {
            self.suspend();
        }
    }

    /// Gives the processor to the scheduler, and returns when the running thread runs again.
    fn suspend(&self) {
        self.give_way(Suspended::Switch);
    }

    /// Cuts the power if a thread runs: its stack is left, and the scheduler's own is cut next.
    pub(crate) fn cut_thread(&self) {
        self.give_way(Suspended::Cut);
    }

    fn give_way(&self, why: Suspended) {
        let yielder = {
            let d = self.3.data.borrow();
            d.current.and_then(|t| d.controls[usize::from(t)].yielder)
        };
        if let Some(y) = yielder {
            // SAFETY: it is the yielder of the running thread, whose stack this runs on.
            unsafe { (*y).suspend(why) }
        }
    }

    /// The thread to run next; `None` if all have ended.
    fn pick(&self) -> Option<u8> {
        loop {
            let interrupt = {
                let d = &mut *self.3.data.borrow_mut();
                d.current = None;
                if d.queue.is_empty() {
                    return None;
                }
                if let Some(highest) = d.highest() {
                    return Some(self.pick_ready(d, highest));
                }
                self.idle(d)
            };
            match interrupt {
                Some(i) => self.handle(i),
                None => drop(self.3.data.borrow_mut().move_clock()),
            }
        }
    }

    /// The first in the queue of the highest priority, unless the schedule says another one.
    fn pick_ready(&self, d: &mut Data, highest: u8) -> u8 {
        let mut equals = d.ready().filter(|t| d.priority(*t) == highest);
        let first = equals.next().expect("one is ready");
        let mut choices = Choices::default();
        equals.for_each(|t| choices.add(Choice::Thread(t)));
        if choices.is_empty() || !self.3.counting.get() {
            return first;
        }
        match d.count_point(choices, self) {
            Some(Choice::Thread(t)) => {
                d.move_to_front(t);
                t
            }
            _ => first,
        }
    }

    /// All threads wait. Returns the interrupt that comes; if none does, the clock moves.
    fn idle(&self, d: &mut Data) -> Option<u8> {
        let timed = d.next_deadline().is_some();
        let untried = d.handlers.len() > d.idle_interrupts;
        if !timed && !untried {
            let name = |t: &u8| &*d.controls[usize::from(*t)].name;
            let waits: Vec<&str> = d.queue.iter().map(name).collect();
            panic!(
                "every thread waits, and nothing can wake one: {}",
                waits.join(", ")
            );
        }
        let default = (!timed).then_some(d.idle_interrupts as u8);
        let mut choices = Choices::default();
        for i in 0..d.handlers.len() as u8 {
            if Some(i) != default {
                choices.add(Choice::Interrupt(i));
            }
        }
        d.idle_interrupts += usize::from(!timed);
        if choices.is_empty() || !self.3.counting.get() {
            return default;
        }
        match d.count_point(choices, self) {
            Some(Choice::Interrupt(i)) => Some(i),
            _ => default,
        }
    }

    /// Runs threads until all have ended.
    fn run_threads(&self) {
        while let Some(next) = self.pick() {
            let (mut stack, extent, name) = {
                let d = &mut *self.3.data.borrow_mut();
                d.current = Some(next);
                d.idle_interrupts = 0;
                let events = self.spend();
                d.ran.push((events, next));
                let c = d.control(next);
                let stack = c.stack.take().expect("a thread that runs has a stack");
                (stack, c.extent, c.name.as_bytes() as *const [u8])
            };
            let result = overflow::on(extent, name, || stack.resume(()));
            let mut data = self.3.data.borrow_mut();
            let d = &mut *data;
            let c = d.control(next);
            match result {
                CoroutineResult::Return(()) => {
                    (c.status, c.yielder) = (Status::Ended, None);
                    d.queue.retain(|t| *t != next);
                    d.free.push(stack.into_stack());
                }
                CoroutineResult::Yield(Suspended::Switch) => c.stack = Some(stack),
                CoroutineResult::Yield(Suspended::Cut) => {
                    c.stack = Some(stack);
                    d.current = None;
                    drop(data);
                    // No thread runs, so this cuts the scheduler's own stack.
                    self.tick();
                }
            }
        }
    }

    /// A switch costs an event of the budget, so that threads that only yield end, too. Returns the
    /// number of events so far.
    fn spend(&self) -> usize {
        let r = &mut *self.0.borrow_mut();
        if r.budget == 0 {
            r.hung = true;
            std::panic::resume_unwind(Box::new(crate::observe::Hung));
        }
        r.budget -= 1;
        r.trace.events.len()
    }

    fn add_thread(&self, name: &str, priority: u8, body: Box<dyn FnOnce() + 'static>) -> Thread {
        let d = &mut *self.3.data.borrow_mut();
        let number = d.controls.len();
        assert!(number < THREADS_MAX, "at most {THREADS_MAX} threads");
        let new = d.controls.iter().all(|c| &*c.name != name);
        assert!(new, "there is a thread `{name}` already");
        let stack = d.free.pop().unwrap_or_else(new_stack);
        let extent = Extent::of(&stack);
        let (t, rec) = (number as u8, self as *const Recorder);
        let start = move |y: &Yielder, ()| {
            // SAFETY: the recorder outlives the boot.
            let rec = unsafe { &*rec };
            rec.3.data.borrow_mut().control(t).yielder = Some(y);
            rec.on_this_thread(body)
        };
        // SAFETY: invariant "Threads end with their boot": `spawn` has made `body` of that
        // lifetime.
        let stack = unsafe { Coroutine::with_stack_unchecked(stack, start) };
        d.controls.push(Control {
            name: name.into(),
            priority,
            status: Status::Ready,
            token: false,
            declared: None,
            stack: Some(stack),
            extent,
            yielder: None,
        });
        d.queue.push(t);
        if d.names.len() <= number {
            d.names.push(name.into());
        }
        Thread(t)
    }
}

/// The threads of a boot: see [`World::threads`](crate::World::threads).
///
/// Like a kernel's, these calls are for the code that runs on the threads. `park`, `park_timeout`,
/// the sleeps and `yield_now` give the processor away. In a critical section or an interrupt's
/// handler these calls panic.
pub struct Threads<'scope, 'env: 'scope> {
    rec: &'scope Recorder,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

impl<'scope, 'env> Threads<'scope, 'env> {
    /// Adds a thread. Of two that are ready, the one of the higher `priority` runs; threads of the
    /// same priority may preempt each other at every point. It may be added from a thread, too. If
    /// its priority is higher than that thread's, it runs at once.
    ///
    /// **Panics**: if a thread of this name was added before, or there are 32.
    pub fn spawn(&'scope self, name: &str, priority: u8, body: impl FnOnce() + 'scope) -> Thread {
        let body: Box<dyn FnOnce() + 'scope> = Box::new(body);
        // SAFETY: only the lifetime changes. Invariant "Threads end with their boot": it runs, if
        // at all, before `World::threads` returns, and `'scope` ends after that.
        let body: Box<dyn FnOnce() + 'static> = unsafe { std::mem::transmute(body) };
        let t = self.rec.add_thread(name, priority, body);
        self.switch();
        t
    }

    /// Adds an interrupt. It comes where the schedule says so: at a point of any thread, on that
    /// thread's stack, any number of times. While all threads wait and no deadline is set, it comes
    /// in any case. `handler` runs to its end, and there is no point in it.
    ///
    /// **Panics**: if there are 16.
    pub fn interrupt(&'scope self, name: &str, handler: impl Fn() + 'scope) {
        let run: Box<dyn Fn() + 'scope> = Box::new(handler);
        // SAFETY: only the lifetime changes, as in `spawn`. `World::threads` drops it, or nobody.
        let run: Box<dyn Fn() + 'static> = unsafe { std::mem::transmute(run) };
        let d = &mut *self.data();
        let number = d.handlers.len();
        assert!(
            number < INTERRUPTS_MAX,
            "at most {INTERRUPTS_MAX} interrupts"
        );
        d.handlers.push(Handler {
            name: name.into(),
            run,
        });
    }

    /// The running thread.
    ///
    /// **Panics**: where none runs: outside of the threads, and in an interrupt while all wait.
    pub fn current(&self) -> Thread {
        Thread(self.data().current.expect("no thread runs"))
    }

    /// Waits until [`unpark`](Self::unpark). Returns at once if that came since the last wait.
    pub fn park(&self) {
        self.wait("park", |d, t| {
            let token = std::mem::take(&mut d.control(t).token);
            (!token).then_some(Status::Parked(None))
        });
    }

    /// [`park`](Self::park), but for at most `ticks` of the clock. Whether it was unparked.
    pub fn park_timeout(&self, ticks: u64) -> bool {
        self.wait("park", |d, t| {
            let token = d.control(t).token;
            (!token).then_some(Status::Parked(Some(d.now.saturating_add(ticks))))
        });
        let d = &mut *self.data();
        let current = d.current.expect("a thread waited");
        std::mem::take(&mut d.control(current).token)
    }

    /// Ends a thread's [`park`](Self::park), or its next one. If that thread has a higher priority
    /// than the one that runs, it runs at once, or at the end of the critical section or handler.
    pub fn unpark(&self, thread: Thread) {
        let Thread(t) = thread;
        {
            let d = &mut *self.data();
            match d.controls[usize::from(t)].status {
                Status::Parked(until) => {
                    d.control(t).token = until.is_some();
                    d.wake(t);
                }
                Status::Ready | Status::Sleeping(_) => d.control(t).token = true,
                Status::Ended => {}
            }
        }
        self.switch();
    }

    /// Takes the processor from a thread until [`unpark`](Self::unpark). For the context switch of
    /// a kernel under test: `suspend` the thread that is left and `unpark` the next one. If the
    /// running thread is suspended in a critical section or in a handler, it stops at the end of
    /// that.
    pub fn suspend(&self, thread: Thread) {
        {
            let d = &mut *self.data();
            let c = d.control(thread.0);
            if c.status != Status::Ended {
                (c.status, c.token) = (Status::Parked(None), false);
            }
        }
        self.switch();
    }

    /// Ends a thread where it is. Its stack is dropped like RAM when all threads have ended: no
    /// destructor runs. For a kernel under test that aborts a thread, and for a power cut at an
    /// instant that the test chooses: abandon all threads.
    ///
    /// If the running thread is abandoned in a critical section or in a handler, it stops at the
    /// end of that.
    pub fn abandon(&self, thread: Thread) {
        {
            let d = &mut *self.data();
            let c = d.control(thread.0);
            if c.status != Status::Ended {
                c.status = Status::Ended;
                d.queue.retain(|t| *t != thread.0);
            }
        }
        self.switch();
    }

    /// Lets the other threads of this priority run first.
    pub fn yield_now(&self) {
        self.wait("yield", |d, t| {
            d.move_to_back(t);
            Some(Status::Ready)
        });
    }

    /// The clock: 0 at the start of each boot.
    pub fn now(&self) -> u64 {
        self.data().now
    }

    /// Waits until the clock has moved by `ticks`.
    pub fn sleep(&self, ticks: u64) {
        let until = self.now().saturating_add(ticks);
        self.sleep_until(until);
    }

    /// Waits until the clock shows `deadline`.
    pub fn sleep_until(&self, deadline: u64) {
        self.wait("sleep", |d, _| {
            (deadline > d.now).then_some(Status::Sleeping(deadline))
        });
    }

    /// Changes a thread's priority: for a lock whose owner inherits one.
    pub fn set_priority(&self, thread: Thread, priority: u8) {
        self.data().control(thread.0).priority = priority;
        self.switch();
    }

    /// Says for a kernel under test, whose scheduler is its own, that it has this thread ready at
    /// `priority`, or not ready. [`commit`](Self::commit) then uses that instead of whether this
    /// scheduler has it ready.
    pub fn declare(&self, thread: Thread, ready_at: Option<u8>) {
        self.data().control(thread.0).declared = Some(ready_at);
    }

    /// Asserts priorities: the running thread commits something, at this priority. A forgotten
    /// preemption costs only time, so that no other check notices it.
    ///
    /// **Panics**, which fails the campaign, if another thread of a higher priority is ready.
    #[track_caller]
    pub fn commit(&self, priority: u8) {
        if planted!("powerfail/priority-not-checked") {
            return;
        }
        let d = self.data();
        let ready = |t: u8| {
            let c = &d.controls[usize::from(t)];
            let kit = (c.status == Status::Ready).then_some(c.priority);
            c.declared.unwrap_or(kit)
        };
        let others = (0..d.controls.len() as u8).filter(|t| d.current != Some(*t));
        let higher = others
            .filter_map(|t| Some((t, ready(t)?)))
            .find(|(_, p)| *p > priority);
        if let Some((t, p)) = higher {
            let name = |t: u8| &d.controls[usize::from(t)].name;
            let by = d.current.map_or("no thread", |t| name(t));
            panic!(
                "`{by}` commits at priority {priority}, while `{}` is ready at priority {p}",
                name(t)
            );
        }
    }

    fn data(&self) -> std::cell::RefMut<'_, Data> {
        self.rec.3.data.borrow_mut()
    }

    /// Lets a thread of higher priority run, now or where that is possible.
    fn switch(&self) {
        self.data().switch_pending = true;
        self.rec.switch_if_pending();
    }

    /// Gives the processor away, if `f` says for what the thread waits.
    fn wait(&self, what: &str, f: impl FnOnce(&mut Data, u8) -> Option<Status>) {
        let waits = {
            let d = &mut *self.data();
            assert!(!d.in_handler, "an interrupt's handler cannot {what}");
            assert!(!preempt::is_masked(), "a critical section cannot {what}");
            let t = d
                .current
                .unwrap_or_else(|| panic!("only a thread can {what}"));
            let status = f(d, t);
            if let Some(status) = status {
                d.control(t).status = status;
            }
            status.is_some()
        };
        if waits {
            self.rec.suspend();
        }
    }
}

/// A program that unwinds out of [`World::threads`](crate::World::threads) leaves no running
/// thread and no handler: both may borrow from what is gone. `running` stays set, so a second
/// call is refused.
struct Unwound<'a>(&'a Scheduler);

impl Drop for Unwound<'_> {
    fn drop(&mut self) {
        let d = &mut *self.0.data.borrow_mut();
        (d.current, d.in_handler, d.switch_pending) = (None, false, false);
        d.handlers.drain(..).for_each(std::mem::forget);
    }
}

impl Recorder {
    /// Runs a thread's body. Under Miri that is on a thread of the host, which gets what thread
    /// locals know.
    fn on_this_thread(&self, body: impl FnOnce()) {
        if cfg!(miri) {
            preempt::set_running(Some(self));
            nvmem::instrument::observe(self, body)
        } else {
            body()
        }
    }

    /// [`World::threads`](crate::World::threads).
    pub(crate) fn threads<'env>(&self, f: impl for<'scope> FnOnce(&'scope Threads<'scope, 'env>)) {
        assert!(!self.3.running.get(), "`threads` cannot be nested");
        let threads = Threads {
            rec: self,
            _scope: PhantomData,
            _env: PhantomData,
        };
        self.3.running.set(true);
        let before = preempt::set_running(Some(self));
        let unwound = Unwound(&self.3);
        f(&threads);
        self.run_threads();
        std::mem::forget(unwound);
        preempt::set_running(before);
        self.3.running.set(false);
        let (controls, handlers) = {
            let d = &mut *self.3.data.borrow_mut();
            d.current = None;
            (
                std::mem::take(&mut d.controls),
                std::mem::take(&mut d.handlers),
            )
        };
        self.3.drop_stacks(controls);
        // What a handler owns may ask the clock while it is dropped.
        drop(handlers);
    }
}
