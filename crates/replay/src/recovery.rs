//! Opening a table: format, find the frames, refuse what no power cut leaves.

use crate::error::{Damage, OpenError};
use crate::header::Kind;
use crate::layout::{Config, Geometry, OUTBOX, superblock};
use crate::table::{Frame, Table};
use nvmem::superblock::{self as sb, State};
use nvmem::{Model, Region, Superblock, planted};

/// What has happened so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// The program's frame.
    pub top: Frame,
    /// How many records it has.
    pub records: u32,
    /// The innermost loop.
    pub depth: usize,
    /// The sequence number of the last transaction that is committed.
    pub committed: u32,
}

impl Found {
    pub fn empty(&self) -> bool {
        self.depth == 0 && !self.top.replaying() && self.top.counter == 0
    }
}

impl<'m, M: Model> Table<'m, M> {
    /// The table at the head of a region: nothing is known of it yet.
    pub fn new(region: Region<'m, M>) -> Self {
        let geo = Geometry::NONE;
        Table { region, geo }
    }

    /// Reads how the table is divided. Gives the superblock to format it with, if it must be.
    ///
    /// **Errors**: the region holds something else.
    pub fn read(&mut self, chosen: &Config) -> Result<Option<Superblock>, OpenError> {
        let mut sb = superblock::<M>(chosen);
        let blank = match sb::probe(&self.region, &sb) {
            State::Ready(stored) => {
                stored
                    .check_layout(&sb)
                    .map_err(OpenError::LayoutMismatch)?;
                sb = stored;
                false
            }
            State::Blank | State::Formatting => true,
            State::Foreign => return Err(OpenError::Foreign),
            State::Damaged => return Err(OpenError::Damaged(Damage::Superblock)),
        };
        self.geo = Geometry::new::<M>(&sb.params).map_err(OpenError::Config)?;
        if self.region.len() < self.geo.len {
            return Err(OpenError::TooSmall {
                needed: self.geo.len,
            });
        }
        Ok(blank.then_some(sb))
    }

    /// Reads the table, or formats it, and finds what has happened.
    #[inline(never)]
    pub fn mount(&mut self, chosen: &Config, version: u16) -> Result<Found, OpenError> {
        if let Some(sb) = self.read(chosen)? {
            sb::begin(&mut self.region, &sb);
            self.format(version);
            sb::finish(&mut self.region, &sb);
        }
        self.scan().map_err(OpenError::Damaged)
    }

    /// Everything that is looked at before it is written, and what lies between.
    fn format(&self, version: u16) {
        let mut at = OUTBOX;
        while at < self.geo.len {
            self.store(at, 0);
            at += Self::UNIT;
        }
        // After the largest number comes 1.
        self.start(&mut self.first(0), self.geo.seq_max, 0, Some(version));
    }

    /// Finds the loops that are running.
    ///
    /// **Cost**: reads the headers of the records that count. **Errors**: what no power cut leaves.
    pub fn scan(&self) -> Result<Found, Damage> {
        let mut f = Frame::default();
        let mut open = self.frame(0, &mut f)?;
        let mut found = Found {
            top: f,
            records: Self::slot(&f, f.end) as u32,
            depth: 0,
            committed: 0,
        };
        while open {
            found.depth += 1;
            open = self.frame(found.depth, &mut f)?;
        }
        found.committed = f.seq;
        Ok(found)
    }

    /// Reads the frame of a level that runs, of which nothing is passed; tells whether its last record is a loop that runs.
    ///
    /// **Cost** and **Errors** as [`Table::scan`].
    #[inline(never)]
    pub fn frame(&self, level: usize, f: &mut Frame) -> Result<bool, Damage> {
        if level >= self.geo.levels || !self.current(level, f) {
            return Err(Damage::Start { level });
        }
        self.chain(level, f)
    }

    /// Finds the half whose iteration is the other's next one, or the only one that has begun.
    fn current(&self, level: usize, f: &mut Frame) -> bool {
        *f = self.first(level);
        let (first, second) = (self.started(f.base), self.started(f.other));
        let (a, b) = (first.unwrap_or_default(), second.unwrap_or_default());
        let swap = match (first.is_some(), second.is_some()) {
            (false, false) => return false,
            (true, true) if planted!("nv-replay/newer-half-by-its-number") => a.0 <= b.0,
            (true, true) if Self::after(a.1, b.1) => true,
            (true, true) if !Self::after(b.1, a.1) => return false,
            (first, _) => !first,
        };
        if swap {
            f.swap();
        }
        let (seq, low) = if swap { b } else { a };
        Self::empty(f, seq, self.counter(f.base, low));
        true
    }

    /// Finds the records of a frame; whether the last is a loop that runs.
    fn chain(&self, level: usize, f: &mut Frame) -> Result<bool, Damage> {
        while f.end < f.heads {
            let seq = self.geo.next(f.seq);
            if !Self::carries(self.load(f.end), seq) {
                break;
            }
            let bad = Damage::Record {
                level,
                slot: Self::slot(f, f.end),
            };
            let h = self.record(f.end, f.body_end, f.limit).ok_or(bad)?;
            f.seq = seq;
            f.end += Self::UNIT;
            if h.kind == Kind::LoopOpen {
                return if h.total() == 0 { Ok(true) } else { Err(bad) };
            }
            if h.kind == Kind::LoopDone {
                if h.units == 0 {
                    return Err(bad);
                }
                f.seq = self.load(f.body_end + h.extra as usize * Self::UNIT);
                if f.seq == 0 || f.seq > self.geo.seq_max {
                    return Err(bad);
                }
            }
            f.body_end += h.total() as usize * Self::UNIT;
        }
        Ok(false)
    }
}
