//! Opening a table: format, find the frames, refuse what no power cut leaves.

use crate::error::Damage;
use crate::header::Kind;
use crate::layout::{Config, Geometry, MAX_LEVELS};
use crate::layout::{config, superblock};
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

/// The frames on the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    pub frames: [Frame; MAX_LEVELS],
    /// The innermost frame.
    pub depth: usize,
}

impl Found {
    /// The sequence number of the last transaction that is committed.
    pub fn committed(&self) -> u32 {
        self.frames[self.depth].seq
    }
    pub fn empty(&self) -> bool {
        self.depth == 0 && self.frames[0].end == 0 && self.frames[0].counter == 0
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
        c: &Config,
        format: bool,
        version: u16,
    ) -> Result<(Self, Found), (TableError, Region<'m, M>)> {
        let geo = match Geometry::new::<M>(c) {
            Ok(g) => g,
            Err(e) => return Err((TableError::Config(e), region)),
        };
        if region.len() < geo.len as usize {
            return Err((TableError::TooSmall(geo.len as usize), region));
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
        if g.outbox_units > 0 {
            self.store(g.outbox as usize, 0);
            for i in 0..8 / Self::UNIT {
                self.store(g.outbox as usize + (1 + i) * Self::UNIT, 0);
            }
        }
        for level in 0..g.levels as usize {
            for half in 0..2 {
                self.store(g.half(level as u32, half) as usize, 0);
                for slot in 1..=g.room(level).slots {
                    self.store(g.header(level, half, slot), 0);
                }
            }
        }
        // After the largest number comes 1.
        self.start(0, 0, g.seq_max, 0, version);
    }

    /// Finds the current half of each level, its records, and the loops that are running.
    ///
    /// **Cost**: reads the headers of the records that count. **Errors**: what no power cut leaves.
    pub fn scan(&self) -> Result<Found, Damage> {
        let mut found = Found {
            frames: [Frame::default(); MAX_LEVELS],
            depth: 0,
        };
        for level in 0..self.geo.levels as usize {
            let mut f = self.current(level).ok_or(Damage::Start { level })?;
            let open = self.chain(level, &mut f)?;
            found.frames[level] = f;
            found.depth = level;
            if !open {
                return Ok(found);
            }
        }
        Err(Damage::Start {
            level: self.geo.levels as usize,
        })
    }

    /// The half whose iteration is the other's next one, or the only one that has begun.
    fn current(&self, level: usize) -> Option<Frame> {
        let g = &self.geo;
        let at = |half| g.half(level as u32, half) as usize;
        let start = |half| g.decode_start(self.load(at(half)));
        let after = |a: u32, b: u32| b == (a + 1) & ((1 << g.counter_bits()) - 1);
        let (half, s) = match (start(0), start(1)) {
            (Some(a), Some(b)) if planted!("nv-replay/newer-half-by-its-number") => {
                if a.seq > b.seq { (0, a) } else { (1, b) }
            }
            (Some(a), Some(b)) if after(a.low, b.low) => (1, b),
            (Some(a), Some(b)) if after(b.low, a.low) => (0, a),
            (Some(a), None) => (0, a),
            (None, Some(b)) => (1, b),
            _ => return None,
        };
        let upper = self.load(at(half) + Self::UNIT);
        Some(Frame {
            half,
            seq: s.seq,
            counter: upper << g.counter_bits() | s.low,
            ..Frame::default()
        })
    }

    /// Finds the records of a frame; whether the last is a loop that runs.
    fn chain(&self, level: usize, f: &mut Frame) -> Result<bool, Damage> {
        let g = &self.geo;
        while f.end < g.room(level).slots {
            let seq = g.next(f.seq);
            let at = g.header(level, f.half, f.end + 1);
            if !g.carries(self.load(at), seq) {
                break;
            }
            let bad = Damage::Record {
                level,
                slot: f.end as usize,
            };
            let h = self.record(level, f.half, f.end, f.end_units).ok_or(bad)?;
            f.seq = seq;
            f.end += 1;
            if h.kind == Kind::LoopOpen {
                return if h.total() == 0 { Ok(true) } else { Err(bad) };
            }
            if h.kind == Kind::LoopDone {
                let content = self.content(level, f.half, f.end_units, &h);
                let mut reached = [0; 4];
                let n = Self::UNIT.min(content.len());
                reached[..n].copy_from_slice(&content[..n]);
                f.seq = if Self::UNIT == 2 {
                    u16::from_ne_bytes([reached[0], reached[1]]).into()
                } else {
                    u32::from_ne_bytes(reached)
                };
                if f.seq == 0 || f.seq > g.seq_max || n == 0 {
                    return Err(bad);
                }
            }
            f.end_units += h.total();
        }
        Ok(false)
    }
}
