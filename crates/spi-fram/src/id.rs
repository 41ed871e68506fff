//! The device ID: the answer to RDID.

/// The chip's manufacturer, by its JEDEC number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Maker {
    /// Fujitsu, now RAMXEED.
    Fujitsu,
    /// Ramtron, now Cypress and Infineon.
    Cypress,
}

/// The bytes of the answer to RDID, in the order of arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeviceId(pub [u8; 9]);

/// JEDEC continuation codes before Cypress's number.
const BANK_7: [u8; 6] = [0x7F; 6];

impl DeviceId {
    /// The number of bytes read.
    pub const LEN: usize = 9;

    /// The maker and the two bytes of its product number; `None` for an unknown maker.
    ///
    /// Fujitsu answers 04 7F and the product. Cypress answers six times 7F, C2 and the product;
    /// some of its newer parts send the nine bytes in reverse order.
    pub const fn product(&self) -> Option<(Maker, [u8; 2])> {
        match self.0 {
            [0x04, 0x7F, first, second, ..] => Some((Maker::Fujitsu, [first, second])),
            [a, b, c, d, e, f, 0xC2, first, second] | [second, first, 0xC2, a, b, c, d, e, f] => {
                let mut i = 0;
                let bank = [a, b, c, d, e, f];
                while i < bank.len() {
                    if bank[i] != BANK_7[i] {
                        return None;
                    }
                    i += 1;
                }
                Some((Maker::Cypress, [first, second]))
            }
            _ => None,
        }
    }

    /// The maker.
    pub const fn maker(&self) -> Option<Maker> {
        match self.product() {
            Some((maker, _)) => Some(maker),
            None => None,
        }
    }

    /// The capacity in bytes, if the product number has a known code.
    ///
    /// The MB85RS4MT has two density codes in its data sheet, one of which means half of its
    /// capacity. [`Part`](crate::Part) knows which part may answer which code.
    pub const fn capacity(&self) -> Option<u32> {
        match self.product() {
            // Five bits: powers of two; code 1 is 2 KiB.
            Some((Maker::Fujitsu, [density, _])) => match density & 0x1F {
                code @ 1..=0xF => Some(1 << (code + 10)),
                _ => None,
            },
            Some((Maker::Cypress, [code @ 0x21..=0x26, _])) => Some(1 << (code - 0x21 + 14)),
            // Later families use the lowest bit for the family.
            Some((Maker::Cypress, [code @ 0x2A..=0x30, _])) => Some(1 << ((code >> 1 & 0xF) + 13)),
            _ => None,
        }
    }
}
