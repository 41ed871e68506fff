//! The model: the contexts, and the rings as lists. It knows no format.

use std::collections::HashSet;

/// Three staged devices, the one that keeps a key, and two that commit by themselves.
pub const DEVICES: usize = 6;
/// What the registers of a device hold.
pub type Words = [u32; 5];

/// Slots of the two rings.
pub const SLOTS: [usize; 2] = [2, 8];

/// What the world knows.
#[derive(Clone, Hash, Debug, Default)]
pub struct Seen {
    /// The states that contexts and rings may be in. An operation adds those that it leads to
    /// before it begins, and takes those before it away when it has returned.
    pub possible: Vec<State>,
    /// Operations that were begun.
    pub at: u32,
    /// The key that the device with a battery keeps, and how often it has acted.
    pub kept: u32,
    pub acted: u32,
    /// The key that the device that commits by itself keeps.
    pub own_kept: u32,
}

#[derive(Clone, Hash, Debug, PartialEq, Eq)]
pub struct Ring {
    pub waiting: Vec<u32>,
    /// The number of the first that waits.
    pub first: u32,
    /// Losses that no committed step knows, 255 at most.
    pub lost: u32,
}

#[derive(Clone, Hash, Debug, PartialEq, Eq)]
pub struct State {
    pub contexts: [Words; DEVICES],
    /// Steps that have committed.
    pub steps: u32,
    pub rings: [Ring; 2],
}

impl State {
    pub fn new(contexts: [Words; DEVICES]) -> Self {
        let ring = Ring {
            waiting: vec![],
            first: 0,
            lost: 0,
        };
        State {
            contexts,
            steps: 0,
            rings: [ring.clone(), ring],
        }
    }

    /// An interrupt posts. Returns whether there was room.
    pub fn post(&mut self, ring: usize, value: u32) -> bool {
        let r = &mut self.rings[ring];
        if r.waiting.len() < SLOTS[ring] {
            r.waiting.push(value);
            return true;
        }
        r.lost = (r.lost + 1).min(255);
        false
    }

    /// What can be seen without a step.
    pub fn shown(&self) -> ([Words; DEVICES], u32, [usize; 2]) {
        let waiting = [0, 1].map(|i: usize| self.rings[i].waiting.len());
        (self.contexts, self.steps, waiting)
    }
}

/// Each state once. Each cut doubles what is in doubt, and most of the ways lead to equal states.
pub fn distinct(mut states: Vec<State>) -> Vec<State> {
    let mut known = HashSet::new();
    states.retain(|s| known.insert(s.clone()));
    states
}

/// What a running step has done to a state; its end decides.
#[derive(Clone)]
pub struct InStep {
    pub before: State,
    pub contexts: [Words; DEVICES],
    pub taken: [usize; 2],
    pub told: [u32; 2],
}

impl InStep {
    pub fn new(before: State) -> Self {
        InStep {
            contexts: before.contexts,
            before,
            taken: [0; 2],
            told: [0; 2],
        }
    }

    /// The next event of a ring that the step has not taken: its number, and its value.
    pub fn next(&self, ring: usize) -> Option<(u8, u32)> {
        let r = &self.before.rings[ring];
        let value = r.waiting.get(self.taken[ring])?;
        Some((((r.first as usize + self.taken[ring]) & 0x7F) as u8, *value))
    }

    /// The losses that the step has not been told.
    pub fn lost(&self, ring: usize) -> u32 {
        self.before.rings[ring].lost - self.told[ring]
    }

    /// The state if it commits.
    pub fn after(&self) -> State {
        let mut s = self.before.clone();
        s.contexts = self.contexts;
        s.steps += 1;
        for i in 0..2 {
            s.rings[i].waiting.drain(..self.taken[i]);
            s.rings[i].first += self.taken[i] as u32;
            s.rings[i].lost -= self.told[i];
        }
        s
    }
}
