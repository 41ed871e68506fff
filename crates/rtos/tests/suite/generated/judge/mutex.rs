//! A mutex, and its data if it has some.
//!
//! When a thread has committed under a lock, it has it again after a cut, until it gives it back:
//! no other thread commits under the same mutex in between.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mutex {
    /// Who has committed under a lock and has not given it back: the thread and its act.
    session: Option<(u8, u8)>,
    data: u32,
    /// What the open step of each thread has added to the data.
    adds: [u32; THREADS],
}

impl Mutex {
    /// The thread `t` commits under the lock of its act. Whether it may.
    pub fn enter(&mut self, t: usize, act: u8) -> bool {
        let mine = (t as u8, act);
        let may = self.session.is_none_or(|s| s == mine);
        self.session = Some(mine);
        may
    }

    /// The thread `t` gives back the lock of its act. Whether it has committed under it.
    pub fn leave(&mut self, t: usize, act: u8) -> bool {
        let entered = self.session == Some((t as u8, act));
        if entered {
            self.session = None;
        }
        entered
    }

    /// The thread that has committed under a lock and has not given it back.
    pub fn inside(&self) -> Option<usize> {
        self.session.map(|(t, _)| t.into())
    }

    /// The data, as the step of `t` sees them before it adds one.
    pub fn add(&mut self, t: usize) -> u32 {
        let before = self.data + self.adds[t];
        self.adds[t] += 1;
        before
    }
}

/// The data belong to the step. They are no operation of the kernel.
impl Object for Mutex {
    fn commit(&mut self, t: usize, _: u64) {
        self.data += self.adds[t];
        self.undo(t);
    }
    fn undo(&mut self, t: usize) {
        self.adds[t] = 0;
    }
    fn operations(&self, _: usize) -> usize {
        0
    }
}
