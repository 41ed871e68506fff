//! Allocation: ids in a row, and a block for each.

use super::block::TOMB;
use super::map::units_of;
use super::open::ENTRIES;
use super::units::Take;
use super::{Entry, Error, Free, MAX_LEN, Step, Store};
use crate::promise::Promise;
use nvmem::Medium;

/// Allocating `n` objects of equal size with consecutive ids.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alloc {
    n: u16,
    len: u16,
    stage: Stage,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    Start,
    /// `run` free entries just before `at`, `left` to be looked at.
    Ids {
        at: u16,
        run: u16,
        left: u32,
    },
    Blocks {
        base: u16,
        done: u16,
        take: Take,
    },
    /// There is no room: what was done is taken back.
    Undo {
        base: u16,
        done: u16,
        free: Free,
    },
}

impl Alloc {
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
    pub(crate) fn alloc(&mut self, a: &mut Alloc) -> Result<Step<u16>, Error<S::Error>> {
        self.change()?;
        match &mut a.stage {
            Stage::Start => {
                let units = u32::from(units_of(a.len)) * u32::from(a.n);
                if a.n == 0
                    || a.len > MAX_LEN
                    || a.n > self.free_ids
                    || units > u32::from(self.free_units)
                {
                    return Err(Error::Full);
                }
                a.stage = Stage::Ids {
                    at: self.next_id,
                    run: 0,
                    left: u32::from(self.map.objects) + u32::from(a.n) - 1,
                };
                Ok(Step::Again)
            }
            Stage::Ids { at, run, left } => {
                if *left == 0 {
                    return Err(Error::Full);
                }
                let found = self.look_for_ids(a.n, at, run, left)?;
                if let Some(base) = found {
                    self.next_id = base + a.n;
                    a.stage = Stage::Blocks {
                        base,
                        done: 0,
                        take: Take::new(units_of(a.len)),
                    };
                }
                Ok(Step::Again)
            }
            Stage::Blocks { base, done, take } => match self.take(take) {
                Ok(Step::Again) => Ok(Step::Again),
                Ok(Step::Done(unit)) => {
                    let id = *base + *done;
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
                    *done += 1;
                    if *done == a.n {
                        return Ok(Step::Done(*base));
                    }
                    *take = Take::new(units_of(a.len));
                    Ok(Step::Again)
                }
                Err(Error::Full) if *done > 0 => {
                    let (base, done) = (*base, *done);
                    let free = Free::new(base + done - 1);
                    a.stage = Stage::Undo { base, done, free };
                    Ok(Step::Again)
                }
                Err(e) => Err(e),
            },
            Stage::Undo { base, done, free } => {
                if self.free(free)? == Step::Done(()) {
                    *done -= 1;
                    if *done == 0 {
                        return Err(Error::Full);
                    }
                    *free = Free::new(*base + *done - 1);
                }
                Ok(Step::Again)
            }
        }
    }

    /// Looks at some entries for `n` free ones in a row.
    fn look_for_ids(
        &mut self,
        n: u16,
        at: &mut u16,
        run: &mut u16,
        left: &mut u32,
    ) -> Result<Option<u16>, Error<S::Error>> {
        if *at == 0 || *at > self.map.objects {
            (*at, *run) = (1, 0);
        }
        let some = (self.map.objects - *at + 1).min(ENTRIES);
        let table = self.entries(*at, some)?;
        for e in table.iter().take(usize::from(some)) {
            if *left == 0 {
                break;
            }
            *left -= 1;
            *run = if *e == Entry::FREE { *run + 1 } else { 0 };
            if *run == n {
                return Ok(Some(*at - (n - 1)));
            }
            *at += 1;
        }
        Ok(None)
    }
}

const _: () = assert!(MAX_LEN < TOMB);
