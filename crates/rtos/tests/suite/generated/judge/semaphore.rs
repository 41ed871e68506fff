//! A counting semaphore.
//!
//! What an open step takes, others do not get; for what it gives, others have no room. With its
//! commit it has given and taken; if it fails, it has not.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Semaphore {
    count: u8,
    max: u8,
    /// How many the open step of each thread takes and gives.
    takes: [u8; THREADS],
    gives: [u8; THREADS],
}

impl Semaphore {
    pub fn new(count: u8, max: u8) -> Self {
        Semaphore {
            count,
            max,
            takes: [0; THREADS],
            gives: [0; THREADS],
        }
    }

    /// Whether there is one for the step of `t`.
    pub fn take(&mut self, t: usize) -> bool {
        let there = self.count > self.takes.iter().sum();
        self.takes[t] += u8::from(there);
        there
    }

    /// Whether there is room for one.
    fn has_room(&self) -> bool {
        u32::from(self.count) + self.gives.iter().map(|g| u32::from(*g)).sum::<u32>()
            < u32::from(self.max)
    }

    pub fn give(&mut self, t: usize) -> bool {
        let room = self.has_room();
        self.gives[t] += u8::from(room);
        room
    }

    /// The same by a handler.
    pub fn give_at_once(&mut self) -> bool {
        let room = self.has_room();
        self.count += u8::from(room);
        room
    }
}

impl Object for Semaphore {
    fn commit(&mut self, t: usize, _: u64) {
        self.count = self.count + self.gives[t] - self.takes[t];
        self.undo(t);
    }
    fn undo(&mut self, t: usize) {
        (self.takes[t], self.gives[t]) = (0, 0);
    }
    fn operations(&self, t: usize) -> usize {
        usize::from(self.takes[t] + self.gives[t] > 0)
    }
}
