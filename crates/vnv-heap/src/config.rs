//! What a heap is configured with, and what its last save then costs at most.

use crate::cost::{Budget, CostModel, WorstCase};

/// What a heap is configured with. `Config { dirty_limit: 2048, ..Config::DEFAULT }` changes what matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many bytes a persist may have to write for what is dirty and what is pinned, at any instant.
    pub dirty_limit: u32,
    /// The most bytes that are written, read or moved while interrupts are masked, besides 28 bytes that belong to
    /// them; less than 32 count as 32.
    pub burst: u16,
    /// How many objects the medium can hold. Counts when it is formatted.
    pub objects: u16,
    /// How many objects can be pinned at once and come back at their addresses. Counts when the medium is formatted.
    pub max_pins: u16,
    /// What a persist may take. A configuration that cannot keep it is refused when the heap is opened.
    pub budget: Option<Budget>,
}

impl Config {
    /// 1 KiB dirty, bursts of 64 bytes, 256 objects, 16 pins.
    pub const DEFAULT: Config = Config {
        dirty_limit: 1024,
        burst: 64,
        objects: 256,
        max_pins: 16,
        budget: None,
    };

    /// What a persist costs at most, whenever it comes.
    ///
    /// The bytes are those of the dirty limit and of the record. How many operations they come in depends on the sizes of the
    /// objects: here, on the smallest ones that `objects` and the limit permit.
    pub const fn worst_case(&self, model: &CostModel) -> WorstCase {
        // A dirty object has at least a byte and its check.
        let by_limit = self.dirty_limit / 3;
        let objects = if by_limit < self.objects as u32 {
            by_limit
        } else {
            self.objects as u32
        };
        let written = self.dirty_limit + RECORD_BYTES;
        // Of each object its entry is read; its check and its content are written as one.
        let operations = 2 * objects + self.max_pins as u32 + 2;
        model.cost(written, objects * 4, operations)
    }

    /// Whether a persist keeps within this budget; for `const { assert!(CONFIG.keeps(&BUDGET)) }`.
    pub const fn keeps(&self, budget: &Budget) -> bool {
        let worst = self.worst_case(&budget.model);
        worst.microseconds <= budget.microseconds && worst.microjoules <= budget.microjoules
    }

    /// **Errors**: what is wrong with it.
    pub(crate) const fn check(&self) -> Result<(), &'static str> {
        if self.burst == 0 || self.dirty_limit == 0 {
            return Err("a burst and a dirty limit have at least a byte");
        }
        if self.objects == 0 || self.objects == u16::MAX || self.max_pins > MAX_PINS {
            return Err("1 to 65,534 objects, at most 4,096 pins");
        }
        match &self.budget {
            Some(b) if !self.keeps(b) => {
                Err("a persist may cost more than the budget: lower the dirty limit")
            }
            _ => Ok(()),
        }
    }
}

/// Pins that a medium can hold at most.
pub(crate) const MAX_PINS: u16 = 0x1000;

/// What the record of a persist has. The record that something has changed since was written when it did.
const RECORD_BYTES: u32 = 12;

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
