//! What RDID answers.

/// Who made the chip, by its JEDEC number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Maker {
    /// Fujitsu, now RAMXEED.
    Fujitsu,
    /// Ramtron, now Cypress and Infineon.
    Cypress,
}

/// The bytes that RDID answered, in the order in which they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct DeviceId(pub [u8; 9]);

/// Continuation codes that stand before Cypress's own number.
const BANK_7: [u8; 6] = [0x7F; 6];

impl DeviceId {
    /// How many bytes are read.
    pub const LEN: usize = 9;

    /// The maker, and the two bytes of its product number; `None` when it is neither of those that are known.
    ///
    /// Fujitsu answers 04 7F and the product. Cypress answers six times 7F, C2 and the product; some of its newer
    /// parts send the nine bytes in the opposite order.
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

    /// The capacity in bytes, where the product number tells it in a way that is known.
    ///
    /// MB85RS4MT is printed with two density codes, one of which is that of half its capacity; which parts answer
    /// what is known to [`Part`](crate::Part), not here.
    pub const fn capacity(&self) -> Option<u32> {
        match self.product() {
            // Five bits: powers of two from 2 KiB, which is 1.
            Some((Maker::Fujitsu, [density, _])) => match density & 0x1F {
                code @ 1..=0xF => Some(1 << (code + 10)),
                _ => None,
            },
            Some((Maker::Cypress, [code @ 0x21..=0x26, _])) => Some(1 << (code - 0x21 + 14)),
            // The later families have a bit less for the family.
            Some((Maker::Cypress, [code @ 0x2A..=0x30, _])) => Some(1 << ((code >> 1 & 0xF) + 13)),
            _ => None,
        }
    }
}
