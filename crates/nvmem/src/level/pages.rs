//! [`WearLevelled`]: its sizes, and its bytes as a medium.

use super::Medium;
use super::log::Log;
use crate::device::{Contract, Torn};
use crate::layout::LayoutMismatch;
use crate::level::fault::Fault;
use crate::level::geometry::{COPIES, Geometry, NONE, VERSION};
use crate::level::table::Table;
use crate::level::{LevelError, layout};

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
    /// this number; where words may be overwritten, two slots, if the newest block has them.
    pub const fn page_writes(bytes: u32, erases: u32) -> u64 {
        let s = Self::geometry(bytes);
        s.blocks as u64 * s.slots as u64 * erases as u64 / (COPIES as u64 + 1)
    }

    /// Opens the whole flash. A blank flash is formatted; all bytes are then zero.
    ///
    /// **Power loss**: the content does not change; a format that was cut is repeated. **Cost**:
    /// reads the header of each block and 4 bytes of each slot in use. Writes nothing if nothing
    /// was written since the last open. Otherwise it starts a block: an erase, the header, and up
    /// to one page copy per slot. Where words may be overwritten, it only copies one page if the
    /// newest block has free slots. If the last cut wasted slots that cleaning needs, it starts up
    /// to [`COPIES`](Self::COPIES) + 1 blocks. **Errors**: all of [`LevelError`] but
    /// `OutOfRange`.
    pub fn open(medium: D, table: &'b mut [u16]) -> output!(Result<Self, D::Error>) {
        steps!({
            let mut log = Self::log(medium, table)?;
            let done = wait!(log.open());
            Self::opened(log, done)
        })
    }

    /// As [`open`](Self::open), but never writes: for worn-out flash, or for an inspector.
    ///
    /// After a cut during a page write, the next boot will *probably* find the same page, but it
    /// may read differently. Display it, but do not act on it.
    ///
    /// **Power loss**: writes nothing. **Errors**: as for `open`.
    pub fn open_to_read(medium: D, table: &'b mut [u16]) -> output!(Result<Self, D::Error>) {
        steps!({
            let mut log = Self::log(medium, table)?;
            log.read_only = true;
            let done = wait!(log.open());
            Self::opened(log, done)
        })
    }

    /// Deletes **all content of the flash** and formats it.
    ///
    /// **Power loss**: the previous content, older content of pages, a flash that
    /// [`open`](Self::open) refuses, or zeros. If a cut prevented it from returning, call it again.
    /// **Cost**: erases all blocks, then a format. **Errors**: `Medium`, `TooSmall`,
    /// `TableTooSmall`.
    pub fn format(medium: D, table: &'b mut [u16]) -> output!(Result<Self, D::Error>) {
        steps!({
            let mut log = Self::log(medium, table)?;
            let mut done = wait!(log.erase_all());
            if done.is_ok() {
                done = wait!(log.open());
            }
            Self::opened(log, done)
        })
    }

    fn opened(
        log: Log<'b, D, PAGE>,
        done: core::result::Result<(), Fault<D::Error>>,
    ) -> Result<Self, D::Error> {
        done.map_err(|f| log.error(f))?;
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
    /// **Power loss**: writes nothing, except after a failed or dropped write: then it first does
    /// what [`open`](Self::open) does. **Errors**: `Medium`; after such a write those of `open`.
    pub fn damaged_pages(&mut self) -> output!(Result<u32, D::Error>) {
        steps!({ wait!(self.log.damaged_pages()).map_err(|f| self.log.error(f)) })
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
    /// [`WearLevelled::damaged_pages`]. After a failed or dropped write it first does what
    /// [`WearLevelled::open`] does, which may write. **Errors**: `OutOfRange`, `Medium`; after such
    /// a write those of `open`.
    fn read(&mut self, at: u32, buf: &mut [u8]) -> output!(Result<(), D::Error>) {
        steps!({
            let ranges = self.split_by_page(at, buf.len())?;
            let log = &mut self.log;
            let mut done = wait!(log.ready());
            for p in ranges {
                if let (Ok(()), Some(piece)) = (&done, buf.get_mut(p.bytes)) {
                    done = wait!(log.read_page(p.page, p.off, piece));
                }
            }
            done.map_err(|f| log.error(f))
        })
    }

    /// **Power loss**: [`Torn::Prefix`]: each page that the write touches is old or new, the new
    /// ones first. **Cost**: for each touched page, writes the whole page and copies up to
    /// [`WearLevelled::COPIES`] others. Erases at most one block per page written, and one more for
    /// the first write of a boot. **Errors**: `OutOfRange`, `Medium`, `Damaged`, `ReadOnly`,
    /// `WornOut`; the pages before the failed one are written.
    fn write(&mut self, at: u32, bytes: &[u8]) -> output!(Result<(), D::Error>) {
        steps!({
            for p in self.split_by_page(at, bytes.len())? {
                if let Some(piece) = bytes.get(p.bytes) {
                    let done = wait!(self.log.write(p.page, p.off, piece));
                    done.map_err(|f| self.log.error(f))?;
                }
            }
            Ok(())
        })
    }

    fn erase(&mut self, _: u32, _: u32) -> output!(Result<(), D::Error>) {
        steps!({ Ok(()) })
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
