//! Opening: the table first, whose last record says which transaction is committed, then the pool.

use crate::error::{Divergence, Error, Mismatch, OpenError, OpenFailure};
use crate::execute::RecordShape;
use crate::header::CallKind;
use crate::layout::{self, Config};
use crate::outbox::Outlet;
use crate::recovery::{self, ScanResult};
use crate::step::InOneThread;
use crate::table::{Cursor, State, Table};
use core::cell::Cell;
use core::mem::MaybeUninit;
use nvmem::{InOrder32, Model, Persist, Region, Superblock, planted, superblock};
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
// What is used most comes first, where short instructions reach it.
#[repr(C)]
pub struct Replay<'m, R: Persist, M = InOrder32> {
    pub(crate) table: Table<'m, M>,
    /// Where the program is; nowhere if nothing may be done any more.
    pub(crate) cursor: Cursor,
    pub(crate) outlet: Option<&'m mut dyn Outlet>,
    pub(crate) live: bool,
    /// What is said when there is no room: [`Error::TableFull`], or why nothing is done any more.
    pub(crate) no_room_error: Error,
    pub(crate) divergence: Option<Divergence>,
    /// The address of the innermost [`Loop`](crate::each::Loop) that runs; 0 outside of loops.
    pub(crate) innermost_loop: usize,
    pub(crate) pool: Pool<'m, R, M>,
}

// SAFETY: invariant "In one thread": the bound never holds, for the outlet may belong to a thread.
unsafe impl<R: Persist, M> Send for Replay<'_, R, M> where Self: InOneThread {}
// SAFETY: invariant "In one thread": the bound never holds.
unsafe impl<R: Persist, M> Sync for Replay<'_, R, M> where Self: InOneThread {}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Opens the program's memory in `region`: formats a blank one, with what `init` gives for the pool, and recovers a used one.
    ///
    /// What the last committed step has sent and no mark says is drained. Works on any bytes whatever. **Power loss**: a
    /// format begins again, a recovery goes on. **Cost**: reads the headers that count, and what [`Pool::open`] says.
    /// **Errors**: [`OpenError`], with the region back.
    #[inline(always)]
    pub fn open<F>(
        region: Region<'m, M>,
        options: Options<'m>,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let mut place = MaybeUninit::uninit();
        Self::open_in(&mut place, region, options, init)?;
        // SAFETY: invariant "Open in its place": `open_in` has written every field, and nobody else has the place.
        Ok(unsafe { place.assume_init() })
    }

    /// Like [`Replay::open`], in a place where it stays: in a small program the move of some 190 bytes may be the only call of
    /// `memcpy`, which takes more code than all of the replaying.
    #[inline(always)]
    pub fn open_in<'p, F>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        options: Options<'m>,
        init: F,
    ) -> Result<&'p mut Self, OpenFailure<'m, M>>
    where
        F: for<'a> FnOnce(&Tx<'a, M>) -> Result<R::At<'a>, pmem_tx::Error>,
    {
        // The largest part is opened where it stays; the others are small.
        let at = place.as_mut_ptr();
        // SAFETY: invariant "Open in its place": a field of the place, which is borrowed mutably, and which nothing is read from before
        // it is written.
        let pool = unsafe { &mut *(&raw mut (*at).pool).cast::<MaybeUninit<Pool<'m, R, M>>>() };
        let Options {
            table: config,
            pool: pool_config,
            version,
            update,
            start_over,
            mut outlet,
        } = options;
        let fingerprint = nvmem::fingerprint::<R>();
        let mut sb = layout::superblock::<M>(&config, pool_config, region.len(), fingerprint);
        let (geo, blank) = match recovery::read_geometry(&region, &mut sb) {
            Ok(read) => read,
            Err(error) => return Err(OpenFailure { error, region }),
        };
        let mut table = Table::new(region, geo);
        // The pool's values may have padding, whatever becomes of this.
        table.region.mark_values();
        let pool_region = table.pool_region();
        let start = || {
            // Called when the pool's part of the superblock has been looked at, too.
            let resolve = || {
                if blank {
                    superblock::begin(&mut table.region, &sb);
                    table.format(version);
                }
                let found = (table.scan(&mut |_, _| {})).map_err(OpenError::Damaged)?;
                let recorded = found.run.version::<M>();
                let other_version =
                    recorded != version && !planted!("nv-replay/version-not-compared");
                // What a program does not ask for is not part of it: this is inlined where the options are known.
                let keep = match update {
                    _ if start_over => Some(0),
                    _ if !other_version => None,
                    Update::Refuse => return Err(OpenError::OtherVersion { recorded }),
                    Update::StartOver => Some(0),
                    Update::Keep(n) => {
                        // A loop that is running cannot be kept.
                        let records = table.records_before_loop();
                        if n > records {
                            return Err(OpenError::NoSuchRecord { records });
                        }
                        Some(n)
                    }
                };
                Ok((found.committed, (found, keep)))
            };
            let (pool, (found, keep)) =
                Pool::mount_part(pool, pool_region, &sb.params, !blank, resolve, init)?;
            if blank {
                // The pool, too, is whole.
                superblock::replace(&mut table.region, &sb);
            }
            if planted!("nv-replay/reclaim-before-replay") {
                pool.reclaim();
            }
            if !planted!("nv-replay/outbox-not-drained-at-open") {
                match &mut outlet {
                    // Nobody is there to whom the messages could be told.
                    None => table.retire_outbox(found.committed, true),
                    Some(o) => table
                        .drain(found.committed, &mut |m| o.send(m))
                        .map_err(OpenError::Damaged)?,
                }
            }
            Ok((found, keep))
        };
        let started: Result<_, OpenError> = start();
        let (found, keep) = match started {
            Ok(s) => s,
            Err(error) => {
                return Err(OpenFailure {
                    error: error.beside(geo.len - Superblock::BYTES),
                    region: table.region,
                });
            }
        };
        // SAFETY: invariant "Open in its place": the pool is there, and these are all of the other fields.
        let rt = unsafe {
            (&raw mut (*at).cursor).write(found.cursor);
            (&raw mut (*at).table).write(table);
            (&raw mut (*at).outlet).write(outlet);
            (&raw mut (*at).live).write(false);
            (&raw mut (*at).no_room_error).write(Error::TableFull);
            (&raw mut (*at).divergence).write(None);
            (&raw mut (*at).innermost_loop).write(0);
            place.assume_init_mut()
        };
        if let Some(n) = keep
            && let Err(error) = rt.restart(n, &found, version)
        {
            let region = core::mem::replace(&mut rt.table.region, Region::new(&mut []));
            return Err(OpenFailure { error, region });
        }
        rt.check_live();
        Ok(rt)
    }

    /// A new run of the program behind the first `n` records.
    #[cold]
    #[inline(never)]
    fn restart(&mut self, n: u16, found: &ScanResult, version: u16) -> Result<(), OpenError> {
        self.copy_records(n, found, version)
            .map_err(OpenError::Keep)?;
        if planted!("nv-replay/records-copied-without-pool-walk") {
            return Ok(());
        }
        // Empty transactions have run: the pool is walked anew, for the handles that the records hold and what nobody does.
        self.pool.walk().map_err(OpenError::Pool)
    }

    /// Begins a new run of the program behind the first `n` records of this one, which are copied to the other area.
    ///
    /// **Power loss**: the old run, whole, or the new one with its records. **Cost**: the records, and two or three stores.
    fn copy_records(&mut self, n: u16, found: &ScanResult, version: u16) -> Result<(), Error> {
        let geo = self.table.geo;
        let mut seq = geo.next(found.committed);
        let second_area = 1 << (Table::<M>::COUNTER_BITS - 1);
        let counter =
            u32::from(version) << Table::<M>::COUNTER_BITS | !found.run.counter & second_area;
        // The number of the commit before, of which this store is the other half.
        let start_bits = State::start_bits(seq, true);
        let (mut old, new_area_end) = (self.cursor, self.table.other_area_end());
        // The program does not come to these records any more.
        self.cursor.at = self.cursor.end;
        let mut copy = self.table.empty_area(new_area_end);
        // What is there does not count before the start word.
        self.commit(0, &RecordShape::NONE, None, None, None)?;
        for _ in 0..n {
            seq = geo.next(seq);
            self.table
                .copy_record(&mut old, &mut copy, seq)
                .ok_or(Error::Other)?;
            self.commit(0, &RecordShape::NONE, None, None, None)?;
        }
        if copy.at >= copy.payload && !planted!("nv-replay/stale-run-not-cleared") {
            self.table.store(copy.at, 0);
        }
        self.table.write_state(geo.run_state(), start_bits, counter);
        self.table.area_end = new_area_end;
        self.cursor = Cursor {
            end: copy.at,
            ..self.table.empty_area(new_area_end)
        };
        Ok(())
    }

    /// Where the program has left the way that is recorded, after [`Error::Diverged`].
    pub fn divergence(&self) -> Option<Divergence> {
        self.divergence
    }

    /// Whether the program has passed all that is recorded.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether there are records that the program has not passed.
    #[inline(always)]
    pub(crate) fn replaying(&self) -> bool {
        self.cursor.at != self.cursor.end
    }

    /// The end of the replay, once.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_live(&mut self) {
        let mut f = self.cursor;
        if planted!("nv-replay/live-one-record-early") && f.at <= f.end + Table::<M>::UNIT {
            f.at = f.end;
        }
        // Handles that nobody holds are reclaimed, and the outside is told.
        if !self.live && f.at == f.end {
            self.live = true;
            self.pool.reclaim();
            let guard = StopOnUnwind {
                when: &Cell::new(true),
                no_room_error: &mut self.no_room_error,
                cursor: &mut self.cursor,
                area_end: self.table.area_end,
            };
            if let Some(o) = &mut self.outlet {
                o.live()
            }
            guard.disarm();
        }
    }

    /// Whether anything may be done at all.
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        match self.no_room_error {
            Error::TableFull => Ok(()),
            e => Err(e),
        }
    }

    /// Nothing is done any more: no record is left to be passed, and there is no room for one.
    #[cold]
    #[inline(never)]
    pub(crate) fn stop(&mut self, e: Error) {
        if planted!("nv-replay/diverged-goes-on") {
            self.cursor.end = self.cursor.at;
            return;
        }
        halt(
            &mut self.no_room_error,
            &mut self.cursor,
            self.table.area_end,
            e,
        )
    }

    /// The program has left its record: nothing is done any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn diverged(&mut self, mismatch: Mismatch) -> Error {
        self.divergence = Some(Divergence {
            record: self.table.record_index(self.cursor.at),
            mismatch,
        });
        self.stop(Error::Diverged);
        Error::Diverged
    }

    /// Ends the use of the region, and counts what the pool holds. Objects that are in the program's hands, or held by a
    /// record, count as unreachable.
    ///
    /// **Power loss**: nothing changes but scratch. **Errors**: what is reachable is damaged.
    pub fn audit(mut self) -> Result<(pmem_tx::Audit, Region<'m, M>), OpenFailure<'m, M>> {
        match self.pool.audit() {
            Ok(a) => Ok((a, self.close())),
            Err(e) => Err(OpenFailure {
                error: OpenError::Pool(e),
                region: self.close(),
            }),
        }
    }

    /// Ends the use of the region. Nothing needs to be written.
    pub fn close(self) -> Region<'m, M> {
        // The pool ends here, with the part of it.
        self.table.region
    }
}

/// No record is left to be passed in a table that ends at `top`, and there is no room for one: `e` is why.
fn halt(no_room_error: &mut Error, cursor: &mut Cursor, area_end: usize, e: Error) {
    if *no_room_error == Error::TableFull {
        *no_room_error = e;
    }
    *cursor = Cursor {
        payload: area_end,
        ..Cursor::NONE
    };
}

/// Stops the runtime if the program's own code unwinds `when` something is committed: what a committed step has sent must leave
/// before anything follows, and does so when the table is opened again.
pub(crate) struct StopOnUnwind<'a> {
    pub when: &'a Cell<bool>,
    pub no_room_error: &'a mut Error,
    pub cursor: &'a mut Cursor,
    pub area_end: usize,
}
impl StopOnUnwind<'_> {
    /// It has come back.
    #[inline(always)]
    pub fn disarm(self) {
        core::mem::forget(self)
    }
}
impl Drop for StopOnUnwind<'_> {
    fn drop(&mut self) {
        if self.when.get() && !planted!("nv-replay/goes-on-after-unwinding") {
            halt(
                self.no_room_error,
                self.cursor,
                self.area_end,
                Error::LoopInterrupted,
            )
        }
    }
}

// KeepResult here: the copy is part of opening.
impl<'m, M: Model> Table<'m, M> {
    /// The region behind the table, for the pool, which leaves alone so many bytes of it as a superblock would take. Called once.
    fn pool_region(&self) -> Region<'m, M> {
        // SAFETY: invariants "Sole region" and "LoopGuard the table": a multiple of 8 and inside, as was seen when the table was read; the
        // table never leaves its own part, and gives its region back only when the pool is gone.
        unsafe { self.region.tail(self.geo.len - Superblock::BYTES) }
    }

    /// Copies the next record of `old` to the end of `f`, under the number `seq`. Nothing of it counts yet.
    fn copy_record(&self, old: &mut Cursor, f: &mut Cursor, seq: u32) -> Option<()> {
        let h = self.read_record(old.at, old.payload)?;
        for i in (0..h.end - old.payload).step_by(Self::UNIT) {
            self.store(f.payload + i, self.load(old.payload + i));
        }
        if h.kind == CallKind::Loop {
            // The numbers of the loop are not used again: the record's own is the one reached.
            let state = self.state(h.content);
            let to = f.payload + (h.content - old.payload);
            self.write_state(to, State::start_bits(seq, state.done), state.counter);
        }
        let header = self.load(old.at);
        self.store(f.at, Self::with_seq(header, seq));
        f.payload += h.end - old.payload;
        f.at -= Self::UNIT;
        old.payload = h.end;
        old.at -= Self::UNIT;
        Some(())
    }
}
