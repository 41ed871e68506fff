//! Commit (snapshot promise): one record makes all pending blocks count; then the table follows.
//!
//! ```text
//!  before:  entry [old | new]   new blocks, chained through their headers: B3 -> B2 -> B1 -> 0
//!  1. flush, write record COMMITTED(seq+1), flush        <== the commit counts from here
//!  2. for each block of the chain:  entry [new | new], mark the old block's units free
//!     a tombstone:                  entry [0 | 0],     mark the old block's units free
//!  3. flush, write the applied word (seq+1)              table complete
//! ```
//!
//! Why it is safe: before the record is complete, every entry still names its committed block, and
//! no committed block was overwritten. After it, steps 2 and 3 depend only on what the medium
//! holds; open repeats them if the applied word is late. Units are marked free only after the entry
//! no longer needs them.

use super::block::TOMBSTONE;
use super::geometry::units_of;
use super::open::NO_ENTRIES;
use super::record::{COMMITTED, applied_word};
use super::units::MarkUnits;
use super::{Entry, FREED, Fail, MAX_LEN, SCAN, Store, UNFINISHED};
use crate::promise::Promise;
use nvmem::{Medium, planted};

/// A commit under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Commit {
    stage: Stage,
    /// Unit runs to mark free, then the new entry to write.
    free: [Option<MarkUnits>; 2],
    /// The object and its new entry.
    then: Option<(u16, Entry)>,
    /// The most blocks that the chain can still have; bounds a damaged chain.
    left: u16,
    /// The table may hold a torn entry: free no block because of an entry.
    keep: bool,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Record,
    /// The next block of the chain.
    Chain(u16),
    /// The next entry of the table.
    Table(u16),
    Applied,
}

impl Commit {
    pub(crate) fn new() -> Self {
        Commit {
            stage: Stage::Record,
            free: [None; 2],
            then: None,
            left: u16::MAX,
            keep: false,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step of a commit. All dirty objects were written back before the first one.
    ///
    /// **Power loss**: before the record is complete, the heap is as of the previous commit; after
    /// it, as of this one. **Cost**: 16 bytes; for each object that was written since the last
    /// commit 2 bytes and a bit for each 8 bytes. **Errors**: those of the medium. Nothing else may
    /// change then until another commit has finished: a new [`Commit`] continues where this one
    /// stopped.
    pub(crate) fn commit(&mut self, c: &mut Commit) -> Result<(), Fail> {
        if let Some(at) = c.free.iter().position(Option::is_some) {
            if let Some(mark) = &mut c.free[at] {
                self.mark_units(mark)?;
            }
            c.free[at] = None;
            return Err(Fail::PENDING);
        }
        if let Some((id, e)) = c.then {
            if e == Entry::FREE {
                self.put_entry(id, e)?;
                self.free_ids = (self.free_ids + 1).min(self.geometry.objects);
            } else {
                self.put_committed(id, e.committed())?;
            }
            c.then = None;
            return Err(Fail::PENDING);
        }
        match c.stage {
            Stage::Record => {
                self.repair_torn_entry()?;
                let late = self.applied()? != applied_word(self.seq);
                self.state |= UNFINISHED;
                if late {
                    // An earlier commit did not finish. Only the medium tells how far it got: scan
                    // the whole table.
                    self.state |= SCAN;
                    (self.chain, c.keep) = (0, true);
                } else {
                    self.put_record(COMMITTED, 0)?;
                }
                c.stage = Stage::Chain(self.chain);
            }
            Stage::Chain(0) => {
                self.chain = 0;
                c.stage = if self.state & SCAN != 0 {
                    Stage::Table(1)
                } else {
                    Stage::Applied
                };
            }
            Stage::Chain(unit) => self.apply_block(c, unit)?,
            Stage::Table(id) if id > self.geometry.objects => c.stage = Stage::Applied,
            Stage::Table(id) => self.apply_entries(c, id)?,
            Stage::Applied => {
                self.put_applied()?;
                self.state = 0;
                return Ok(());
            }
        }
        Err(Fail::PENDING)
    }

    fn apply_block(&mut self, c: &mut Commit, unit: u16) -> Result<(), Fail> {
        c.left = c.left.saturating_sub(1);
        let head = match self.read_block_header(unit, 0) {
            Ok(h) if c.left > 0 && self.geometry.entry(h.id).is_some() => h,
            Err(Fail::MEDIUM) => return Err(Fail::MEDIUM),
            // The chain is damaged: scan the table, which holds the same information.
            _ => {
                self.state |= SCAN;
                c.stage = Stage::Chain(0);
                return Ok(());
            }
        };
        c.stage = Stage::Chain(head.prev);
        let len = head.len & !TOMBSTONE;
        let e = self.entry(head.id)?;
        if e.pending() == unit {
            c.free[0] = self.former_units(c, head.id, e.committed(), Some(len))?;
            c.then = Some((head.id, Entry::of(unit, unit)));
            return Ok(());
        }
        if e.pending() >= FREED && !e.is_settled() {
            c.free[0] = self.former_units(c, head.id, e.committed(), Some(len))?;
            c.then = Some((head.id, Entry::FREE));
        }
        // A tombstone, or a block whose object was freed after it was written.
        let n = if head.len & TOMBSTONE != 0 {
            1
        } else {
            units_of(len)
        };
        if len <= MAX_LEN && self.geometry.has(unit, n) {
            c.free[1] = Some(MarkUnits::free(unit, n));
        }
        Ok(())
    }

    /// The units of an object's former block, if its header proves the object and this length.
    /// Without proof they stay marked until the next open.
    fn former_units(
        &mut self,
        c: &Commit,
        id: u16,
        unit: u16,
        len: Option<u16>,
    ) -> Result<Option<MarkUnits>, Fail> {
        if unit == 0 || c.keep || planted!("vnv-heap/old-block-kept") {
            return Ok(None);
        }
        match self.locate_in(id, unit) {
            Ok(place) => {
                let known = match len {
                    Some(len) => {
                        place.len == len || planted!("vnv-heap/old-encoded-length-not-checked")
                    }
                    None => self.is_sound(id, &place)?,
                };
                Ok(known.then(|| MarkUnits::free(place.unit, units_of(place.len))))
            }
            Err(f) if f.is_damage() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Applies pending entries that the chain did not reach, one a call.
    fn apply_entries(&mut self, c: &mut Commit, id: u16) -> Result<(), Fail> {
        let mut table = NO_ENTRIES;
        let n = self.entries(id, &mut table)?;
        let all = table.iter().take(usize::from(n)).map(|e| Entry::decode(*e));
        let mut all = (id..).zip(all);
        let Some((id, e)) = all.find(|(_, e)| !e.is_settled()) else {
            c.stage = Stage::Table(id + n);
            return Ok(());
        };
        c.stage = Stage::Table(id + 1);
        if e.pending() >= FREED {
            c.free[0] = self.former_units(c, id, e.committed(), None)?;
            c.then = Some((id, Entry::FREE));
        } else {
            if let Ok(new) = self.locate_in(id, e.pending()) {
                c.free[0] = self.former_units(c, id, e.committed(), Some(new.len))?;
            }
            c.then = Some((id, Entry::of(e.pending(), e.pending())));
        }
        Ok(())
    }
}
