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

    /// Everything that is looked at before it is written.
    fn format(&self, version: u16) {
        let g = &self.geo;
        // The outbox, and of every half all but the payload.
        self.clear(OUTBOX, g.frames);
        for level in 0..g.levels {
            let (first, room) = (g.first(level), g.room(level));
            for base in [first, first + room.size] {
                self.clear(base, base + room.heads);
            }
        }
        // After the largest number comes 1.
        self.start(0, g.frames, g.seq_max, 0, version);
    }

    fn clear(&self, mut at: usize, end: usize) {
        while at < end {
            self.store(at, 0);
            at += Self::UNIT;
        }
    }

    /// Finds the loops that are running.
    ///
    /// **Cost**: reads the headers of the records that count. **Errors**: what no power cut leaves.
    pub fn scan(&self) -> Result<Found, Damage> {
        let (top, mut open) = self.frame(0)?;
        let mut found = Found {
            top,
            records: Self::slot(&top, top.end) as u32,
            depth: 0,
            committed: top.seq,
        };
        while open {
            found.depth += 1;
            (found.committed, open) = self.frame(found.depth).map(|(f, open)| (f.seq, open))?;
        }
        Ok(found)
    }

    /// The frame of a level that runs, of which nothing is passed, and whether its last record is a loop that runs.
    ///
    /// **Cost** and **Errors** as [`Table::scan`].
    pub fn frame(&self, level: usize) -> Result<(Frame, bool), Damage> {
        let f = match level < self.geo.levels {
            true => self.current(level),
            false => None,
        };
        let mut f = f.ok_or(Damage::Start { level })?;
        let open = self.chain(level, &mut f)?;
        Ok((f, open))
    }

    /// The half whose iteration is the other's next one, or the only one that has begun.
    fn current(&self, level: usize) -> Option<Frame> {
        let first = self.geo.first(level);
        let second = first + self.geo.room(level).size;
        let (base, (seq, low)) =
            match (self.started(first), self.started(second)) {
                (Some(a), Some(b)) if planted!("nv-replay/newer-half-by-its-number") => {
                    if a.0 > b.0 { (first, a) } else { (second, b) }
                }
                (Some(a), Some(b)) if Self::after(a.1, b.1) => (second, b),
                (Some(a), Some(b)) if Self::after(b.1, a.1) => (first, a),
                (Some(a), None) => (first, a),
                (None, Some(b)) => (second, b),
                _ => return None,
            };
        Some(self.empty(level, base, seq, self.counter(base, low)))
    }

    /// Finds the records of a frame; whether the last is a loop that runs.
    fn chain(&self, level: usize, f: &mut Frame) -> Result<bool, Damage> {
        let (heads, limit) = (self.heads(level, f), self.limit(level, f));
        while f.end < heads {
            let seq = self.geo.next(f.seq);
            if !Self::carries(self.load(f.end), seq) {
                break;
            }
            let bad = Damage::Record {
                level,
                slot: Self::slot(f, f.end),
            };
            let h = self.record(f.end, f.body_end, limit).ok_or(bad)?;
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
