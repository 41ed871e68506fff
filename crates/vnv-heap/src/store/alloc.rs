//! Allocation: consecutive object numbers, and a block for each.
//!
//! ```text
//!  Ids:    find n free entries in a row          (reads the table)
//!  Blocks: for each object: find free units, mark them used, write header, write entry
//!  Undo:   no space left: free the objects done so far, then Full
//! ```
//!
//! Why it is safe: a cut at any point leaves marked units or entries that nothing reachable points
//! to. The sweep of the next open frees both.

use super::block::TOMBSTONE;
use super::geometry::units_of;
use super::units::{AllocRun, FindFree};
use super::{Entry, Fail, Free, MAX_LEN, Store};
use crate::promise::Promise;
use nvmem::Medium;

/// Allocates `n` objects of equal size with consecutive numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alloc {
    n: u16,
    len: u16,
    stage: Stage,
    find: FindFree,
    /// The first object's number, once found.
    id: u16,
    /// Objects allocated so far.
    done: u16,
    run: AllocRun,
    /// The free of an object that is taken back.
    free: Option<Free>,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Ids,
    Blocks,
    /// No space: objects allocated so far are freed again.
    Undo,
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
            stage: Stage::Ids,
            find: FindFree::NEW,
            id: 0,
            done: 0,
            run: AllocRun::new(units),
            free: None,
        }
    }
}

impl<S: Medium, P: Promise> Store<S, P> {
    /// One step of an allocation. When it is done, [`Alloc::id`] is the first object's number.
    ///
    /// The objects have no content yet: the caller writes each before it relies on it.
    ///
    /// **Power loss**: an object that nothing reachable points to is gone. **Cost**: for each
    /// object 6 bytes, an entry of 4 (2 with the snapshot promise), and a bit for each 8 bytes.
    /// **Errors**: [`Error::Full`](crate::Error::Full) when numbers or space do not suffice;
    /// nothing stays allocated then.
    ///
    /// `RUN`: whether it may be more than one object. A single object needs no undo, and so less
    /// code.
    #[inline(never)]
    pub(crate) fn alloc<const RUN: bool>(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.before_change()?;
        // A constant for a single object, so that the compiler drops the code for runs.
        let n = if RUN { a.n } else { 1 };
        match a.stage {
            Stage::Ids => {
                let units = u32::from(units_of(a.len)) * u32::from(n);
                if RUN && (n == 0 || units > u32::from(self.free_units)) {
                    return Err(Fail::FULL);
                }
                self.find_free(&mut a.find, n, false)?;
                a.id = a.find.first(n);
                a.stage = Stage::Blocks;
            }
            Stage::Blocks => match self.alloc_run(&mut a.run) {
                Ok(()) => {
                    let unit = a.run.unit();
                    let id = if RUN { a.id + a.done } else { a.id };
                    self.write_block_header(unit, id, a.len)?;
                    if P::SNAPSHOT {
                        self.put_pending(id, unit)?;
                    } else {
                        self.put_entry(id, Entry::of(unit, unit))?;
                    }
                    self.free_ids = self.free_ids.saturating_sub(1);
                    a.done += 1;
                    if !RUN || a.done == n {
                        return Ok(());
                    }
                    a.run = AllocRun::new(units_of(a.len));
                }
                Err(Fail::FULL) if RUN && a.done > 0 => {
                    a.stage = Stage::Undo;
                }
                Err(e) => return Err(e),
            },
            Stage::Undo if !RUN => return Err(Fail::FULL),
            Stage::Undo => {
                let free = a.free.get_or_insert(Free::new(a.id + a.done - 1, a.len));
                self.free(free)?;
                a.free = None;
                a.done -= 1;
                if a.done == 0 {
                    return Err(Fail::FULL);
                }
            }
        }
        Err(Fail::PENDING)
    }

    /// Just in time: one step of undoing a finished allocation of one object. Less code than
    /// [`Store::free`].
    pub(crate) fn undo_alloc(&mut self, a: &mut Alloc) -> Result<(), Fail> {
        self.before_change()?;
        if let Stage::Blocks = a.stage {
            self.put_entry(a.id, Entry::FREE)?;
            self.free_ids += 1;
            a.stage = Stage::Undo;
            return Err(Fail::PENDING);
        }
        self.release(&mut a.run)
    }
}

const _: () = assert!(MAX_LEN < TOMBSTONE);
