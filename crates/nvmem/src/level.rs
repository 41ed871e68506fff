//! Wear levelling: NOR flash as a [`Medium`](crate::Medium) of single bytes that needs no erase.
//!
//! [`WearLevelled`] keeps its content in pages. A page write goes to the next free slot of a log
//! that runs over all blocks; a block is one or more erase units. The log is cleaned from its
//! oldest block: the live pages of that block are copied to the end, and the block is erased when
//! its turn comes. So all blocks are erased equally often, also those with data that never changes.
//!
//! ```text
//! log     | oldest block |  ...  | block | newest block     |   free blocks ...
//!           live pages are                 slots are          erased and started
//!           copied from here               appended here      in turn
//!
//! block   | header | commit marker | confirmation | slot 0 | slot 1 | ... |
//! header  | magic "RLW3" | sequence | previous block and its sequence | valid slots of
//!           the previous block | oldest block | carried? | geometry | CRC |   32 bytes
//!
//! slot    | kind and page number, 4 bytes | page | CRC, 4 bytes |
//! ```
//!
//! # Order of stores
//!
//! A page write:
//!
//! 1. If the newest block is full, start a block: erase it, write its header, the commit marker and
//!    the confirmation, then flush.
//! 2. While free space is short, copy one page of the oldest block to the next slot.
//! 3. Write the first word of the slot alone, then the rest with the CRC, then flush.
//!
//! At boot the end of the log can be in doubt, because the last slot may be torn. Then opening
//! copies the page in doubt *before* it returns anything:
//!
//! - to slot 0 of a new block: header, this copy, the pages that cleaning must move, then the
//!   commit marker and the confirmation;
//! - where words may be overwritten ([`Contract::overwrites`]), to the same block: it
//!   [kills](crate::marker::kill) the next slot, which may have been begun, and copies to the slot
//!   after it. Such a boot erases nothing. A slot that is torn is killed, too.
//!
//! # Why it is safe
//!
//! - A power cut leaves what the [`Contract`] of `WearLevelled` says: of the bytes being written a
//!   prefix is new, and each page is old or new.
//! - A header states how many slots of the previous block are valid. So all later boots agree about
//!   the end of that block, however its unstable words read.
//! - A block without its commit marker does not count: the next boot starts it again. A block with
//!   the marker but without the confirmation may have been used, so it is not erased until another
//!   block states the same.
//! - What was read once never reverts at a later boot, even with unstable words: the doubt is
//!   resolved on the medium before the first read.
//! - Cleaning always has space: see `has_room`. The capacity is chosen so that four page copies per
//!   page write suffice.
//!
//! crates/nvmem/DESIGN.md has the alternatives.
//!
//! ```
//! use nvmem::{Medium, level::WearLevelled, ram::RamNor};
//!
//! type Flash = RamNor<16, 4096, 4>;
//! type Bytes<'t> = WearLevelled<'t, &'t mut Flash, 256>;
//!
//! # fn main() -> Result<(), nvmem::level::LevelError<nvmem::device::Misuse>> {
//! let mut flash = Flash::new();
//! let mut table = [0; Bytes::table_entries(16 * 4096)];
//! let mut bytes = Bytes::open(&mut flash, &mut table)?;
//! bytes.write(1000, b"any offset, any length")?;
//! assert_eq!(bytes.capacity(), 35_584);
//! # Ok(()) }
//! ```

pub(crate) mod fault;
pub(crate) mod geometry;
pub(crate) mod table;
#[cfg(test)]
mod tests;

#[cfg(doc)]
use crate::device::Contract;
use crate::layout::{Layout, LayoutMismatch};
use core::fmt;

pub use crate::blocking::level::WearLevelled;

/// Why wear-levelled flash cannot be opened, read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LevelError<E> {
    /// The flash's error. After a failed write each page is old or new, as after a power cut. The
    /// next call scans the flash as [`WearLevelled::open`] does.
    Medium(E),
    /// The flash was formatted with other page or block sizes, or by an older version of this
    /// format. Nothing was written.
    Layout(LayoutMismatch),
    /// The flash holds other data. Nothing was written. [`WearLevelled::format`] overwrites it.
    Foreign,
    /// The log on the flash is damaged. No power cut can cause this. [`WearLevelled::format`]
    /// overwrites it.
    Damaged,
    /// The flash is too small for even one page.
    TooSmall {
        /// The smallest size that suffices, in bytes.
        needed: u32,
    },
    /// The table has too few entries.
    TableTooSmall {
        /// The number of entries needed.
        needed: u32,
    },
    /// The range ends outside the medium.
    OutOfRange,
    /// The flash was opened with [`WearLevelled::open_to_read`].
    ReadOnly,
    /// The sequence numbers are used up: 2^32 - 1 blocks have been started. The flash wears out
    /// long before.
    WornOut,
}

impl<E: fmt::Debug> fmt::Display for LevelError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelError::Medium(e) => write!(f, "the flash failed: {e:?}"),
            LevelError::Layout(e) => write!(f, "{e}"),
            LevelError::Foreign => f.write_str("the flash holds other data"),
            LevelError::Damaged => f.write_str("the log on the flash is damaged"),
            LevelError::TooSmall { needed } => write!(f, "the flash needs {needed} bytes"),
            LevelError::TableTooSmall { needed } => write!(f, "the table needs {needed} entries"),
            LevelError::ReadOnly => f.write_str("the flash was opened read-only"),
            LevelError::OutOfRange => f.write_str("outside the medium"),
            LevelError::WornOut => f.write_str("no sequence number is left to start a block"),
        }
    }
}
impl<E: fmt::Debug> core::error::Error for LevelError<E> {}

impl<E> From<LayoutMismatch> for LevelError<E> {
    fn from(e: LayoutMismatch) -> Self {
        LevelError::Layout(e)
    }
}

/// The layout of a log with this geometry. Its fingerprint is the page size, the slots per block
/// and the number of blocks.
pub(crate) fn layout(version: u16, sizes: [u16; 3]) -> Layout {
    let [page, slots, blocks] = sizes.map(u64::from);
    Layout {
        kind: *b"WEAR",
        version,
        fingerprint: page | slots << 16 | blocks << 32,
    }
}
