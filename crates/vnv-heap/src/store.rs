//! The format on the medium. Knows no RAM buffer and no types.
//!
//! docs/SPEC.md has every byte of it. What a call writes is at most [`Config::burst`](crate::Config::burst) bytes, so that its caller can run each call in
//! one critical section; an operation that needs more is a value that carries its progress, and is called until it says
//! something else than [`Fail::PENDING`]. Such a value is valid across a persist and its restore; when it is dropped before its end, units that it
//! had taken come back at the next open.
//!
//! **Power loss**, in three sentences. *Just in time*: whatever happens between the record *running* and the record *persisted*
//! counts for nothing, because open refuses it. *Snapshot*: until the record of a commit is whole, nothing that the table calls committed
//! is touched; after it, what is pending counts, and open finishes the table. *In both*, the bitmap and the entries of unreachable
//! objects mean nothing after a cut: [`Store::sweep`] derives them from the reachable blocks at each open, and can be cut
//! and repeated at will.

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

/// Objects are at most this large.
pub(crate) const MAX_LEN: u16 = 16 * 1024;

/// Bytes of the header before the content of a block.
pub(crate) const BLOCK_HEADER: u32 = 8;

/// Bytes of a check, the last ones of a header.
pub(crate) const CHECK_BYTES: u32 = 2;

/// Bytes that [`check`](mod@check) and copying prefer to be asked for: pieces of the content begin at multiples of it.
pub(crate) const PIECE: usize = check::BLOCK;

/// What is read and written of an object at once besides its content, at most: its entry, its header and its check.
pub(crate) const METADATA_MAX: usize = 14;

/// Blocks are whole units of this many bytes.
const UNIT: u32 = 8;

/// A pending unit from here on says that the object was freed; a half-written one, too.
const FREED: u16 = 0xFF00;

/// In [`Store::damaged`]: so many, or more.
pub(crate) const MANY: u8 = 0xFE;

/// There, until open knows: what only damaged objects lead to is given up.
pub(crate) const GIVES_UP: u8 = 0xFF;

/// The unit of an object that is lost: what led to its block cannot be true. Never a unit.
const LOST: u16 = 0xFEFF;

/// In a state, snapshot: the medium failed in a commit, which must be finished before anything else changes.
const UNFINISHED: u8 = 1;

/// Snapshot: what is pending is not all in the chain.
const SCAN: u8 = 2;

/// An open heap on a medium. In this order there is no room between the fields.
#[repr(C)]
pub(crate) struct Store<S: Medium, P> {
    geometry: Geometry,
    /// The number of the newest record.
    seq: u32,
    /// Pins that were recorded with it.
    pinned: u16,
    burst: u16,
    free_units: u16,
    free_ids: u16,
    /// Where the next searches for units and for ids begin, from 0.
    next_unit: u16,
    next_id: u16,
    /// The last block that was taken since the last commit.
    chain: u16,
    /// Just in time: 1 when the record says *running*. Snapshot: [`UNFINISHED`] and [`SCAN`].
    state: u8,
    /// Reachable objects that the open found damaged, up to [`MANY`]; before, [`GIVES_UP`] or 0.
    pub(crate) damaged: u8,
    /// Snapshot: the object whose pending unit may be half-written, because the medium failed; 0 when there is none.
    torn: u16,
    /// How many objects whose types have padding are held to be written. Once they are [`u8::MAX`], it stays so.
    pub(crate) padded: u8,
    /// What the medium's driver said when it failed, until the program is told.
    pub(crate) failure: Option<S::Error>,
    bytes_written: u32,
    bytes_read: u32,
    medium: S,
    _promise: PhantomData<fn() -> P>,
}

/// Two numbers of the table, the unit of the committed block and that of the current one: in one word, so that a result with it comes in
/// registers.
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

    /// The most objects that there can be; ids run from 1 to this.
    pub(crate) fn objects(&self) -> u16 {
        self.geometry.objects
    }

    /// Objects that can still be allocated, as far as the table goes.
    pub(crate) fn free_objects(&self) -> u16 {
        self.free_ids
    }

    /// Bytes that are free for blocks, headers included, in pieces of any size.
    pub(crate) fn free_bytes(&self) -> u32 {
        u32::from(self.free_units) * UNIT
    }

    /// Bytes written to the medium and read from it since it was opened; they wrap.
    pub(crate) fn traffic(&self) -> (u32, u32) {
        (self.bytes_written, self.bytes_read)
    }

    /// Apart, as it is rare.
    #[cold]
    fn failed(&mut self, e: S::Error) -> Fail {
        self.failure = Some(e);
        Fail::MEDIUM
    }

    /// What is to be told of a failure in this section.
    #[cold]
    #[inline(never)]
    pub(crate) fn error(&mut self, fail: Fail) -> Error<S::Error> {
        fail.error(self.failure.take())
    }

    /// What is to be told when a heap with this fingerprint is not opened; `copies` are those that [`Store::open`] has read.
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

    /// What is reached under this number is no object: open found that two have it, or none. In two writes, so that
    /// a cut leaves an entry that is damaged.
    pub(crate) fn mark_lost(&mut self, id: u16) -> Result<(), Fail> {
        self.put_pending(id, LOST)?;
        self.put_committed(id, LOST)
    }

    /// Just in time: whether the medium says that something may have changed since the last persist.
    #[inline(always)]
    pub(crate) fn is_running(&self) -> bool {
        self.state != 0
    }

    /// What the medium did not take in a write-back that began: the object's content is the committed one.
    fn repair_torn_entry(&mut self) -> Result<(), Fail> {
        if self.torn == 0 || nvmem::planted!("vnv-heap/torn-entry-keep_mask") {
            return Ok(());
        }
        let at = self.geometry.entry(self.torn).ok_or(Fail::UNFINISHED)?;
        let mut b = [0; 4];
        self.get(at, &mut b)?;
        self.put(at + 2, &b[..2])?;
        self.torn = 0;
        Ok(())
    }

    /// Before anything on the medium changes.
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
