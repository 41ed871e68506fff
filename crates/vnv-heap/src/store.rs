//! The store: the format on the medium. It knows no RAM buffer and no types. docs/SPEC.md describes
//! every byte.
//!
//! ```text
//!  address 0                                                                          capacity
//!  +-----------+--------+--------+---------+----------+-----------+--------+-------------------+
//!  | superblock| record | record | applied | pin      | table     | bitmap | units of 8 bytes: |
//!  | 2 copies  |   0    |   1    |  word   | records  | 4 B an id | 1 bit a| blocks            |
//!  +-----------+--------+--------+---------+----------+-----------+ unit --+-------------------+
//!
//!  entry (4 bytes)  committed unit 16 | pending unit 16      0,0: free; pending >= 0xFF00: freed
//!  block            id 16 | length 16 | previous block of the chain 16 | check 16 | content ...
//! ```
//!
//! A call writes at most one [burst](crate::Config::burst) of bytes, so that its caller can run it
//! in one critical section. A longer operation is a value that carries its progress; the caller
//! repeats the call while it returns [`Fail::PENDING`]. Such a value stays valid across a persist
//! and its restore. If it is dropped early, the next open reclaims the units that it had allocated.
//!
//! **Power loss**:
//!
//! - *Just in time*: writes between the record *running* and the record *persisted* have no
//!   promise, because open refuses the image.
//! - *Snapshot*: until the record of a commit is complete, nothing that the table calls committed
//!   is overwritten. After it, the pending units count, and open finishes the table.
//! - *Both*: after a cut, the bitmap and the entries of unreachable objects mean nothing.
//!   [`Store::sweep`] rebuilds them from the reachable blocks at each open. It may be cut and
//!   repeated any number of times.

pub(crate) mod alloc;
pub(crate) mod block;
pub(crate) mod check;
pub(crate) mod commit;
pub(crate) mod free;
mod geometry;
mod header;
pub(crate) mod inspect;
mod open;
mod record;
mod sweep;
#[cfg(test)]
mod tests;
mod units;

use crate::error::{Error, Fail, OpenError, Word};
use crate::promise::Promise;
use core::marker::PhantomData;
use geometry::Geometry;
use nvmem::superblock::Copies;
use nvmem::{LayoutMismatch, Medium};

pub(crate) use self::{
    alloc::Alloc,
    block::{BeginWrite, BlockRef, check_in_header},
    check::Check,
    commit::Commit,
    free::Free,
    record::Pin,
};

/// The largest object.
pub(crate) const MAX_LEN: u16 = 16 * 1024;

/// Bytes of a block's header, before its content.
pub(crate) const BLOCK_HEADER: u32 = 8;

/// Bytes of the check, the last ones of the header.
pub(crate) const CHECK_BYTES: u32 = 2;

/// Preferred granularity of reads, copies and [`check`](mod@check): pieces of the content begin at
/// multiples of it.
pub(crate) const PIECE: usize = check::BLOCK;

/// The most bytes of metadata that are read or written with an object: its entry, header and check.
pub(crate) const METADATA_MAX: usize = 14;

/// Blocks consist of units of this many bytes.
const UNIT: u32 = 8;

/// A pending unit from here on means that the object was freed. A torn write of it is in this range
/// too.
const FREED: u16 = 0xFF00;

/// In [`Store::damaged`]: this many, or more.
pub(crate) const MANY: u8 = 0xFE;

/// In [`Store::damaged`] before open: objects that only damaged objects own are freed.
pub(crate) const GIVES_UP: u8 = 0xFF;

/// The unit of a lost object: the handle to it cannot be right. Never a real unit.
const LOST: u16 = 0xFEFF;

/// State flag, snapshot: the medium failed in a commit. It must be finished before anything else
/// changes.
const UNFINISHED: u8 = 1;

/// State flag, snapshot: the chain does not hold every pending block, so the commit must scan the
/// table.
const SCAN: u8 = 2;

/// An open heap on a medium. Field order avoids padding.
#[repr(C)]
pub(crate) struct Store<S: Medium, P> {
    geometry: Geometry,
    /// Sequence number of the newest record.
    seq: u32,
    /// Pin records that belong to it.
    pinned: u16,
    burst: u16,
    free_units: u16,
    free_ids: u16,
    /// Where the next searches for free units and numbers begin, from 0 (next fit).
    next_unit: u16,
    next_id: u16,
    /// Snapshot: the last block allocated since the last commit. Headers chain these blocks.
    chain: u16,
    /// Just in time: 1 when the record says *running*. Snapshot: [`UNFINISHED`] and [`SCAN`].
    state: u8,
    /// Reachable objects that open found damaged, up to [`MANY`]. Before open: [`GIVES_UP`] or 0.
    pub(crate) damaged: u8,
    /// Snapshot: the object whose pending unit may be torn because the medium failed. 0 when there
    /// is none.
    torn: u16,
    /// Guards for writing objects whose types have padding. At [`u8::MAX`] the count stays there.
    pub(crate) padded: u8,
    /// The medium's last error, until the program gets it.
    pub(crate) failure: Option<S::Error>,
    bytes_written: u32,
    bytes_read: u32,
    medium: S,
    _promise: PhantomData<fn() -> P>,
}

/// A table entry: the unit of the committed block and that of the pending one. One word, so that a
/// result with it is returned in registers.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(Word);

impl Entry {
    const FREE: Entry = Entry::of(0, 0);

    const fn of(committed: u16, pending: u16) -> Self {
        Entry(committed as Word | (pending as Word) << 16)
    }

    fn committed(self) -> u16 {
        self.0 as u16
    }

    fn pending(self) -> u16 {
        (self.0 >> 16) as u16
    }

    fn is_settled(self) -> bool {
        self.committed() == self.pending()
    }

    fn decode(b: [u8; 4]) -> Self {
        Entry(u32::from_le_bytes(b) as Word)
    }

    fn encode(self) -> [u8; 4] {
        (self.0 as u32).to_le_bytes()
    }
}

impl core::fmt::Debug for Entry {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Entry({}, {})", self.committed(), self.pending())
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// The medium.
    pub(crate) fn medium(&mut self) -> &mut S {
        &mut self.medium
    }

    /// The most objects that there can be. Object numbers run from 1 to this.
    pub(crate) fn objects(&self) -> u16 {
        self.geometry.objects
    }

    /// Objects that can still be allocated, as far as the table allows.
    pub(crate) fn free_objects(&self) -> u16 {
        self.free_ids
    }

    /// Free bytes for blocks, headers included, in pieces of any size.
    pub(crate) fn free_bytes(&self) -> u32 {
        u32::from(self.free_units) * UNIT
    }

    /// Bytes written to and read from the medium since it was opened. Both wrap.
    pub(crate) fn traffic(&self) -> (u32, u32) {
        (self.bytes_written, self.bytes_read)
    }

    /// Keeps the medium's error. Out of line: rare.
    #[cold]
    fn failed(&mut self, e: S::Error) -> Fail {
        self.failure = Some(e);
        Fail::MEDIUM
    }

    /// Converts a failure of this section, with the medium's error.
    #[cold]
    #[inline(never)]
    pub(crate) fn error(&mut self, fail: Fail) -> Error<S::Error> {
        fail.error(self.failure.take())
    }

    /// Converts a failure of open. `copies` are the superblock copies that [`Store::open`] has
    /// read.
    pub(crate) fn refused(
        &mut self,
        fail: Fail,
        fingerprint: u64,
        copies: &Copies,
    ) -> OpenError<S::Error> {
        if let Some(copy) = fail.other_layout() {
            return OpenError::LayoutMismatch(LayoutMismatch {
                stored: copies.superblock(copy as usize).layout(),
                expected: Self::layout(fingerprint),
            });
        }
        fail.refusal(self.failure.take())
    }

    #[inline(never)]
    pub(crate) fn get(&mut self, at: u32, buf: &mut [u8]) -> Result<(), Fail> {
        self.bytes_read = self.bytes_read.wrapping_add(buf.len() as u32);
        match self.medium.read(at, buf) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    #[inline(never)]
    pub(crate) fn put(&mut self, at: u32, bytes: &[u8]) -> Result<(), Fail> {
        self.bytes_written = self.bytes_written.wrapping_add(bytes.len() as u32);
        match self.medium.write(at, bytes) {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    fn flush(&mut self) -> Result<(), Fail> {
        match self.medium.flush() {
            Ok(()) => Ok(()),
            Err(e) => Err(self.failed(e)),
        }
    }

    #[inline(never)]
    fn entry(&mut self, id: u16) -> Result<Entry, Fail> {
        if P::SNAPSHOT {
            self.repair_torn_entry()?;
        }
        let at = self.geometry.entry(id).ok_or(Fail::damaged(id))?;
        let mut b = [0; 4];
        self.get(at, &mut b)?;
        Ok(Entry::decode(b))
    }

    #[inline(never)]
    fn put_entry(&mut self, id: u16, e: Entry) -> Result<(), Fail> {
        match self.geometry.entry(id) {
            Some(at) => self.put(at, &e.encode()),
            None => Err(Fail::damaged(id)),
        }
    }

    fn put_committed(&mut self, id: u16, unit: u16) -> Result<(), Fail> {
        match self.geometry.entry(id) {
            Some(at) => self.put(at, &unit.to_le_bytes()),
            None => Err(Fail::damaged(id)),
        }
    }

    fn put_pending(&mut self, id: u16, unit: u16) -> Result<(), Fail> {
        match self.geometry.entry(id) {
            Some(at) => self.put(at + 2, &unit.to_le_bytes()),
            None => Err(Fail::damaged(id)),
        }
    }

    /// Marks an object as lost: open found that two objects claim it, or none. Two writes, so that
    /// a cut leaves a damaged entry.
    pub(crate) fn mark_lost(&mut self, id: u16) -> Result<(), Fail> {
        self.put_pending(id, LOST)?;
        self.put_committed(id, LOST)
    }

    /// Just in time: whether the record says that something may have changed since the last
    /// persist.
    #[inline(always)]
    pub(crate) fn is_running(&self) -> bool {
        self.state != 0
    }

    /// Repairs an entry that the medium tore when a write-back began: the committed content counts
    /// again.
    fn repair_torn_entry(&mut self) -> Result<(), Fail> {
        if self.torn == 0 || nvmem::planted!("vnv-heap/torn-entry-kept") {
            return Ok(());
        }
        let at = self.geometry.entry(self.torn).ok_or(Fail::UNFINISHED)?;
        let mut b = [0; 4];
        self.get(at, &mut b)?;
        self.put(at + 2, &b[..2])?;
        self.torn = 0;
        Ok(())
    }

    /// Required before anything on the medium changes. Just in time: writes the record *running*.
    /// Snapshot: refuses while a commit is unfinished.
    #[inline(never)]
    pub(crate) fn before_change(&mut self) -> Result<(), Fail> {
        if P::SNAPSHOT {
            if self.state & UNFINISHED != 0 {
                return Err(Fail::UNFINISHED);
            }
            self.repair_torn_entry()?;
        } else if self.state == 0 && !nvmem::planted!("vnv-heap/not-running") {
            self.put_record(record::RUNNING, 0)?;
            self.state = 1;
        }
        Ok(())
    }
}
