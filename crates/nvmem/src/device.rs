//! Media behind a driver, and what a power cut may leave of a write to them.
//!
//! A medium says in its [`Contract`] what it promises, so that code is generic over the promise and a test kit can
//! enumerate what it permits:
//!
//! | medium | `write_size` | `torn` | `erase` |
//! |---|---|---|---|
//! | FRAM behind SPI or I²C | 1 | [`Torn::Prefix`], `unit` 1 | none |
//! | a mapped [`Region`](crate::Region), in order | 1 | [`Torn::Prefix`], `unit` 2 or 4 | none |
//! | a mapped region, buffered | 1 | [`Torn::Subset`], `unit` 4 | none |
//! | MRAM programmed by 16 bytes | 16 | [`Torn::Arbitrary`] | none |
//! | NOR flash | program word | [`Torn::Unstable`] | erase unit, erased value |

/// What a cut may leave of the write that it interrupts. Bytes that the write does not cover are never affected, and
/// a write that returned before another one began is complete, but for [`Torn::Subset`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum Torn {
    /// Aligned groups of [`Contract::unit`] bytes are old or new, and those that are new come first.
    Prefix,
    /// Aligned groups of [`Contract::unit`] bytes are old or new, of *all* writes since the last [`Medium::flush`], in
    /// any combination.
    Subset,
    /// Of the groups of [`Contract::write_size`] bytes, those that are new come first, the one in flight holds
    /// anything, always the same.
    Arbitrary,
    /// Groups of [`Contract::write_size`] bytes are old, new, or anything; those that are anything may read
    /// differently each time, over reboots too, until they are erased. A word may look erased and not be it.
    Unstable,
}

/// What erasing means on a medium that needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct EraseUnit {
    /// Bytes that are erased together. An interrupted erase leaves them as an interrupted write leaves a word.
    pub size: u32,
    /// What each byte reads when erased: 0xFF, or 0x00 on some.
    pub erased: u8,
    /// Whether a word may be written only once between two erases. Code that is generic over media takes it as true.
    pub write_once: bool,
    /// How many times a unit may be erased; 0 when the maker does not say.
    pub endurance: u32,
}

/// What a medium promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct Contract {
    /// The name in reports.
    pub name: &'static str,
    /// Reads begin and end at multiples of this.
    pub read_size: u32,
    /// Writes begin and end at multiples of this: the program word.
    pub write_size: u32,
    /// Bytes that are never torn, aligned to their number. Means something for [`Torn::Prefix`] and [`Torn::Subset`].
    pub unit: u32,
    /// What a cut leaves of a write.
    pub torn: Torn,
    /// What erasing means; `None` when the medium needs no erase.
    pub erase: Option<EraseUnit>,
}

impl Contract {
    /// Whether it does not contradict itself; to be used in a constant assertion.
    pub const fn is_sound(&self) -> bool {
        if self.read_size == 0 || self.write_size == 0 || self.unit == 0 {
            return false;
        }
        let sizes = match &self.erase {
            Some(e) => e.size != 0 && e.size.is_multiple_of(self.write_size),
            None => !matches!(self.torn, Torn::Unstable),
        };
        sizes && self.common().is_some()
    }

    /// Bytes that [`Medium::erase`] starts and ends at a multiple of: 1 when nothing needs erasing.
    pub const fn erase_size(&self) -> u32 {
        match &self.erase {
            Some(e) => e.size,
            None => 1,
        }
    }

    /// The multiple that a range for exclusive use starts and ends at.
    ///
    /// **Panics** when a size is zero or there is no such multiple below 2^32: such a contract is not [sound](Self::is_sound). In a constant
    /// the program does not compile.
    pub const fn alignment(&self) -> u32 {
        match self.common() {
            Some(all) => all,
            None => {
                panic!("a contract whose sizes are zero, or have no common multiple below 2^32")
            }
        }
    }

    /// The least common multiple of all sizes.
    const fn common(&self) -> Option<u32> {
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

/// A medium that is read and written through calls.
///
/// Offsets are 32 bits wide on every target: a serial memory is larger than what a 16-bit pointer reaches.
pub trait Medium {
    /// What a driver reports. That power failed is never among it.
    type Error: core::fmt::Debug;

    /// What the medium promises.
    const CONTRACT: Contract;

    /// Size in bytes.
    fn capacity(&self) -> u32;

    /// Reads `buf.len()` bytes from offset `at`.
    ///
    /// A word whose programming was cut is read as *something*: a driver whose hardware reports an uncorrectable
    /// error there returns any bytes for it.
    ///
    /// **Errors**: the driver's; misaligned or out of range among them.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes `bytes` to offset `at`; on a medium with erase, to erased words.
    ///
    /// **Power loss**: [`Contract::torn`]. **Errors**: the driver's; misaligned or out of range among them, and a
    /// write-once word written again where the driver can tell.
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Erases `from..to`. A medium that needs no erase does nothing.
    ///
    /// **Power loss**: of each erase unit, as for a write. **Errors**: as for [`Medium::write`].
    fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;

    /// Everything written before persists before anything written after. What needs it is [`Torn::Subset`], and a driver that keeps writes in a
    /// buffer: such a one writes them in order, and before an erase. Who tells somebody that a write is done flushes before.
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
/// A future that is dropped in the middle of a write leaves what a power cut would leave.
#[allow(async_fn_in_trait)]
pub trait AsyncMedium {
    /// As [`Medium::Error`].
    type Error: core::fmt::Debug;
    /// As [`Medium::CONTRACT`].
    const CONTRACT: Contract;
    /// As [`Medium::capacity`].
    fn capacity(&self) -> u32;
    /// As [`Medium::read`].
    async fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Self::Error>;
    /// As [`Medium::write`].
    async fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), Self::Error>;
    /// As [`Medium::erase`].
    async fn erase(&mut self, from: u32, to: u32) -> Result<(), Self::Error>;
    /// As [`Medium::flush`].
    async fn flush(&mut self) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Why a checked medium refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Misuse {
    /// The range does not lie inside.
    OutOfRange,
    /// An end of the range is not a multiple of the size that the contract states.
    Misaligned,
    /// A write-once word was written before and not erased since.
    NotErased,
    /// An erase unit has been erased as often as it can be.
    WornOut,
    /// The region holds typed values, whose padding is not read as bytes: see [`Region::clear`](crate::Region::clear).
    HoldsValues,
}

impl core::fmt::Display for Misuse {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Misuse::OutOfRange => "outside of the medium",
            Misuse::Misaligned => "not a multiple of the read, write or erase size",
            Misuse::NotErased => "a write-once word is written again without an erase",
            Misuse::WornOut => "an erase unit is worn out",
            Misuse::HoldsValues => "a region that holds typed values is read as bytes",
        })
    }
}
impl core::error::Error for Misuse {}

/// Whether `at .. at + len` lies in `capacity` bytes and at multiples of `size`.
///
/// **Errors**: [`Misuse::OutOfRange`], [`Misuse::Misaligned`].
pub const fn check_range(at: u32, len: usize, size: u32, capacity: u32) -> Result<(), Misuse> {
    // In 64 bits: a pointer may have 16, and the medium more.
    if len as u64 > capacity as u64 || at > capacity - len as u32 {
        return Err(Misuse::OutOfRange);
    }
    if !at.is_multiple_of(size) || !(len as u32).is_multiple_of(size) {
        return Err(Misuse::Misaligned);
    }
    Ok(())
}
