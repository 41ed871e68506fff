//! The cost of a save on a board, from data-sheet figures.

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
