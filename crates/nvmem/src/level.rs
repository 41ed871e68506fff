//! Wear levelling: NOR flash as a [`Medium`] of single bytes that needs no erase.
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
//! header  | magic "RLW2" | sequence | previous block and its sequence | valid slots of
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
//! starts a new block *before* it returns anything: header, the page in doubt copied to slot 0, the
//! pages that cleaning must move, then the commit marker and the confirmation.
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
//! docs/DESIGN.md gives the arguments in full.
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

mod geometry;
mod log;
mod scan;
mod table;
#[cfg(test)]
mod tests;

use crate::device::{Contract, Medium, Torn};
use crate::layout::{Layout, LayoutMismatch};
use core::fmt;
use geometry::{COPIES, Geometry, NONE, VERSION};
use log::{Fault, Log};
use table::Table;

/// Why wear-levelled flash cannot be opened, read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LevelError<E> {
    /// The flash's error. After a failed write each page is old or new, as after a power cut. The
    /// next call scans the flash as [`WearLevelled::open`] does.
    Medium(E),
    /// The flash was formatted with other page or block sizes. Nothing was written.
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

type Result<T, E> = core::result::Result<T, LevelError<E>>;

/// Flash `D` as a medium of single bytes that needs no erase, stored in pages of `PAGE` bytes.
///
/// A write rewrites whole pages. A large page loses less flash to its 8 bytes of overhead, a small
/// page makes small writes cheaper. `PAGE` is a multiple of 4, up to 4096; 64 to 256 suit most. On
/// flash with large program words, a multiple of the word less 8 wastes nothing.
#[derive(Debug)]
pub struct WearLevelled<'b, D, const PAGE: usize> {
    log: Log<'b, D, PAGE>,
}

impl<'b, D: Medium, const PAGE: usize> WearLevelled<'b, D, PAGE> {
    /// The most page copies that one page write causes.
    pub const COPIES: u32 = COPIES;

    const fn geometry(bytes: u32) -> Geometry {
        assert!(PAGE <= 4096, "a page has 4 to 4096 bytes");
        Geometry::of(&D::CONTRACT, PAGE as u32, bytes)
    }

    /// How many entries the RAM table needs for a flash of `bytes` bytes: one per page and two per
    /// block.
    pub const fn table_entries(bytes: u32) -> usize {
        Self::geometry(bytes).entries() as usize
    }

    /// The capacity that a flash of `bytes` bytes offers, in bytes; 0 if it is too small.
    ///
    /// Four blocks, six slots and a fifth of the other slots stay free. This bounds the copies per
    /// write.
    pub const fn capacity_of(bytes: u32) -> u32 {
        Self::geometry(bytes).pages * PAGE as u32
    }

    /// The size in bytes of the smallest flash that offers `capacity` bytes.
    ///
    /// **Panics** if none does: there are at most 2^16 slots, and offsets have 32 bits. In a
    /// constant this is a compile error.
    pub const fn bytes_for(capacity: u32) -> u32 {
        match Self::geometry(u32::MAX).bytes_for(capacity) {
            Some(bytes) => bytes,
            None => {
                panic!("no flash offers that many bytes in pages of this size: use larger pages")
            }
        }
    }

    /// The least number of page writes after which a block of a flash of `bytes` bytes has been
    /// erased `erases` times. Each boot that follows a boot with writes uses one block's slots of
    /// this number.
    pub const fn page_writes(bytes: u32, erases: u32) -> u64 {
        let s = Self::geometry(bytes);
        s.blocks as u64 * s.slots as u64 * erases as u64 / (COPIES as u64 + 1)
    }

    /// Opens the whole flash. A blank flash is formatted; all bytes are then zero.
    ///
    /// **Power loss**: the content does not change; a format that was cut is repeated. **Cost**:
    /// reads the header of each block and 4 bytes of each slot in use. Writes nothing if nothing
    /// was written since the last open. Otherwise it starts a block: an erase, the header, and up
    /// to one page copy per slot. If the last cut wasted slots that cleaning needs, up to
    /// [`COPIES`](Self::COPIES) + 1 such blocks. **Errors**: all of [`LevelError`] but
    /// `OutOfRange`.
    pub fn open(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        let opened = log.open();
        opened.map_err(|f| log.error(f))?;
        Ok(WearLevelled { log })
    }

    /// As [`open`](Self::open), but never writes: for worn-out flash, or for an inspector.
    ///
    /// After a cut during a page write, the next boot will *probably* find the same page, but it
    /// may read differently. Display it, but do not act on it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for `open`.
    pub fn open_to_read(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        log.read_only = true;
        let opened = log.open();
        opened.map_err(|f| log.error(f))?;
        Ok(WearLevelled { log })
    }

    /// Deletes **all content of the flash** and formats it.
    ///
    /// **Power loss**: the previous content, a flash that [`open`](Self::open) refuses, or zeros;
    /// never older content. If a cut prevented it from returning, call it again. **Cost**: erases
    /// all blocks, then a format. **Errors**: `Medium`, `TooSmall`, `TableTooSmall`.
    pub fn format(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        let opened = log.erase_all().and_then(|()| log.open());
        opened.map_err(|f| log.error(f))?;
        Ok(WearLevelled { log })
    }

    fn log(medium: D, table: &'b mut [u16]) -> Result<Log<'b, D, PAGE>, D::Error> {
        let geometry = Self::geometry(medium.capacity());
        if geometry.pages == 0 {
            return Err(LevelError::TooSmall {
                needed: const { Self::bytes_for(1) },
            });
        }
        let needed = geometry.entries();
        Ok(Log {
            medium,
            blocks: geometry.blocks,
            pages: geometry.pages,
            table: Table::new(&geometry, table).ok_or(LevelError::TableTooSmall { needed })?,
            newest: 0,
            newest_sequence: 0,
            valid_slots: 0,
            open: false,
            tail: 0,
            oldest: 0,
            used: 0,
            sequence: 0,
            must_not_erase: NONE,
            cursor: 0,
            stale: false,
            read_only: false,
            other: (0, [0; 3]),
        })
    }

    /// Roughly how often each erase unit was erased: the number of blocks started, divided by the
    /// number of blocks.
    pub fn erases(&self) -> u32 {
        self.log.sequence.div_ceil(self.log.blocks)
    }

    /// Reads all pages and counts those with a wrong checksum. A copy of a damaged page keeps a
    /// wrong checksum, until a write covers the whole page.
    ///
    /// **Power loss**: writes nothing. **Errors**: `Medium`.
    pub fn damaged_pages(&mut self) -> Result<u32, D::Error> {
        let log = &mut self.log;
        let mut count = || {
            log.ready()?;
            let mut n = 0;
            for page in 0..log.pages as u16 {
                let slot = log.table.slot(page);
                if slot != NONE && !log.is_intact(slot)? {
                    n += 1;
                }
            }
            Ok(n)
        };
        count().map_err(|f: Fault<_>| self.log.error(f))
    }

    /// Returns the flash.
    pub fn into_medium(self) -> D {
        self.log.medium
    }

    /// Splits a range at page borders.
    fn split_by_page(
        &self,
        at: u32,
        len: usize,
    ) -> Result<impl Iterator<Item = PageRange> + use<D, PAGE>, D::Error> {
        crate::device::check_range(at, len, 1, self.capacity())
            .map_err(|_| LevelError::OutOfRange)?;
        let page = PAGE as u32;
        let (mut at, mut done) = (at, 0);
        Ok(core::iter::from_fn(move || {
            let n = ((page - at % page) as usize).min(len - done);
            let part = PageRange {
                page: (at / page) as u16,
                off: at % page,
                bytes: done..done + n,
            };
            at += n as u32;
            done += n;
            (n > 0).then_some(part)
        }))
    }
}

struct PageRange {
    page: u16,
    off: u32,
    bytes: core::ops::Range<usize>,
}

impl<D: Medium, const PAGE: usize> Medium for WearLevelled<'_, D, PAGE> {
    type Error = LevelError<D::Error>;

    const CONTRACT: Contract = Contract {
        name: "wear-levelled",
        read_size: 1,
        write_size: 1,
        unit: 1,
        torn: Torn::Prefix,
        erase: None,
    };

    fn capacity(&self) -> u32 {
        self.log.pages * PAGE as u32
    }

    /// **Cost**: reads the requested bytes, rounded to the flash's read size. Does not verify
    /// checksums: a caller that needs this stores its own, or calls
    /// [`WearLevelled::damaged_pages`]. **Errors**: `OutOfRange`, `Medium`.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        let ranges = self.split_by_page(at, buf.len())?;
        let log = &mut self.log;
        let mut done = log.ready();
        for p in ranges {
            if let (Ok(()), Some(piece)) = (&done, buf.get_mut(p.bytes)) {
                done = log.read_page(p.page, p.off, piece);
            }
        }
        done.map_err(|f| log.error(f))
    }

    /// **Power loss**: [`Torn::Prefix`]: each page that the write touches is old or new, the new
    /// ones first. **Cost**: for each touched page, writes the whole page and copies up to
    /// [`WearLevelled::COPIES`] others. Erases at most one block per page written, and one more for
    /// the first write of a boot. **Errors**: `OutOfRange`, `Medium`, `Damaged`, `WornOut`; the
    /// pages before the failed one are written.
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        for p in self.split_by_page(at, bytes.len())? {
            if let Some(piece) = bytes.get(p.bytes) {
                let done = self.log.write(p.page, p.off, piece);
                done.map_err(|f| self.log.error(f))?;
            }
        }
        Ok(())
    }

    fn erase(&mut self, _: u32, _: u32) -> Result<(), D::Error> {
        Ok(())
    }
}

impl<D: Medium, const PAGE: usize> Log<'_, D, PAGE> {
    fn error(&self, fault: Fault<D::Error>) -> LevelError<D::Error> {
        match fault {
            Fault::Medium(e) => LevelError::Medium(e),
            Fault::Other => LevelError::Layout(LayoutMismatch {
                stored: layout(self.other.0, self.other.1),
                expected: layout(VERSION, self.geometry().header_sizes()),
            }),
            Fault::Foreign => LevelError::Foreign,
            Fault::Damaged => LevelError::Damaged,
            Fault::ReadOnly => LevelError::ReadOnly,
            Fault::WornOut => LevelError::WornOut,
        }
    }
}

/// The layout of a log with this geometry. Its fingerprint is the page size, the slots per block
/// and the number of blocks.
fn layout(version: u16, sizes: [u16; 3]) -> Layout {
    let [page, slots, blocks] = sizes.map(u64::from);
    Layout {
        kind: *b"WEAR",
        version,
        fingerprint: page | slots << 16 | blocks << 32,
    }
}
