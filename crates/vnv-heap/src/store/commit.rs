//! Commit: one record, and the table follows.

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
    /// What becomes free, and what the entry becomes.
    free: [Option<MarkUnits>; 2],
    then: Option<(u16, Entry)>,
    /// Blocks that the chain can have at most.
    left: u16,
    /// A half-written entry may be among the table's: no block is freed by what an entry says.
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
    /// One step of a commit. All that is dirty was written before the first one.
    ///
    /// **Power loss**: before the record is whole, the heap is as of the commit before; after it, as of this one.
    /// **Cost**: 16 bytes; for each object that was written since the last commit 2 bytes and a bit for each 8 bytes. **Errors**: those of the medium. Nothing else
    /// may change then before another commit has come to its end: a new [`Commit`] goes on from wherever this one got to.
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
                    // An earlier one was broken off, and how far it got is in the medium alone.
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
            // The chain is damaged; the table knows the same.
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
        // A tombstone, or the block of an object that was freed after it was written.
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

    /// The units of an object's former block, if it is that, and of this length: what cannot be proved stays taken until the next open.
    fn former_units(
        &mut self,
        c: &Commit,
        id: u16,
        unit: u16,
        len: Option<u16>,
    ) -> Result<Option<MarkUnits>, Fail> {
        if unit == 0 || c.keep || planted!("vnv-heap/old-block-keep_mask") {
            return Ok(None);
        }
        match self.locate_in(id, unit) {
            Ok(place) => {
                let known = match len {
                    Some(len) => place.len == len || planted!("vnv-heap/old-length-believed"),
                    None => self.is_sound(id, &place)?,
                };
                Ok(known.then(|| MarkUnits::free(place.unit, units_of(place.len))))
            }
            Err(f) if f.is_damage() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Entries that the chain does not lead to, one a call.
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
