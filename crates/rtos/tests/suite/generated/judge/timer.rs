//! A software timer.
//!
//! The last call of a step counts. One step at a time has the expiry, until the timer is started or
//! stopped by another one: then it belongs to an earlier start, and its commit changes nothing.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Call {
    Start,
    Stop,
    /// It has expired, and was due then.
    Expire(u64),
    /// It has expired, and another step has started or stopped it since.
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    period: u64,
    periodic: bool,
    deadline: Option<u64>,
    /// The last call of each thread's open step.
    calls: [Option<Call>; THREADS],
    /// The thread whose open step has the expiry.
    claimed: Option<u8>,
}

impl Timer {
    pub fn new(period: u64, periodic: bool) -> Self {
        Timer {
            period,
            periodic,
            deadline: None,
            calls: [None; THREADS],
            claimed: None,
        }
    }

    pub fn start(&mut self, t: usize) {
        self.calls[t] = Some(Call::Start);
    }
    pub fn stop(&mut self, t: usize) {
        self.calls[t] = Some(Call::Stop);
    }

    /// When it expires, if no open step has that.
    pub fn expires(&self) -> Option<u64> {
        self.deadline.filter(|_| self.claimed.is_none())
    }
    /// The step of `t` has the expiry.
    pub fn expire(&mut self, t: usize) {
        self.calls[t] = self.deadline.map(Call::Expire);
        self.claimed = Some(t as u8);
    }

    /// As it is committed, and as the step of `t` has changed it.
    pub fn is_active(&self, t: usize) -> bool {
        match self.calls[t] {
            Some(Call::Start) => true,
            Some(Call::Stop) => false,
            Some(Call::Expire(_)) => self.periodic,
            Some(Call::Nothing) | None => self.deadline.is_some(),
        }
    }

    /// By a handler, at a time.
    pub fn start_at_once(&mut self, now: u64) {
        self.set(Some(now + self.period));
    }
    pub fn stop_at_once(&mut self) {
        self.set(None);
    }

    fn set(&mut self, deadline: Option<u64>) {
        (self.deadline, self.claimed) = (deadline, None);
        for call in self.calls.iter_mut().flatten() {
            if matches!(call, Call::Expire(_)) {
                *call = Call::Nothing;
            }
        }
    }
}

impl Object for Timer {
    fn commit(&mut self, t: usize, now: u64) {
        match self.calls[t].take() {
            Some(Call::Start) => self.start_at_once(now),
            Some(Call::Stop) => self.stop_at_once(),
            Some(Call::Expire(at)) => self.set(self.periodic.then_some(at + self.period)),
            Some(Call::Nothing) | None => {}
        }
    }
    fn undo(&mut self, t: usize) {
        self.calls[t] = None;
        self.claimed = self.claimed.filter(|c| *c != t as u8);
    }
    fn operations(&self, t: usize) -> usize {
        usize::from(self.calls[t].is_some())
    }
}
