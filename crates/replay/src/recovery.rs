//! Opening a table: format, find the frames, refuse what no power cut leaves.

use crate::error::Damage;
use crate::header::Kind;
use crate::layout::{Config, Geometry, OUTBOX, config, superblock};
use crate::table::{Frame, Table};
use nvmem::superblock::{self as sb, State};
use nvmem::{LayoutMismatch, Model, Region, Unit, planted};

/// Why a region could not be opened as a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum TableError {
    Foreign,
    Damaged(Damage),
    Layout(LayoutMismatch),
    Config(&'static str),
    TooSmall(usize),
}

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

/// The division of a region that holds a table, or will.
///
/// **Errors**: it holds something else. The flag tells whether it must be formatted.
pub(crate) fn probe<M: Model>(
    region: &Region<'_, M>,
    chosen: &Config,
) -> Result<(Config, bool), TableError> {
    let mine = superblock::<M>(chosen);
    match sb::probe(region, &mine) {
        State::Ready(stored) => {
            stored.check_layout(&mine).map_err(TableError::Layout)?;
            if stored.params[crate::layout::param::UNIT] != M::Unit::BYTES as u32 {
                return Err(TableError::Config(
                    "the table was formatted for another atomic unit",
                ));
            }
            let c = config(&stored).ok_or(TableError::Damaged(Damage::Superblock))?;
            Ok((c, false))
        }
        State::Blank | State::Formatting => Ok((*chosen, true)),
        State::Foreign => Err(TableError::Foreign),
        State::Damaged => Err(TableError::Damaged(Damage::Superblock)),
    }
}

impl<'m, M: Model> Table<'m, M> {
    /// The table in `region`, whose configuration [`probe`] has told. Formats it if it must be.
    pub fn open(
        mut region: Region<'m, M>,
        geo: Geometry,
        c: &Config,
        format: bool,
        version: u16,
    ) -> Result<(Self, Found), (TableError, Region<'m, M>)> {
        if region.len() < geo.len {
            return Err((TableError::TooSmall(geo.len), region));
        }
        if format {
            sb::begin(&mut region, &superblock::<M>(c));
        }
        let mut t = Table { region, geo };
        if format {
            t.format(version);
            sb::finish(&mut t.region, &superblock::<M>(c));
        }
        match t.scan() {
            Ok(found) => Ok((t, found)),
            Err(d) => Err((TableError::Damaged(d), t.region)),
        }
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
