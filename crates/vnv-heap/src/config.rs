//! What a heap is configured with, and what its last save then costs at most.

use crate::cost::{Budget, CostModel, MaskedWait, WorstCase};

/// What a heap is configured with. `Config { dirty_limit: 2048, ..Config::DEFAULT }` changes what matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// How many bytes a persist may have to write for what is dirty and what is pinned, at any instant. More than 65,535 count
    /// as that.
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

    /// What a persist costs at most, whenever it comes, and with it the masked section that may be under way then: a persist waits for
    /// its end. Exact, or `u32::MAX` for all that is more.
    ///
    /// The bytes are those of the dirty limit and of the record. How many operations they come in depends on the sizes of the
    /// objects: here, on the smallest ones that `objects` and the limit permit. On a medium that was formatted for more objects or pins, those
    /// count: give them here.
    pub const fn worst_case(&self, model: &CostModel) -> WorstCase {
        let Work {
            written,
            read,
            operations,
        } = self.persist(self.objects, self.max_pins);
        let section = self.section();
        let moved = section.written as u64;
        let all = model.nanoseconds(
            written as u64 + read as u64 + moved,
            operations as u64 + section.operations as u64,
        );
        let (microseconds, microjoules) = model.of(all);
        let (wait_us, wait_uj) = model.of(model.nanoseconds(moved, section.operations as u64));
        WorstCase {
            bytes: written,
            operations: operations + section.operations,
            microseconds,
            microjoules,
            wait: MaskedWait {
                bytes: section.written,
                operations: section.operations,
                microseconds: wait_us,
                microjoules: wait_uj,
            },
        }
    }

    /// What a persist does at most. No sum here comes near 2^32.
    const fn persist(&self, objects: u16, max_pins: u16) -> Work {
        let limit = self.limit() as u32;
        // A dirty object has at least a byte and its check.
        let by_limit = limit / 3;
        let objects = if by_limit < objects as u32 {
            by_limit
        } else {
            objects as u32
        };
        // Of each object its entry is read; its check and its content are written as one.
        Work {
            written: limit + RECORD_BYTES,
            read: objects * 4,
            operations: 2 * objects + max_pins as u32 + 2,
        }
    }

    /// What a masked section does at most: all its bytes count as written.
    const fn section(&self) -> Work {
        let burst = if self.burst < MIN_BURST {
            MIN_BURST
        } else {
            self.burst
        };
        let moved = burst as u32 + 2 * METADATA_MAX;
        // An object that moves counts as its content and what belongs to it, and takes two operations; an
        // allocation or a free has up to eight, however small.
        let by_objects = 2 * (moved / (METADATA_MAX + 1));
        Work {
            written: moved,
            read: 0,
            operations: if by_objects < 8 { 8 } else { by_objects },
        }
    }

    /// The dirty limit that a heap keeps: it counts in 16 bits.
    pub(crate) const fn limit(&self) -> u16 {
        if self.dirty_limit > u16::MAX as u32 {
            u16::MAX
        } else {
            self.dirty_limit as u16
        }
    }

    /// Whether a persist, with the section that it waits for, keeps within this budget; for
    /// `const { assert!(CONFIG.keeps(&BUDGET)) }`. Exact for all values: a cost that no number of [`WorstCase`] can show keeps
    /// no budget.
    pub const fn keeps(&self, budget: &Budget) -> bool {
        self.keeps_on(self.objects, self.max_pins, budget)
    }

    /// The same on a medium that was formatted for so many objects and pins.
    pub(crate) const fn keeps_on(&self, objects: u16, max_pins: u16, budget: &Budget) -> bool {
        let (persist, section) = (self.persist(objects, max_pins), self.section());
        let bytes = persist.written + persist.read + section.written;
        let operations = persist.operations + section.operations;
        let model = &budget.model;
        // Below 2^19 bytes and operations: this is below 2^52. Small cores multiply it at once, and need not divide.
        let ns =
            bytes as u64 * model.byte_ns as u64 + operations as u64 * model.operation_ns as u64;
        if ns > budget.microseconds as u64 * 1000 {
            return false;
        }
        // Below 2^42 now, and in units of 1,024 ns below 2^32.
        let units = (ns >> 10) + 1;
        units * model.power_uw as u64 <= (budget.microjoules as u64 * 1_000_000_000) >> 10
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

/// What is done at most.
struct Work {
    written: u32,
    read: u32,
    operations: u32,
}

/// A burst has at least so many bytes.
const MIN_BURST: u16 = crate::store::PIECE as u16;

/// What belongs to an object that moves, besides its content.
const METADATA_MAX: u32 = crate::store::METADATA_MAX as u32;

/// Pins that a medium can hold at most.
pub(crate) const MAX_PINS: u16 = 0x1000;

/// What the record of a persist has. The record that something has changed since was written when it did.
const RECORD_BYTES: u32 = 12;

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
