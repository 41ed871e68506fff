//! A state in which the system may be: its objects and its threads.

use super::Object;
use super::flags::Flags;
use super::mutex::Mutex;
use super::place::Place;
use super::queue::Queue;
use super::semaphore::Semaphore;
use super::thread::{Change, ERR, Ended, Running, Thread};
use super::timer::Timer;
use crate::generated::program::*;
use nv_rtos::{OPERATIONS_MAX, code};
use std::fmt;

#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Model {
    semaphores: [Semaphore; 3],
    queues: [Queue; 2],
    groups: [Flags; GROUPS],
    timers: [Timer; 2],
    mutexes: [Mutex; LOCKS],
    permits: [Place<Semaphore>; PERMITS],
    letters: Place<Queue>,
    phases: Place<Flags>,
    alarms: Place<Timer>,
    latches: Place<Mutex>,
    pub threads: [Thread; THREADS],
}

impl Default for Model {
    fn default() -> Self {
        Model {
            semaphores: std::array::from_fn(|i| Semaphore::new(FIRST[i], MAX[i])),
            queues: SLOTS.map(Queue::new),
            groups: Default::default(),
            timers: std::array::from_fn(|i| Timer::new(PERIOD[i], i == 0)),
            mutexes: Default::default(),
            permits: std::array::from_fn(|_| Place::new(Semaphore::new(1, PERMITS_MAX))),
            letters: Place::new(Queue::new(LETTERS)),
            phases: Place::new(Flags::default()),
            alarms: Place::new(Timer::new(ALARM.into(), false)),
            latches: Place::new(Mutex::default()),
            threads: Default::default(),
        }
    }
}

/// What is not as at first.
impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = Model::default();
        let mut list = f.debug_map();
        macro_rules! changed {
            ($($field:ident)+) => {$(
                for (n, (now, first)) in self.$field.iter().zip(&first.$field).enumerate() {
                    if now != first {
                        list.entry(&format_args!("{}[{n}]", stringify!($field)), now);
                    }
                }
            )+};
        }
        changed! { semaphores queues groups timers mutexes permits threads }
        macro_rules! made {
            ($($field:ident)+) => {$(
                if self.$field != first.$field {
                    list.entry(&stringify!($field), &self.$field);
                }
            )+};
        }
        made! { letters phases alarms latches }
        list.finish()
    }
}

/// The answer of a call on an object that does not exist.
const DELETED: Option<u32> = Some(ERR | code::DELETED as u32);
const FULL: Option<u32> = Some(ERR | code::FULL as u32);
const REFUSED: Option<u32> = Some(ERR | code::REFUSED as u32);

/// An object of a number, or the answer that it does not exist.
macro_rules! object {
    ($model:ident.$fixed:ident | $places:ident, $n:expr, $t:expr) => {
        match made($n) {
            None => &mut $model.$fixed[usize::from($n)],
            Some((place, count)) => match $model.$places(place).and_then(|p| p.get(count, $t)) {
                Some(object) => object,
                None => return DELETED,
            },
        }
    };
}

impl Model {
    // Places, by their numbers.
    fn permit(&mut self, place: u8) -> Option<&mut Place<Semaphore>> {
        self.permits.get_mut(usize::from(place))
    }
    fn letter(&mut self, place: u8) -> Option<&mut Place<Queue>> {
        (place == 0).then_some(&mut self.letters)
    }
    fn phase(&mut self, place: u8) -> Option<&mut Place<Flags>> {
        (place == 0).then_some(&mut self.phases)
    }
    fn alarm(&mut self, place: u8) -> Option<&mut Place<Timer>> {
        (place == 0).then_some(&mut self.alarms)
    }

    /// A mutex by its number.
    pub fn mutex(&mut self, lock: Number) -> &mut Mutex {
        match made(lock) {
            None => &mut self.mutexes[usize::from(lock)],
            Some(_) => &mut self.latches.object,
        }
    }
    /// Whether the mutex of this handle exists.
    pub fn has_latch(&mut self, lock: Number) -> bool {
        made(lock)
            .is_some_and(|(place, count)| place == 0 && self.latches.get(count, THREADS).is_some())
    }
    /// Whether the open step of `t` aborts a thread that has not ended.
    pub fn aborts(&self, t: usize, v: usize) -> bool {
        let v = &self.threads[v];
        v.changes[t] == Some(Change::Abort) && !v.running.ended
    }
    /// Whether a thread has committed under a lock that it has not given back.
    pub fn is_inside(&self, t: usize) -> bool {
        let latch = self.latches.object.inside() == Some(t);
        latch || self.mutexes.iter().any(|m| m.inside() == Some(t))
    }
    /// Whether the open step of `t` deletes the mutex that was made, and a thread is inside.
    pub fn deletes_a_held_latch(&self, t: usize) -> bool {
        self.latches.is_changed(t) && self.latches.object.inside().is_some()
    }
    /// Whether an open step deletes the mutex that was made.
    pub fn latch_is_changed(&self) -> bool {
        (0..THREADS).any(|t| self.latches.is_changed(t))
    }

    fn objects(&self) -> impl Iterator<Item = &dyn Object> {
        let fixed = self.semaphores.iter().map(|o| o as &dyn Object);
        fixed
            .chain(self.queues.iter().map(|o| o as _))
            .chain(self.groups.iter().map(|o| o as _))
            .chain(self.timers.iter().map(|o| o as _))
            .chain(self.mutexes.iter().map(|o| o as _))
            .chain(self.permits.iter().map(|o| o as _))
            .chain([
                &self.letters as _,
                &self.phases as _,
                &self.alarms as _,
                &self.latches as _,
            ])
    }

    fn objects_mut(&mut self) -> impl Iterator<Item = &mut dyn Object> {
        let fixed = self.semaphores.iter_mut().map(|o| o as &mut dyn Object);
        fixed
            .chain(self.queues.iter_mut().map(|o| o as _))
            .chain(self.groups.iter_mut().map(|o| o as _))
            .chain(self.timers.iter_mut().map(|o| o as _))
            .chain(self.mutexes.iter_mut().map(|o| o as _))
            .chain(self.permits.iter_mut().map(|o| o as _))
            .chain([
                &mut self.letters as &mut dyn Object,
                &mut self.phases as _,
                &mut self.alarms as _,
                &mut self.latches as _,
            ])
    }

    /// How many operations of the kernel the open step of `t` has.
    pub fn operations(&self, t: usize) -> usize {
        let changes = self.threads.iter().filter(|v| v.changes[t].is_some());
        changes.count() + self.objects().map(|o| o.operations(t)).sum::<usize>()
    }

    /// Does a call of the step of `t`, and says what it returns; `None` if there is not what it
    /// wants. `id` is the number of what it sends or spawns.
    pub fn perform(&mut self, t: usize, op: Op, id: u32, now: u64, events: u32) -> Option<u32> {
        let mut after = self.clone();
        let found = after.do_op(t, op, id, now, events)?;
        if after.operations(t) > OPERATIONS_MAX {
            return Some(ERR | u32::from(code::TOO_MANY));
        }
        *self = after;
        Some(found)
    }

    fn do_op(&mut self, t: usize, op: Op, id: u32, now: u64, events: u32) -> Option<u32> {
        match op {
            Op::Give(n) => match object!(self.semaphores | permit, n, t).give(t) {
                true => Some(1),
                false => FULL,
            },
            Op::TryGive(n) => Some(object!(self.semaphores | permit, n, t).give(t).into()),
            Op::Take(n, _) => object!(self.semaphores | permit, n, t).take(t).then_some(1),
            Op::Send(n, _) => object!(self.queues | letter, n, t).send(t, id).then_some(1),
            Op::Receive(n, _) => object!(self.queues | letter, n, t).receive(t),
            Op::Set(n, flags) => {
                object!(self.groups | phase, n, t).set(t, flags);
                Some(1)
            }
            Op::Flags(n, flags, all, _) => {
                let n = if (1..16).contains(&n) { t as u8 + 1 } else { n };
                let found = object!(self.groups | phase, n, t).wait(t, flags, all)?;
                Some(0x100 | u32::from(found))
            }
            Op::Start(n) => {
                object!(self.timers | alarm, n, t).start(t);
                Some(1)
            }
            Op::Stop(n) => {
                object!(self.timers | alarm, n, t).stop(t);
                Some(1)
            }
            Op::IsActive(n) => Some(self.is_active(t, n).into()),
            Op::Expired => {
                let (at, first) = self.next_expiry()?;
                (at <= now).then(|| self.timer(first).expire(t))?;
                Some(1 + u32::from(first))
            }
            Op::Until(n, _) => (events >= n).then_some(1),
            Op::Make(kind) => Some(self.make(t, kind)),
            Op::Delete(kind, n) => self.delete(t, kind, n),
            Op::Priority(v, p) => {
                let (worker, v) = (usize::from(v) == WORKER, &mut self.threads[usize::from(v)]);
                let spawned = matches!(v.changes[t], Some(Change::Spawn(..)));
                if !worker || spawned || v.argument.is_some() && !v.aborted {
                    v.set_priority(t, p);
                }
                Some(1)
            }
            Op::Spawn(_) => {
                let place = &mut self.threads[WORKER];
                let claimed = place
                    .changes
                    .iter()
                    .any(|c| matches!(c, Some(Change::Spawn(..))));
                if claimed || place.argument.is_some() || place.aborted {
                    return None;
                }
                place.changes[t] = Some(Change::Spawn(id, None));
                Some(1)
            }
            Op::Abort(v) => self.abort(t, v.into()),
        }
    }

    fn is_active(&mut self, t: usize, n: Number) -> bool {
        match made(n) {
            None => self.timers[usize::from(n)].is_active(t),
            Some((_, count)) => self.alarms.get(count, t).is_some_and(|a| a.is_active(t)),
        }
    }

    /// The timers by number, with the one that was made.
    fn timer(&mut self, n: u8) -> &mut Timer {
        match usize::from(n) {
            n if n < self.timers.len() => &mut self.timers[n],
            _ => &mut self.alarms.object,
        }
    }

    /// When the next timer expires that no step has, and which.
    pub fn next_expiry(&mut self) -> Option<(u64, u8)> {
        let of_system = (0..).zip(self.timers.iter().map(Timer::expires));
        let first = of_system.filter_map(|(n, at)| Some((at?, n))).min();
        let alarm = self.alarms.committed().and_then(|a| a.expires());
        first
            .into_iter()
            .chain(alarm.map(|at| (at, self.timers.len() as u8)))
            .min()
    }

    /// Whether an open step has called a timer.
    pub fn timers_are_used(&self) -> bool {
        let uses = |o: &dyn Object| (0..THREADS).any(|t| o.operations(t) != 0);
        self.timers.iter().any(|o| uses(o)) || uses(&self.alarms)
    }

    /// The new object's number, or the error that there is no place.
    fn make(&mut self, t: usize, kind: Kind) -> u32 {
        let first = |place: Option<u8>| place.map(|count| 16 + u32::from(count));
        let found = match kind {
            Kind::Semaphore => (1..).zip(&mut self.permits).find_map(|(n, p)| {
                let count = p.make(t)?;
                Some(16 * n + u32::from(count))
            }),
            Kind::Queue => first(self.letters.make(t)),
            Kind::Group => first(self.phases.make(t)),
            Kind::Timer => first(self.alarms.make(t)),
            Kind::Mutex => first(self.latches.make(t)),
        };
        found.unwrap_or(ERR | u32::from(code::NO_PLACE))
    }

    fn delete(&mut self, t: usize, kind: Kind, n: Number) -> Option<u32> {
        fn of<O: Object + Clone>(p: Option<&mut Place<O>>, count: u8, t: usize) -> Option<u32> {
            let Some(p) = p else { return DELETED };
            if p.get(count, t).is_none() {
                return DELETED;
            }
            p.delete(t).map(|()| 1)
        }
        let (place, count) = made(n)?;
        match kind {
            Kind::Semaphore => of(self.permit(place), count, t),
            Kind::Queue => of(self.letter(place), count, t),
            Kind::Group => of(self.phase(place), count, t),
            Kind::Timer => of(self.alarm(place), count, t),
            Kind::Mutex => of(Some(&mut self.latches), count, t),
        }
    }

    /// The step of `t` aborts a thread. Whether that waits, or is refused because of a mutex, the
    /// judge knows.
    fn abort(&mut self, t: usize, v: usize) -> Option<u32> {
        let victim = &mut self.threads[v];
        let spawned = matches!(victim.changes[t], Some(Change::Spawn(..)));
        if v == t || spawned {
            return REFUSED;
        }
        let nobody = v == WORKER && victim.argument.is_none();
        if !nobody && !victim.running.ended {
            victim.changes[t] = Some(Change::Abort);
        }
        Some(1)
    }

    /// What a handler does. Whether it could.
    pub fn interrupt(&mut self, op: Op, id: u32, now: u64) -> bool {
        match op {
            Op::Give(n) => self.semaphores[usize::from(n)].give_at_once(),
            Op::Send(n, _) => {
                let queue = &mut self.queues[usize::from(n)];
                !queue.may_refuse() && queue.send_at_once(id)
            }
            Op::Set(n, flags) => {
                self.groups[usize::from(n)].set_at_once(flags);
                true
            }
            Op::Start(n) => {
                self.timers[usize::from(n)].start_at_once(now);
                true
            }
            Op::Stop(n) => {
                self.timers[usize::from(n)].stop_at_once();
                true
            }
            Op::Until(..) => true,
            _ => unreachable!("no handler does {op:?}"),
        }
    }

    /// Whether a queue may refuse a message for the age of its oldest one.
    pub fn may_refuse(&mut self, t: usize, op: Op) -> bool {
        let Op::Send(n, _) = op else { return false };
        match made(n) {
            None => self.queues[usize::from(n)].may_refuse(),
            Some((_, count)) => self.letters.get(count, t).is_some_and(|q| q.may_refuse()),
        }
    }

    /// The open step of `t` commits.
    pub fn commit(&mut self, t: usize, now: u64) {
        self.objects_mut().for_each(|o| o.commit(t, now));
        let aborted: Vec<usize> = (0..THREADS)
            .filter(|v| self.threads[*v].commit(t))
            .collect();
        aborted.into_iter().for_each(|v| self.undo(v));
        let result = self.threads[t].running.result;
        self.threads[t].results.push(result);
    }

    /// The open step of `t` has failed, or its thread was aborted.
    pub fn undo(&mut self, t: usize) {
        self.objects_mut().for_each(|o| o.undo(t));
        self.threads.iter_mut().for_each(|v| v.changes[t] = None);
    }

    /// What is left of it after a cut.
    pub fn at_rest(&self) -> Model {
        let mut m = self.clone();
        for t in 0..THREADS {
            m.undo(t);
            if t == WORKER && m.threads[t].aborted {
                m.threads[t].leave_place(Ended::Aborted);
            }
            let ended = m.threads[t].aborted;
            m.threads[t].running = Running {
                ended,
                ..Running::default()
            };
        }
        m.permits.iter_mut().for_each(Place::rest);
        m.letters.rest();
        m.phases.rest();
        m.alarms.rest();
        m.latches.rest();
        m
    }
}
