//! Allocation: ids in a row, and a block for each.

use super::block::TOMB;
use super::map::units_of;
use super::open::ENTRIES;
use super::units::Take;
use super::{Entry, Fail, Free, MAX_LEN, Store};
use crate::promise::Promise;
use nvmem::Medium;

/// Allocating `n` objects of equal size with consecutive ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alloc {
    n: u16,
    len: u16,
    stage: Stage,
    /// The next entry to be looked at; then the first object's.
    id: u16,
    /// Free entries just before it; then objects that are done.
    run: u16,
    /// Entries to be looked at.
    left: u32,
    take: Take,
    /// What was done of a run and is taken back.
    free: Option<Free>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Start,
    Ids,
    Blocks,
    /// There is no room: what was done is taken back.
    Undo,
}

impl Alloc {
    /// The first object's number, when it has come to its end.
    pub(crate) fn id(&self) -> u16 {
        self.id
    }

    /// One object of `len` bytes.
    pub(crate) fn one(len: u16) -> Self {
        Self::run(1, len)
    }

    /// `n` objects of `len` bytes each.
    pub(crate) fn run(n: u16, len: u16) -> Self {
        Alloc {
            n,
            len,
            stage: Stage::Start,
            id: 0,
            run: 0,
            left: 0,
            take: Take::new(units_of(len)),
            free: None,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step of an allocation; the id of the first object at its end.
    ///
    /// The objects have no content yet: the caller writes each before it counts on it.
    ///
    /// **Power loss**: an object to which nothing that is reachable leads is gone. **Cost**: for each object 6 bytes, an entry of 4 (2 with the snapshot
    /// promise), and a bit for each 8 bytes. **Errors**: [`Error::Full`] when ids or room do not suffice, nothing is taken then.
    ///
    /// `RUN`: whether it may be more than one; one that is not leaves nothing to be taken back, and needs less code.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    pub(crate) fn alloc<const RUN: bool>(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.change()?;
        // One at a time: a constant, so that what a run needs besides is left out.
        let n = if RUN { a.n } else { 1 };
        match a.stage {
            Stage::Start => {
                let units = u32::from(units_of(a.len)) * u32::from(n);
                if n == 0
                    || a.len > MAX_LEN
                    || n > self.free_ids
                    || units > u32::from(self.free_units)
                {
                    return Err(Fail::FULL);
                }
                a.id = self.next_id;
                a.left = u32::from(self.map.objects) + u32::from(n) - 1;
                a.stage = Stage::Ids;
            }
            Stage::Ids => {
                if a.left == 0 {
                    return Err(Fail::FULL);
                }
                self.look_for_ids(n, a)?;
            }
            Stage::Blocks => match self.take(&mut a.take) {
                Ok(()) => {
                    let unit = a.take.unit();
                    let id = if RUN { a.id + a.run } else { a.id };
                    self.put_head(unit, id, a.len)?;
                    if P::SNAPSHOT {
                        self.put_pending(id, unit)?;
                    } else {
                        self.put_entry(
                            id,
                            Entry {
                                committed: unit,
                                pending: unit,
                            },
                        )?;
                    }
                    self.free_ids = self.free_ids.saturating_sub(1);
                    a.run += 1;
                    if !RUN || a.run == n {
                        return Ok(());
                    }
                    a.take = Take::new(units_of(a.len));
                }
                Err(Fail::FULL) if RUN && a.run > 0 => {
                    a.stage = Stage::Undo;
                }
                Err(e) => return Err(e),
            },
            Stage::Undo if !RUN => return Err(Fail::FULL),
            Stage::Undo => {
                let free = a.free.get_or_insert(Free::new(a.id + a.run - 1));
                self.free(free)?;
                a.free = None;
                a.run -= 1;
                if a.run == 0 {
                    return Err(Fail::FULL);
                }
            }
        }
        Err(Fail::AGAIN)
    }

    /// Just in time: one step of undoing the allocation of one object, which is at its end. In less code than [`Store::free`] of any object.
    pub(crate) fn take_back(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.change()?;
        if let Stage::Blocks = a.stage {
            self.put_entry(a.id, Entry::FREE)?;
            self.free_ids += 1;
            a.stage = Stage::Undo;
            return Err(Fail::AGAIN);
        }
        self.give(&mut a.take)
    }

    /// Looks at some entries for `n` free ones in a row.
    #[cfg_attr(not(target_pointer_width = "64"), inline(never))]
    fn look_for_ids(&mut self, n: u16, a: &mut Alloc) -> Result<(), Fail> {
        if a.id == 0 || a.id > self.map.objects {
            (a.id, a.run) = (1, 0);
        }
        for _ in 0..ENTRIES {
            if a.left == 0 || a.id > self.map.objects {
                break;
            }
            let e = self.entry(a.id)?;
            a.left -= 1;
            a.id += 1;
            a.run = if e == Entry::FREE { a.run + 1 } else { 0 };
            if a.run == n {
                self.next_id = a.id;
                a.id -= n;
                a.run = 0;
                a.stage = Stage::Blocks;
                break;
            }
        }
        Ok(())
    }
}

const _: () = assert!(MAX_LEN < TOMB);
