//! The supported parts, with the values of their data sheets.

use crate::id::{DeviceId, Maker};

/// The number of address bytes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum AddressWidth {
    /// For up to 64 KiB.
    Two,
    /// For more than 64 KiB.
    Three,
}

/// The expected answer to RDID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Identity {
    /// The part has no RDID, so nothing is checked.
    None,
    /// 04 7F and a product number whose lower five bits are one of these density codes.
    Fujitsu(&'static [u8]),
    /// Six times 7F and C2. The capacity is compared if its code is known.
    Cypress,
}

/// A part: properties that the driver needs and cannot read from the chip.
///
/// Use [`Part::new`] for a part that is not in the list.
///
/// | part | capacity | address bytes | ID (RDID) | clock for READ | sleep |
/// |---|---|---|---|---|---|
/// | `MB85RS16` | 2 KiB | 2 | 04 7F 01 01 | 20 MHz | no |
/// | `MB85RS64V` | 8 KiB | 2 | 04 7F 03 02 | 20 MHz | no |
/// | `MB85RS64T` | 8 KiB | 2 | 04 7F 23 03 | data sheet | yes |
/// | `MB85RS128B` | 16 KiB | 2 | 04 7F 04 09 | 25 MHz | no |
/// | `MB85RS256B` | 32 KiB | 2 | 04 7F 05 09 | 25 MHz | no |
/// | `MB85RS256TY` | 32 KiB | 2 | 04 7F 25 03 | 40 MHz | yes |
/// | `MB85RS512T` | 64 KiB | 2 | 04 7F 26 03 | data sheet | yes |
/// | `MB85RS1MT` | 128 KiB | 3 | 04 7F 27 03 | 25 MHz | yes |
/// | `MB85RS2MT` | 256 KiB | 3 | 04 7F 28 03 | 25 MHz | yes |
/// | `MB85RS2MTA` | 256 KiB | 3 | 04 7F 48 03 | data sheet | yes |
/// | `MB85RS4MT` | 512 KiB | 3 | 04 7F 49 03, or 48 | 40 MHz | yes |
/// | `FM25L16B` | 2 KiB | 2 | none | 20 MHz | no |
/// | `FM25CL64B` | 8 KiB | 2 | none | 20 MHz | no |
/// | `FM25W256` | 32 KiB | 2 | none | 20 MHz | no |
/// | `FM25V01A` | 16 KiB | 2 | 7F × 6, C2 21 08 | 40 MHz | yes |
/// | `FM25V02A` | 32 KiB | 2 | 7F × 6, C2 22 08 | 40 MHz | yes |
/// | `FM25V05` | 64 KiB | 2 | 7F × 6, C2 23 00 | 40 MHz | yes |
/// | `FM25V10` | 128 KiB | 3 | 7F × 6, C2 24 00 | 40 MHz | yes |
/// | `FM25V20A` | 256 KiB | 3 | 7F × 6, C2 25 08 | 40 MHz | yes |
/// | `CY15B102Q` | 256 KiB | 3 | 7F × 6, C2, capacity | data sheet | yes |
/// | `CY15B104Q` | 512 KiB | 3 | 7F × 6, C2 26 08 | 40 MHz | yes |
///
/// The driver does not set the clock: your `SpiDevice` does. Many parts allow less at low supply
/// voltages; see their data sheets. The driver compares the maker and, if its code is known, the
/// capacity of the ID; never the revision. Waking takes 450 µs, the longest time of these parts;
/// [`Part::with_sleep`] sets another time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Part {
    name: &'static str,
    capacity: u32,
    address: AddressWidth,
    identity: Identity,
    recovery_us: Option<u16>,
}

/// Microseconds from the end of sleep to the first command: the longest time of all listed parts.
const RECOVERY_US: u16 = 450;

const fn fujitsu(name: &'static str, capacity: u32, density: &'static [u8]) -> Part {
    Part::new(name, capacity).with_identity(Identity::Fujitsu(density))
}

const fn cypress(name: &'static str, capacity: u32) -> Part {
    Part::new(name, capacity)
        .with_identity(Identity::Cypress)
        .with_sleep(RECOVERY_US)
}

const KIB: u32 = 1024;

impl Part {
    /// MB85RS16, 2 KiB.
    pub const MB85RS16: Part = fujitsu("MB85RS16", 2 * KIB, &[1]);
    /// MB85RS64V, 8 KiB, 3.0 to 5.5 V.
    pub const MB85RS64V: Part = fujitsu("MB85RS64V", 8 * KIB, &[3]);
    /// MB85RS64T, 8 KiB.
    pub const MB85RS64T: Part = fujitsu("MB85RS64T", 8 * KIB, &[3]).with_sleep(RECOVERY_US);
    /// MB85RS128B, 16 KiB.
    pub const MB85RS128B: Part = fujitsu("MB85RS128B", 16 * KIB, &[4]);
    /// MB85RS256B, 32 KiB.
    pub const MB85RS256B: Part = fujitsu("MB85RS256B", 32 * KIB, &[5]);
    /// MB85RS256TY, 32 KiB.
    pub const MB85RS256TY: Part = fujitsu("MB85RS256TY", 32 * KIB, &[5]).with_sleep(RECOVERY_US);
    /// MB85RS512T, 64 KiB.
    pub const MB85RS512T: Part = fujitsu("MB85RS512T", 64 * KIB, &[6]).with_sleep(RECOVERY_US);
    /// MB85RS1MT, 128 KiB.
    pub const MB85RS1MT: Part = fujitsu("MB85RS1MT", 128 * KIB, &[7]).with_sleep(RECOVERY_US);
    /// MB85RS2MT, 256 KiB.
    pub const MB85RS2MT: Part = fujitsu("MB85RS2MT", 256 * KIB, &[8]).with_sleep(RECOVERY_US);
    /// MB85RS2MTA, 256 KiB.
    pub const MB85RS2MTA: Part = fujitsu("MB85RS2MTA", 256 * KIB, &[8]).with_sleep(RECOVERY_US);
    /// MB85RS4MT, 512 KiB. Its data sheet prints the density as 48h and as 49h. Both are accepted,
    /// so the ID does not distinguish it from an MB85RS2MTA.
    pub const MB85RS4MT: Part = fujitsu("MB85RS4MT", 512 * KIB, &[9, 8]).with_sleep(RECOVERY_US);
    /// FM25L16B, 2 KiB; no device ID, no sleep.
    pub const FM25L16B: Part = Part::new("FM25L16B", 2 * KIB);
    /// FM25CL64B, 8 KiB; no device ID, no sleep.
    pub const FM25CL64B: Part = Part::new("FM25CL64B", 8 * KIB);
    /// FM25W256, 32 KiB; no device ID, no sleep.
    pub const FM25W256: Part = Part::new("FM25W256", 32 * KIB);
    /// FM25V01A, 16 KiB.
    pub const FM25V01A: Part = cypress("FM25V01A", 16 * KIB);
    /// FM25V02A, 32 KiB.
    pub const FM25V02A: Part = cypress("FM25V02A", 32 * KIB);
    /// FM25V05, 64 KiB.
    pub const FM25V05: Part = cypress("FM25V05", 64 * KIB);
    /// FM25V10, 128 KiB.
    pub const FM25V10: Part = cypress("FM25V10", 128 * KIB);
    /// FM25V20A, 256 KiB.
    pub const FM25V20A: Part = cypress("FM25V20A", 256 * KIB);
    /// CY15B102Q, 256 KiB.
    pub const CY15B102Q: Part = cypress("CY15B102Q", 256 * KIB);
    /// CY15B104Q, 512 KiB.
    pub const CY15B104Q: Part = cypress("CY15B104Q", 512 * KIB);

    /// All listed parts.
    pub const ALL: [Part; 21] = [
        Part::MB85RS16,
        Part::MB85RS64V,
        Part::MB85RS64T,
        Part::MB85RS128B,
        Part::MB85RS256B,
        Part::MB85RS256TY,
        Part::MB85RS512T,
        Part::MB85RS1MT,
        Part::MB85RS2MT,
        Part::MB85RS2MTA,
        Part::MB85RS4MT,
        Part::FM25L16B,
        Part::FM25CL64B,
        Part::FM25W256,
        Part::FM25V01A,
        Part::FM25V02A,
        Part::FM25V05,
        Part::FM25V10,
        Part::FM25V20A,
        Part::CY15B102Q,
        Part::CY15B104Q,
    ];

    /// A part that is not in the list: two address bytes up to 64 KiB and three above, no device
    /// ID, no sleep.
    ///
    /// `capacity` must be a power of two up to 16 MiB; other values are rounded down. A part of
    /// capacity 0 can be neither read nor written.
    pub const fn new(name: &'static str, capacity: u32) -> Part {
        let capacity = match capacity {
            0 => 0,
            // Never rounded up: a chip wraps to its start after its end.
            1..0x100_0000 => 1 << capacity.ilog2(),
            _ => 0x100_0000,
        };
        let address = if capacity > 0x1_0000 {
            AddressWidth::Three
        } else {
            AddressWidth::Two
        };
        Part {
            name,
            capacity,
            address,
            identity: Identity::None,
            recovery_us: None,
        }
    }

    /// Sets the ID that `init` checks.
    pub const fn with_identity(self, identity: Identity) -> Part {
        Part { identity, ..self }
    }

    /// Declares a sleep mode (command B9h) and the microseconds to recover from it.
    pub const fn with_sleep(self, recovery_us: u16) -> Part {
        Part {
            recovery_us: Some(recovery_us),
            ..self
        }
    }

    /// Sets the number of address bytes. Two bytes reach 64 KiB: a larger part is used up to there.
    pub const fn with_address(self, address: AddressWidth) -> Part {
        let capacity = match address {
            AddressWidth::Two if self.capacity > 0x1_0000 => 0x1_0000,
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
    pub const fn address(&self) -> AddressWidth {
        self.address
    }

    /// The expected answer to RDID.
    pub const fn identity(&self) -> Identity {
        self.identity
    }

    /// Microseconds from the end of sleep to the first command; `None` for a part without sleep.
    pub const fn recovery_us(&self) -> Option<u16> {
        self.recovery_us
    }

    /// Whether a chip with this ID can be this part.
    pub fn accepts(&self, id: &DeviceId) -> bool {
        if nvmem::planted!("spi-fram/id-not-compared") {
            return true;
        }
        match (self.identity, id.product()) {
            (Identity::None, _) => true,
            (Identity::Fujitsu(density), Some((Maker::Fujitsu, [code, _]))) => {
                density.contains(&(code & 0x1F))
            }
            (Identity::Cypress, Some((Maker::Cypress, _))) => {
                id.capacity().is_none_or(|c| c == self.capacity)
            }
            _ => false,
        }
    }
}
