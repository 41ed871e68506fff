//! The status register.

/// The blocks that the chip refuses to write, always at the upper end. Non-volatile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Protection {
    /// No block.
    #[default]
    Nothing,
    /// The upper quarter.
    UpperQuarter,
    /// The upper half.
    UpperHalf,
    /// All blocks.
    All,
}

impl Protection {
    /// Unprotected bytes from address 0 in a memory of `capacity` bytes.
    pub const fn writable(self, capacity: u32) -> u32 {
        match self {
            Protection::Nothing => capacity,
            Protection::UpperQuarter => capacity - capacity.div_ceil(4),
            Protection::UpperHalf => capacity / 2,
            Protection::All => 0,
        }
    }

    const fn bits(self) -> u8 {
        match self {
            Protection::Nothing => 0x00,
            Protection::UpperQuarter => 0x04,
            Protection::UpperHalf => 0x08,
            Protection::All => 0x0C,
        }
    }
}

/// A value of the status register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Status(pub u8);

impl Status {
    const WEL: u8 = 0x02;
    const BLOCKS: u8 = 0x0C;
    const WPEN: u8 = 0x80;

    /// The write enable latch: volatile, cleared by the end of each write.
    pub const fn write_enabled(self) -> bool {
        self.0 & Self::WEL != 0
    }

    /// The protected blocks.
    pub const fn protection(self) -> Protection {
        match self.0 & Self::BLOCKS {
            0x00 => Protection::Nothing,
            0x04 => Protection::UpperQuarter,
            0x08 => Protection::UpperHalf,
            _ => Protection::All,
        }
    }

    /// Whether the status register is locked while the pin WP is low (bit WPEN).
    pub const fn pin_locks(self) -> bool {
        self.0 & Self::WPEN != 0
    }

    /// Whether a chip can return this value: bit 0 is always zero in all parts of both makers.
    pub(crate) const fn is_valid(self) -> bool {
        self.0 & 1 == 0
    }

    /// The value to write for another protection. Other bits keep their values, because some parts
    /// store them.
    pub(crate) fn with_protection(self, protection: Protection, pin_locks: bool) -> u8 {
        let lock = if pin_locks { Self::WPEN } else { 0 };
        let other_bits = self.0 & !(Self::WPEN | Self::BLOCKS | Self::WEL);
        if nvmem::planted!("spi-fram/status-bits-cleared") {
            return protection.bits() | lock;
        }
        other_bits | protection.bits() | lock
    }
}
