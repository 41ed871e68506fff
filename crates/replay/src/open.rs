//! Opening: the table first, whose last record says which transaction is committed, then the pool.

use crate::error::{Divergence, Error, OpenError, Refused, Setting, What};
use crate::header::Kind;
use crate::layout::Config;
use crate::outbox::Outlet;
use crate::recovery::Found;
use crate::table::{Frame, Table};
use nvmem::superblock::{self, State};
use nvmem::{InOrder32, Model, Persist, Region, Superblock, planted};
use pmem_tx::{Pool, Tx, Width};

/// What to do when the records were made by another version of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Update {
    /// Refuse to open: [`OpenError::OtherVersion`].
    #[default]
    Refuse,
    /// Start the program over: nothing is recorded, and the pool is as the old version left it.
    StartOver,
    /// The first records are still true for the new version, which goes on behind them. A loop that runs cannot be kept.
    Keep(u16),
}

/// How to open.
pub struct Options<'m> {
    /// How much the table holds; counts when the region is formatted.
    pub table: Config,
    /// How the pool is divided; counts when the region is formatted. `None` chooses by the size. The width of sequence
    /// numbers is that of the table.
    pub pool: Option<pmem_tx::Config>,
    /// The program's version: change it whenever steps are added, removed, moved or exchanged.
    pub version: u16,
    /// What to do with the records of another version.
    pub update: Update,
    /// Start over even if the version is the same: after a divergence, or on a user's demand.
    pub start_over: bool,
    /// Where to send what the program sends.
    pub outlet: Option<&'m mut dyn Outlet>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            table: Config::DEFAULT,
            pool: None,
            version: 0,
            update: Update::Refuse,
            start_over: false,
            outlet: None,
        }
    }
}

/// A program that goes on where the power left off: a replay table, the pool that its steps change, and the place that the
/// program has reached.
pub struct Replay<'m, R: Persist, M = InOrder32> {
    /// The frame of the innermost loop that the program has entered. Its `end` is its `at` if nothing may be done any more.
    pub(crate) cur: Frame,
    pub(crate) table: Table<'m, M>,
    pub(crate) pool: Pool<'m, R, M>,
    pub(crate) outlet: Option<&'m mut dyn Outlet>,
    /// How deep that is.
    pub(crate) level: usize,
    /// The innermost loop on the medium.
    pub(crate) depth: usize,
    pub(crate) live: bool,
    /// Why nothing is done any more.
    pub(crate) stopped: Option<Error>,
}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Opens the program's memory in `region`: formats a blank one, with what `init` gives for the pool, and recovers a used one.
    ///
    /// What the last committed step has sent and no mark says is drained. Works on any bytes whatever. **Power loss**: a
    /// format begins again, a recovery goes on. **Cost**: reads the headers that count, and what [`Pool::open`] says.
    /// **Errors**: [`OpenError`], with the region back.
    #[inline]
    pub fn open<F>(
        region: Region<'m, M>,
        options: Options<'m>,
        init: F,
    ) -> Result<Self, Refused<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let mut table = Table::new(region);
        let found = match table.mount(&options.table, options.version) {
            Ok(f) => f,
            Err(e) => return refuse(e, table),
        };
        let recorded = table.version(found.top.base);
        let other = recorded != options.version && !planted!("nv-replay/version-not-compared");
        // What a program does not ask for is not part of it: this is inlined where the options are known.
        let keep = match options.update {
            _ if options.start_over => Ok(Some(0)),
            _ if !other => Ok(None),
            Update::Refuse => Err(OpenError::OtherVersion { recorded }),
            Update::StartOver => Ok(Some(0)),
            Update::Keep(n) => found.may_keep(n).map(|()| Some(n)),
        };
        let second = keep.and_then(|k| Ok((k, table.rest(&found)?)));
        let (keep, second) = match second {
            Ok(k) => k,
            Err(e) => return refuse(e, table),
        };
        let mut divided = options
            .pool
            .unwrap_or_else(|| pmem_tx::Config::for_len(second.len()));
        divided.seq_bits = table.geo.seq_max.count_ones() as u8;
        let pool = match Pool::<R, M>::open_resolved(second, &divided, |_| found.committed, init) {
            Ok(p) => p,
            Err(e) => return refuse(OpenError::Pool(e.error), table),
        };
        let mut rt = Replay {
            cur: found.top,
            table,
            pool,
            outlet: options.outlet,
            level: 0,
            depth: found.depth,
            live: false,
            stopped: None,
        };
        let mut r = rt.recover();
        if r.is_ok() && !planted!("nv-replay/outbox-not-drained-at-open") {
            r = match &mut rt.outlet {
                // Nobody is there to whom the messages could be told.
                None => {
                    rt.table.mark_outbox(found.committed, true);
                    Ok(())
                }
                Some(o) => rt
                    .table
                    .drain(found.committed, &mut |m| o.send(m))
                    .map_err(OpenError::Damaged),
            };
        }
        if let (Ok(()), Some(n)) = (&r, keep) {
            r = rt.begin_again(n, found.committed, options.version);
        }
        match r {
            Ok(()) => {
                rt.check_live();
                Ok(rt)
            }
            Err(e) => refuse(e, rt.table),
        }
    }

    /// What is looked at before anything is done.
    fn recover(&mut self) -> Result<(), OpenError> {
        if self.pool.seq_max() != self.table.geo.seq_max {
            return Err(OpenError::Config(Setting::PoolSeqBits));
        }
        if planted!("nv-replay/reclaim-before-replay") {
            self.pool.reclaim();
        }
        Ok(())
    }

    /// A new run of the program behind the first `n` records.
    #[cold]
    #[inline(never)]
    fn begin_again(&mut self, n: u16, committed: u32, version: u16) -> Result<(), OpenError> {
        self.keep(n, committed, version).map_err(OpenError::Keep)?;
        if planted!("nv-replay/kept-without-a-walk") {
            return Ok(());
        }
        // Empty transactions have run: the pool is walked anew, for the handles that the records hold and what nobody does.
        self.pool.walk().map_err(OpenError::Pool)
    }

    /// Begins a new run of the program behind the first `n` records of this one, which are copied to the other half.
    ///
    /// **Power loss**: the old run, whole, or the new one with its records. **Cost**: the records, and one store.
    fn keep(&mut self, n: u16, committed: u32, version: u16) -> Result<(), Error> {
        let (mut old, geo) = (self.cur, self.table.geo);
        let counter = old.counter.wrapping_add(1);
        let start = geo.next(committed);
        let mut f = old;
        f.swap();
        Table::<M>::empty(&mut f, start, counter);
        // What is there does not count before the start word.
        self.pass_number()?;
        for _ in 0..n {
            self.table
                .copy_record(&mut old, &mut f)
                .ok_or(Error::Other)?;
            self.pass_number()?;
        }
        if f.end < f.heads {
            self.table.store(f.end, 0);
        }
        self.table.mark_outbox(f.seq, false);
        self.table.put_start(&f, start, Some(version));
        (self.cur, self.depth) = (f, 0);
        Ok(())
    }

    /// Whether the program has passed all that is recorded.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The end of the replay, once: handles that nobody holds are reclaimed, and the outside is told.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_live(&mut self) {
        let f = &self.cur;
        let early = planted!("nv-replay/live-one-record-early") && f.at + Table::<M>::UNIT >= f.end;
        let here = self.level == self.depth && (!f.replaying() || early);
        if !here || self.live {
            return;
        }
        self.live = true;
        self.pool.reclaim();
        if let Some(o) = &mut self.outlet {
            o.live()
        }
    }

    /// Whether anything may be done at all.
    pub(crate) fn going(&self) -> Result<(), Error> {
        match self.stopped {
            Some(e) if !planted!("nv-replay/diverged-goes-on") => Err(e),
            _ => Ok(()),
        }
    }

    /// Nothing is done any more.
    pub(crate) fn stop(&mut self, e: Error) {
        self.stopped.get_or_insert(e);
        self.cur.end = self.cur.at;
    }

    /// The program has left its record: nothing is done any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn diverged(&mut self, what: What) -> Error {
        let e = Error::Diverged(Divergence {
            depth: self.level as u8,
            record: Table::<M>::slot(&self.cur, self.cur.at) as u16,
            what,
        });
        self.stop(e);
        e
    }

    /// Ends the use of the region, and counts what the pool holds. Objects that are in the program's hands, or held by a
    /// record, count as unreachable.
    ///
    /// **Power loss**: nothing changes but scratch. **Errors**: what is reachable is damaged.
    pub fn audit(mut self) -> Result<(pmem_tx::Audit, Region<'m, M>), Refused<'m, M>> {
        match self.pool.audit() {
            Ok(a) => Ok((a, self.close())),
            Err(e) => refuse(OpenError::Pool(e), self.table),
        }
    }

    /// Ends the use of the region. Nothing needs to be written.
    pub fn close(self) -> Region<'m, M> {
        // The pool ends here, with the part of it.
        self.table.region
    }
}

impl Found {
    /// Whether the first `n` records can be kept. A loop that is running is the last record, and cannot.
    fn may_keep(&self, n: u16) -> Result<(), OpenError> {
        let whole = self.records - u32::from(self.depth > 0);
        if u32::from(n) > whole {
            return Err(OpenError::NoSuchRecord {
                records: whole as u16,
            });
        }
        Ok(())
    }
}

fn refuse<T, M>(error: OpenError, table: Table<'_, M>) -> Result<T, Refused<'_, M>> {
    Err(Refused {
        error,
        region: table.region,
    })
}

// Kept here: the copy is part of opening.
impl<'m, M: Model> Table<'m, M> {
    /// The region behind the table, for the pool. Called once.
    ///
    /// **Errors**: there is none, or the records are about a pool that is blank.
    fn rest(&self, found: &Found) -> Result<Region<'m, M>, OpenError> {
        let start = self.region.base().wrapping_add(self.geo.len);
        let end = self.region.base().wrapping_add(self.region.len());
        // SAFETY: a part of the table's region, and initialised as that is; the table never leaves its own part (invariant
        // "Inside the table") and gives its region back only when the pool is gone.
        let rest = unsafe { Region::from_raw(start, end) }.map_err(|_| OpenError::TooSmall {
            needed: self.geo.len,
        })?;
        if !found.empty() {
            let kind = Superblock {
                kind: *b"POOL",
                version: 0,
                fingerprint: 0,
                params: [0; 8],
            };
            if let State::Blank | State::Formatting = superblock::probe(&rest, &kind) {
                return Err(OpenError::PoolLost);
            }
        }
        Ok(rest)
    }

    /// Copies the next record of `old` to the end of `f`, under the next number. Nothing of it counts yet.
    fn copy_record(&self, old: &mut Frame, f: &mut Frame) -> Option<()> {
        let h = self.record(old.at, old.body, old.body_end)?;
        let (seq, total) = (self.geo.next(f.seq), h.total() as usize * Self::UNIT);
        for i in (0..total).step_by(Self::UNIT) {
            self.store(f.body_end + i, self.load(old.body + i));
        }
        if h.kind == Kind::LoopDone {
            // The numbers of the loop are not used again: the record's own is the one reached.
            self.store(f.body_end + h.extra as usize * Self::UNIT, seq);
        }
        let header = self.load(old.at);
        self.store(f.end, Self::renumber(header, seq));
        old.at += Self::UNIT;
        old.body += total;
        f.end += Self::UNIT;
        f.body_end += total;
        f.seq = seq;
        Some(())
    }
}
