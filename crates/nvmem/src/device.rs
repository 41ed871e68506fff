//! Media behind a driver, and what a power cut may leave of a write.
//!
//! A medium states its failure model in its [`Contract`]. Code is generic over the contract, and a
//! test kit enumerates the crash states that it permits:
//!
//! | medium | `write_size` | `torn` | `erase` |
//! |---|---|---|---|
//! | FRAM behind SPI or I²C | 1 | [`Torn::Prefix`], `unit` 1 | none |
//! | a mapped [`Region`](crate::Region), in order | 1 | [`Torn::Prefix`], `unit` 2 or 4 | none |
//! | a mapped region, buffered | 1 | [`Torn::Subset`], `unit` 4 | none |
//! | MRAM programmed by 16 bytes | 16 | [`Torn::Arbitrary`] | none |
//! | NOR flash | program word | [`Torn::Unstable`] | erase unit, erased value |

/// What a cut may leave of the write that it interrupts. Bytes outside the write are never
/// affected. A write that returned before the next one began is complete, except with
/// [`Torn::Subset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Torn {
    /// Aligned groups of [`Contract::unit`] bytes are old or new, the new ones first.
    Prefix,
    /// Aligned groups of [`Contract::unit`] bytes are old or new in any combination. This applies
    /// to *all* writes since the last [`Medium::flush`].
    Subset,
    /// A prefix of the groups of [`Contract::write_size`] bytes is new. The group in flight holds
    /// any value, which does not change between reads.
    Arbitrary,
    /// Groups of [`Contract::write_size`] bytes are old, new, or unstable words. An unstable word
    /// may read differently each time, also after a reboot, until it is erased. A word that reads
    /// as erased may be unstable.
    Unstable,
}

/// The properties of erasing on a medium that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EraseUnit {
    /// Bytes that are erased together. An interrupted erase leaves each word of the unit as an
    /// interrupted write would.
    pub size: u32,
    /// The value of an erased byte: 0xFF, on some parts 0x00.
    pub erased: u8,
    /// Whether a word may be written only once between two erases. If not, a word may be programmed
    /// again so that all its bits are programmed: with the complement of `erased`, as often as
    /// needed, also where an earlier program was cut. Code that is generic over media relies on no
    /// other overwrite.
    pub write_once: bool,
    /// How many erases a unit endures; 0 if unknown.
    pub endurance: u32,
}

/// The failure model and the access sizes of a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Contract {
    /// The name in reports.
    pub name: &'static str,
    /// Reads begin and end at multiples of this many bytes.
    pub read_size: u32,
    /// Writes begin and end at multiples of this many bytes: the program word.
    pub write_size: u32,
    /// The atomic unit: aligned groups of this many bytes are never torn. Only for [`Torn::Prefix`]
    /// and [`Torn::Subset`].
    pub unit: u32,
    /// What a cut leaves of a write.
    pub torn: Torn,
    /// The erase properties; `None` if the medium needs no erase.
    pub erase: Option<EraseUnit>,
}

impl Contract {
    /// Whether the fields are consistent. For a constant assertion.
    pub const fn is_sound(&self) -> bool {
        if self.read_size == 0 || self.write_size == 0 || self.unit == 0 {
            return false;
        }
        let sizes = match &self.erase {
            Some(e) => e.size != 0 && e.size.is_multiple_of(self.write_size),
            None => !matches!(self.torn, Torn::Unstable),
        };
        sizes && self.least_common_multiple().is_some()
    }

    /// [`Medium::erase`] begins and ends at multiples of this many bytes; 1 if the medium needs no
    /// erase.
    pub const fn erase_size(&self) -> u32 {
        match &self.erase {
            Some(e) => e.size,
            None => 1,
        }
    }

    /// Whether every bit of a word may be programmed without an erase, whatever the word holds: see
    /// [`EraseUnit::write_once`].
    pub const fn overwrites(&self) -> bool {
        match &self.erase {
            Some(e) => !e.write_once,
            None => false,
        }
    }

    /// A range for exclusive use begins and ends at multiples of this many bytes.
    ///
    /// **Panics** if the contract is not [sound](Self::is_sound): a size is zero, or the least
    /// common multiple exceeds 32 bits. In a constant this is a compile error.
    pub const fn alignment(&self) -> u32 {
        match self.least_common_multiple() {
            Some(all) => all,
            None => {
                panic!("a contract whose sizes are zero, or have no common multiple below 2^32")
            }
        }
    }

    /// The least common multiple of all sizes.
    const fn least_common_multiple(&self) -> Option<u32> {
        let mut all = 1u32;
        let sizes = [
            self.write_size,
            self.read_size,
            self.unit,
            self.erase_size(),
        ];
        let mut i = 0;
        while i < sizes.len() {
            let (mut a, mut b) = (all, sizes[i]);
            while b != 0 {
                (a, b) = (b, a % b);
            }
            all = match (all / a).checked_mul(sizes[i]) {
                None | Some(0) => return None,
                Some(all) => all,
            };
            i += 1;
        }
        Some(all)
    }
}

/// A medium that a driver reads and writes.
///
/// Offsets have 32 bits on every target: a serial memory may be larger than a 16-bit address space.
pub trait Medium {
    /// The driver's error. A power failure is never reported as an error.
    type Error: core::fmt::Debug;

    /// The failure model and the access sizes.
    const CONTRACT: Contract;

    /// Size in bytes.
    fn capacity(&self) -> u32;

    /// Reads `buf.len()` bytes from offset `at`.
    ///
    /// A torn word must be readable: if the hardware reports an uncorrectable error there, the
    /// driver returns any bytes.
    ///
    /// **Errors**: the driver's, for example for a misaligned or out-of-range access.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes `bytes` to offset `at`; on a medium with erase, to erased words.
    ///
    /// **Power loss**: [`Contract::torn`]. **Errors**: the driver's, for example for a misaligned
    /// or out-of-range access. A driver that can detect it also refuses to rewrite a write-once
    /// word.
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Erases `from..to`. A medium that needs no erase does nothing.
    ///
    /// **Power loss**: of each erase unit, as for a write. **Errors**: as for [`Medium::write`].
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;

    /// Everything written before persists before anything written after. Matters for
    /// [`Torn::Subset`] and for drivers that buffer writes. A buffering driver writes in order, and
    /// before an erase. Code that reports a write as done to another party flushes first.
    ///
    /// **Errors**: the driver's. The default does nothing and returns `Ok`.
    fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<D: Medium> Medium for &mut D {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        D::capacity(self)
    }
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        D::read(self, at, buf)
    }
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        D::write(self, at, bytes)
    }
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        D::erase(self, from, to)
    }
    fn flush(&mut self) -> Result<(), Self::Error> {
        D::flush(self)
    }
}

/// A [`Medium`] whose driver waits for interrupts.
///
/// **Cancel safety**: a future dropped during a write leaves what a power cut would leave. No part
/// of that write is still under way when the next operation begins.
#[allow(async_fn_in_trait)]
pub trait AsyncMedium {
    /// As [`Medium::Error`].
    type Error: core::fmt::Debug;
    /// As [`Medium::CONTRACT`].
    const CONTRACT: Contract;
    /// As [`Medium::capacity`].
    fn capacity(&self) -> u32;
    /// As [`Medium::read`]. **Errors**: as there.
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error>;
    /// As [`Medium::write`]. **Errors**: as there.
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error>;
    /// As [`Medium::erase`]. **Errors**: as there.
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;
    /// As [`Medium::flush`]. **Errors**: as there.
    async fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

impl<D: AsyncMedium> AsyncMedium for &mut D {
    type Error = D::Error;
    const CONTRACT: Contract = D::CONTRACT;
    fn capacity(&self) -> u32 {
        D::capacity(self)
    }
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error> {
        D::read(self, at, buf).await
    }
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error> {
        D::write(self, at, bytes).await
    }
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error> {
        D::erase(self, from, to).await
    }
    async fn flush(&mut self) -> Result<(), Self::Error> {
        D::flush(self).await
    }
}

/// Why a medium refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Misuse {
    /// The range ends outside the medium.
    OutOfRange,
    /// The range does not begin and end at multiples of the size in the contract.
    Misaligned,
    /// A write-once word is written again without an erase.
    NotErased,
    /// An erase unit has reached its endurance.
    WornOut,
    /// The region holds typed values, whose padding must not be read as bytes: see
    /// [`Region::clear`](crate::Region::clear).
    HoldsValues,
}

impl core::fmt::Display for Misuse {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Misuse::OutOfRange => "outside the medium",
            Misuse::Misaligned => "not a multiple of the read, write or erase size",
            Misuse::NotErased => "a write-once word is written again without an erase",
            Misuse::WornOut => "an erase unit is worn out",
            Misuse::HoldsValues => "the region holds typed values and cannot be read as bytes",
        })
    }
}
impl core::error::Error for Misuse {}

/// Checks that `at .. at + len` lies within `capacity` bytes and begins and ends at multiples of
/// `size`.
///
/// **Errors**: [`Misuse::OutOfRange`], [`Misuse::Misaligned`].
pub const fn check_range(at: u32, len: usize, size: u32, capacity: u32) -> Result<(), Misuse> {
    // In 64 bits: `usize` may have 16, and the medium may be larger.
    if len as u64 > capacity as u64 || at > capacity - len as u32 {
        return Err(Misuse::OutOfRange);
    }
    if !at.is_multiple_of(size) || !(len as u32).is_multiple_of(size) {
        return Err(Misuse::Misaligned);
    }
    Ok(())
}
