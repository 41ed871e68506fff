//! What a program chooses: the promise, the limits, and what a save may cost.

mod sealed {
    pub trait Sealed {}
}

/// What a heap promises about a power cut: [`JustInTime`] or [`Snapshot`].
pub trait Promise: sealed::Sealed + 'static {
    /// Whether only commits count.
    #[doc(hidden)]
    const SNAPSHOT: bool;
}

/// After a cut, the heap is complete if the last operation before it was a completed persist.
/// Otherwise open reports an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JustInTime {}
impl sealed::Sealed for JustInTime {}
impl Promise for JustInTime {
    const SNAPSHOT: bool = false;
}

/// After any cut, the heap is as of the last completed commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Snapshot {}
impl sealed::Sealed for Snapshot {}
impl Promise for Snapshot {
    const SNAPSHOT: bool = true;
}

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
    /// For `const { assert!(CONFIG.fits_budget(&BUDGET)) }`. Exact for all values: a cost beyond
    /// the range of [`WorstCase`] fits no budget.
    pub const fn fits_budget(&self, budget: &Budget) -> bool {
        self.fits_budget_on(self.objects, self.max_pins, budget)
    }

    /// The same for a medium that was formatted for so many objects and pins.
    pub(crate) const fn fits_budget_on(
        &self,
        objects: u16,
        max_pins: u16,
        budget: &Budget,
    ) -> bool {
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
            Some(b) if !self.fits_budget(b) => {
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

/// What bytes and operations cost on a board. Integers, so that a bound is a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    /// The board's name.
    pub name: &'static str,
    /// Where the figures come from.
    pub source: &'static str,
    /// Nanoseconds to transfer a byte.
    pub byte_ns: u32,
    /// Nanoseconds of overhead of an operation: commands, address, chip select.
    pub operation_ns: u32,
    /// Power drawn meanwhile, in microwatts.
    pub power_uw: u32,
}

impl CostModel {
    /// ESP32-C3 at 160 MHz with an MB85RS4MT at 40 MHz SPI, the board of the vNV-Heap paper. No
    /// board was measured.
    ///
    /// | parameter | value | from |
    /// |---|---|---|
    /// | time of a byte | 8 bits at 40 MHz: 200 ns | the paper's clock, the highest in the data sheet of the MB85RS4MT (DS501-00053) |
    /// | time of an operation | WREN, WRITE and 3 bytes of address: 5 bytes, 1,000 ns | its command set |
    /// | chip select | high twice for 60 ns: 120 ns | an assumption: at least the sheet's deselect time |
    /// | current of the core | 28 mA at 3.3 V: 92.4 mW | the data sheet of the ESP32-C3, modem-sleep, 160 MHz, peripherals clocked |
    /// | current of the memory | 4 mA at 3.3 V: 13.2 mW | an assumption: its active current at 40 MHz; an eighth of the sum |
    ///
    /// Not included: computation between two transfers (at 160 MHz a byte on the bus takes 32
    /// cycles), the operating system's driver, and the regulator's loss. The paper assumes 40 mA
    /// for everything: use `power_uw: 132_000` for its figures.
    pub const ESP32C3_MB85RS4MT: CostModel = CostModel {
        name: "ESP32-C3 + MB85RS4MT",
        source: "SPI at 40 MHz: 8 bits are 200 ns; WREN, WRITE and three bytes of address are 5 bytes, and two periods of chip select \
                 of 60 ns each. Data sheets: ESP32-C3, modem-sleep at 160 MHz, 28 mA at 3.3 V; MB85RS4MT, active, 4 mA at 3.3 V",
        byte_ns: 200,
        operation_ns: 1120,
        power_uw: 105_600,
    };

    /// The cost of writing and reading so many bytes in so many operations. Exact; `u32::MAX`
    /// stands for that and more.
    pub const fn cost(&self, bytes: u32, read: u32, operations: u32) -> WorstCase {
        let ns = self.nanoseconds(bytes as u64 + read as u64, operations as u64);
        let (microseconds, microjoules) = self.of(ns);
        WorstCase {
            bytes,
            operations,
            microseconds,
            microjoules,
            wait: MaskedWait::NONE,
        }
    }

    pub(crate) const fn nanoseconds(&self, bytes: u64, operations: u64) -> u128 {
        bytes as u128 * self.byte_ns as u128 + operations as u128 * self.operation_ns as u128
    }

    /// Microseconds and microjoules. Energy is computed in started units of 1,024 ns.
    pub(crate) const fn of(&self, ns: u128) -> (u32, u32) {
        let femtojoules = ((ns >> 10) + 1) * self.power_uw as u128 * 1024;
        (
            at_most_32_bits(ns.div_ceil(1000)),
            at_most_32_bits(femtojoules.div_ceil(1_000_000_000)),
        )
    }
}

const fn at_most_32_bits(v: u128) -> u32 {
    if v > u32::MAX as u128 {
        u32::MAX
    } else {
        v as u32
    }
}

/// The most that a persist costs. `u32::MAX` stands for that and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorstCase {
    /// Bytes that the persist writes.
    pub bytes: u32,
    /// Operations of the medium, reads included, and those of what it waits for.
    pub operations: u32,
    /// Time, reads and what it waits for included.
    pub microseconds: u32,
    /// Energy, of all of it.
    pub microjoules: u32,
    /// The part of it before the persist begins.
    pub wait: MaskedWait,
}

/// The critical section that may be running when the power-low interrupt comes. The interrupt is
/// taken at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct MaskedWait {
    /// Bytes that it moves.
    pub bytes: u32,
    /// Operations of the medium.
    pub operations: u32,
    /// Time.
    pub microseconds: u32,
    /// Energy.
    pub microjoules: u32,
}

impl MaskedWait {
    const NONE: MaskedWait = MaskedWait {
        bytes: 0,
        operations: 0,
        microseconds: 0,
        microjoules: 0,
    };
}

/// The most that a persist may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// The board.
    pub model: CostModel,
    /// Time.
    pub microseconds: u32,
    /// Energy: that of the capacitor.
    pub microjoules: u32,
}
