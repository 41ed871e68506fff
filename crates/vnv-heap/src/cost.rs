//! What a save costs on a board, from figures that data sheets give.

/// What bytes and operations cost on a board. Integers, so that a bound is a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostModel {
    /// The board.
    pub name: &'static str,
    /// Where the figures are from.
    pub source: &'static str,
    /// Nanoseconds to transfer a byte.
    pub byte_ns: u32,
    /// Nanoseconds that an operation takes besides: commands, address, chip select.
    pub operation_ns: u32,
    /// Microwatts that all of it draws meanwhile.
    pub power_uw: u32,
}

impl CostModel {
    /// ESP32-C3 at 160 MHz with an MB85RS4MT at 40 MHz SPI.
    pub const ESP32C3_MB85RS4MT: CostModel = CostModel {
        name: "ESP32-C3 + MB85RS4MT",
        source: "SPI at 40 MHz: 8 bits are 200 ns; WREN, WRITE and three bytes of address are 5 bytes, and two periods of chip select \
                 of 60 ns each. Data sheets: ESP32-C3, modem-sleep at 160 MHz, 28 mA at 3.3 V; MB85RS4MT, active, 4 mA at 3.3 V",
        byte_ns: 200,
        operation_ns: 1120,
        power_uw: 105_600,
    };

    /// What this many bytes in this many operations cost.
    pub const fn cost(&self, bytes: u32, read: u32, operations: u32) -> WorstCase {
        // In 32 bits, which a small core divides at once; what does not fit is far beyond any capacitor.
        let ns = (bytes.saturating_add(read))
            .saturating_mul(self.byte_ns)
            .saturating_add(operations.saturating_mul(self.operation_ns));
        let microseconds = ns.div_ceil(1000);
        let nanojoules = microseconds
            .div_ceil(10)
            .saturating_mul(self.power_uw.div_ceil(100));
        WorstCase {
            bytes,
            operations,
            microseconds,
            microjoules: nanojoules.div_ceil(1000),
        }
    }
}

/// What a persist costs at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct WorstCase {
    /// Bytes that are written.
    pub bytes: u32,
    /// Operations of the medium, reads included.
    pub operations: u32,
    /// Time, reads included.
    pub microseconds: u32,
    /// Energy.
    pub microjoules: u32,
}

/// What a persist may cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// On what.
    pub model: CostModel,
    /// Time.
    pub microseconds: u32,
    /// Energy: that of the capacitor.
    pub microjoules: u32,
}
