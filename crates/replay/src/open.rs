//! Opening: recovers the table, then the pool, then sends pending messages.
//!
//! ```text
//! Replay::open
//!    superblock ---- blank --------> write the superblock as "formatting", clear the table
//!       | valid                        |
//!       v                              v
//!    scan the records (recovery.rs): the last number n is the last committed transaction
//!       |
//!       +-- another version? refuse, start over, or keep the first records (`Options`)
//!       v
//!    open the pool with n: it rolls back an interrupted transaction with another number
//!       |
//!       v
//!    blank only: replace the superblock by the final one
//!       v
//!    send the messages of step n that are not marked as sent
//!       v
//!    start over or keep: copy the kept records to the other area, store the run's start word
//!       v
//!    replay: cursor at the first record ... cursor == end: reclaim objects without owner, "live"
//! ```
//!
//! Each step can be cut and repeated. The format ends with the final superblock. A new run begins
//! with one store of its start word; before it, the records in the other area do not count.
//!
//! Objects are reclaimed only when the program has passed all records: until then a record may
//! return a handle (invariant "Reclaim after replay").

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

/// What to do if the records belong to another version of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Update {
    /// Refuse to open: [`OpenError::OtherVersion`].
    #[default]
    Refuse,
    /// Start over without records. The pool stays as the old version left it.
    StartOver,
    /// Keep the first records, which are valid for the new version too, and continue after them. A
    /// running loop cannot be kept.
    Keep(u16),
}

/// Parameters of [`Replay::open`].
pub struct Options<'m> {
    /// The capacity of the table; used when the region is formatted.
    pub table: Config,
    /// The layout of the pool; used when the region is formatted. `None` chooses it by the size.
    /// The table sets the width of sequence numbers.
    pub pool: Option<pmem_tx::Config>,
    /// The program's version. Change it whenever you add, remove, reorder or replace steps.
    pub version: u16,
    /// What to do if the records belong to another version.
    pub update: Update,
    /// Start over even if the version is the same: after a divergence, or when a user asks for it.
    pub start_over: bool,
    /// Receives the program's messages.
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

/// A program that continues where power left off: its replay table, the pool that its steps change,
/// and its position in the table.
// The hottest fields come first, within reach of short instructions.
#[repr(C)]
pub struct Replay<'m, R: Persist, M = InOrder32> {
    pub(crate) table: Table<'m, M>,
    /// The program's position; `Cursor::NONE` with a full table once the runtime has stopped.
    pub(crate) cursor: Cursor,
    pub(crate) outlet: Option<&'m mut dyn Outlet>,
    pub(crate) live: bool,
    /// The error of a call that finds no room: [`Error::TableFull`], or the reason why the runtime
    /// has stopped.
    pub(crate) no_room_error: Error,
    pub(crate) divergence: Option<Divergence>,
    /// The address of the innermost running [`Loop`](crate::each::Loop); 0 outside of loops.
    pub(crate) innermost_loop: usize,
    pub(crate) pool: Pool<'m, R, M>,
}

// SAFETY: invariant "In one thread": the bound never holds, because the outlet may belong to a
// thread.
unsafe impl<R: Persist, M> Send for Replay<'_, R, M> where Self: InOneThread {}
// SAFETY: invariant "In one thread": the bound never holds.
unsafe impl<R: Persist, M> Sync for Replay<'_, R, M> where Self: InOneThread {}

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Opens a program's memory in `region`. Formats a blank region, with the root that `init`
    /// returns, or recovers a used one.
    ///
    /// Sends the messages of the last committed step that are not yet marked as sent. Accepts any
    /// bytes: a damaged image is an error, never undefined behaviour. **Power loss**: the next open
    /// restarts a format and continues a recovery. **Cost**: reads the headers of the records that
    /// count, and the cost of [`Pool::open`]. **Errors**: [`OpenError`], with the region.
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
        // SAFETY: invariant "Open in its place": `open_in` has written every field, and nothing
        // else refers to `place`.
        Ok(unsafe { place.assume_init() })
    }

    /// Like [`Replay::open`], but constructs the runtime in `place`. In a small program the move of
    /// some 190 bytes may be the only call of `memcpy`, which takes more code than the whole
    /// replay.
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
        // The pool, the largest field, is opened in place; the other fields are small.
        let at = place.as_mut_ptr();
        // SAFETY: invariant "Open in its place": a field of `place`, which is borrowed mutably.
        // Nothing reads it before it is written.
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
        // The pool's values may have padding, even if this open fails later.
        table.region.mark_values();
        let pool_region = table.pool_region();
        let start = || {
            // Called after the pool has checked its parameters of the superblock.
            let resolve = || {
                if blank {
                    superblock::begin(&mut table.region, &sb);
                    table.format(version);
                }
                let found = (table.scan(&mut |_, _| {})).map_err(OpenError::Damaged)?;
                let recorded = found.run.version::<M>();
                let other_version =
                    recorded != version && !planted!("nv-replay/version-not-compared");
                // Inlined where the options are constants, so unused alternatives link no code.
                let keep = match update {
                    _ if start_over => Some(0),
                    _ if !other_version => None,
                    Update::Refuse => return Err(OpenError::OtherVersion { recorded }),
                    Update::StartOver => Some(0),
                    Update::Keep(n) => {
                        // A running loop cannot be kept.
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
                Pool::mount_embedded(pool, pool_region, &sb.params, !blank, resolve, init)?;
            if blank {
                // The pool is formatted too.
                superblock::replace(&mut table.region, &sb);
            }
            if planted!("nv-replay/reclaim-before-replay") {
                pool.reclaim();
            }
            if !planted!("nv-replay/outbox-not-drained-at-open") {
                match &mut outlet {
                    // Without an outlet the messages are dropped.
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
        // SAFETY: invariant "Open in its place": the pool is written, and these are all other
        // fields.
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

    /// Begins a new run behind the first `n` records.
    #[cold]
    #[inline(never)]
    fn restart(&mut self, n: u16, found: &ScanResult, version: u16) -> Result<(), OpenError> {
        self.copy_records(n, found, version)
            .map_err(OpenError::Keep)?;
        if planted!("nv-replay/records-copied-without-pool-walk") {
            return Ok(());
        }
        // Empty transactions have run since the pool was opened. Walk it again to find the handles
        // in the kept records and the objects without an owner.
        self.pool.walk().map_err(OpenError::Pool)
    }

    /// Copies the first `n` records to the other area and begins a new run of the program behind
    /// them.
    ///
    /// **Power loss**: the old run, whole, or the new one with its records. **Cost**: the copied
    /// records, and two or three stores.
    fn copy_records(&mut self, n: u16, found: &ScanResult, version: u16) -> Result<(), Error> {
        let geo = self.table.geo;
        let mut seq = geo.next(found.committed);
        let second_area = 1 << (Table::<M>::COUNTER_BITS - 1);
        let counter =
            u32::from(version) << Table::<M>::COUNTER_BITS | !found.run.counter & second_area;
        // The start word carries the number of the previous commit: the next record must carry the
        // one after it.
        let start_bits = State::start_bits(seq, true);
        let (mut old, new_area_end) = (self.cursor, self.table.other_area_end());
        // The old records are not replayed.
        self.cursor.at = self.cursor.end;
        let mut copy = self.table.empty_area(new_area_end);
        // Records in the other area do not count before the run's start word refers to it.
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

    /// The first difference between program and records, after [`Error::Diverged`].
    pub fn divergence(&self) -> Option<Divergence> {
        self.divergence
    }

    /// Whether the program has passed all records, and now executes steps for the first time.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Whether records are left that the program has not passed.
    #[inline(always)]
    pub(crate) fn replaying(&self) -> bool {
        self.cursor.at != self.cursor.end
    }

    /// Ends the replay, once, when the program has passed all records.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_live(&mut self) {
        let mut f = self.cursor;
        if planted!("nv-replay/live-one-record-early") && f.at <= f.end + Table::<M>::UNIT {
            f.at = f.end;
        }
        // Reclaim objects without an owner, and notify the outlet.
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

    /// An error if the runtime has stopped.
    pub(crate) fn check_running(&self) -> Result<(), Error> {
        match self.no_room_error {
            Error::TableFull => Ok(()),
            e => Err(e),
        }
    }

    /// Stops the runtime with an error: no record is left to pass and no room for a new one.
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

    /// The program differs from its records: stops the runtime.
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

    /// Closes the runtime and counts the pool's objects. Objects held by the program or by a record
    /// count as unreachable.
    ///
    /// **Power loss**: changes only scratch words. **Errors**: reachable data is damaged.
    pub fn audit(mut self) -> Result<(pmem_tx::Audit, Region<'m, M>), OpenFailure<'m, M>> {
        match self.pool.audit() {
            Ok(a) => Ok((a, self.close())),
            Err(e) => Err(OpenFailure {
                error: OpenError::Pool(e),
                region: self.close(),
            }),
        }
    }

    /// Closes the runtime and returns the region. Writes nothing.
    pub fn close(self) -> Region<'m, M> {
        // Dropping the rest drops the pool, which has the other part of the region.
        self.table.region
    }
}

/// Moves the cursor to a table without records and without room; calls fail with `e` from now on.
fn halt(no_room_error: &mut Error, cursor: &mut Cursor, area_end: usize, e: Error) {
    if *no_room_error == Error::TableFull {
        *no_room_error = e;
    }
    *cursor = Cursor {
        payload: area_end,
        ..Cursor::NONE
    };
}

/// Stops the runtime if user code unwinds after a commit (`when`). Messages of the committed step
/// must be sent before anything else happens; the next open sends them.
pub(crate) struct StopOnUnwind<'a> {
    pub when: &'a Cell<bool>,
    pub no_room_error: &'a mut Error,
    pub cursor: &'a mut Cursor,
    pub area_end: usize,
}
impl StopOnUnwind<'_> {
    /// The user code has returned.
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

// In this file because only opening copies records.
impl<'m, M: Model> Table<'m, M> {
    /// The region for the pool: behind the table, less the bytes of a superblock, which the pool
    /// leaves unused. Called once.
    fn pool_region(&self) -> Region<'m, M> {
        // SAFETY: invariants "Sole region" and "Inside the table": the offset is a multiple of 8
        // and inside the region, as `read_geometry` has checked. The table uses only the bytes
        // before it, and returns its region only when the pool is gone.
        unsafe { self.region.tail(self.geo.len - Superblock::BYTES) }
    }

    /// Copies the next record of `old` to the end of `f`, with the number `seq`. The copy does not
    /// count yet.
    fn copy_record(&self, old: &mut Cursor, f: &mut Cursor, seq: u32) -> Option<()> {
        let h = self.read_record(old.at, old.payload)?;
        for i in (0..h.end - old.payload).step_by(Self::UNIT) {
            self.store(f.payload + i, self.load(old.payload + i));
        }
        if h.kind == CallKind::Loop {
            // The loop's own numbers are not needed again: its start word gets the number of the
            // copy.
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
