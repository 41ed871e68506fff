//! Freeing an object.
//!
//! ```text
//!  just in time:          entry [0|0] -> units marked free
//!  snapshot, committed:   tombstone in the chain -> pending = FREED; commit frees the units
//!  snapshot, new:         entry [0|0] -> units marked free, if its block ends the chain
//! ```
//!
//! Why it is safe: the entry is cleared before the units become free, so a cut leaks units at most
//! until the next open. With the snapshot promise, a committed block stays until the commit that no
//! longer needs it.

use super::block::TOMBSTONE;
use super::geometry::units_of;
use super::units::{AllocRun, MarkUnits};
use super::{Entry, FREED, Fail, MAX_LEN, SCAN, Store};
use crate::promise::Promise;
use nvmem::{Medium, planted};

/// In a tombstone: no object of a heap has this length.
pub(super) const UNKNOWN: u16 = MAX_LEN;

/// Frees an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free {
    id: u16,
    stage: Stage,
    /// The length that the owner knows. In the tombstone, [`UNKNOWN`] when the block has another
    /// one.
    len: u16,
    run: AllocRun,
    mark: MarkUnits,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
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
            stage: Stage::Start,
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

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step of freeing an object. Its number may be reused afterwards; with the snapshot
    /// promise, only after the next commit if the last one knew the object. A damaged object can be
    /// freed: its units are reclaimed by an open that finds no damage.
    ///
    /// **Cost**: 4 bytes and a bit for each 8 bytes. With the snapshot promise 11 bytes, and at the
    /// commit 4 and the bits. **Errors**: those of the medium,
    /// [`Error::Unfinished`](crate::Error::Unfinished); [`Error::Damaged`](crate::Error::Damaged)
    /// for an object that is free already.
    pub(crate) fn free(&mut self, f: &mut Free) -> Result<(), Fail> {
        self.before_change()?;
        match f.stage {
            Stage::Start => self.free_entry(f),
            Stage::Units => self.mark_units(&mut f.mark),
            // Only the snapshot promise reaches this stage.
            Stage::Tombstone if !P::SNAPSHOT => Ok(()),
            Stage::Tombstone => {
                match self.alloc_run(&mut f.run) {
                    Ok(()) => self.write_block_header(f.run.unit(), f.id, f.len | TOMBSTONE)?,
                    // No space for a tombstone: the commit scans the table instead.
                    Err(Fail::FULL) => self.state |= SCAN,
                    Err(e) => return Err(e),
                }
                f.begun = true;
                self.put_pending(f.id, FREED | 0xFF)
            }
        }
    }

    /// Whether the object is allocated. **Cost**: reads 4 bytes.
    pub(crate) fn is_allocated(&mut self, id: u16) -> Result<bool, Fail> {
        let e = self.entry(id)?;
        Ok(e != Entry::FREE && !(P::SNAPSHOT && e.pending() >= FREED))
    }

    fn free_entry(&mut self, f: &mut Free) -> Result<(), Fail> {
        let e = self.entry(f.id)?;
        if e == Entry::FREE || (P::SNAPSHOT && e.pending() >= FREED) {
            return Err(Fail::damaged(f.id));
        }
        let known = match self.locate(f.id) {
            Ok(place) => {
                if planted!("vnv-heap/freed-by-its-header") {
                    f.len = place.len;
                }
                place.len == f.len
            }
            Err(f) if f.is_damage() => false,
            Err(e) => return Err(e),
        };
        if P::SNAPSHOT && e.committed() != 0 && !planted!("vnv-heap/freed-at-once") {
            if !known {
                f.len = UNKNOWN;
            }
            f.stage = Stage::Tombstone;
            return Err(Fail::PENDING);
        }
        // A block stays in the chain until the commit has passed it. Only the last one can be
        // removed.
        let mut ours = true;
        if P::SNAPSHOT {
            ours = e.pending() == self.chain;
            if ours {
                self.chain = self.read_block_header(e.pending(), f.id)?.prev;
            }
        }
        f.begun = true;
        self.put_entry(f.id, Entry::FREE)?;
        self.free_ids = (self.free_ids + 1).min(self.geometry.objects);
        if !known || !ours {
            return Ok(());
        }
        f.mark = MarkUnits::free(e.pending(), units_of(f.len));
        f.stage = Stage::Units;
        Err(Fail::PENDING)
    }
}
