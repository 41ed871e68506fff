//! An event group, and the notifications of a thread: eight flags.
//!
//! A wait clears those flags that it has found, with the commit of its step. A flag that is set
//! again meanwhile stays set.

use super::Object;
use crate::generated::program::THREADS;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Open {
    used: bool,
    sets: u8,
    clears: u8,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    set: u8,
    open: [Open; THREADS],
}

impl Flags {
    pub fn set(&mut self, t: usize, flags: u8) {
        self.open[t].used = true;
        self.open[t].sets |= flags;
    }

    /// Those of the flags that are set and that no open step clears, if they are enough.
    pub fn wait(&mut self, t: usize, flags: u8, all: bool) -> Option<u8> {
        let claimed = self.open.iter().fold(0, |all, o| all | o.clears);
        let found = self.set & flags & !claimed;
        let enough = if all { found == flags } else { found != 0 };
        if enough {
            self.open[t].used = true;
            self.open[t].clears |= found;
        }
        enough.then_some(found)
    }

    /// By a handler, or a commit.
    pub fn set_at_once(&mut self, flags: u8) {
        self.set |= flags;
        for o in &mut self.open {
            o.clears &= !flags;
        }
    }
}

impl Object for Flags {
    fn commit(&mut self, t: usize, _: u64) {
        let Open { sets, clears, .. } = self.open[t];
        self.set &= !clears;
        self.undo(t);
        self.set_at_once(sets);
    }
    fn undo(&mut self, t: usize) {
        self.open[t] = Open::default();
    }
    fn operations(&self, t: usize) -> usize {
        usize::from(self.open[t].used)
    }
}
