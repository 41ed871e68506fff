//! Opening a table: format, find the records that count, refuse what no power cut leaves.

use crate::error::{Damage, OpenError};
use crate::header::{Head, Kind};
use crate::layout::{self, Config, Geometry, OUTBOX};
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
    pub fn read(&mut self, sb: &mut Superblock) -> Result<bool, OpenError> {
        let blank = match superblock::look(&self.region, sb) {
            superblock::State::Ready(stored) => {
                if !stored.is(&sb.layout()) {
                    return Err(OpenError::OtherFormat);
                }
                for (i, p) in sb.params.iter_mut().enumerate() {
                    *p = stored.param(i);
                }
                false
            }
            superblock::State::Blank | superblock::State::Formatting => true,
            superblock::State::Foreign => return Err(OpenError::Foreign),
            superblock::State::Damaged => return Err(OpenError::Damaged(Damage::Superblock)),
        };
        self.geo = Geometry::new::<M>(&sb.params).map_err(OpenError::Config)?;
        if self.region.len() < self.geo.len {
            return Err(OpenError::TooSmall {
                needed: self.geo.len,
            });
        }
        self.top = self.geo.areas + self.geo.area;
        Ok(blank)
    }

    /// Reads the table, or formats it, and finds what has happened.
    #[inline(never)]
    pub fn mount(&mut self, chosen: &Config, version: u16) -> Result<Found, OpenError> {
        let mut sb = layout::superblock::<M>(chosen);
        if self.read(&mut sb)? {
            superblock::begin(&mut self.region, &sb);
            self.format(version);
            superblock::finish(&mut self.region, &sb);
        }
        self.scan(&mut |_, _| {}).map_err(OpenError::Damaged)
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
        let run = State {
            seq: self.geo.seq_max,
            counter: u32::from(version) << Self::COUNTER_BITS,
            done: false,
        };
        self.put_state(self.geo.run, &run);
    }

    /// Finds the records that count, and tells each.
    ///
    /// **Cost**: reads their headers. **Errors**: what no power cut leaves.
    #[inline]
    pub fn scan(&mut self, tell: &mut dyn FnMut(u16, &Seen)) -> Result<Found, Damage> {
        let mut run = State::NONE;
        if !self.state(self.geo.run, &mut run) {
            return Err(Damage::Start);
        }
        self.top = self.geo.areas + self.geo.area;
        if run.second::<M>() {
            self.top += self.geo.area;
        }
        let mut frame = self.empty(self.top);
        let (mut at, mut body, mut committed) = (frame.at, frame.body, run.seq);
        while self.follows(at, body, committed) {
            let record = self.slot(at);
            let bad = Damage::Record { record };
            let mut head = Head::NONE;
            if !self.record(at, body, &mut head) {
                return Err(bad);
            }
            committed = self.geo.next(committed);
            let mut state = None;
            if head.kind == Kind::Loop {
                if head.end - head.content != Self::STATE {
                    return Err(bad);
                }
                let mut s = State::NONE;
                if !self.state(head.content, &mut s) {
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
