//! Opening a table: format, find the records that count, refuse what no power cut leaves.

use crate::error::{Damage, OpenError, Setting};
use crate::header::{Head, Kind};
use crate::layout::{self, Config, Geometry, OUTBOX, PARAMS};
use crate::table::{Frame, State, Table};
use nvmem::superblock;
use nvmem::{Model, Region, Superblock};

/// What has happened so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// All records.
    pub frame: Frame,
    /// The sequence number of the last transaction that is committed.
    pub committed: u32,
    /// The program's run.
    pub run: State,
}

impl Found {
    /// Nothing has happened since the table was formatted.
    pub fn fresh(&self) -> bool {
        !self.run.done && self.frame.at == self.frame.end
    }
}

/// Why a table cannot be opened; in a register. A program that does not ask why has nothing of [`OpenError`].
#[derive(Clone, Copy)]
pub(crate) enum Unfit {
    Foreign,
    OtherFormat,
    TooSmall,
    Config(Setting),
    Damaged(Damage),
}

impl Unfit {
    /// The same for users. The table would need `needed` bytes.
    #[inline(always)]
    pub fn error(self, needed: usize) -> OpenError {
        match self {
            Unfit::Foreign => OpenError::Foreign,
            Unfit::OtherFormat => OpenError::OtherFormat,
            Unfit::TooSmall => OpenError::TooSmall { needed },
            Unfit::Config(why) => OpenError::Config(why),
            Unfit::Damaged(what) => OpenError::Damaged(what),
        }
    }
}

/// A record, and the state of a loop.
pub(crate) struct Seen {
    pub head: Head,
    pub state: Option<State>,
}

impl<'m, M: Model> Table<'m, M> {
    /// The table at the head of a region: nothing is known of it yet.
    pub fn new(region: Region<'m, M>) -> Self {
        Table {
            region,
            geo: Geometry::NONE,
            top: 0,
        }
    }

    /// Reads how the table is divided into `sb`, if it was not blank; it must be formatted as `sb` says if it was.
    ///
    /// **Errors**: the region holds something else.
    #[inline]
    pub fn read(&mut self, sb: &mut Superblock) -> Result<bool, Unfit> {
        let blank = match superblock::look(&self.region, sb) {
            superblock::State::Ready(stored) => {
                if !stored.is(&sb.layout()) {
                    return Err(Unfit::OtherFormat);
                }
                for (i, p) in sb.params.iter_mut().enumerate().take(PARAMS) {
                    *p = stored.param(i);
                }
                false
            }
            superblock::State::Blank | superblock::State::Formatting => true,
            superblock::State::Foreign => return Err(Unfit::Foreign),
            superblock::State::Damaged => return Err(Unfit::Damaged(Damage::Superblock)),
        };
        self.geo = Geometry::new::<M>(&sb.params).map_err(Unfit::Config)?;
        // Something must be left for the pool.
        if self.region.len() <= self.geo.len {
            return Err(Unfit::TooSmall);
        }
        self.top = self.geo.areas + self.geo.area;
        Ok(blank)
    }

    /// Reads the table, or formats it, and finds what has happened.
    #[inline(always)]
    pub fn mount(&mut self, chosen: &Config, version: u16) -> Result<Found, Unfit> {
        let mut sb = layout::superblock::<M>(chosen);
        if self.read(&mut sb)? {
            superblock::begin(&mut self.region, &sb);
            self.format(version);
            superblock::finish(&mut self.region, &sb);
        }
        self.scan(&mut |_, _| {})
    }

    /// How many records there are before the outermost loop that runs.
    #[cold]
    pub fn whole(&mut self) -> u16 {
        let (mut n, mut inside) = (0, false);
        // It has been looked through a moment ago.
        let _ = self.scan(&mut |_, seen| {
            inside |= seen.state.is_some_and(|s| !s.done);
            n += u16::from(!inside);
        });
        n
    }

    /// Everything that is looked at before it is written.
    fn format(&self, version: u16) {
        let mut at = OUTBOX;
        while at < self.geo.len {
            self.store(at, 0);
            at += Self::UNIT;
        }
        // After the largest number comes 1.
        let mark = State::mark(self.geo.seq_max, false);
        self.put_state(self.geo.run, mark, u32::from(version) << Self::COUNTER_BITS);
    }

    /// Finds the records that count, and tells each.
    ///
    /// **Cost**: reads their headers. **Errors**: what no power cut leaves.
    #[inline]
    pub fn scan(&mut self, tell: &mut dyn FnMut(u16, &Seen)) -> Result<Found, Unfit> {
        let run = self.state(self.geo.run);
        if run.seq == 0 {
            return Err(Unfit::Damaged(Damage::Start));
        }
        self.top = self.geo.areas + self.geo.area;
        if run.second::<M>() {
            self.top += self.geo.area;
        }
        let mut frame = self.empty(self.top);
        let (mut at, mut body, mut committed) = (frame.at, frame.body, run.seq);
        loop {
            let next = self.geo.next(committed);
            if !self.follows(at, body, next) {
                break;
            }
            let record = self.slot(at);
            let bad = Unfit::Damaged(Damage::Record { record });
            let Some(head) = self.record(at, body) else {
                return Err(bad);
            };
            committed = next;
            let mut state = None;
            if head.kind == Kind::Loop {
                if head.end - head.content != Self::STATE {
                    return Err(bad);
                }
                let s = self.state(head.content);
                if s.seq == 0 {
                    return Err(bad);
                }
                committed = s.seq;
                state = Some(s);
            }
            body = head.end;
            at -= Self::UNIT;
            tell(record, &Seen { head, state });
        }
        frame.end = at;
        Ok(Found {
            frame,
            committed,
            run,
        })
    }
}

impl State {
    /// Whether a run's records are in the second area.
    pub fn second<M: Model>(&self) -> bool {
        self.counter >> (Table::<M>::COUNTER_BITS - 1) & 1 != 0
    }

    /// The version in a run's counter.
    pub fn version<M: Model>(&self) -> u16 {
        (self.counter >> Table::<M>::COUNTER_BITS) as u16
    }
}
