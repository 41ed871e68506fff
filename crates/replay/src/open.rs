//! Opening: recovers the table, then the pool, then sends pending messages.
//!
//! ```text
//! Replay::open
//!    superblock ---- blank --------> write the superblock as "formatting", clear the table
//!       | valid                        |
//!       v                              v
//!    scan the records (see below): the last number n is the last committed transaction
//!       |
//!       +-- another version? refuse, start over, or keep the first records (`Options`)
//!       v
//!    open the pool with n: it rolls back an interrupted transaction with another number
//!       |
//!       v
//!    blank only: replace the superblock by the final one
//!       v
//!    over a mirror: save what was found, if that is due
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
//!
//! # Recovery
//!
//! Finds the records that count, and refuses states that no power cut leaves.
//!
//! ```text
//! run's start word: number 41, area 0
//!       |
//!       v   expected
//! header 0: 42  ok -> payload 0, its length from the header
//! header 1: 43  ok -> a running loop; continue with the number in its start word: 57
//! header 2: 58  ok
//! header 3: 45  not 59 -> stop. The last committed number is 58; header 3 is free.
//! ```
//!
//! One forward pass, one comparison per record. A record counts if and only if all records before
//! it count and its header holds the next number (invariant "Place decides"). Recovery never asks
//! which of two numbers is newer, so numbers may wrap. The scan writes nothing: after
//! a cut during recovery, the next open reads the same.
//!
//! Safe on any bytes: each record must lie inside of its area, headers above payloads, and each
//! record moves the header position down, so the scan ends. A record that counts but has no valid
//! form is [`Damage`]: a header is stored after its payload, so no power cut leaves it.

use crate::access::{OwnsPool, PoolAccess};
use crate::call::InOneThread;
use crate::error::{ConfigItem, Damage, Divergence, Error, Mismatch, OpenError, OpenFailure};
use crate::outbox::{AnyOutlet, NotNow, OutboxAction, Outlet, Queue};
use crate::signature::Twins;
use crate::table::{
    self, CallKind, Config, Cursor, Geometry, OUTBOX, RecordView, State, Table, param,
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nvmem::superblock::{self, Difference, Superblock, View};
use nvmem::{InOrder32, LayoutMismatch, Model, NumberOwner, Persist, Region, planted};
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
    /// Which program the records belong to. They are replayed by the same program only: by one
    /// that makes the same calls in the same order, whose steps mean the same. Where its lines are,
    /// and how it was compiled, does not matter. So change the version when you add, remove, move
    /// or replace a step, a loop or an input; the function [`version`](crate::version) derives it
    /// from a list of names. A change that the calls show (their kinds, types, names, arguments) is
    /// found without a new version, as [`Error::Diverged`]; a step whose code does something else
    /// is not.
    pub version: u16,
    /// What to do if the records belong to another version.
    pub update: Update,
    /// Start over even if the version is the same: after a divergence, or when a user asks for it.
    pub start_over: bool,
    /// Receives the program's messages. Not used by [`Replay::open_with`], where the environment
    /// does.
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
pub struct Replay<'m, R: Persist, M = InOrder32, E = AnyOutlet<'m>, P = Pool<'m, R, M>> {
    pub(crate) table: Table<'m, M>,
    /// The program's position; `Cursor::NONE` with a full table once the runtime has stopped.
    pub(crate) cursor: Cursor,
    pub(crate) live: bool,
    /// The error of a call that finds no room: [`Error::TableFull`], or the reason why the runtime
    /// has stopped.
    pub(crate) no_room_error: Error,
    pub(crate) divergence: Option<Divergence>,
    pub(crate) twins: Twins,
    /// The address of the innermost running [`Loop`](crate::each::Loop); 0 outside of loops.
    pub(crate) innermost_loop: usize,
    pub(crate) pool: P,
    pub(crate) env: E,
    /// How many of the messages that wait were sent in this boot.
    pub(crate) sent: u32,
    /// The messages of the step that runs.
    pub(crate) queue: Queue<M>,
    /// Sends the messages that wait; `None` if there are none.
    pub(crate) resend: Option<OutboxAction<M>>,
    pub(crate) _root: PhantomData<fn(R) -> R>,
}

/// A runtime for code that does not use its root: see [`Replay::untyped`].
pub(crate) type Untyped<'m, R, M, E, P> =
    Replay<'m, <P as PoolAccess<R, M>>::AnyRoot, M, E, <P as PoolAccess<R, M>>::Untyped>;

// SAFETY: invariant "In one thread": the bound never holds. The automatic `Send` stays: the region
// and the pool may move to another thread, and a runtime does if its environment may.
unsafe impl<R: Persist, M, E, P> Sync for Replay<'_, R, M, E, P> where Self: InOneThread {}

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
        mut options: Options<'m>,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let outlet = options.outlet.take();
        Self::open_with(region, options, outlet, init)
    }

    /// Like [`Replay::open`], but constructs the runtime in `place`. In a small program the move of
    /// some 210 bytes may be the only call of `memcpy`, which takes more code than the whole
    /// replay. **Errors**: those of [`Replay::open`].
    #[inline(always)]
    pub fn open_in<'p, F>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        mut options: Options<'m>,
        init: F,
    ) -> Result<&'p mut Self, OpenFailure<'m, M>>
    where
        F: for<'a> FnOnce(&Tx<'a, M>) -> Result<R::At<'a>, pmem_tx::Error>,
    {
        let outlet = options.outlet.take();
        Self::open_at(place, region, options, outlet, (), init)
    }
}

// The bound on `E` is that of the function: so the compiler says how to meet it, also to a program
// that names the runtime's type before.
impl<'m, R: Persist, M: Model, E> Replay<'m, R, M, E>
where
    M::Unit: Width,
{
    /// Like [`Replay::open`], for a program with an environment: its drivers, which the program
    /// sets up at each boot. The runtime lends `env` to [inputs](Replay::input), to the bodies of
    /// loops ([`Replay::env`]) and, as the [`Outlet`], to outputs. A step does not get it. If the
    /// program sends nothing, write `impl Outlet for Drivers {}`.
    ///
    /// The environment is volatile: each boot begins with it as the program has just made it, and
    /// bypassed calls do not change it. So a program must not carry state from one call to the next
    /// in it. A `powerfail` campaign finds a program that does, because its replay makes other
    /// calls or ends with another result.
    ///
    /// **Errors**: those of [`Replay::open`]. An open that fails drops `env`; pass `&mut env` to
    /// keep it.
    #[inline(always)]
    pub fn open_with<F>(
        region: Region<'m, M>,
        options: Options<'m>,
        env: E,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        E: Outlet,
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::At<'p>, pmem_tx::Error>,
    {
        let mut place = MaybeUninit::uninit();
        Self::open_at(&mut place, region, options, env, (), init)?;
        // SAFETY: invariant "Open in its place": `open_at` has written every field, and nothing
        // else refers to `place`.
        Ok(unsafe { place.assume_init() })
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    // INVARIANT "Roots are types only": the runtimes of several threads have the same layout for
    // every root type. Code that does not use the root runs on `Replay::untyped`; so does a loop of
    // one step, which passes the root to its body by a reference. `Replay`, `Member`, `Mirrored`
    // and `Context` are `#[repr(C)]`, and their only trace of the root is a `PhantomData`; `Root`
    // is a transparent offset; `PoolAccess` promises it; sizes are compared where the program is
    // compiled.
    // Noticed by: Miri on tests/suite/threads.rs.
    /// The same runtime, for what does not use its root: a program whose threads have roots of
    /// several types contains what is called on it once.
    #[inline(always)]
    pub(crate) fn untyped(&mut self) -> &mut Untyped<'m, R, M, E, P> {
        const { assert!(size_of::<Self>() == size_of::<Untyped<'m, R, M, E, P>>()) };
        // SAFETY: invariant "Roots are types only": the fields are laid out in their order, and
        // only the pool's access has another type, of the same layout.
        unsafe { &mut *(&raw mut *self).cast() }
    }

    /// The program's environment, between two calls: its drivers, to switch something or to wait.
    ///
    /// What is done here is done again in each boot until the program has passed all records. To
    /// read an input, use [`Replay::input`].
    #[inline(always)]
    pub fn env(&mut self) -> &mut E {
        &mut self.env
    }

    /// Whether messages wait because the outlet has refused one. They are offered to it again after
    /// the next step or iteration, in order, and by [`Replay::drain`]. A program that sends only if
    /// none waits records the answer: `let waits = rt.waits(); let waits = rt.record(waits)?;`.
    pub fn waits(&self) -> bool {
        self.resend.is_some()
    }

    /// Offers the messages that wait to the outlet again, for example when a radio is free.
    ///
    /// **Power loss**: they are sent again, with the same numbers. **Cost**: one or two stores when
    /// all are sent; before that a save, if the region is mirrored. **Errors**: the outlet refuses
    /// a message again, the save has failed, or the runtime has stopped while messages wait. With
    /// an async medium always, if messages wait: use [`Replay::drain_async`].
    pub fn drain(&mut self) -> Result<(), NotNow> {
        let Some(action) = self.resend else {
            return Ok(());
        };
        if self.check_running().is_err() {
            return Err(NotNow);
        }
        if P::OUTPUT_WAITS || self.save_now().is_err() {
            return Err(NotNow);
        }
        // Kept messages are pending whatever number is committed.
        let to = Some((&mut self.env as &mut dyn Outlet, &mut self.sent));
        if action(&self.table, &self.queue, 0, to) {
            return Err(NotNow);
        }
        self.resend = None;
        Ok(())
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: OwnsPool<'m, R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    // INVARIANT "Open in its place": no field of a runtime that is being opened is read before it
    // is written, and a runtime exists when all of its fields are written. Also kept by
    // `Threads::open_by` and `Place::open_by` in threads.rs.
    // Noticed by: Miri on every test; `a_place_is_opened_again` in tests/suite/soundness.rs.
    #[inline(always)]
    pub(crate) fn open_at<'p, F>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        options: Options<'m>,
        mut env: E,
        saver: P::Saver,
        init: F,
    ) -> Result<&'p mut Self, OpenFailure<'m, M>>
    where
        F: for<'a> FnOnce(&Tx<'a, M>) -> Result<R::At<'a>, pmem_tx::Error>,
    {
        // The pool, the largest field, is opened in place; the other fields are small.
        let at = place.as_mut_ptr();
        let Options {
            table: config,
            pool: pool_config,
            version,
            update,
            start_over,
            outlet: _,
        } = options;
        let fingerprint = nvmem::fingerprint::<R>();
        let mut sb = table::superblock::<M>(&config, pool_config, region.len(), fingerprint);
        let (geo, blank) = match read_geometry(&region, &mut sb) {
            Ok(read) => read,
            Err(error) => return Err(OpenFailure { error, region }),
        };
        let mut table = Table::new(region, geo);
        // The pool's values may have padding, even if this open fails later.
        table.region.mark_values();
        let pool_region = table.pool_region();
        let (mut sent, mut resend) = (0, None);
        let start = || {
            // Called after the pool has checked its parameters of the superblock.
            let mut begun = None;
            let resolve = || {
                if blank {
                    begun = Some(superblock::begin_marked(&mut table.region, &sb));
                    table.format(version);
                }
                let found = (table.scan()).map_err(OpenError::Damaged)?;
                let keep = table.records_to_keep(&found, version, update, start_over)?;
                Ok::<_, OpenError>((move |_| found.committed, (found, keep)))
            };
            // SAFETY: invariant "Open in its place": a field of `place`, which is borrowed mutably.
            // Nothing reads it before it is written, and this borrow ends before `access` begins.
            let pool: &mut MaybeUninit<Pool<'m, R, M>> =
                unsafe { &mut *P::pool_in(&raw mut (*at).pool).cast() };
            let (pool, (found, keep)) =
                Pool::mount_embedded(pool, pool_region, &sb.params, !blank, resolve, init)?;
            if let Some(marker) = begun {
                // The pool is formatted too.
                superblock::finish_marked(&mut table.region, marker, &sb);
            }
            if planted!("nv-replay/reclaim-before-replay") {
                pool.reclaim();
            }
            let len = table.region.len();
            // SAFETY: invariant "Open in its place": the pool is written, and these are all other
            // fields.
            let access = unsafe {
                let access = &raw mut (*at).pool;
                P::write_rest(access, saver, geo.len - Superblock::BYTES, len);
                &mut *access
            };
            if !planted!("nv-replay/outbox-not-drained-at-open") {
                let saved = access.save_found();
                let waits = saved.and_then(|()| {
                    table.send_pending(access, found.committed, &mut env, &mut sent)
                });
                match waits {
                    Ok(waits) => resend = waits,
                    Err(error) => {
                        // SAFETY: written above, and the caller does not use `place`.
                        unsafe { core::ptr::drop_in_place(access) };
                        return Err(error);
                    }
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
            (&raw mut (*at).live).write(false);
            (&raw mut (*at).no_room_error).write(Error::TableFull);
            (&raw mut (*at).divergence).write(None);
            (&raw mut (*at).twins).write(Twins::new());
            (&raw mut (*at).innermost_loop).write(0);
            (&raw mut (*at).env).write(env);
            (&raw mut (*at).sent).write(sent);
            (&raw mut (*at).queue).write(Queue::new::<E>());
            (&raw mut (*at).resend).write(resend);
            (&raw mut (*at)._root).write(PhantomData);
            place.assume_init_mut()
        };
        if let Some(n) = keep
            && let Err(error) = rt.restart(n, &found, version)
        {
            let region = core::mem::replace(&mut rt.table.region, Region::new(&mut []));
            // SAFETY: invariant "Open in its place": written above, and the caller does not use
            // `place`.
            unsafe {
                core::ptr::drop_in_place(&raw mut rt.env);
                core::ptr::drop_in_place(&raw mut rt.pool);
            };
            return Err(OpenFailure { error, region });
        }
        rt.check_live();
        Ok(rt)
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Begins a new run after the first `n` records.
    #[cold]
    #[inline(never)]
    pub(crate) fn restart(
        &mut self,
        n: u16,
        found: &ScanResult,
        version: u16,
    ) -> Result<(), OpenError> {
        self.copy_records(n, found, version)
            .map_err(OpenError::Keep)?;
        if planted!("nv-replay/records-copied-without-pool-walk") {
            return Ok(());
        }
        self.pool.restarted().map_err(OpenError::Pool)
    }

    // The records are copied, not cut off by clearing a header: the numbers of dropped records were
    // used, and the pool's journal may still hold entries with them. Two areas make starting over
    // and keeping some records for a new version the same single store.
    /// Copies the first `n` records to the other area and begins a new run of the program after
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
        let start = seq;
        let (mut old, new_area_end) = (self.cursor, self.table.other_area_end());
        // The old run ends here: this boot replays the copies only.
        self.cursor.at = self.cursor.end;
        let mut copy = self.table.empty_area(new_area_end);
        // Records in the other area do not count before the run's start word refers to it.
        self.pass_number(None)?;
        for _ in 0..n {
            seq = geo.next(seq);
            self.table
                .copy_record(&mut old, &mut copy, seq)
                .ok_or(Error::Other)?;
            self.pass_number(None)?;
        }
        self.table.begin_run(&copy, start, counter);
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

    /// The pairs of calls in different places of the source that have passed so far and that only
    /// their arguments tell apart. Give such calls [names](Replay::named). Each pair is printed
    /// once in a process, to standard error.
    #[cfg(feature = "instrument")]
    pub fn twins(&self) -> &[crate::Twin] {
        self.twins.pairs()
    }

    /// Whose numbers its commits have. What takes part in its steps was opened with the number that
    /// [`last_committed`](crate::last_committed) has returned for this region.
    #[inline(always)]
    pub fn owner(&self) -> NumberOwner {
        self.table.owner
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

    // INVARIANT "Reclaim after replay": objects are reclaimed when all records have shown their
    // handles.
    // Noticed by: planted `reclaim-before-replay`, `live-one-record-early`.
    /// Ends the replay, once, when the program has passed all records.
    #[cold]
    #[inline(never)]
    #[doc(hidden)]
    pub fn check_live(&mut self) {
        let mut f = self.cursor;
        if f.at <= f.end + Table::<M>::UNIT && planted!("nv-replay/live-one-record-early") {
            f.at = f.end;
        }
        // Reclaim objects without an owner, and notify the outlet.
        if !self.live && f.at == f.end {
            self.live = true;
            self.pool.all_passed();
            let guard = StopOnUnwind {
                when: &Cell::new(true),
                no_room_error: &mut self.no_room_error,
                cursor: &mut self.cursor,
                area_end: self.table.area_end,
            };
            self.env.live();
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
}

impl<'m, R: Persist, M: Model, E: Outlet, P: OwnsPool<'m, R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Closes the runtime and counts the pool's objects. Objects held by the program or by a record
    /// count as unreachable.
    ///
    /// **Power loss**: changes only scratch words. **Errors**: reachable data is damaged.
    pub fn audit(mut self) -> Result<(pmem_tx::Audit, Region<'m, M>), OpenFailure<'m, M>> {
        match self.pool.pool().audit() {
            Ok(a) => Ok((a, self.close())),
            Err(e) => Err(OpenFailure {
                error: OpenError::Pool(e),
                region: self.close(),
            }),
        }
    }

    /// Closes the runtime and returns the region. Writes nothing. Over a mirror, what was not saved
    /// lies only in this region.
    pub fn close(self) -> Region<'m, M> {
        // Dropping the rest drops the pool, which has the other part of the region.
        self.table.region
    }
}

/// Stops the runtime: every later call returns `e`. The cursor moves to where no record and no room
/// is.
fn halt(no_room_error: &mut Error, cursor: &mut Cursor, area_end: usize, e: Error) {
    if *no_room_error == Error::TableFull {
        *no_room_error = e;
    }
    *cursor = Cursor {
        payload: area_end,
        ..Cursor::NONE
    };
}

// INVARIANT "Nothing follows what unwound": after the program's own code unwinds after a commit, or
// out of a loop, the runtime does nothing until it is opened again: it would put the next messages
// over those that have not left. On a device a panic aborts, and its code has nothing of this. Also
// kept by `LoopGuard` and `Inside` in each.rs.
// Noticed by: tests whose names end in `unwinds` in tests/suite/soundness.rs; planted
// `goes-on-after-unwinding`.
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
    /// The region for the pool. It begins a superblock's length before the table's end; the pool
    /// leaves these bytes unused. Called once.
    fn pool_region(&self) -> Region<'m, M> {
        // SAFETY: invariants "Sole region" and "Inside the table": the offset is a multiple of 8
        // and inside the region, as `read_geometry` has checked. The table uses only the bytes
        // before it, and returns its region only when the pool is gone.
        unsafe { self.region.tail(self.geo.len - Superblock::BYTES) }
    }

    /// Begins a run that has the records up to `first`, in the other area. The first of them
    /// carries the number after `seq`.
    ///
    /// **Power loss**: the old run, whole, or the new one. **Cost**: two or three stores.
    pub fn begin_run(&self, first: &Cursor, seq: u32, counter: u32) {
        if first.at >= first.payload && !planted!("nv-replay/stale-run-not-cleared") {
            self.store(first.at, 0);
        }
        let bits = State::start_bits(seq, true);
        self.write_state(self.geo.run_state(), bits, counter);
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

/// The result of a scan.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScanResult {
    /// A cursor over all records that count.
    pub cursor: Cursor,
    /// The sequence number of the last committed transaction.
    pub committed: u32,
    /// The state of the program's run.
    pub run: State,
}

/// The result of a scan in short: with it the same boot rebuilds the result without reading
/// headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownScan {
    /// How many records count. A table has fewer units than 2^16.
    pub records: u16,
    /// The number of the last committed transaction, of 16 bits at most.
    pub committed: u16,
}

impl ScanResult {
    /// The same in short.
    pub fn known<M: Model>(&self) -> KnownScan {
        KnownScan {
            records: ((self.cursor.at - self.cursor.end) / Table::<M>::UNIT) as u16,
            committed: self.committed as u16,
        }
    }
}

/// Called with each record.
pub(crate) type RecordVisitor<'a, 'm, M> = dyn FnMut(&Table<'m, M>, &RecordView) + 'a;

/// Reads the layout of a region, and whether it must be formatted as `sb` says. If not, replaces
/// parameters of `sb` by the stored ones.
///
/// **Errors**: the region holds something else.
#[inline(always)]
pub(crate) fn read_geometry<M: Model>(
    region: &Region<'_, M>,
    sb: &mut Superblock,
) -> Result<(Geometry, bool), OpenError> {
    read_superblock(region, sb, param::STORED, |sb| geometry(region, &sb.params))
}

/// The layout that `layout` gives, and whether a region must be formatted as `sb` says. If not,
/// replaces the parameters `stored_params` of `sb`, a bit for each, by the stored ones.
///
/// **Errors**: the region holds something else; that of `layout`.
#[inline(always)]
pub(crate) fn read_superblock<M: Model, G>(
    region: &Region<'_, M>,
    sb: &mut Superblock,
    stored_params: u8,
    layout: impl FnOnce(&Superblock) -> Result<G, OpenError>,
) -> Result<(G, bool), OpenError> {
    let state = superblock::probe_view(region, sb);
    if let superblock::State::Ready(stored) = &state
        && !stored.is_expected()
        && let Err(other) = stored.agrees(sb, stored_params)
    {
        return Err(mismatch_error(stored, sb, other));
    }
    // Before the state: a region that is shorter than a superblock reads as foreign.
    let geo = layout(sb)?;
    Ok((geo, needs_format(state)?))
}

/// Whether a region must be formatted, given the state of its superblock.
#[inline(always)]
fn needs_format<S>(state: superblock::State<S>) -> Result<bool, OpenError> {
    match state {
        superblock::State::Blank | superblock::State::Formatting => Ok(true),
        superblock::State::Ready(_) => Ok(false),
        superblock::State::Foreign => Err(OpenError::Foreign),
        superblock::State::Damaged => Err(OpenError::Damaged(Damage::Superblock)),
    }
}

#[inline(always)]
fn geometry<M: Model>(region: &Region<'_, M>, params: &[u32; 8]) -> Result<Geometry, OpenError> {
    let geo = Geometry::new::<M>(params).map_err(OpenError::Config)?;
    // Some bytes must remain for the pool.
    if region.len() <= geo.len {
        return Err(OpenError::TooSmall {
            needed: geo.len + 8,
        });
    }
    Ok(geo)
}

/// The error for a region whose superblock differs from `mine`.
#[inline(always)]
fn mismatch_error<M: Model>(
    stored: &View<'_, '_, M>,
    mine: &Superblock,
    other: Difference,
) -> OpenError {
    let (layout, expected) = (stored.layout(), mine.layout());
    match other {
        Difference::Layout
            if (layout.kind, layout.version) == (expected.kind, expected.version) =>
        {
            OpenError::Pool(pmem_tx::OpenError::LayoutMismatch(LayoutMismatch {
                stored: layout,
                expected,
            }))
        }
        Difference::Layout if layout.kind == expected.kind => OpenError::FormatVersion {
            stored: layout.version,
        },
        Difference::Layout => OpenError::OtherFormat,
        Difference::Param(param::UNIT) => OpenError::Config(ConfigItem::Unit),
        Difference::Param(param::LEN) => OpenError::Pool(pmem_tx::OpenError::OtherLength {
            formatted: stored.param(param::LEN) as usize,
        }),
        Difference::Param(_) => OpenError::Damaged(Damage::Superblock),
    }
}

/// The layout of a region according to its superblock; `None` if it is blank.
fn stored_geometry<M: Model>(region: &Region<'_, M>) -> Result<Option<Geometry>, OpenError> {
    let mut mine = table::superblock::<M>(&Config::SMALL, None, region.len(), 0);
    let view = match superblock::probe_view(region, &mine) {
        superblock::State::Ready(view) => view,
        state => return needs_format(state).map(|_| None),
    };
    // The types of its objects do not matter here.
    mine.fingerprint = view.layout().fingerprint;
    if let Err(other) = view.agrees(&mut mine, param::STORED) {
        return Err(mismatch_error(&view, &mine, other));
    }
    geometry(region, &mine.params).map(Some)
}

/// Scans a region without knowing its objects' types, and calls `visit` with each record. `None`
/// for a blank region.
///
/// **Errors**: [`OpenError`].
pub(crate) fn scan_region<'m, M: Model>(
    region: &Region<'m, M>,
    visit: &mut RecordVisitor<'_, 'm, M>,
) -> Result<Option<ScanResult>, OpenError> {
    let Some(geo) = stored_geometry(region)? else {
        return Ok(None);
    };
    // SAFETY: invariant "Sole region": it is borrowed while this table is in use, and the table is
    // only read.
    let mut table = Table::new(unsafe { region.tail(0) }, geo);
    let found = table.visit_records(visit).map_err(OpenError::Damaged)?;
    Ok(Some(found))
}

impl<'m, M: Model> Table<'m, M> {
    /// The table at the start of a region with this layout.
    #[inline(always)]
    pub fn new(region: Region<'m, M>, geo: Geometry) -> Self {
        Table {
            owner: NumberOwner::thread_of(&region, 0),
            region,
            geo,
            area_end: geo.area_end(false),
        }
    }

    /// How many records a new run keeps, if one begins: the records belong to another version than
    /// `version`, or the program wants to start over.
    ///
    /// **Errors**: `update` says so.
    #[inline(always)]
    pub fn records_to_keep(
        &mut self,
        found: &ScanResult,
        version: u16,
        update: Update,
        start_over: bool,
    ) -> Result<Option<u16>, OpenError> {
        let recorded = found.run.version::<M>();
        let differs = recorded != version;
        let other_version = differs && !planted!("nv-replay/version-not-compared");
        // Inlined where the options are constants, so unused alternatives link no code.
        Ok(match update {
            _ if start_over => Some(0),
            _ if !other_version => None,
            Update::Refuse => return Err(OpenError::OtherVersion { recorded }),
            Update::StartOver => Some(0),
            Update::Keep(n) => {
                // A running loop cannot be kept.
                let records = self.records_before_loop();
                if n > records {
                    return Err(OpenError::NoSuchRecord { records });
                }
                Some(n)
            }
        })
    }

    /// The number of records before the outermost running loop.
    #[cold]
    pub fn records_before_loop(&mut self) -> u16 {
        let (mut n, mut inside) = (0, false);
        // Cannot fail: the same table was scanned at open.
        let _ = self.visit_records(|table, head| {
            inside |= table.running_state(head).is_some();
            n += u16::from(!inside);
        });
        n
    }

    /// Formats a table: clears all words and begins the first run.
    #[inline(always)]
    pub fn format(&self, version: u16) {
        // SAFETY: invariant "Inside the table": all of it. No slice of `bytes` is alive.
        unsafe { self.region.store_zeros(OUTBOX, self.geo.len) }
        // The number after the largest is 1.
        let mark = State::start_bits(self.geo.seq_max.into(), false);
        self.write_state(
            self.geo.run_state(),
            mark,
            u32::from(version) << Self::COUNTER_BITS,
        );
    }

    /// The state of the record's loop, if it is a running loop.
    pub fn running_state(&self, record: &RecordView) -> Option<State> {
        let state = (record.kind == CallKind::Loop).then(|| self.state(record.content));
        state.filter(|s| !s.done)
    }

    /// What the scan found that is `known`: nobody has changed the table since.
    pub fn found(&mut self, known: KnownScan) -> ScanResult {
        let run = self.state(self.geo.run_state());
        self.area_end = self.geo.area_end(run.second::<M>());
        let mut cursor = self.empty_area(self.area_end);
        cursor.end = cursor.at - usize::from(known.records) * Self::UNIT;
        ScanResult {
            cursor,
            committed: known.committed.into(),
            run,
        }
    }

    /// Finds the records that count.
    ///
    /// **Cost**: reads their headers. **Errors**: a state that no power cut leaves.
    pub fn scan(&mut self) -> Result<ScanResult, Damage> {
        self.visit_records(|_, _| {})
    }

    // INVARIANT "Place decides": a record counts if and only if all records before it count and its
    // header carries the next sequence number.
    // Noticed by: planted `number-not-skipped`; numbers of 3 bits in tests/suite/crash.rs
    // (`wraps`).
    /// The same, and calls `visit` with each.
    #[inline(always)]
    pub fn visit_records(
        &mut self,
        mut visit: impl FnMut(&Table<'m, M>, &RecordView),
    ) -> Result<ScanResult, Damage> {
        let run = self.state(self.geo.run_state());
        if run.seq == 0 {
            return Err(Damage::Start);
        }
        self.area_end = self.geo.area_end(run.second::<M>());
        let mut cursor = self.empty_area(self.area_end);
        let (mut at, mut payload, mut committed) = (cursor.at, cursor.payload, run.seq);
        while self.is_successor(at, payload, committed) {
            let bad = |table: &Self| Damage::Record {
                record: table.record_index(at),
            };
            let Some(head) = self.read_record(at, payload) else {
                return Err(bad(self));
            };
            committed = self.geo.next(committed);
            if head.kind == CallKind::Loop {
                if head.end - head.content != Self::STATE {
                    return Err(bad(self));
                }
                committed = self.state_seq(head.content);
                if committed == 0 {
                    return Err(bad(self));
                }
            }
            payload = head.end;
            at -= Self::UNIT;
            visit(self, &head);
        }
        cursor.end = at;
        Ok(ScanResult {
            cursor,
            committed,
            run,
        })
    }
}

impl State {
    /// Whether the run's records are in the second area.
    pub fn second<M: Model>(&self) -> bool {
        self.counter >> (Table::<M>::COUNTER_BITS - 1) & 1 != 0
    }

    /// The program's version in the counter of a run.
    pub fn version<M: Model>(&self) -> u16 {
        (self.counter >> Table::<M>::COUNTER_BITS) as u16
    }
}
