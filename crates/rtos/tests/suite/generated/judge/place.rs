//! A place for an object that steps make and delete.
//!
//! The place counts makes and deletes: an object is there while the count is odd, and a handle has
//! the count of its object. The step that makes or deletes it sees that at once, others see it with
//! the commit. A place is used again when no step has operations on its last object.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place<O> {
    first: O,
    pub object: O,
    count: u8,
    /// How often the open step of each thread makes and deletes.
    changes: [u8; THREADS],
}

impl<O: Object + Clone> Place<O> {
    /// With the object that each make puts there.
    pub fn new(first: O) -> Self {
        Place {
            object: first.clone(),
            first,
            count: 0,
            changes: [0; THREADS],
        }
    }

    /// The object of this handle, as the step of `t` sees it; a handler, if there is no such
    /// thread.
    pub fn get(&mut self, count: u8, t: usize) -> Option<&mut O> {
        let seen = self.count + self.changes.get(t).unwrap_or(&0);
        (seen == count && count % 2 == 1).then_some(&mut self.object)
    }

    /// Whether the open step of `t` makes or deletes an object here.
    pub fn is_changed(&self, t: usize) -> bool {
        self.changes[t] != 0
    }

    /// The object, if it is committed.
    pub fn committed(&mut self) -> Option<&mut O> {
        (self.count % 2 == 1).then_some(&mut self.object)
    }

    /// The count of the new object's handle, if the place is free.
    pub fn make(&mut self, t: usize) -> Option<u8> {
        let changes = self.changes.iter().any(|c| *c != 0);
        let used = (0..THREADS).any(|t| self.object.operations(t) != 0);
        if !self.count.is_multiple_of(2) || changes || used {
            return None;
        }
        self.object = self.first.clone();
        self.changes[t] = 1;
        Some(self.count + 1)
    }

    /// Deletes the object; `None` while another step is about to do it.
    pub fn delete(&mut self, t: usize) -> Option<()> {
        let others = (0..THREADS).any(|o| o != t && self.changes[o] != 0);
        self.changes[t] += u8::from(!others);
        (!others).then_some(())
    }

    /// Between boots: what is left of a deleted object nobody sees.
    pub fn rest(&mut self) {
        if self.count.is_multiple_of(2) {
            self.object = self.first.clone();
        }
    }
}

impl<O: Object> Object for Place<O> {
    fn commit(&mut self, t: usize, now: u64) {
        self.count += self.changes[t];
        self.changes[t] = 0;
        self.object.commit(t, now);
    }
    fn undo(&mut self, t: usize) {
        self.changes[t] = 0;
        self.object.undo(t);
    }
    fn operations(&self, t: usize) -> usize {
        usize::from(self.changes[t] != 0) + self.object.operations(t)
    }
}
