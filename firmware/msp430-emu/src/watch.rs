//! What a run tells about its accesses to memory.

use std::ops::{ControlFlow, RangeInclusive};

/// Of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Width {
    Byte,
    Word,
}

/// One store. Of the 27 instructions each makes one at the most; the acceptance of an interrupt
/// makes two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Even when a word is stored.
    pub address: u16,
    /// A word is one unit of the bus: it is stored whole or not at all.
    pub width: Width,
    /// What was there.
    pub old: u16,
    /// What is there now.
    pub new: u16,
    /// The instruction that stored; with interrupts, the one that would have been next.
    pub pc: u16,
    /// How many instructions were finished before this one.
    pub instruction: u64,
    /// The cycles of those.
    pub cycle: u64,
}

/// One load, of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The address; bit 0 of a word's does not count.
    pub address: u16,
    /// A byte or a word.
    pub width: Width,
    /// The instruction that loads.
    pub pc: u16,
    /// How many instructions were finished before this one.
    pub instruction: u64,
    /// The cycles of those.
    pub cycle: u64,
}

/// Sees the accesses of a run. An access of the operands, not the fetch of instructions.
pub trait Observer {
    /// After a store. `Break` ends [`run`](crate::Cpu::run) behind the instruction.
    #[inline]
    fn store(&mut self, _store: &Store) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// Before a load. `Break` as above.
    #[inline]
    fn load(&mut self, _address: u16, _width: Width) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    /// After [`load`](Observer::load): the value that a device answers with. `None`: it is the
    /// memory's. Not asked when something is popped from the stack.
    #[inline]
    fn supply(&mut self, _load: &Load) -> Option<u16> {
        None
    }
}

/// Sees nothing, and costs nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Observer for Unobserved {}

/// Logs the stores to some ranges.
#[derive(Clone, Debug)]
pub struct Watch {
    /// One bit a word.
    words: Box<[u64; 512]>,
    /// The stores so far.
    pub log: Vec<Store>,
}

impl Watch {
    /// Watches nothing yet.
    pub fn new() -> Self {
        Watch {
            words: Box::new([0; 512]),
            log: Vec::new(),
        }
    }

    /// Watches the words of this range, too.
    pub fn range(mut self, range: RangeInclusive<u16>) -> Self {
        for w in range.start() / 2..=range.end() / 2 {
            self.words[usize::from(w / 64)] |= 1 << (w % 64);
        }
        self
    }

    /// Whether the word at an address is watched.
    #[inline]
    pub fn watches(&self, address: u16) -> bool {
        let w = address / 2;
        self.words[usize::from(w / 64)] >> (w % 64) & 1 != 0
    }
}

impl Default for Watch {
    fn default() -> Self {
        Self::new()
    }
}

impl Observer for Watch {
    #[inline]
    fn store(&mut self, store: &Store) -> ControlFlow<()> {
        if self.watches(store.address) {
            self.log.push(*store);
        }
        ControlFlow::Continue(())
    }
}
