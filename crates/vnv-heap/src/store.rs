//! The store: which blocks and numbers of the medium are used, and what counts after a cut. It
//! knows no RAM buffer and no types. [`Image`] reads and writes the bytes, which
//! docs/spec/vnv-heap.md describes; `commit.rs` decides which state counts, `open.rs` opens and
//! formats.
//!
//! A call writes at most one [burst](crate::Config::burst) of bytes, so that its caller can run it
//! in one critical section. A longer operation is a value that carries its progress; the caller
//! repeats the call while it returns [`Fail::PENDING`]. Such a value stays valid across a persist
//! and its restore. If it is dropped early, the next open reclaims the units that it had allocated.
//!
//! ```text
//!  find_free:   next fit over bitmap (a bit a unit) or table (a word a number), 32 bytes a call
//!    next_unit v
//!    1 1 0 1 1 0 0 0 1 ...     need 3: run 1 -> 0 -> 1,2,3 found; next search begins behind it
//!  mark_units:  read up to 32 bytes of the bitmap, set or clear the bits, write them back
//!
//!  alloc        Ids:    find n free entries in a row
//!               Blocks: for each object: find units, mark them used, write header, write entry
//!               Undo:   no space left: free the objects done so far, then Full
//!
//!  begin_write  just in time: the object's own block
//!               snapshot:     units, marked used -> header, in the chain -> pending = new unit
//!
//!  free         just in time:         entry [0|0] -> units marked free
//!               snapshot, committed:  tombstone in the chain -> pending = FREED; the commit frees
//!               snapshot, new:        entry [0|0] -> units free, if its block ends the chain
//! ```
//!
//! Why it is safe: units are marked before anything points to them, and an entry is cleared before
//! its units become free. So a cut at any point leaves marked units or entries that nothing
//! reachable points to, and the sweep of the next open frees both. With the snapshot promise, a
//! committed block stays until the commit that no longer needs it.
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

mod check;
mod commit;
mod image;
pub(crate) mod inspect;
mod open;
#[cfg(test)]
mod tests;

use crate::config::Promise;
use crate::error::{Error, Fail, OpenError};
use crate::plain::{as_bytes, zeros};
use core::mem::MaybeUninit;
use image::{Entry, Image, WORDS, set, units_of};
use nvmem::superblock::Copies;
use nvmem::{LayoutMismatch, Medium, planted};

pub(crate) use self::{
    check::Check,
    commit::{Commit, Pin},
    image::check_in_header,
};
use image::TOMBSTONE;

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

/// An open heap on a medium. Field order avoids padding. The image comes first: so it has the
/// store's address, which makes calls of its functions shorter.
#[repr(C)]
pub(crate) struct Store<S: Medium, P> {
    image: Image<S, P>,
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
    damaged: u8,
}

/// A search for free units (a bit each) or numbers (a word each) in a row, by next fit, one piece a
/// call.
#[derive(Debug, Clone, Copy)]
struct FindFree {
    /// Index behind the last one examined, from 0. At the end, behind the run found.
    at: u16,
    /// Free ones right before `at`.
    run: u16,
    /// How many are still to be examined.
    left: u32,
    /// The run must not begin at a unit that differs from this one in a single bit. 0: no
    /// condition.
    avoid: u16,
}

impl FindFree {
    /// Value of `left` before the first step.
    const BEGIN: u32 = u32::MAX;

    const NEW: FindFree = FindFree {
        at: 0,
        run: 0,
        left: Self::BEGIN,
        avoid: 0,
    };

    /// Whether the run that ends here is acceptable: one flipped bit must not turn one unit of an
    /// entry into the other.
    fn is_allowed(&self, need: u16) -> bool {
        let differs = self.first(need) ^ self.avoid;
        let near = self.avoid != 0 && differs & differs.wrapping_sub(1) == 0;
        !near || planted!("vnv-heap/near-copy")
    }

    /// The first of the run found; numbered from 1.
    fn first(&self, need: u16) -> u16 {
        self.at - need + 1
    }
}

/// Allocates units in a row: finds them, then marks them, in pieces.
#[derive(Debug, Clone, Copy)]
struct AllocRun {
    find: FindFree,
    /// The units found, being marked. Their first unit is 0 until then.
    mark: MarkUnits,
}

/// Marks units as used or free, in pieces.
#[derive(Debug, Clone, Copy)]
struct MarkUnits {
    unit: u16,
    n: u16,
    done: u16,
    used: bool,
}

impl MarkUnits {
    fn free(unit: u16, n: u16) -> Self {
        MarkUnits {
            unit,
            n,
            done: 0,
            used: false,
        }
    }
}

impl AllocRun {
    /// The first unit, when the allocation has finished.
    fn unit(&self) -> u16 {
        self.mark.unit
    }

    /// Allocates elsewhere than a copy: not at a unit that differs in one bit, unless there is no
    /// other space.
    fn avoiding(unit: u16, need: u16) -> Self {
        let mut run = Self::new(need);
        run.find.avoid = unit;
        run
    }

    /// Drops that condition and starts over. False when there was none.
    fn stop_avoiding(&mut self) -> bool {
        core::mem::replace(&mut self.find, FindFree::NEW).avoid != 0
    }

    fn new(need: u16) -> Self {
        AllocRun {
            find: FindFree::NEW,
            mark: MarkUnits {
                unit: 0,
                n: need,
                done: 0,
                used: true,
            },
        }
    }
}

/// Allocates `n` objects of equal size with consecutive numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alloc {
    n: u16,
    len: u16,
    /// The first object's number, once found.
    id: u16,
    /// Objects allocated so far.
    done: u16,
    stage: AllocStage,
    /// Its search finds the numbers first, then the units of each object.
    run: AllocRun,
}

#[derive(Debug, Clone, Copy)]
enum AllocStage {
    Ids,
    Blocks,
    /// No space: objects allocated so far are freed again.
    Undo(Free),
}

impl Alloc {
    /// The first object's number, when the allocation has finished.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// One object of `len` bytes.
    #[inline(never)]
    pub(crate) fn one(len: u16) -> Self {
        Self::run(1, len)
    }

    /// `n` objects of `len` bytes each.
    pub(crate) fn run(n: u16, len: u16) -> Self {
        // More units than any medium has.
        let units = if len > MAX_LEN {
            u16::MAX
        } else {
            units_of(len)
        };
        Alloc {
            n,
            len,
            id: 0,
            done: 0,
            stage: AllocStage::Ids,
            run: AllocRun::new(units),
        }
    }
}

/// In a tombstone: no object of a heap has this length.
const UNKNOWN: u16 = MAX_LEN;

/// Frees an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free {
    id: u16,
    stage: FreeStage,
    /// The length that the owner knows. In the tombstone, [`UNKNOWN`] when the block has another
    /// one.
    len: u16,
    run: AllocRun,
    mark: MarkUnits,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum FreeStage {
    Start,
    /// Its entry is free; its units are being marked free.
    Units,
    /// Its committed block counts until the next commit: a tombstone is written.
    Tombstone,
}

impl Free {
    /// Frees an object with `len` bytes of content. A length from a damaged header is not used: its
    /// units may belong to others.
    pub(crate) fn new(id: u16, len: u16) -> Self {
        Free {
            id,
            stage: FreeStage::Start,
            len,
            run: AllocRun::new(1),
            mark: MarkUnits::free(0, 0),
            begun: false,
        }
    }

    /// Whether the object's entry may have changed. Before that, an error leaves the object intact.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }
}

/// The beginning of a write-back.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BeginWrite {
    id: u16,
    len: u16,
    run: Option<AllocRun>,
}

impl BeginWrite {
    pub(crate) fn new(id: u16, len: u16) -> Self {
        BeginWrite { id, len, run: None }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// What lies on the medium: to read and write the content of blocks.
    #[inline(always)]
    pub(crate) fn image(&mut self) -> &mut Image<S, P> {
        &mut self.image
    }

    /// Bytes written to and read from the medium since it was opened. Both wrap.
    pub(crate) fn traffic(&self) -> (u32, u32) {
        self.image.traffic()
    }

    /// The most objects that there can be. Object numbers run from 1 to this.
    pub(crate) fn objects(&self) -> u16 {
        self.image.geometry().objects
    }

    /// Objects that can still be allocated, as far as the table allows.
    pub(crate) fn free_objects(&self) -> u16 {
        self.free_ids
    }

    /// Free bytes for blocks, headers included, in pieces of any size.
    pub(crate) fn free_bytes(&self) -> u32 {
        u32::from(self.free_units) * UNIT
    }

    /// Reachable objects that open found damaged, up to [`MANY`].
    pub(crate) fn damage(&self) -> u16 {
        self.damaged.into()
    }

    /// Before open: objects that only damaged objects own are freed.
    pub(crate) fn give_up_damaged(&mut self) {
        self.damaged = GIVES_UP;
    }

    /// Converts a failure of this section, with the medium's error.
    #[cold]
    pub(crate) fn error(&mut self, fail: Fail) -> Error<S::Error> {
        fail.error(self.image.take_failure())
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
        fail.refusal(self.image.take_failure())
    }

    /// Just in time: whether the record says that something may have changed since the last
    /// persist.
    #[inline(always)]
    pub(crate) fn is_running(&self) -> bool {
        self.state != 0
    }

    // INVARIANT "Running before changes": just in time, nothing changes while the record says
    // *persisted*, on the medium or in RAM: a dirty object exists only while the record says
    // *running*. `pin_step` in pager.rs calls this before a guard to write is given out, and a
    // restore that brings one back does. So `try_pin_exclusive` in sections.rs need not ask for a
    // dirty object.
    // Noticed by: planted `not-running`, `no-flush-after-record`, `running-late`,
    // `restored-not-running`.
    /// Required before anything on the medium changes. Just in time: writes the record *running*.
    /// Snapshot: refuses while a commit is unfinished.
    #[inline(never)]
    pub(crate) fn before_change(&mut self) -> Result<(), Fail> {
        if P::SNAPSHOT {
            if self.state & UNFINISHED != 0 {
                return Err(Fail::UNFINISHED);
            }
            self.image.repair_torn_entry()?;
        } else if self.state == 0 && !planted!("vnv-heap/not-running") {
            self.put_record(commit::RUNNING, 0)?;
            self.state = 1;
        }
        Ok(())
    }

    /// Reads the whole content of an object of this size. **Errors**:
    /// [`Error::Damaged`] when its size or its bytes are not those that were
    /// written.
    pub(crate) fn read_object(&mut self, id: u16, content: &mut [u8]) -> Result<(), Fail> {
        let len = content.len() as u16;
        let at = self.address_of(id, len, false)?;
        let mut head = [0; BLOCK_HEADER as usize];
        self.image.get(at - BLOCK_HEADER, &mut head)?;
        self.image.get(at, content)?;
        let mut check = Check::new(id, len);
        check.add(content);
        match check_in_header(&head, id, len) {
            Some(expected) if expected == check.finish() => Ok(()),
            _ => Err(Fail::damaged(id)),
        }
    }

    /// The address of the content of an object of this size, by its entry. The header of
    /// [`BLOCK_HEADER`] bytes lies just before it; [`check_in_header`] tells whether it is the
    /// object's own.
    ///
    /// To write there, [`Store::begin_write`] must have finished before the object became dirty.
    ///
    /// The header at a place to write is not read: open has made sure that no two blocks overlap,
    /// and the header was read at the page-in, or written when the object was made. Reading it
    /// again would cost a bus operation for each dirty object of a persist. An object whose header
    /// has rotted since could never leave RAM. Its next page-in reports the damage.
    ///
    /// **Cost**: reads 4 bytes. **Errors**: [`Error::Damaged`] when no such
    /// block is possible; to write, [`Error::Unfinished`].
    #[inline(never)]
    pub(crate) fn address_of(&mut self, id: u16, len: u16, writes: bool) -> Result<u32, Fail> {
        if writes && P::SNAPSHOT {
            // Just in time, an object is dirty only while the record says *running*.
            self.before_change()?;
        }
        let e = self.image.entry(id)?;
        // A committed block is never overwritten.
        let alike = e.is_settled();
        let wrong = if P::SNAPSHOT { alike && writes } else { !alike };
        if wrong || !self.image.geometry().has(e.pending(), units_of(len)) {
            return Err(Fail::damaged(id));
        }
        Ok(self.image.geometry().unit(e.pending()) + BLOCK_HEADER)
    }

    /// Checks that the object's header has this length. **Cost**: reads 8 bytes. **Errors**:
    /// [`Error::Damaged`] when it has not.
    pub(crate) fn expect(&mut self, id: u16, len: u16) -> Result<(), Fail> {
        let at = self.address_of(id, len, false)?;
        let mut b = [0; 4];
        self.image.get(at - BLOCK_HEADER, &mut b)?;
        if u32::from_le_bytes(b) != u32::from(id) | u32::from(len) << 16 {
            return Err(Fail::damaged(id));
        }
        Ok(())
    }

    // INVARIANT "Committed is not touched": before the next commit, a block of the last commit is
    // not written, and no other object takes it. A write-back takes a block of its own; the bits of
    // the former block are cleared after the record (store/commit.rs).
    // Noticed by: store/tests/crash.rs; planted `committed-in-place`, `freed-at-once`.
    /// Snapshot: one step of the beginning of a write-back: determines the block to write to.
    ///
    /// The first write-back after a commit allocates a new block (copy on write). **After the first
    /// step the object must be written**, before it is evicted and before the next commit: the
    /// current content has no valid block until then. So a caller that needs [`Error::Full`] in
    /// time begins when the object becomes dirty. Beginning again at the write costs nothing.
    ///
    /// **Cost**: once after each commit for each object, 8 bytes and a bit for each 8 bytes.
    /// **Errors**: [`Error::Full`], nothing has changed then; [`Error::Unfinished`];
    /// [`Error::Damaged`].
    pub(crate) fn begin_write(&mut self, b: &mut BeginWrite) -> Result<(), Fail> {
        self.before_change()?;
        let Some(run) = &mut b.run else {
            let e = self.image.entry(b.id)?;
            if !e.is_settled() || planted!("vnv-heap/committed-in-place") {
                return self.image.locate_in(b.id, e.pending()).map(drop);
            }
            b.run = Some(AllocRun::avoiding(e.committed(), units_of(b.len)));
            return Err(Fail::PENDING);
        };
        match self.alloc_run(run) {
            Err(Fail::FULL) if run.stop_avoiding() => return Err(Fail::PENDING),
            r => r?,
        }
        let unit = run.unit();
        self.write_block_header(unit, b.id, b.len, false)?;
        self.image.begin_pending(b.id, unit)?;
        b.run = None;
        Ok(())
    }

    /// Snapshot: the object keeps its changed block, which gets no content.
    pub(crate) fn empty(&mut self, id: u16) -> Result<(), Fail> {
        self.before_change()?;
        let e = self.image.entry(id)?;
        if e.is_settled() {
            return Ok(());
        }
        let place = self.image.locate_in(id, e.pending())?;
        let check = Check::new(id, place.len).finish().to_le_bytes();
        let at = self.image.address(&place) - CHECK_BYTES;
        self.image.put(at, &check)
    }

    /// Writes the header of a new block, and adds it to the chain. See
    /// [`Image::write_block_header`].
    fn write_block_header(
        &mut self,
        unit: u16,
        id: u16,
        len: u16,
        empty: bool,
    ) -> Result<(), Fail> {
        let prev = if P::SNAPSHOT { self.chain } else { 0 };
        self.image.write_block_header(unit, id, len, prev, empty)?;
        if P::SNAPSHOT {
            self.chain = unit;
        }
        Ok(())
    }

    /// One step: examines up to 256 units, or marks as many.
    ///
    /// **Errors**: [`Error::Full`]; nothing was marked then.
    fn alloc_run(&mut self, t: &mut AllocRun) -> Result<(), Fail> {
        let need = t.mark.n;
        if t.mark.unit == 0 {
            self.find_free(&mut t.find, need, true)?;
            t.mark.unit = t.find.first(need);
            return Err(Fail::PENDING);
        }
        self.mark_units(&mut t.mark)?;
        self.free_units = self.free_units.saturating_sub(need);
        Ok(())
    }

    /// One step of releasing the units again.
    fn release(&mut self, t: &mut AllocRun) -> Result<(), Fail> {
        if t.mark.used {
            t.mark = MarkUnits::free(t.mark.unit, t.mark.n);
        }
        self.mark_units(&mut t.mark)
    }

    /// One step of a search for units or numbers. **Errors**: [`Error::Full`].
    #[inline(never)]
    fn find_free(&mut self, f: &mut FindFree, need: u16, units: bool) -> Result<(), Fail> {
        let geometry = *self.image.geometry();
        let (free, next, all, start) = if units {
            (
                self.free_units,
                self.next_unit,
                geometry.units,
                geometry.bitmap(),
            )
        } else {
            (
                self.free_ids,
                self.next_id,
                geometry.objects,
                geometry.table(),
            )
        };
        let mut n = PIECE as u32;
        if f.left == FindFree::BEGIN {
            if free < need {
                return Err(Fail::FULL);
            }
            f.at = next;
            // Once round, and on to the end of a run that began just before the start.
            f.left = u32::from(all) + u32::from(need) - 1;
            // The first word is usually enough.
            n = 4;
        }
        if f.at >= all {
            // A run does not wrap.
            (f.at, f.run) = (0, 0);
        }
        let at = u32::from(f.at);
        let (at, end) = if units {
            (at / 32 * 4, geometry.bitmap_len())
        } else {
            (at * 4, u32::from(all) * 4)
        };
        n = n.min(end - at);
        let mut b = MaybeUninit::uninit();
        let b = zeros::<WORDS>(&mut b);
        self.image.get(start + at, &mut as_bytes(b)[..n as usize])?;
        for w in &b[..n.div_ceil(4) as usize] {
            let w = u32::from_le(*w);
            // The bit to test: one unit, or the whole word of a number.
            let mut one = if units { 1 << (f.at % 32) } else { !0 };
            if w == !0 {
                let n = if units { 32 - f.at % 32 } else { 1 };
                (f.at, f.run) = (f.at + n, 0);
                f.left = f.left.saturating_sub(u32::from(n));
                one = 0;
            }
            while one != 0 && f.at < all {
                if f.left == 0 {
                    return Err(Fail::FULL);
                }
                f.at += 1;
                f.left -= 1;
                f.run = if w & one == 0 { f.run + 1 } else { 0 };
                if P::SNAPSHOT && f.run == need && !f.is_allowed(need) {
                    f.run -= 1;
                }
                if f.run == need {
                    if units {
                        self.next_unit = f.at;
                    } else {
                        self.next_id = f.at;
                    }
                    return Ok(());
                }
                one = if units { one << 1 } else { 0 };
            }
        }
        if f.left == 0 {
            return Err(Fail::FULL);
        }
        Err(Fail::PENDING)
    }

    // INVARIANT "Bits are blocks": after a commit, a persist, or an open that finds no damage, the
    // bitmap equals the set of blocks. Otherwise it lacks no unit of a sound block, and not the
    // first one of a damaged block. `alloc_run`, `mark_units`, and `sweep` in store/open.rs.
    // Noticed by: `audit` in store/tests.rs after every cut; planted `old-block-kept`,
    // `bitmap-neighbours`, `units-kept`, `found-by-its-header`, `nothing-claimed`.
    /// One step of marking.
    fn mark_units(&mut self, m: &mut MarkUnits) -> Result<(), Fail> {
        if m.done >= m.n {
            return Ok(());
        }
        let from = u32::from(m.unit) - 1 + u32::from(m.done);
        let end = u32::from(m.unit) - 1 + u32::from(m.n);
        let first = from / 8;
        let to = end.min((first + PIECE as u32) * 8);
        let n = (to.div_ceil(8) - first) as usize;
        let mut b = MaybeUninit::uninit();
        let b = zeros::<WORDS>(&mut b);
        let piece = as_bytes(b).get_mut(..n).unwrap_or_default();
        let at = self.image.geometry().bitmap() + first;
        self.image.get(at, piece)?;
        set(piece, first * 8, from, to, m.used);
        if planted!("vnv-heap/bitmap-neighbours") {
            piece.fill(if m.used { 0xFF } else { 0 });
        }
        self.image.put(at, piece)?;
        m.done += (to - from) as u16;
        if m.done < m.n {
            return Err(Fail::PENDING);
        }
        if !m.used {
            self.free_units = (self.free_units + m.n).min(self.image.geometry().units);
        }
        Ok(())
    }

    /// One step of an allocation. When it is done, [`Alloc::id`] is the first object's number.
    ///
    /// The objects have no content yet: the caller writes each before it relies on it. A run's
    /// blocks say so.
    ///
    /// **Power loss**: an object that nothing reachable points to is gone. **Cost**: for each
    /// object 6 bytes (8 in a run), an entry of 4 (2 with the snapshot promise), and a bit for each
    /// 8 bytes. **Errors**: [`Error::Full`] when numbers or space do not suffice; nothing stays
    /// allocated then.
    ///
    /// `RUN`: whether it may be more than one object. A single object needs no undo, and so less
    /// code.
    #[inline(never)]
    pub(crate) fn alloc<const RUN: bool>(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.before_change()?;
        // A constant for a single object, so that the compiler drops the code for runs.
        let n = if RUN { a.n } else { 1 };
        match &mut a.stage {
            AllocStage::Ids => {
                let units = u32::from(units_of(a.len)) * u32::from(n);
                if RUN && (n == 0 || units > u32::from(self.free_units)) {
                    return Err(Fail::FULL);
                }
                self.find_free(&mut a.run.find, n, false)?;
                a.id = a.run.find.first(n);
                a.run.find = FindFree::NEW;
                a.stage = AllocStage::Blocks;
            }
            AllocStage::Blocks => match self.alloc_run(&mut a.run) {
                Ok(()) => {
                    let unit = a.run.unit();
                    let id = if RUN { a.id + a.done } else { a.id };
                    self.write_block_header(unit, id, a.len, RUN)?;
                    if P::SNAPSHOT {
                        self.image.put_pending(id, unit)?;
                    } else {
                        self.image.put_entry(id, Entry::of(unit, unit))?;
                    }
                    self.free_ids = self.free_ids.saturating_sub(1);
                    a.done += 1;
                    if !RUN || a.done == n {
                        return Ok(());
                    }
                    a.run = AllocRun::new(units_of(a.len));
                }
                Err(Fail::FULL) if RUN && a.done > 0 => {
                    a.stage = AllocStage::Undo(Free::new(a.id + a.done - 1, a.len));
                }
                Err(e) => return Err(e),
            },
            AllocStage::Undo(_) if !RUN => return Err(Fail::FULL),
            AllocStage::Undo(free) => {
                self.free(free)?;
                a.done -= 1;
                if a.done == 0 {
                    return Err(Fail::FULL);
                }
                *free = Free::new(a.id + a.done - 1, a.len);
            }
        }
        Err(Fail::PENDING)
    }

    /// Just in time: one step of undoing a finished allocation of one object. Less code than
    /// [`Store::free`].
    pub(crate) fn undo_alloc(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.before_change()?;
        if a.done != 0 {
            self.image.put_entry(a.id, Entry::FREE)?;
            self.free_ids += 1;
            a.done = 0;
            return Err(Fail::PENDING);
        }
        self.release(&mut a.run)
    }

    /// One step of freeing an object. Its number may be reused afterwards; with the snapshot
    /// promise, only after the next commit if the last one knew the object. A damaged object can be
    /// freed: its units are reclaimed by an open that finds no damage.
    ///
    /// **Cost**: 4 bytes and a bit for each 8 bytes. With the snapshot promise 11 bytes, and at the
    /// commit 4 and the bits. **Errors**: those of the medium,
    /// [`Error::Unfinished`]; [`Error::Damaged`]
    /// for an object that is free already.
    pub(crate) fn free(&mut self, f: &mut Free) -> Result<(), Fail> {
        self.before_change()?;
        match f.stage {
            FreeStage::Start => self.free_entry(f),
            FreeStage::Units => self.mark_units(&mut f.mark),
            // Only the snapshot promise reaches this stage.
            FreeStage::Tombstone if !P::SNAPSHOT => Ok(()),
            FreeStage::Tombstone => {
                match self.alloc_run(&mut f.run) {
                    Ok(()) => {
                        self.write_block_header(f.run.unit(), f.id, f.len | TOMBSTONE, false)?
                    }
                    // No space for a tombstone: the commit scans the table instead.
                    Err(Fail::FULL) => self.state |= SCAN,
                    Err(e) => return Err(e),
                }
                f.begun = true;
                self.image.put_pending(f.id, FREED | 0xFF)
            }
        }
    }

    /// Whether the object is allocated. **Cost**: reads 4 bytes.
    pub(crate) fn is_allocated(&mut self, id: u16) -> Result<bool, Fail> {
        let e = self.image.entry(id)?;
        Ok(e != Entry::FREE && !(P::SNAPSHOT && e.pending() >= FREED))
    }

    fn free_entry(&mut self, f: &mut Free) -> Result<(), Fail> {
        let e = self.image.entry(f.id)?;
        if e == Entry::FREE || (P::SNAPSHOT && e.pending() >= FREED) {
            return Err(Fail::damaged(f.id));
        }
        let known = match self.image.locate(f.id) {
            Ok(place) => {
                if planted!("vnv-heap/freed-by-its-header") {
                    f.len = place.len;
                }
                place.len == f.len
            }
            Err(f) if f.is_damage() => false,
            Err(e) => return Err(e),
        };
        let counts = P::SNAPSHOT && e.committed() != 0;
        if counts && !planted!("vnv-heap/freed-at-once") {
            if !known {
                f.len = UNKNOWN;
            }
            f.stage = FreeStage::Tombstone;
            return Err(Fail::PENDING);
        }
        // A block stays in the chain until the commit has passed it. Only the last one can be
        // removed.
        let mut ours = true;
        if P::SNAPSHOT {
            ours = e.pending() == self.chain;
            if ours {
                self.chain = self.image.read_block_header(e.pending(), f.id)?.prev;
            }
        }
        f.begun = true;
        self.image.put_entry(f.id, Entry::FREE)?;
        self.free_ids = (self.free_ids + 1).min(self.image.geometry().objects);
        if !known || !ours {
            return Ok(());
        }
        f.mark = MarkUnits::free(e.pending(), units_of(f.len));
        f.stage = FreeStage::Units;
        Err(Fail::PENDING)
    }
}

const _: () = assert!(MAX_LEN < TOMBSTONE);
