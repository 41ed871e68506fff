//! A heap's configuration, and the worst-case cost of its last save.

use crate::cost::{Budget, CostModel, MaskedWait, WorstCase};

/// A heap's configuration. `Config { dirty_limit: 2048, ..Config::DEFAULT }` sets one value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The most bytes that a persist may have to write for dirty and pinned objects, at any time.
    /// Values over 65,535 count as that.
    pub dirty_limit: u32,
    /// The most bytes that are written, read or moved while interrupts are masked, plus up to 28
    /// bytes of metadata. Values below 32 count as 32.
    pub burst: u16,
    /// How many objects the medium can hold. Used when it is formatted.
    pub objects: u16,
    /// How many objects can be pinned at once and return at their addresses. Used when the medium
    /// is formatted.
    pub max_pins: u16,
    /// What a persist may cost. Open refuses a configuration that can exceed it.
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

    /// The most that a persist costs, whenever it comes. Includes the critical section that may be
    /// running then, because a persist waits for its end. Exact; `u32::MAX` stands for that and
    /// more.
    ///
    /// The bytes are those of the dirty limit and of the record. The number of operations depends
    /// on the sizes of the objects; this assumes the smallest ones that `objects` and the limit
    /// permit. For a medium that was formatted for more objects or pins, give those values here.
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

    /// The most that a persist does. No sum here comes near 2^32.
    const fn persist(&self, objects: u16, max_pins: u16) -> Work {
        let limit = self.limit() as u32;
        // A dirty object has at least a byte and its check.
        let by_limit = limit / 3;
        let objects = if by_limit < objects as u32 {
            by_limit
        } else {
            objects as u32
        };
        // For each object its entry is read; its check and content are one write.
        Work {
            written: limit + RECORD_BYTES,
            read: objects * 4,
            operations: 2 * objects + max_pins as u32 + 2,
        }
    }

    /// The most that a critical section does. All its bytes count as written.
    const fn section(&self) -> Work {
        let burst = if self.burst < MIN_BURST {
            MIN_BURST
        } else {
            self.burst
        };
        let moved = burst as u32 + 2 * METADATA_MAX;
        // Moving an object takes its content, its metadata, and two operations. An allocation or a
        // free takes up to eight operations.
        let by_objects = 2 * (moved / (METADATA_MAX + 1));
        Work {
            written: moved,
            read: 0,
            operations: if by_objects < 8 { 8 } else { by_objects },
        }
    }

    /// The effective dirty limit: the heap counts in 16 bits.
    pub(crate) const fn limit(&self) -> u16 {
        if self.dirty_limit > u16::MAX as u32 {
            u16::MAX
        } else {
            self.dirty_limit as u16
        }
    }

    /// Whether a persist, with the critical section that it waits for, keeps within this budget.
    /// For `const { assert!(CONFIG.keeps(&BUDGET)) }`. Exact for all values: a cost beyond the
    /// range of [`WorstCase`] keeps no budget.
    pub const fn keeps(&self, budget: &Budget) -> bool {
        self.keeps_on(self.objects, self.max_pins, budget)
    }

    /// The same for a medium that was formatted for so many objects and pins.
    pub(crate) const fn keeps_on(&self, objects: u16, max_pins: u16, budget: &Budget) -> bool {
        let (persist, section) = (self.persist(objects, max_pins), self.section());
        let bytes = persist.written + persist.read + section.written;
        let operations = persist.operations + section.operations;
        let model = &budget.model;
        // Below 2^19 bytes and operations: this is below 2^52. Small cores multiply it at once, and
        // need not divide.
        let ns =
            bytes as u64 * model.byte_ns as u64 + operations as u64 * model.operation_ns as u64;
        if ns > budget.microseconds as u64 * 1000 {
            return false;
        }
        // Below 2^42 now, and in units of 1,024 ns below 2^32.
        let units = (ns >> 10) + 1;
        units * model.power_uw as u64 <= (budget.microjoules as u64 * 1_000_000_000) >> 10
    }

    /// **Errors**: what is wrong with the configuration.
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

/// The most that is done.
struct Work {
    written: u32,
    read: u32,
    operations: u32,
}

/// The smallest burst.
const MIN_BURST: u16 = crate::store::PIECE as u16;

/// The most metadata that moves with an object.
const METADATA_MAX: u32 = crate::store::METADATA_MAX as u32;

/// The most pins that a medium can hold.
pub(crate) const MAX_PINS: u16 = 0x1000;

/// Bytes of a persist's record. The record *running* was written with the first change.
const RECORD_BYTES: u32 = 12;

impl Default for Config {
    fn default() -> Self {
        Self::DEFAULT
    }
}
