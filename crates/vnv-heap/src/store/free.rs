//! Giving an object back.

use super::block::TOMBSTONE;
use super::geometry::units_of;
use super::units::{AllocRun, MarkUnits};
use super::{Entry, FREED, Fail, MAX_LEN, SCAN, Store};
use crate::promise::Promise;
use nvmem::{Medium, planted};

/// In a tombstone: the length of no object that a heap makes.
pub(super) const UNKNOWN: u16 = MAX_LEN;

/// Freeing an object.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Free {
    id: u16,
    stage: Stage,
    /// The length that its owner knows; in its tombstone, [`UNKNOWN`] when its block has another one.
    len: u16,
    run: AllocRun,
    mark: MarkUnits,
    begun: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Start,
    /// Its entry is free; its units become free.
    Units,
    /// Its committed block counts until the next commit: it gets a tombstone.
    Tombstone,
}

impl Free {
    /// Of an object with a content of `len` bytes. What a damaged header says is not believed: its units may be those of others.
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

    /// Whether the object's entry may have changed: before, an error leaves it as it was.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step of freeing an object. Its id may be given to another one afterwards, with the snapshot promise after the
    /// next commit if the last one knew the object. A damaged object can be freed; its units come back at an open that knows of
    /// no damage.
    ///
    /// **Cost**: 4 bytes and a bit for each 8 bytes; with the snapshot promise 11 bytes, and at the commit 4 and the bits. **Errors**: those of the medium,
    /// [`Error::Unfinished`]; [`Error::Damaged`] for an object that is free already.
    pub(crate) fn free(&mut self, f: &mut Free) -> Result<(), Fail> {
        self.before_change()?;
        match f.stage {
            Stage::Start => self.free_entry(f),
            Stage::Units => self.mark_units(&mut f.mark),
            // Nothing else comes here.
            Stage::Tombstone if !P::SNAPSHOT => Ok(()),
            Stage::Tombstone => {
                match self.alloc_run(&mut f.run) {
                    Ok(()) => self.write_block_header(f.run.unit(), f.id, f.len | TOMBSTONE)?,
                    // The commit then looks through the table.
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
        // A block in the chain stays until the commit has gone by it; the last one can be taken out.
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
