//! NOR flash with wear levelling, as a medium that takes any byte at any place, without erase.
//!
//! [`WearLevelled`] is for what needs such a [`Medium`] and has flash. A page that is written goes to the end of a log over all
//! blocks (a block is one or more erase units); the oldest block is cleaned, its live pages copied to the end, and erased when its turn comes.
//! So all blocks are erased equally often, those with data that never change too.
//!
//! What a power cut leaves is what [`WearLevelled`]'s own [`Contract`] says: of the bytes that were being written a prefix is new,
//! and within a page all or none. What was read once is never taken back by a later boot, not even on flash whose
//! half-written words read differently each time. docs/DESIGN.md says how.
//!
//! ```
//! use nvmem::{Medium, level::WearLevelled, ram::RamNor};
//!
//! type Flash = RamNor<16, 4096, 4>;
//! type Bytes<'t> = WearLevelled<'t, &'t mut Flash, 256>;
//!
//! # fn main() -> Result<(), nvmem::level::LevelError<nvmem::device::Misuse>> {
//! let mut flash = Flash::new();
//! let mut table = [0; Bytes::table(16 * 4096)];
//! let mut bytes = Bytes::open(&mut flash, &mut table)?;
//! bytes.write(1000, b"any place, any length")?;
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
use crate::planted;
use core::fmt;
use geometry::{COPIES, Geometry, NONE, SLOT_HEAD};
use log::Log;
use table::Table;

/// Why a flash cannot be opened, read or written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum LevelError<E> {
    /// The flash's error. After one from a write it is as after a power cut: each page is old or new. The next call looks at the flash as
    /// [`WearLevelled::open`] does.
    Medium(E),
    /// The flash was levelled with other sizes of pages or blocks. Nothing was written.
    Layout(LayoutMismatch),
    /// The flash holds something else. Nothing was written. [`WearLevelled::format`] gives it up.
    Foreign,
    /// What the flash holds is not intact, which no power cut can cause. [`WearLevelled::format`] gives it up.
    Damaged,
    /// The flash is too small for even one page.
    TooSmall {
        /// The least that suffices.
        needed: u32,
    },
    /// The table has too few entries.
    TableTooSmall {
        /// As many suffice.
        needed: u32,
    },
    /// The range does not lie inside.
    OutOfRange,
    /// It was opened to be read only.
    ReadOnly,
    /// Blocks have been begun 2^32 - 1 times. The flash was worn out long before.
    WornOut,
}

impl<E: fmt::Debug> fmt::Display for LevelError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LevelError::Medium(e) => write!(f, "the flash failed: {e:?}"),
            LevelError::Layout(e) => write!(f, "{e}"),
            LevelError::Foreign => f.write_str("the flash holds something else"),
            LevelError::Damaged => f.write_str("what the flash holds is damaged"),
            LevelError::TooSmall { needed } => write!(f, "the flash needs {needed} bytes"),
            LevelError::TableTooSmall { needed } => write!(f, "the table needs {needed} entries"),
            LevelError::ReadOnly => f.write_str("opened to be read only"),
            LevelError::OutOfRange => f.write_str("outside of the medium"),
            LevelError::WornOut => f.write_str("no block can be begun any more"),
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

/// Flash `D` as bytes that can be written in any order, kept in pages of `PAGE` bytes.
///
/// A page is what is copied at once: with more bytes in it less of the flash goes into its 8 bytes of overhead, and more is written
/// for each small change. `PAGE` is a multiple of 4, up to 4096; 64 to 256 suit most; on flash with large program words, a
/// multiple of the word less 8 wastes nothing.
#[derive(Debug)]
pub struct WearLevelled<'b, D, const PAGE: usize> {
    log: Log<'b, D>,
}

impl<'b, D: Medium, const PAGE: usize> WearLevelled<'b, D, PAGE> {
    /// Page copies that one page write makes at most.
    pub const COPIES: u32 = COPIES;

    const fn geometry(bytes: u32) -> Geometry {
        assert!(PAGE <= 4096, "a page has 4 to 4096 bytes");
        Geometry::of(&D::CONTRACT, PAGE as u32, bytes)
    }

    /// Entries of the table for a flash of `bytes` bytes: one for each page, two for each block.
    pub const fn table(bytes: u32) -> usize {
        Self::geometry(bytes).entries() as usize
    }

    /// Bytes that a flash of `bytes` bytes gives the user; 0 when it is too small.
    ///
    /// Of its slots, those of four blocks, six slots and a fifth of the others stay free: that bounds how much is copied for a
    /// write.
    pub const fn capacity_of(bytes: u32) -> u32 {
        Self::geometry(bytes).pages * PAGE as u32
    }

    /// The smallest flash that gives the user `capacity` bytes.
    ///
    /// **Panics** when none does: there are 2^16 slots at most, and an offset has 32 bits. In a constant the program does not compile.
    pub const fn bytes_for(capacity: u32) -> u32 {
        match Self::geometry(u32::MAX).bytes_for(capacity) {
            Some(bytes) => bytes,
            None => {
                panic!("no flash gives that many bytes by pages of this size: take larger ones")
            }
        }
    }

    /// How many pages can be written, at least, before a unit of a flash of `bytes` bytes was erased `erases` times. Each boot that
    /// follows one that wrote takes a block's slots from it.
    pub const fn page_writes(bytes: u32, erases: u32) -> u64 {
        let s = Self::geometry(bytes);
        s.blocks as u64 * s.slots as u64 * erases as u64 / (COPIES as u64 + 1)
    }

    /// Opens the flash, the whole of it; a blank one is formatted. All bytes are zero then.
    ///
    /// **Power loss**: as before; a format that was cut is repeated. **Cost**: reads the header of each block and 4 bytes of each slot in
    /// use; writes nothing when nothing was written since the last open. Otherwise begins a block: an erase,
    /// its header, and up to as many page copies as it has slots. Where the last boot's end wasted slots
    /// that are needed, up to [`COPIES`](Self::COPIES) + 1 such blocks. **Errors**: all of [`LevelError`] but `OutOfRange`.
    pub fn open(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        log.open()?;
        Ok(WearLevelled { log })
    }

    /// As [`open`](Self::open), but nothing is ever written: for a flash that is worn out, or a look from outside.
    ///
    /// A page whose write was cut reads as the next boot will *probably* find it: show it, do not act upon it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for `open`.
    pub fn open_to_read(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        log.read_only = true;
        log.open()?;
        Ok(WearLevelled { log })
    }

    /// Gives up **whatever the flash holds** and formats it.
    ///
    /// **Power loss**: what was there before, a flash that [`open`](Self::open) refuses, or zeros; never older content. The caller calls it again
    /// unless it has returned. **Cost**: an erase of all blocks, and a format. **Errors**: `Medium`, `TooSmall`, `TableTooSmall`.
    pub fn format(medium: D, table: &'b mut [u16]) -> Result<Self, D::Error> {
        let mut log = Self::log(medium, table)?;
        log.erase_all()?;
        log.open()?;
        Ok(WearLevelled { log })
    }

    fn log(medium: D, table: &'b mut [u16]) -> Result<Log<'b, D>, D::Error> {
        let geometry = Self::geometry(medium.capacity());
        if geometry.pages == 0 {
            return Err(LevelError::TooSmall {
                needed: const { Self::bytes_for(1) },
            });
        }
        let needed = geometry.entries();
        Ok(Log {
            medium,
            geometry,
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
        })
    }

    /// How often each erase unit has been erased, about: that many blocks have been begun, divided by the number of blocks.
    pub fn erases(&self) -> u32 {
        self.log.sequence.div_ceil(self.log.geometry.blocks)
    }

    /// Reads all pages and counts those whose checksum is wrong. A damaged page stays one, wherever it is copied to, until all of
    /// it is written.
    ///
    /// **Power loss**: writes nothing. **Errors**: `Medium`.
    pub fn damaged_pages(&mut self) -> Result<u32, D::Error> {
        self.log.ready()?;
        let mut n = 0;
        for page in 0..self.log.geometry.pages as u16 {
            let slot = self.log.table.slot(page);
            if slot != NONE && !self.log.is_intact(slot)? {
                n += 1;
            }
        }
        Ok(n)
    }

    /// The flash back.
    pub fn into_medium(self) -> D {
        self.log.medium
    }

    /// Runs `f` on the parts of a range: page, offset in it, and the part of the caller's bytes.
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
        self.log.geometry.pages * PAGE as u32
    }

    /// **Cost**: reads no more than is asked for, but for the flash's own read size. Checksums are not looked at: whoever must know
    /// has one of its own, or asks [`WearLevelled::damaged_pages`]. **Errors**: `OutOfRange`, `Medium`.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        let ranges = self.split_by_page(at, buf.len())?;
        self.log.ready()?;
        for p in ranges {
            let Some(piece) = buf.get_mut(p.bytes) else {
                continue;
            };
            match self.log.table.slot(p.page) {
                NONE => piece.fill(0),
                slot => {
                    let at = self.log.geometry.slot_at(slot) + SLOT_HEAD + p.off;
                    self.log.read(at, piece)?;
                }
            }
        }
        Ok(())
    }

    /// **Power loss**: [`Torn::Prefix`]: of the pages that the write touches, each is old or new, and those that are new come first. **Cost**: each of them is written
    /// whole, and up to [`WearLevelled::COPIES`] others copied; blocks are erased as slots are used up, at most one for each page written and
    /// one for the first write of a boot. **Errors**: `OutOfRange`, `Medium`, `Damaged`, `WornOut`; the pages before the one that failed are written.
    fn write(&mut self, at: u32, bytes: &[u8]) -> Result<(), D::Error> {
        for p in self.split_by_page(at, bytes.len())? {
            if let Some(piece) = bytes.get(p.bytes) {
                self.log.write(p.page, p.off, piece)?;
            }
        }
        Ok(())
    }

    fn erase(&mut self, _: u32, _: u32) -> Result<(), D::Error> {
        Ok(())
    }
}

impl<D: Medium> Log<'_, D> {
    /// Reads any bytes, by the multiples that the flash can read.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> Result<(), D::Error> {
        let size = D::CONTRACT.read_size;
        if size == 1 {
            return self.medium.read(at, buf).map_err(LevelError::Medium);
        }
        let mut aligned = [0; 256];
        let most = 256 / size * size;
        let mut done = 0;
        while done < buf.len() {
            let from = at + done as u32;
            let start = from / size * size;
            let end = (at + buf.len() as u32).next_multiple_of(size);
            let piece = &mut aligned[..most.min(end - start) as usize];
            self.medium.read(start, piece).map_err(LevelError::Medium)?;
            let there = &piece[(from - start) as usize..];
            let n = there.len().min(buf.len() - done);
            buf[done..done + n].copy_from_slice(&there[..n]);
            done += n;
        }
        Ok(())
    }

    /// Leaves every block blank, that of the newest content last: no older content must be what is left.
    fn erase_all(&mut self) -> Result<(), D::Error> {
        let s = self.geometry;
        let newest = self.newest_block()?;
        let first = if planted!("nvmem/level-format-newest-first") {
            0
        } else {
            1
        };
        for i in first..first + s.blocks {
            let at = s.block_at(((newest + i) % s.blocks) as u16);
            self.medium
                .erase(at, at + s.block)
                .map_err(LevelError::Medium)?;
        }
        Ok(())
    }
}

/// Sizes as a layout: pages, slots of a block, blocks.
fn mismatch(stored: [u16; 3], geometry: &Geometry) -> LayoutMismatch {
    let layout = |n: [u16; 3]| Layout {
        kind: *b"WEAR",
        version: 1,
        fingerprint: n.iter().rev().fold(0, |all, n| all << 16 | u64::from(*n)),
    };
    LayoutMismatch {
        stored: layout(stored),
        expected: layout(geometry.header_sizes()),
    }
}
