//! The judge of generated programs: a model of the kernel's objects without a kernel.
//!
//! ```text
//!  Seen    the world, which survives a cut: the states in which the system may be, if all that is
//!          committed counts and nothing else; `doubt`: those without the commit that runs
//!  Judge   one boot: the same states, with what open steps have claimed, and who waits for what
//!
//!  call in a step       each state says what the call returns; those that say otherwise are gone
//!  a call that waits    takes effect at any instant between the call and its return
//!  Event::Commit        in the kernel's section: the open operations are done in each state
//!  switch               no thread is ready whose priority is higher
//!  no thread is ready   nobody waits for what is there
//! ```
//!
//! If no state is left, the kernel has done what none allows. What each object does is in
//! `judge/*.rs`.

pub mod flags;
pub mod model;
pub mod mutex;
pub mod place;
pub mod queue;
pub mod semaphore;
pub mod thread;
pub mod timer;

use super::program::*;
pub use model::Model;
use nv_rtos::code;
use powerfail::World;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use thread::Call;
pub use thread::{ERR, Ended};

/// What the model knows of an object: what the open step of each thread does with it.
pub trait Object {
    /// The open step of a thread commits at a time.
    fn commit(&mut self, t: usize, now: u64);
    /// The open step of a thread has failed, or was cut, or its thread was aborted.
    fn undo(&mut self, t: usize);
    /// How many operations of the kernel the open step of a thread has.
    fn operations(&self, t: usize) -> usize;
}

/// The world.
#[derive(Clone, Debug, Hash)]
pub struct Seen {
    now: Vec<Model>,
    doubt: Vec<Model>,
    /// A step of a thread is about to fail with this result, if that is recorded.
    failing: [Option<(usize, u32)>; THREADS],
    /// The act of each thread's last delay, and until when it is, at least.
    delay: [(usize, u64); THREADS],
    /// A time that somebody knows.
    known: u64,
    interrupts: u32,
    /// How many events handlers have posted.
    events: u32,
    boots: u32,
    /// Which threads a boot may have counted since their last progress, and has counted for
    /// certain: in a system that parks a thread after one such boot.
    maybe: [bool; THREADS],
    surely: [bool; THREADS],
    /// How many steps a thread had done, at most, when a boot was counted against it.
    had_done: [usize; THREADS],
    /// What threads have found that is a record, each with its act.
    found: Vec<(usize, usize, u32)>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen {
            now: vec![Model::default()],
            doubt: Vec::new(),
            failing: [None; THREADS],
            delay: [(0, 0); THREADS],
            known: 0,
            interrupts: 0,
            events: 0,
            boots: 0,
            maybe: [false; THREADS],
            surely: [false; THREADS],
            had_done: [0; THREADS],
            found: Vec::new(),
        }
    }
}

/// What a thread waits for between its steps.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// It runs, or is in a step.
    No,
    /// For the time, for another thread, or it has ended.
    Yes,
    Lock(usize),
}

/// The judge of one boot.
pub struct Judge<'w> {
    w: &'w World<'w, Seen>,
    pub program: &'w Program,
    states: RefCell<Vec<Model>>,
    /// The kernel's clock at the boot, and the machine's, which begins at 0.
    base: Cell<u64>,
    pub ticks: Cell<u64>,
    first: [u8; THREADS],
    waits: RefCell<[Waits; THREADS]>,
    parked: RefCell<[bool; THREADS]>,
    /// Which threads may have made progress in this boot, and which have for certain.
    progress: RefCell<[bool; THREADS]>,
    recorded: RefCell<[bool; THREADS]>,
    /// Which have passed a step without running it.
    replayed: RefCell<[bool; THREADS]>,
    live: RefCell<[bool; THREADS]>,
    /// The locks that a thread has by its program: the lock and the act. Who has one for certain.
    held: RefCell<[Vec<(Number, u8)>; THREADS]>,
    holder: RefCell<[Option<usize>; LOCKS + 1]>,
    /// When the first of those is due that wait, if all wait.
    due: Cell<u64>,
    /// The first thing that was wrong.
    wrong: RefCell<Option<String>>,
}

/// The number of a mutex: the last one is that which is made.
fn lock_index(lock: Number) -> usize {
    usize::from(lock).min(LOCKS)
}

fn at_rest(all: &[Model]) -> Vec<Model> {
    if let [only] = all {
        return vec![only.at_rest()];
    }
    let mut known = HashSet::new();
    let rest = all.iter().map(Model::at_rest);
    rest.filter(|m| known.insert(hash_of(m))).collect()
}

impl<'w> Judge<'w> {
    /// With the first priorities of the threads.
    pub fn new(w: &'w World<'w, Seen>, program: &'w Program, first: [u8; THREADS]) -> Self {
        let states = w.with(|s| [&s.now[..], &s.doubt].concat());
        Judge {
            w,
            program,
            states: RefCell::new(states),
            base: Cell::new(0),
            ticks: Cell::new(0),
            first,
            waits: RefCell::new([Waits::No; THREADS]),
            parked: Default::default(),
            progress: Default::default(),
            recorded: Default::default(),
            replayed: Default::default(),
            live: RefCell::new([false; THREADS]),
            held: Default::default(),
            holder: Default::default(),
            due: Cell::new(u64::MAX),
            wrong: RefCell::new(None),
        }
    }

    pub fn now(&self) -> u64 {
        self.base.get() + self.ticks.get()
    }
    pub fn events(&self) -> u32 {
        self.w.with(|s| s.events)
    }

    /// Something is wrong. Often in the kernel's section: see [`check`](Self::check).
    fn finds(&self, what: String) {
        self.wrong.borrow_mut().get_or_insert(what);
    }

    /// Fails the running thread, if something is wrong.
    pub fn check(&self) {
        if !std::thread::panicking()
            && let Some(what) = self.wrong.take()
        {
            panic!("{what}");
        }
    }

    pub fn is_wrong(&self) -> bool {
        self.wrong.borrow().is_some()
    }

    fn each_state(&self, f: impl FnMut(&mut Model)) {
        self.states.borrow_mut().iter_mut().for_each(f);
    }

    /// Keeps the states for which `f` holds, after all that may have happened meanwhile.
    fn filter(&self, what: std::fmt::Arguments<'_>, mut f: impl FnMut(&mut Model) -> bool) {
        if !self.program.preempted {
            let (due, ticks) = (self.due.replace(u64::MAX), self.ticks.get());
            if ticks > due {
                self.finds(format!(
                    "somebody was due at {due}, and it is {ticks}: {what}"
                ));
            }
        }
        let mut all = self.states.take();
        self.expand(&mut all);
        let (n, first) = (all.len(), all[0].clone());
        all.retain_mut(|m| f(m));
        if all.is_empty() {
            self.finds(format!(
                "{what}: none of {n} states allows it, as this one: {first:?}"
            ));
            all.push(first);
        }
        if all.len() > 1 {
            all.sort_by_cached_key(hash_of);
            all.dedup();
        }
        *self.states.borrow_mut() = all;
    }

    /// Adds the states in which calls that have not returned have taken effect, failed steps are
    /// undone, and the place of a spawned thread is free.
    fn expand(&self, all: &mut Vec<Model>) {
        // Most often nothing has happened, and no hash is needed.
        let mut known: Option<HashSet<u64>> = None;
        let mut i = 0;
        while i < all.len() {
            for t in 0..THREADS {
                let Some(m) = self.goes_on(&all[i], t) else {
                    continue;
                };
                let known = known.get_or_insert_with(|| all.iter().map(hash_of).collect());
                if known.insert(hash_of(&m)) {
                    all.push(m);
                }
            }
            i += 1;
            assert!(all.len() < 2000, "too many states for this judge");
        }
    }

    /// The state after what a thread may have done since its last call of the judge.
    fn goes_on(&self, before: &Model, t: usize) -> Option<Model> {
        let r = &before.threads[t].running;
        if let Some(Call {
            op,
            id,
            until,
            done: None,
        }) = r.call
        {
            let mut m = before.clone();
            let found = m.perform(t, op, id, self.now(), self.events());
            let late = self.ticks.get() >= until;
            let found = match found {
                Some(_) if late && m.may_refuse(t, op) => {
                    m = before.clone();
                    0
                }
                Some(found) => found,
                None if late => 0,
                None => return None,
            };
            let call = m.threads[t].running.call.as_mut()?;
            call.done = Some(found);
            return Some(m);
        }
        if r.fails && before.operations(t) != 0 {
            let mut m = before.clone();
            m.undo(t);
            return Some(m);
        }
        if let Some(end) = r.returned
            && t == WORKER
            && !r.ended
        {
            let mut m = before.clone();
            m.threads[t].running.ended = true;
            m.threads[t].leave_place(end);
            return Some(m);
        }
        None
    }

    /// Tells the world. Another thread may run, and commit, just before the world changes.
    fn publish(&self, f: impl FnOnce(&mut Seen)) {
        self.w.update(|s| {
            (s.now, s.doubt) = (at_rest(&self.states.borrow()), Vec::new());
            f(s)
        });
    }

    /// A boot begins: the kernel's clock, its priorities and who was aborted.
    pub fn boots(
        &self,
        base: u64,
        priority: impl Fn(usize) -> u8,
        aborted: impl Fn(usize) -> bool,
    ) {
        self.base.set(base);
        self.w.update(|s| s.boots += 1);
        let known = self.w.with(|s| s.known);
        assert!(
            base >= known,
            "the clock is at {base}, and somebody knows {known}"
        );
        self.filter(format_args!("the boot"), |m| {
            (0..THREADS).all(|t| {
                let its = &m.threads[t];
                let same = its.aborted || priority(t) == self.priority(m, t);
                same && (t == WORKER || aborted(t) == its.aborted)
            })
        });
    }

    /// The same: who is parked. That is for good, until somebody makes it run.
    pub fn boots_parked(&self, parked: impl Fn(usize) -> bool) {
        let (maybe, surely) = self.w.with(|s| (s.maybe, s.surely));
        for t in 0..THREADS {
            let is = parked(t);
            assert!(
                !is || maybe[t],
                "thread {t} is parked, and no boot was long"
            );
            assert!(
                is || !surely[t],
                "thread {t} is not parked after a long boot"
            );
            self.parked.borrow_mut()[t] = is;
        }
        let is = parked(WORKER);
        self.filter(format_args!("the place is parked: {is}"), |m| {
            !is || m.threads[WORKER].argument.is_some()
        });
        // A step that was done since is progress.
        let had_done = self.w.with(|s| s.had_done);
        self.filter(
            format_args!("threads that have done nothing are parked"),
            |m| (0..WORKER).all(|t| !parked(t) || m.threads[t].results.len() <= had_done[t]),
        );
    }

    /// A parked thread is to run again. Whether it was parked.
    pub fn unparks(&self, t: usize) -> bool {
        let was = std::mem::take(&mut self.parked.borrow_mut()[t]);
        if was {
            self.w
                .update(|s| (s.maybe[t], s.surely[t]) = (false, false));
        }
        was
    }

    /// A thread is about to make progress, and to make a record.
    pub fn progresses(&self, t: usize) {
        self.progress.borrow_mut()[t] = true;
        if self.w.with(|s| s.surely[t]) {
            self.w.update(|s| s.surely[t] = false);
        }
    }

    /// It has made a record. A boot that was counted before does not count any more.
    fn progressed(&self, t: usize) {
        self.recorded.borrow_mut()[t] = true;
        if self.w.with(|s| s.maybe[t]) {
            self.w.update(|s| s.maybe[t] = false);
        }
    }

    /// A thread runs for some ticks, since a time, without a call.
    pub fn works(&self, t: usize, ticks: u64, live: bool, work: impl FnOnce()) {
        let from = self.ticks.get();
        let fresh = !self.progress.borrow()[t];
        if from + ticks >= LONG {
            // Any thread may be ready meanwhile.
            self.w.update(|s| {
                let (recorded, states) = (self.recorded.borrow(), self.states.borrow());
                for u in (0..THREADS).filter(|u| !recorded[*u]) {
                    let done = states.iter().map(|m| m.threads[u].results.len());
                    (s.maybe[u], s.had_done[u]) = (true, done.max().unwrap_or(0));
                }
            });
        }
        work();
        // The kernel looks after so many ticks, twice as many, and so on.
        let looks = (0..9)
            .map(|i| LONG << i)
            .any(|at| from < at && at < from + ticks);
        // The kernel knows that a thread is live when it has passed a record.
        if fresh && live && looks && self.replayed.borrow()[t] {
            self.w.update(|s| s.surely[t] = true);
        }
    }

    /// The body of a step runs.
    pub fn begins(&self, t: usize, n: usize, root: u32) {
        self.live.borrow_mut()[t] = true;
        self.progresses(t);
        self.is_first(t);
        self.filter(
            format_args!("thread {t} begins step {n}, its root says {root}"),
            |m| {
                let its = &m.threads[t];
                its.results.len() == n && !its.aborted && its.committed() == root as usize
            },
        );
        if self.w.with(|s| s.failing[t].is_some()) {
            self.publish(|s| s.failing[t] = None);
        }
    }

    /// Whether the body of a step of this thread has run in this boot.
    pub fn is_live(&self, t: usize) -> bool {
        self.live.borrow()[t]
    }

    /// A call in a step.
    pub fn call(&self, t: usize, op: Op, id: u32, f: impl FnOnce() -> u32) -> u32 {
        self.is_first(t);
        if op.wait() == Some(0) {
            return powerfail::masked(|| {
                let r = f();
                let (now, events) = (self.now(), self.events());
                self.filter(format_args!("thread {t}: {op:?} says {r:#x}"), |m| {
                    let refused = r == 0 && m.may_refuse(t, op);
                    refused || m.perform(t, op, id, now, events).unwrap_or(0) == r
                });
                r
            });
        }
        let call = Call {
            op,
            id,
            until: op.wait().map_or(u64::MAX, |n| self.ticks.get() + n),
            done: None,
        };
        self.each_state(|m| m.threads[t].running.call = Some(call));
        let r = f();
        if matches!(op, Op::Delete(Kind::Mutex, _)) && r == 1 {
            let holder = self.holder.borrow()[LOCKS];
            assert_eq!(holder, None, "a mutex is deleted that a thread has");
        }
        let refused = r == ERR | u32::from(code::REFUSED)
            && match op {
                Op::Abort(v) => self.locks(v.into()),
                Op::Delete(Kind::Mutex, _) => true,
                _ => false,
            };
        self.filter(
            format_args!("thread {t}: {op:?} says {r:#x} at the end"),
            |m| {
                let call = m.threads[t].running.call.take();
                let done = call.and_then(|c| c.done);
                done == Some(r) || refused && done.is_none()
            },
        );
        r
    }

    /// The step of `t` adds one to the data of a mutex, and has found this.
    pub fn adds(&self, t: usize, lock: Number, found: u32) {
        self.filter(
            format_args!("thread {t} finds {found} in the data of {lock}"),
            |m| m.mutex(lock).add(t) == found,
        );
    }

    fn locks(&self, t: usize) -> bool {
        let mut acts = self.program.threads[t].iter();
        acts.any(|a| matches!(a, Act::Lock(_) | Act::Try(..) | Act::Each(_, Some(_), _)))
    }

    /// A body is about to fail.
    pub fn fails(&self, t: usize, n: usize, result: u32) {
        self.each_state(|m| m.threads[t].running.fails = true);
        self.publish(|s| s.failing[t] = Some((n, result)));
    }

    /// A body is about to return.
    pub fn returns(&self, t: usize, result: u32) {
        self.each_state(|m| m.threads[t].running.result = result);
    }

    /// In the kernel's section, just before the words and the store of a commit.
    pub fn commits(&self, t: usize) {
        let now = self.now();
        let before = at_rest(&self.states.borrow());
        let held = self.held.borrow()[t].clone();
        let holder = *self.holder.borrow();
        let (mut refused, mut may_fail, mut n) = (Vec::new(), false, 0);
        self.filter(
            format_args!("thread {t} commits, with the locks {held:?}"),
            |m| {
                n = m.threads[t].results.len();
                let r = &m.threads[t].running;
                if m.threads[t].aborted || r.call.is_some() || r.fails {
                    return false;
                }
                if m.deletes_a_held_latch(t) {
                    return false;
                }
                let victims: Vec<usize> = (0..THREADS).filter(|v| m.aborts(t, *v)).collect();
                let inside = victims.iter().any(|v| m.is_inside(*v));
                if victims.iter().any(|v| self.locks(*v)) {
                    may_fail = true;
                    let mut other = m.clone();
                    other.threads[t].running.fails = true;
                    if inside || victims.iter().any(|v| holder.contains(&Some(*v))) {
                        *m = other;
                        return true;
                    }
                    refused.push(other);
                }
                let enters = held.iter().all(|(lock, act)| m.mutex(*lock).enter(t, *act));
                if enters {
                    m.commit(t, now);
                }
                enters
            },
        );
        self.states.borrow_mut().extend(refused);
        self.publish(|s| {
            s.doubt = before;
            if may_fail {
                s.failing[t] = Some((n, ERR | u32::from(code::REFUSED)));
            }
        });
    }

    /// A step has returned, in this boot or in the replay.
    pub fn passed(&self, t: usize, n: usize, result: u32) {
        if self.is_live(t) {
            self.progressed(t);
        } else {
            self.replayed.borrow_mut()[t] = true;
        }
        let failed = self.w.with(|s| s.failing[t]) == Some((n, result));
        self.filter(
            format_args!("thread {t} has passed step {n} with {result:#x}"),
            |m| {
                if m.threads[t].results.len() == n && failed {
                    if m.operations(t) != 0 {
                        return false;
                    }
                    // What is no operation of the kernel is undone as well.
                    m.undo(t);
                    m.threads[t].running.fails = false;
                    m.threads[t].results.push(result);
                }
                m.threads[t].results.get(n) == Some(&result)
            },
        );
        if failed || self.w.with(|s| !s.doubt.is_empty()) {
            self.publish(|s| s.failing[t] = s.failing[t].filter(|_| !failed));
        }
    }

    /// A loop has returned: the thread has done so many steps.
    pub fn passed_all(&self, t: usize, n: usize) {
        self.filter(
            format_args!("thread {t} has passed a loop until step {n}"),
            |m| m.threads[t].results.len() >= n,
        );
        if self.w.with(|s| !s.doubt.is_empty()) {
            self.publish(|_| {});
        }
    }

    /// A thread calls for a lock.
    pub fn locks_now(&self, t: usize, lock: Number) {
        self.waits.borrow_mut()[t] = Waits::Lock(lock_index(lock));
    }

    /// A thread has a lock; for certain, if it was `live` before and did not have it in a replay:
    /// then it may have given it back before the cut, and does the rest without it.
    pub fn locked(&self, t: usize, lock: Number, act: u8, live: bool) {
        self.waits.borrow_mut()[t] = Waits::No;
        let held = &mut self.held.borrow_mut()[t];
        let outer = held.iter().find(|h| h.0 == lock).map(|h| h.1);
        held.push((lock, outer.unwrap_or(act)));
        let h = &mut self.holder.borrow_mut()[lock_index(lock)];
        if live && outer.is_none() {
            assert!(
                h.is_none_or(|h| h == t),
                "{t} gets lock {lock}, and {h:?} has it"
            );
            *h = Some(t);
            if made(lock).is_some() {
                self.filter(format_args!("thread {t} locks {lock}"), |m| {
                    m.has_latch(lock) && !m.latch_is_changed()
                });
            }
        }
    }

    /// A thread that wanted a lock at `since` has given up, in this boot if it was `live`: the time
    /// is over, and another thread may have it.
    pub fn gives_up(&self, t: usize, lock: Number, (since, ticks): (u64, u64), live: bool) {
        self.waits.borrow_mut()[t] = Waits::No;
        if !live {
            return;
        }
        let (now, until) = (self.now(), since + ticks);
        assert!(
            now >= until,
            "{t} gives up lock {lock} at {now}, before {until}"
        );
        // No other thread runs between its only look at the mutex and this.
        if ticks == 0 && !self.program.preempted && made(lock).is_none() {
            self.filter(format_args!("thread {t} does not get lock {lock}"), |m| {
                !self.nobody_has(m, t, lock_index(lock))
            });
        }
    }

    /// A thread has not found the mutex that was made.
    pub fn found_none(&self, t: usize, lock: Number, live: bool) {
        self.waits.borrow_mut()[t] = Waits::No;
        self.filter(format_args!("thread {t} does not find mutex {lock}"), |m| {
            !live || !m.has_latch(lock)
        });
    }

    /// A thread is about to give back a lock.
    pub fn unlocks(&self, t: usize, at: usize) {
        let (lock, act) = self.held.borrow_mut()[t].remove(at);
        if self.held.borrow()[t].iter().any(|h| h.0 == lock) {
            return;
        }
        let at = lock_index(lock);
        let holder = self.holder.borrow()[at];
        self.holder.borrow_mut()[at] = holder.filter(|h| *h != t);
        let mut entered = false;
        self.each_state(|m| entered |= m.mutex(lock).leave(t, act));
        if entered {
            self.publish(|_| {});
        }
    }

    /// The same of the lock that it has locked last.
    pub fn unlocks_last(&self, t: usize) {
        let last = self.held.borrow()[t].len() - 1;
        self.unlocks(t, last);
    }

    /// A delay begins; `live`: its end is in no record.
    pub fn delays(&self, t: usize, act: usize, ticks: u64, live: bool) {
        self.waits.borrow_mut()[t] = Waits::Yes;
        if live {
            let until = self.now() + ticks;
            self.publish(|s| s.delay[t] = (act, until));
        }
    }

    pub fn delayed(&self, t: usize, act: usize) {
        self.waits.borrow_mut()[t] = Waits::No;
        let (now, (last, until)) = (self.now(), self.w.with(|s| s.delay[t]));
        assert!(
            act != last || now >= until,
            "thread {t} wakes at {now}, before {until}"
        );
        self.filter(format_args!("thread {t} runs"), |m| !m.threads[t].aborted);
        if self.w.with(|s| s.known < now) {
            self.publish(|s| s.known = now);
        }
    }

    /// A thread waits for the end of another one.
    pub fn joins(&self, t: usize) {
        self.waits.borrow_mut()[t] = Waits::Yes;
    }

    /// A thread was joined, in this boot if it was `live`.
    pub fn joined(&self, by: usize, t: usize, end: Ended, live: bool) {
        self.waits.borrow_mut()[by] = Waits::No;
        self.filter(format_args!("thread {t} was joined: {end:?}"), |m| {
            let its = &m.threads[t];
            if t == WORKER {
                let last = if its.aborted {
                    Ended::Aborted
                } else {
                    its.last
                };
                return !live || (its.aborted || its.argument.is_none()) && end == last;
            }
            // It may be aborted later, on its way to the end.
            let aborted = end == Ended::Aborted;
            (its.running.ended || !live) && aborted <= its.aborted
        });
    }

    /// A thread has found the energy that is left, or whether a mutex exists. A replay finds the
    /// same.
    pub fn finds_again(&self, t: usize, act: usize, found: u32, live: bool) {
        let its = |f: &&mut (usize, usize, u32)| (f.0, f.1) == (t, act);
        if live {
            return self.publish(|s| match s.found.iter_mut().find(its) {
                Some(known) => known.2 = found,
                None => s.found.push((t, act, found)),
            });
        }
        let known = self.w.with(|s| {
            let mut known = s.found.iter();
            known.find(|f| (f.0, f.1) == (t, act)).map(|f| f.2)
        });
        assert!(
            known.is_none_or(|known| known == found),
            "thread {t} finds {found} in its act {act}, and has found {known:?}"
        );
    }

    /// The energy that is left: another number in each boot.
    pub fn energy(&self) -> u32 {
        self.w.with(|s| s.boots)
    }

    /// A thread runs in the reserved place, in this boot or for the first time.
    pub fn was_spawned(&self, argument: u32) {
        self.filter(
            format_args!("a thread begins that got {argument:#x}"),
            |m| {
                let its = &m.threads[WORKER];
                its.argument == Some(argument) && !its.aborted
            },
        );
        self.live.borrow_mut()[WORKER] = false;
        self.progress.borrow_mut()[WORKER] = false;
        self.replayed.borrow_mut()[WORKER] = false;
        self.waits.borrow_mut()[WORKER] = Waits::No;
    }

    /// The thread's body has returned.
    pub fn ends(&self, t: usize, end: Ended) {
        self.waits.borrow_mut()[t] = Waits::Yes;
        if t == WORKER {
            self.each_state(|m| m.threads[t].running.returned = Some(end));
            self.filter(format_args!("the place will be free"), |_| true);
            // No count remains against the next thread.
            self.progresses(t);
            return self.publish(|s| s.failing[t] = None);
        }
        self.each_state(|m| m.threads[t].running.returned = Some(end));
    }

    /// In the kernel's section: a thread that was not spawned has ended.
    pub fn has_ended(&self, t: usize) {
        self.each_state(|m| m.threads[t].running.ended = true);
    }

    fn priority(&self, m: &Model, t: usize) -> u8 {
        m.threads[t].priority.unwrap_or(self.first[t])
    }

    /// The kernel lets a thread run.
    pub fn runs(&self, t: usize) {
        if self.states.borrow().iter().all(|m| m.threads[t].aborted) {
            self.finds(format!("thread {t} is to run, which was aborted"));
        }
        if self.parked.borrow()[t] {
            self.finds(format!("thread {t} is to run, which is parked"));
        }
        self.is_first(t);
    }

    /// No thread of a higher priority is ready than the one that runs.
    fn is_first(&self, t: usize) {
        let runs = |m: &Model| {
            // A holder runs for who waits for its mutex; a replay may be one.
            let lends = |u: &usize| self.lock_of(m, *u).is_some();
            let holds = !self.held.borrow()[t].is_empty() || !self.live.borrow()[t];
            let lent = (0..THREADS)
                .filter(lends)
                .map(|u| self.priority(m, u))
                .max();
            let own = self.priority(m, t);
            let most = own.max(lent.filter(|_| holds).unwrap_or(0));
            (0..THREADS).all(|u| u == t || !self.is_ready(m, u) || self.runs_at(m, u) <= most)
        };
        let states = self.states.borrow();
        if !states.iter().any(runs) {
            let m = &states[0];
            self.finds(format!("thread {t} runs, and another one is first: {m:?}"));
        }
    }

    /// The priority at which a thread runs, at least.
    fn runs_at(&self, m: &Model, t: usize) -> u8 {
        let holder = self.holder.borrow();
        let for_it = |u: &usize| {
            let lock = self.lock_of(m, *u);
            lock.is_some_and(|lock| holder[lock] == Some(t))
        };
        let lent = (0..THREADS).filter(for_it).map(|u| self.priority(m, u));
        lent.chain([self.priority(m, t)]).max().unwrap_or(0)
    }

    /// Whether a thread is ready for certain.
    fn is_ready(&self, m: &Model, t: usize) -> bool {
        let its = &m.threads[t];
        let there = t != WORKER || its.argument.is_some();
        if self.parked.borrow()[t]
            || its.aborted
            || its.running.ended
            || !there
            || self.waits.borrow()[t] != Waits::No
        {
            return false;
        }
        match its.running.call {
            None => its.running.returned.is_none(),
            Some(Call { done: Some(_), .. }) => true,
            Some(Call { op, id, .. }) => {
                let by_handler = matches!(op, Op::Expired | Op::Until(..));
                let asks = matches!(op, Op::Abort(_) | Op::Delete(..));
                let mut m = m.clone();
                let refused = m.may_refuse(t, op);
                let found = m.perform(t, op, id, self.now(), self.events());
                !by_handler && !asks && !refused && found.is_some()
            }
        }
    }

    /// The lock for which a thread waits, if it was not aborted.
    fn lock_of(&self, m: &Model, t: usize) -> Option<usize> {
        match self.waits.borrow()[t] {
            Waits::Lock(lock) => (!m.threads[t].aborted).then_some(lock),
            _ => None,
        }
    }

    /// Whether nobody has the lock for which a thread waits, and nobody will be found to have it.
    fn waits_for_nobody(&self, m: &Model, t: usize) -> bool {
        let Some(lock) = self.lock_of(m, t) else {
            return false;
        };
        self.nobody_has(m, t, lock)
    }

    /// Whether no thread has a lock, and none but `t` will be found to have it.
    fn nobody_has(&self, m: &Model, t: usize, lock: usize) -> bool {
        let may_have = |u: &usize| {
            let its = &m.threads[*u];
            let there = *u != WORKER || its.argument.is_some();
            there && !its.aborted && !its.running.ended && !self.live.borrow()[*u]
        };
        self.holder.borrow()[lock].is_none() && !(0..THREADS).any(|u| u != t && may_have(&u))
    }

    /// No thread is ready.
    pub fn idles(&self) {
        let (now, events) = (self.now(), self.events());
        // Of the state with the latest one.
        let mut latest = 0;
        self.filter(format_args!("all threads wait"), |m| {
            let mut due = u64::MAX;
            let all_wait = (0..THREADS).all(|t| {
                let runs = m.threads[t].running.call.is_none() && self.is_ready(m, t);
                if runs || self.waits_for_nobody(m, t) {
                    return false;
                }
                let r = m.threads[t].running.clone();
                let Some(c) = r.call else {
                    return !r.fails && (r.returned.is_none() || r.ended);
                };
                due = due.min(c.until);
                if c.op == Op::Expired && !m.timers_are_used() {
                    let at = m.next_expiry().map_or(u64::MAX, |n| n.0);
                    due = due.min(at.saturating_sub(self.base.get()));
                }
                let nothing = m.clone().perform(t, c.op, c.id, now, events).is_none();
                let asks = matches!(c.op, Op::Abort(_) | Op::Delete(..));
                c.done.is_none() && (nothing || asks || m.may_refuse(t, c.op))
            });
            if all_wait {
                latest = latest.max(due);
            }
            all_wait
        });
        self.due.set(latest);
    }

    /// An interrupt comes. What it is to do: for those that wait, or anything.
    pub fn interrupts(&self) -> Vec<Op> {
        let n = self.w.with(|s| s.interrupts);
        let mut all = Vec::new();
        if n >= 60 {
            return all;
        }
        for m in &mut *self.states.borrow_mut() {
            let runs = m.next_expiry().is_some();
            for (t, c) in (0..)
                .zip(&m.threads)
                .filter_map(|(t, th)| Some((t, th.running.call?)))
            {
                all.extend(match c.op {
                    Op::Take(s, _) if s < NEVER => Some(Op::Give(s)),
                    Op::Receive(q, _) if q < 16 => Some(Op::Send(q, None)),
                    Op::Flags(0, f, ..) => Some(Op::Set(0, f)),
                    Op::Flags(1..16, f, ..) => Some(Op::Set(t + 1, f)),
                    Op::Expired if !runs => Some(Op::Start(n as u8 % 2)),
                    Op::Until(..) => Some(Op::Until(t.into(), None)),
                    _ => None,
                });
            }
        }
        if all.is_empty() {
            let any = [
                Op::Give(0),
                Op::Set(0, 5),
                Op::Start(0),
                Op::Send(0, None),
                Op::Stop(0),
            ];
            all.push(any[n as usize % any.len()]);
        }
        all.dedup();
        all
    }

    /// Does that with `f`, which gets a number for a message.
    pub fn interrupted(&self, op: Op, f: impl FnOnce(u32) -> bool) {
        let now = self.now();
        let before = at_rest(&self.states.borrow());
        let id = 0x7f00_0000 | self.w.with(|s| s.interrupts);
        self.filter(format_args!("an interrupt"), |_| true);
        let mut after = self.states.borrow().clone();
        after.iter_mut().for_each(|m| _ = m.interrupt(op, id, now));
        self.w.update(|s| {
            (s.now, s.doubt) = (at_rest(&after), before);
            s.interrupts += 1;
            s.events += u32::from(matches!(op, Op::Until(..)));
        });
        let done = f(id);
        self.filter(format_args!("an interrupt: {op:?} says {done}"), |m| {
            m.interrupt(op, id, now) == done
        });
        self.publish(|_| {});
    }

    /// All threads have ended.
    pub fn over(&self, aborted: impl Fn(usize) -> bool) {
        self.filter(format_args!("the end"), |m| {
            (0..WORKER).all(|t| m.threads[t].aborted == aborted(t) && m.operations(t) == 0)
        });
    }
}

/// Stands for a state where many are compared.
fn hash_of(m: &Model) -> u64 {
    let mut h = Fold(0);
    m.hash(&mut h);
    h.0
}

/// A hash for states, which are long: that of the standard library takes most of a campaign's time.
struct Fold(u64);

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.0 = (self.0.rotate_left(5) ^ u64::from_le_bytes(word))
                .wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
