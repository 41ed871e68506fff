//! Opening: the table first, whose last record says which transaction is committed, then the pool.

use crate::error::{Divergence, Error, OpenError, Refused, What};
use crate::header::{Head, Kind};
use crate::layout::{Config, Geometry, MAX_LEVELS};
use crate::outbox::{Message, Outlet};
use crate::recovery::{Found, probe};
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
    pub(crate) table: Table<'m, M>,
    pub(crate) pool: Pool<'m, R, M>,
    pub(crate) outlet: Option<&'m mut dyn Outlet>,
    /// Of each level; those down to `depth` are running.
    pub(crate) frames: [Frame; MAX_LEVELS],
    /// The innermost loop that the program has entered.
    pub(crate) level: usize,
    /// The innermost loop on the medium.
    pub(crate) depth: usize,
    pub(crate) version: u16,
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
    pub fn open<F>(
        region: Region<'m, M>,
        options: Options<'m>,
        init: F,
    ) -> Result<Self, Refused<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let (config, format) = match probe(&region, &options.table) {
            Ok(x) => x,
            Err(e) => return refuse(e.into(), region),
        };
        let at = config.table_bytes::<M>();
        let (first, second) = match region.split_at(at) {
            Ok(x) => x,
            Err((_, region)) => {
                let e = match Geometry::new::<M>(&config) {
                    Err(why) => OpenError::Config(why),
                    Ok(_) => OpenError::TooSmall { needed: at },
                };
                return refuse(e, region);
            }
        };
        if at == 0 {
            let why = Geometry::new::<M>(&config).err();
            return refuse(
                OpenError::Config(why.unwrap_or("the table has no bytes")),
                join(first, second),
            );
        }
        let (table, found) = match Table::open(first, &config, format, options.version) {
            Ok(x) => x,
            Err((e, first)) => return refuse(e.into(), join(first, second)),
        };
        if let Err(e) = judge(&table, &found, &second, &options) {
            return refuse(e, join(table.region, second));
        }
        let mut divided = options
            .pool
            .unwrap_or_else(|| pmem_tx::Config::for_len(second.len()));
        divided.seq_bits = config.seq_bits;
        let committed = found.committed();
        match Pool::<R, M>::open_resolved(second, &divided, |_| committed, init) {
            Err(e) => refuse(OpenError::Pool(e.error), join(table.region, e.region)),
            Ok(pool) if pool.seq_max() != table.geo.seq_max => refuse(
                OpenError::Config("the pool counts with another width"),
                join(table.region, pool.close()),
            ),
            Ok(pool) => Self::begin(table, pool, &divided, found, options),
        }
    }

    fn begin(
        table: Table<'m, M>,
        pool: Pool<'m, R, M>,
        divided: &pmem_tx::Config,
        found: Found,
        options: Options<'m>,
    ) -> Result<Self, Refused<'m, M>> {
        let recorded = table.version(found.frames[0].half);
        let mut rt = Replay {
            table,
            pool,
            outlet: options.outlet,
            frames: found.frames,
            level: 0,
            depth: found.depth,
            version: options.version,
            live: false,
            stopped: None,
        };
        if !planted!("nv-replay/outbox-not-drained-at-open")
            && let Err(d) = rt.drain(found.committed())
        {
            return refuse(OpenError::Damaged(d), rt.close());
        }
        if planted!("nv-replay/reclaim-before-replay") {
            rt.pool.reclaim();
        }
        let keep = match options.update {
            _ if options.start_over => Some(0),
            Update::Keep(n) if recorded != options.version => Some(n),
            _ if recorded != options.version => Some(0),
            _ => None,
        };
        if let Some(n) = keep {
            if let Err(e) = rt.keep(n.into()) {
                return refuse(OpenError::Keep(e), rt.close());
            }
            if !planted!("nv-replay/kept-without-a-walk") {
                rt = rt.walk_again(divided)?;
            }
        }
        rt.check_live();
        Ok(rt)
    }

    /// Empty transactions have run: the pool is walked anew, for the handles that the records hold and what nobody does.
    fn walk_again(self, config: &pmem_tx::Config) -> Result<Self, Refused<'m, M>> {
        // The pool is formatted, or its records would not have been there.
        fn never<'p, R: Persist, M>(_: &Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error> {
            Err(pmem_tx::Error::CallersCommitWord)
        }
        let (committed, pool) = (self.frames[0].seq, self.pool.close());
        match Pool::<R, M>::open_resolved(pool, config, |_| committed, never::<R, M>) {
            Ok(pool) => Ok(Replay { pool, ..self }),
            Err(e) => refuse(OpenError::Pool(e.error), join(self.table.region, e.region)),
        }
    }

    /// Begins a new run of the program behind the first `n` records of this one, which are copied to the other half.
    ///
    /// **Power loss**: the old run, whole, or the new one with its records. **Cost**: the records, and one store.
    fn keep(&mut self, n: u32) -> Result<(), Error> {
        let old = self.frames[0];
        let mut f = Frame {
            half: 1 - old.half,
            // The innermost frame has the last number.
            seq: self.frames[self.depth].seq,
            ..Frame::default()
        };
        // What is there does not count before the start word.
        f.seq = self.table.geo.next(f.seq);
        let (start, mut from) = (f.seq, 0);
        self.pass_number()?;
        for slot in 0..n {
            let h = self
                .table
                .record(0, old.half, slot, from)
                .ok_or(Error::Other)?;
            let seq = self.table.geo.next(f.seq);
            self.table
                .copy_record(old.half, slot, from, &h, &mut f, seq);
            from += h.total();
            self.pass_number()?;
        }
        self.table.clear_from(0, f.half, n);
        self.table.clear_outbox(f.seq);
        self.table
            .put_start(0, f.half, start, old.counter.wrapping_add(1), self.version);
        f.counter = old.counter.wrapping_add(1);
        self.frames[0] = f;
        self.depth = 0;
        Ok(())
    }

    /// An empty transaction: numbers are used up one by one, because the pool clears what would come round again.
    pub(crate) fn pass_number(&mut self) -> Result<(), Error> {
        let mut context = self.pool.context();
        context
            .prepare::<(), (), _>((), |_, _, ()| Ok(()))
            .map_err(|f| Error::from(f.error))?
            .committed();
        Ok(())
    }

    pub(crate) fn drain(&mut self, committed: u32) -> Result<(), crate::error::Damage> {
        let outlet = &mut self.outlet;
        self.table.drain(committed, &mut |m: &Message<'_>| {
            if let Some(o) = outlet {
                o.send(m)
            }
        })
    }

    /// Whether the program has passed all that is recorded.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The end of the replay, once: handles that nobody holds are reclaimed, and the outside is told.
    pub(crate) fn check_live(&mut self) {
        let f = &self.frames[self.level];
        let early = planted!("nv-replay/live-one-record-early") && f.next + 1 >= f.end;
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

    /// The program has left its record: nothing is done any more.
    pub(crate) fn diverged(&mut self, what: What) -> Error {
        let e = Error::Diverged(Divergence {
            depth: self.level as u8,
            record: self.frames[self.level].next as u16,
            what,
        });
        self.stopped = Some(e);
        e
    }

    /// Ends the use of the region, and counts what the pool holds. Objects that are in the program's hands, or held by a
    /// record, count as unreachable.
    ///
    /// **Power loss**: nothing changes but scratch. **Errors**: what is reachable is damaged.
    pub fn audit(mut self) -> Result<(pmem_tx::Audit, Region<'m, M>), Refused<'m, M>> {
        match self.pool.audit() {
            Ok(a) => Ok((a, self.close())),
            Err(e) => refuse(OpenError::Pool(e), self.close()),
        }
    }

    /// Ends the use of the region. Nothing needs to be written.
    pub fn close(self) -> Region<'m, M> {
        join(self.table.region, self.pool.close())
    }
}

/// Whether table and pool belong together, and the version is one to go on with. Writes nothing.
fn judge<M: Model>(
    table: &Table<'_, M>,
    found: &Found,
    pool: &Region<'_, M>,
    o: &Options<'_>,
) -> Result<(), OpenError> {
    let kind = Superblock {
        kind: *b"POOL",
        version: 0,
        fingerprint: 0,
        params: [0; 8],
    };
    let blank = matches!(
        superblock::probe(pool, &kind),
        State::Blank | State::Formatting
    );
    if blank && !found.empty() {
        return Err(OpenError::PoolLost);
    }
    let recorded = table.version(found.frames[0].half);
    let other = recorded != o.version && !planted!("nv-replay/version-not-compared");
    if !other || o.start_over {
        return Ok(());
    }
    match o.update {
        Update::Refuse => Err(OpenError::OtherVersion { recorded }),
        Update::StartOver => Ok(()),
        Update::Keep(n) => {
            // A loop that is running is the last record.
            let whole = found.frames[0].end - u32::from(found.depth > 0);
            if u32::from(n) > whole {
                return Err(OpenError::NoSuchRecord {
                    records: whole as u16,
                });
            }
            Ok(())
        }
    }
}

fn refuse<T, M>(error: OpenError, region: Region<'_, M>) -> Result<T, Refused<'_, M>> {
    Err(Refused { error, region })
}

/// The whole region of which these are the two parts.
fn join<'m, M: Model>(first: Region<'m, M>, second: Region<'m, M>) -> Region<'m, M> {
    let (start, len) = (first.base(), first.len() + second.len());
    debug_assert_eq!(start.wrapping_add(first.len()), second.base());
    // SAFETY: `open` split both from one region, whose pointer the first has; both are given up here.
    match unsafe { Region::from_raw(start, start.wrapping_add(len)) } {
        Ok(r) => r,
        // A region that was one before has length and alignment.
        Err(_) => first,
    }
}

// Kept here: the copy is part of opening.
impl<M: Model> Table<'_, M> {
    /// Copies a record to the end of `f` under a new number. Nothing of it counts yet.
    fn copy_record(&self, half: u32, slot: u32, from: u32, h: &Head, f: &mut Frame, seq: u32) {
        let header = self.load(self.geo.header(0, half, slot + 1));
        for i in 0..h.total() {
            let v = self.load(self.geo.payload(0, half, from + i));
            self.store(self.geo.payload(0, f.half, f.end_units + i), v);
        }
        if h.kind == Kind::LoopDone {
            // The numbers of the loop are not used again: the record's own is the one reached.
            let at = self.geo.payload(0, f.half, f.end_units + h.extra);
            self.store(at, seq);
        }
        self.store(
            self.geo.header(0, f.half, f.end + 1),
            self.geo.renumber(header, seq),
        );
        f.end += 1;
        f.end_units += h.total();
        f.seq = seq;
    }

    /// Clears the record behind the first `n` of a half that does not count.
    fn clear_from(&self, level: usize, half: u32, n: u32) {
        if n < self.geo.room(level).slots {
            self.store(self.geo.header(level, half, n + 1), 0);
        }
    }
}
