//! The supported parts, with the values of their data sheets, and the device ID.

/// The number of bytes of an address inside of the chip.
///
/// What does not fit is in the lowest bits of the device address, where other parts have the levels
/// of their pins A0 to A2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum WordAddress {
    /// For up to 2 KiB: 256 bytes for each device address.
    One,
    /// For more: 64 KiB for each device address.
    Two,
}

impl WordAddress {
    /// Bytes that one device address reaches.
    pub const fn block(self) -> u32 {
        match self {
            WordAddress::One => 0x100,
            WordAddress::Two => 0x1_0000,
        }
    }
}

/// The chip's manufacturer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Maker {
    /// Fujitsu, now RAMXEED: number 00Ah.
    Fujitsu,
    /// Ramtron, now Cypress and Infineon: number 004h.
    Cypress,
}

/// The three bytes of a device ID: 12 bits of the maker, 4 of the density and 8 of the product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeviceId(pub [u8; 3]);

impl DeviceId {
    /// The maker; `None` for an unknown one.
    pub const fn maker(&self) -> Option<Maker> {
        match (self.0[0], self.0[1] >> 4) {
            (0x00, 0xA) => Some(Maker::Fujitsu),
            (0x00, 0x4) => Some(Maker::Cypress),
            _ => None,
        }
    }

    /// The capacity in bytes, if the density code is known.
    pub const fn capacity(&self) -> Option<u32> {
        match (self.maker(), self.0[1] & 0xF) {
            (Some(Maker::Fujitsu), 0) => Some(512),
            (Some(Maker::Fujitsu), code @ 1..=10) => Some(1 << (code + 10)),
            (Some(Maker::Cypress), code @ 1..=8) => Some(1 << (code + 13)),
            _ => None,
        }
    }
}

/// A part: properties that the driver needs and cannot read from the chip.
///
/// Use [`Part::new`] for a part that is not in the list.
///
/// | part | capacity | address bytes | address bits in the device address | pins | ID |
/// |---|---|---|---|---|---|
/// | `MB85RC04V` | 512 B | 1 | A8 | A2, A1 | 00A 0 |
/// | `MB85RC16` | 2 KiB | 1 | A10, A9, A8 | none | none |
/// | `MB85RC64A` | 8 KiB | 2 | none | A2, A1, A0 | none |
/// | `MB85RC64TA` | 8 KiB | 2 | none | A2, A1, A0 | 00A 3 |
/// | `MB85RC128A` | 16 KiB | 2 | none | A2, A1, A0 | none |
/// | `MB85RC256V` | 32 KiB | 2 | none | A2, A1, A0 | 00A 5 |
/// | `MB85RC512T` | 64 KiB | 2 | none | A2, A1, A0 | 00A 6 |
/// | `MB85RC1MT` | 128 KiB | 2 | A16 | A2, A1 | 00A 7 |
/// | `FM24CL04B` | 512 B | 1 | A8 | A2, A1 | none |
/// | `FM24CL16B` | 2 KiB | 1 | A10, A9, A8 | none | none |
/// | `FM24CL64B` | 8 KiB | 2 | none | A2, A1, A0 | none |
/// | `FM24W256` | 32 KiB | 2 | none | A2, A1, A0 | none |
/// | `FM24V01A` | 16 KiB | 2 | none | A2, A1, A0 | 004 1 |
/// | `FM24V02A` | 32 KiB | 2 | none | A2, A1, A0 | 004 2 |
/// | `FM24V05` | 64 KiB | 2 | none | A2, A1, A0 | 004 3 |
/// | `FM24V10` | 128 KiB | 2 | A16 | A2, A1 | 004 4 |
///
/// The column ID has the 12 bits of the maker and the 4 bits of the density. The driver compares
/// these, and not the revision. The chip answers at the device addresses 50h to 57h; a part of 2
/// KiB takes all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Part {
    name: &'static str,
    capacity: u32,
    address: WordAddress,
    identity: Option<Maker>,
}

const KIB: u32 = 1024;

impl Part {
    /// MB85RC04V, 512 bytes.
    pub const MB85RC04V: Part = Part::new("MB85RC04V", 512).with_identity(Maker::Fujitsu);
    /// MB85RC16 and MB85RC16V, 2 KiB; no device ID.
    pub const MB85RC16: Part = Part::new("MB85RC16", 2 * KIB);
    /// MB85RC64A and MB85RC64V, 8 KiB; no device ID.
    pub const MB85RC64A: Part = Part::new("MB85RC64A", 8 * KIB);
    /// MB85RC64TA, 8 KiB.
    pub const MB85RC64TA: Part = Part::new("MB85RC64TA", 8 * KIB).with_identity(Maker::Fujitsu);
    /// MB85RC128A, 16 KiB; no device ID.
    pub const MB85RC128A: Part = Part::new("MB85RC128A", 16 * KIB);
    /// MB85RC256V, 32 KiB.
    pub const MB85RC256V: Part = Part::new("MB85RC256V", 32 * KIB).with_identity(Maker::Fujitsu);
    /// MB85RC512T, 64 KiB.
    pub const MB85RC512T: Part = Part::new("MB85RC512T", 64 * KIB).with_identity(Maker::Fujitsu);
    /// MB85RC1MT, 128 KiB.
    pub const MB85RC1MT: Part = Part::new("MB85RC1MT", 128 * KIB).with_identity(Maker::Fujitsu);
    /// FM24C04B and FM24CL04B, 512 bytes; no device ID.
    pub const FM24CL04B: Part = Part::new("FM24CL04B", 512);
    /// FM24C16B and FM24CL16B, 2 KiB; no device ID.
    pub const FM24CL16B: Part = Part::new("FM24CL16B", 2 * KIB);
    /// FM24C64B and FM24CL64B, 8 KiB; no device ID.
    pub const FM24CL64B: Part = Part::new("FM24CL64B", 8 * KIB);
    /// FM24W256, 32 KiB; no device ID.
    pub const FM24W256: Part = Part::new("FM24W256", 32 * KIB);
    /// FM24V01A, 16 KiB.
    pub const FM24V01A: Part = Part::new("FM24V01A", 16 * KIB).with_identity(Maker::Cypress);
    /// FM24V02A, 32 KiB.
    pub const FM24V02A: Part = Part::new("FM24V02A", 32 * KIB).with_identity(Maker::Cypress);
    /// FM24V05, 64 KiB.
    pub const FM24V05: Part = Part::new("FM24V05", 64 * KIB).with_identity(Maker::Cypress);
    /// FM24V10, 128 KiB.
    pub const FM24V10: Part = Part::new("FM24V10", 128 * KIB).with_identity(Maker::Cypress);

    /// All listed parts.
    pub const ALL: [Part; 16] = [
        Part::MB85RC04V,
        Part::MB85RC16,
        Part::MB85RC64A,
        Part::MB85RC64TA,
        Part::MB85RC128A,
        Part::MB85RC256V,
        Part::MB85RC512T,
        Part::MB85RC1MT,
        Part::FM24CL04B,
        Part::FM24CL16B,
        Part::FM24CL64B,
        Part::FM24W256,
        Part::FM24V01A,
        Part::FM24V02A,
        Part::FM24V05,
        Part::FM24V10,
    ];

    /// A part that is not in the list: one address byte up to 2 KiB and two above, no device ID.
    ///
    /// `capacity` must be a power of two up to 512 KiB; other values are rounded down. A part of
    /// capacity 0 can be neither read nor written.
    pub const fn new(name: &'static str, capacity: u32) -> Part {
        let capacity = match capacity {
            0 => 0,
            // Never rounded up: a chip wraps to its start after its end.
            1..0x8_0000 => 1 << capacity.ilog2(),
            _ => 0x8_0000,
        };
        let address = if capacity > 2 * KIB {
            WordAddress::Two
        } else {
            WordAddress::One
        };
        Part {
            name,
            capacity,
            address,
            identity: None,
        }
    }

    /// The part has a device ID, which `init` compares with this maker and the capacity.
    pub const fn with_identity(self, maker: Maker) -> Part {
        Part {
            identity: Some(maker),
            ..self
        }
    }

    /// Sets the number of address bytes. With one byte, a larger part is used up to 2 KiB.
    pub const fn with_address(self, address: WordAddress) -> Part {
        let capacity = match address {
            WordAddress::One if self.capacity > 2 * KIB => 2 * KIB,
            _ => self.capacity,
        };
        Part {
            address,
            capacity,
            ..self
        }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The capacity in bytes.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The number of address bytes.
    pub const fn address(&self) -> WordAddress {
        self.address
    }

    /// The bits of the device address that hold address bits of the chip: 0, 1, 3 or 7. There the
    /// part has no pins.
    pub const fn block_bits(&self) -> u8 {
        let blocks = self.capacity / self.address.block();
        // At most 8 blocks.
        if blocks > 1 { blocks as u8 - 1 } else { 0 }
    }

    /// The maker in the device ID; `None` for a part without one.
    pub const fn identity(&self) -> Option<Maker> {
        self.identity
    }

    /// Whether a chip with this ID can be this part.
    pub fn accepts(&self, id: &DeviceId) -> bool {
        if nvmem::planted!("i2c-fram/id-not-compared") {
            return true;
        }
        match self.identity {
            None => true,
            Some(maker) => id.maker() == Some(maker) && id.capacity() == Some(self.capacity),
        }
    }
}
