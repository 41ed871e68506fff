//! A thread: what its steps have returned, and what others may do with it.
//!
//! An abort, a change of priority and a spawn belong to the step that calls them. They are for the
//! thread that is there at the call: what is called for the thread of a reserved place ends with
//! it.

use crate::generated::program::{Op, THREADS};

/// What an open step of another thread does with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Priority(u8),
    Abort,
    /// With its argument, and a priority if it is not that of the system.
    Spawn(u32, Option<u8>),
}

/// A call that has not returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub op: Op,
    pub id: u32,
    /// When it stops to wait.
    pub until: u64,
    /// Its result, if it has taken effect.
    pub done: Option<u32>,
}

/// What a thread does in this boot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Running {
    pub call: Option<Call>,
    /// What its step is about to return.
    pub result: u32,
    /// The body of its step has failed.
    pub fails: bool,
    /// The thread's body has returned.
    pub returned: Option<Ended>,
    /// It has ended, or was aborted: a later abort does nothing.
    pub ended: bool,
}

/// How a thread has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ended {
    #[default]
    Well,
    Failed,
    Aborted,
    /// It has not: it is parked.
    Parked,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The results of all its steps that were committed, or have failed.
    pub results: Vec<u32>,
    pub priority: Option<u8>,
    pub aborted: bool,
    /// What the open step of each thread does with it.
    pub changes: [Option<Change>; THREADS],
    /// In the reserved place: the argument of its thread, and how many steps those before it have
    /// committed.
    pub argument: Option<u32>,
    pub before: usize,
    /// How the last thread there has ended.
    pub last: Ended,
    pub running: Running,
}

/// Of a result: an error, with its code.
pub const ERR: u32 = 0x8000_0000;

impl Thread {
    /// How many of its steps have committed, with those before it in its place.
    pub fn committed(&self) -> usize {
        self.before + self.results.iter().filter(|r| **r & ERR == 0).count()
    }

    /// The step of `by` changes the priority. An abort in the same step counts.
    pub fn set_priority(&mut self, by: usize, priority: u8) {
        let change = &mut self.changes[by];
        match change {
            Some(Change::Abort) => {}
            Some(Change::Spawn(_, first)) => *first = Some(priority),
            _ => *change = Some(Change::Priority(priority)),
        }
    }

    /// Its place is free, without records. What was called for the thread ends with it.
    pub fn leave_place(&mut self, last: Ended) {
        self.last = last;
        self.before = self.committed();
        self.results.clear();
        (self.argument, self.priority, self.aborted) = (None, None, false);
        self.changes = [None; THREADS];
    }

    /// The step of `by` commits: what it does with this thread. Whether it aborts it.
    pub fn commit(&mut self, by: usize) -> bool {
        match self.changes[by].take() {
            Some(Change::Priority(p)) if !self.aborted => self.priority = Some(p),
            Some(Change::Abort) if !self.running.ended => {
                self.aborted = true;
                self.running = Running::default();
                self.running.ended = true;
                return true;
            }
            Some(Change::Spawn(argument, priority)) => {
                (self.argument, self.priority) = (Some(argument), priority);
                self.running = Running::default();
            }
            _ => {}
        }
        false
    }
}
