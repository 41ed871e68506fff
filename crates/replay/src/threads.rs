//! Several threads on one pool: each has a table, a context and a root of its own, and they share
//! roots, which steps reach by keys.
//!
//! ```text
//! region   | superblock | table 0 | table 1 | table 2 | pool: contexts 0 1 2, shared roots ...  |
//!                           |         |      (reserved)            |
//!                        Place 0   Place 1   Place 2           Shared<Board>: a key
//!                           |         |                            |
//!                        Thread    Thread  <-- steps take `&mut` to it: rt.step((&mut key, x), ...)
//!
//! Threads::open   1 scan all tables: each thread's last number                  \  before any
//!                 2 undo in all contexts what was not committed                  > thread runs,
//!                 3 walk from all roots: mark the blocks that no root owns      /  bounded
//! Threads::share  hands out places and keys
//! Place::open     a thread runs its program again; it adopts what its records own
//!                 the last thread that has passed its records frees what is still marked
//! ```
//!
//! # Adoption while others run
//!
//! A replay adopts the objects that its recorded results own. When a thread does, others may run
//! transactions already. Why it is safe:
//!
//! - The walk of `open` has marked each block in use that no root owns. No handle of a running
//!   transaction leads to such a block, and none is free, so no transaction changes it. Its mark
//!   and its header stay as they are, until it is adopted or reclaimed.
//! - Of all other blocks the marks are out of date as soon as a transaction has run. So adoption
//!   tests the mark first, and follows a handle to a marked block only.
//! - The first to adopt a block clears its mark. A second handle to it, of any thread, is refused.
//! - Two adoptions exclude each other: [`Model::exclusive`].
//!
//! The thread that is last to pass its records reclaims: it clears each mark that is left, and then
//! frees the block. A table without records counts as passed. So a reserved place, whose thread was
//! not started yet, does not hold the reclaim up.
//!
//! # Whose handle
//!
//! Only the table of the thread that got a handle says whether it was consumed. So each thread has
//! a session number of its own, and a step refuses a `Held` of another thread. An object goes from
//! thread to thread in a `PBox` of a shared root, in one commit of each.
//!
//! # What a power cut leaves
//!
//! | cut | after the next open |
//! |---|---|
//! | in a format | the format starts again |
//! | in `open`, while contexts are rolled back | the same is rolled back again |
//! | in a thread's step, also with a key | nothing of the step; steps of other threads are whole |
//! | after the step's commit store | all of the step, also in the shared root |
//! | while a replay adopts | nothing has changed |
//! | in the reclaim | the next reclaim frees the other blocks |
//! | while a place takes another version | the old run, whole, or the new one |
//! | in a migration, before the superblock is replaced | the old program's region: its open undoes the transaction |
//! | in a migration, after that | the new program's region: its open finishes the migration |
//!
//! # Migration to other types
//!
//! ```text
//!  1  undo what was cut in all contexts (an open with the old types)
//!  2  one transaction of context 0 makes all roots anew; it is prepared, with number n
//!  3  a head of table 0's outbox with number n is cleared: its step did not commit
//!  4  superblock := new fingerprint, MIGRATED = n                        <- commits
//!  5  each table: pending messages are kept; a run without records begins in the other area,
//!     table 0's with number n, the others' with their last number
//!  6  superblock := MIGRATED = 0
//! ```
//!
//! Number n is the first thread's next one, so 4 decides for it before table 0 knows. The open of
//! the new program does 5 and 6 before the pool asks for the last numbers. A table that has done 5
//! is recognised by its number and by having no records, so a cut repeats nothing.

use crate::access::PoolAccess;
use crate::error::{ConfigItem, Damage, Error, OpenError, OpenFailure};
#[cfg(feature = "async")]
use crate::mirrored::AsyncMirrored;
use crate::mirrored::Mirrored;
use crate::open::{self, KnownScan, Options, Replay, ScanResult};
use crate::outbox::{AnyOutlet, KeepAll, Outlet, Queue};
use crate::signature::Twins;
use crate::table::{
    self, CallKind, Config, Cursor, Geometry, State, Table, ThreadCount, VERSION_THREADS, param,
};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
#[cfg(feature = "async")]
use nvmem::at_rest::AsyncSave;
use nvmem::at_rest::{RestingRegion, Save};
use nvmem::cross::Ret;
use nvmem::superblock::{self, Superblock};
use nvmem::{CommitNumber, InOrder32, Model, NumberOwner, Persist, Ram, Region, planted};
use pmem_tx::{
    Context, Contexts, ContextsOf, MAX_CONTEXTS, Pool, Preempted, Roots, Section, SharedRoots,
    Sharing, Tx, Width,
};

/// A region with the tables of several threads and the pool that they share. `T` is a [`Sharing`]
/// of the roots that they share, and [`Contexts`] with the root of each thread.
///
/// ```
/// # use core::cell::RefCell;
/// use nv_replay::nvmem::{Persist, Region};
/// use nv_replay::pmem_tx::{Contexts, Sharing};
/// use nv_replay::{Config, Options, PBox, Threads};
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Board<'p> {
///     letter: Option<PBox<'p, [u8; 4]>>,
/// }
///
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 256]));
/// type Two = Sharing<(Board<'static>,), Contexts<(u32, Option<PBox<'static, [u8; 4]>>)>>;
/// let mut threads = Threads::<Two>::open(Region::new(memory), Config::SMALL, None, |_| {
///     Ok(((Board { letter: None },), (0, None)))
/// })?;
/// let ((writer, reader), (board,)) = threads.share()?;
/// // Any lock will do.
/// let board = RefCell::new(board);
/// let mut writer = writer.open(Options::default())?;
/// let mut reader = reader.open(Options::default())?;
///
/// writer.step(&mut *board.borrow_mut(), |tx, sent, mut board| {
///     *sent.get_mut(tx)? += 1;
///     board.get_mut(tx)?.letter = Some(PBox::new(tx, *b"Hi!\0")?);
///     Ok(())
/// })
/// .map_err(|failed| failed.error)?;
/// let got = reader.step(&mut *board.borrow_mut(), |tx, mine, mut board| {
///     let letter = board.get_mut(tx)?.letter.take();
///     let mine = mine.get_mut(tx)?;
///     *mine = letter;
///     Ok(mine.as_ref().map_or([0; 4], |letter| *letter.get(tx)))
/// })
/// .map_err(|failed| failed.error)?;
/// assert_eq!(got, *b"Hi!\0");
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Threads<'m, T: Roots, M = InOrder32> {
    pool: Pool<'m, T, M>,
    tables: AllTables<'m, M>,
    shared: bool,
}

/// The tables of all threads, and what the threads share about their replays.
pub(crate) struct AllTables<'m, M> {
    /// All of the region. Used here for the superblock only, and by each thread for its table.
    region: Region<'m, M>,
    geo: Geometry,
    count: usize,
    /// The session number of the first thread.
    session: u32,
    /// The number of tables with records that their threads have not passed. Changes in sections.
    replaying: Cell<u8>,
    /// What the open has found in the tables.
    numbers: Numbers,
}

/// The runtime of one thread: a [`Replay`] whose pool others share.
pub type Thread<'c, R, M = InOrder32, E = AnyOutlet<'c>> = Replay<'c, R, M, E, Member<'c, R, M>>;

/// The runtime of one thread over a mirror: see [`Place::open_mirrored`].
pub type MirroredThread<'c, R, S, M = InOrder32, E = AnyOutlet<'c>> =
    Replay<'c, R, Ram<M>, E, Mirrored<Member<'c, R, Ram<M>>, S>>;

/// The runtime of one task over a mirror with an async medium: see [`Place::open_mirrored_async`].
#[cfg(feature = "async")]
pub type AsyncMirroredThread<'c, R, S, M = InOrder32, E = AnyOutlet<'c>> =
    Replay<'c, R, Ram<M>, E, AsyncMirrored<Member<'c, R, Ram<M>>, S>>;

/// A thread's place: its table, its context and its root. It becomes a [`Thread`] when it is
/// opened.
///
/// A place whose thread was never opened is reserved: it has no records, and the root that the
/// format gave it. It waits until the program adds a thread.
pub struct Place<'c, R, M = InOrder32> {
    // Small, because a program moves it to its thread.
    all: &'c AllTables<'c, M>,
    context: Context<'c, R, M>,
    /// What the open has found in the table, which only this place changes.
    scan: KnownScan,
    n: u8,
    /// The table is one of those with records that their threads have not passed.
    counted: bool,
}

// SAFETY: invariant "Shared in sections": the context may be sent; of the tables, `replaying` is
// used in sections only, and the rest does not change.
unsafe impl<R, M: Model, S: Section + Send> Send for Place<'_, R, Preempted<M, S>> {}

/// The part of a shared pool that belongs to a [`Thread`].
// The layout is the same for every root type.
#[repr(C)]
pub struct Member<'c, R, M = InOrder32> {
    context: Context<'c, R, M>,
    session: u32,
    /// The number of tables with records that their threads have not passed. Changes in sections.
    replaying: &'c Cell<u8>,
    /// This thread's table is one of them.
    counted: bool,
}

// SAFETY: invariant "Shared in sections": the context may be sent; `replaying` is used in sections
// only; the rest belongs to the member.
unsafe impl<R, M: Model, S: Section + Send> Send for Member<'_, R, Preempted<M, S>> {}

// SAFETY: invariant "A table for each thread": the context is that of the place, and the numbers
// of its transactions are those of the table beside it. Contexts of all roots have one layout, and
// a member of no root is one of any.
unsafe impl<'c, R: Persist, M: Model> PoolAccess<R, M> for Member<'c, R, M>
where
    M::Unit: Width,
{
    type Untyped = Member<'c, (), M>;
    type AnyRoot = ();
    #[inline(always)]
    fn context(&mut self) -> Context<'_, R, M> {
        self.context.reborrow()
    }
    #[inline(always)]
    fn session(&self) -> u32 {
        self.session
    }
    fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, pmem_tx::Error> {
        // INVARIANT "Marked is nobody's": between the walk of `Threads::open` and the reclaim, a
        // block marked as unowned is in use, and no handle that a transaction reaches leads to it.
        // So its header and its mark stay until it is adopted. Adoption tests the mark before it
        // loads a header, and adoptions exclude each other (`Model::exclusive`). The marks are made
        // by `Walk::claim` of `pmem-tx`.
        // Noticed by: planted `adopts-without-exclusion`; `adoptions_exclude_each_other` and
        // `threads_of_the_host` in tests/suite/several.rs, under Miri.
        let mut adopt = || {
            // SAFETY: invariant "Reclaim after replay": `Threads::open` has walked the pool, and
            // this thread has not passed its records, so nobody has reclaimed. Adoptions exclude
            // each other.
            unsafe { self.context.adopt_unspent(bytes, self.session, spent) }
        };
        if planted!("nv-replay/adopts-without-exclusion") {
            return adopt();
        }
        M::exclusive(adopt)
    }
    fn all_passed(&mut self) {
        if !self.counted {
            return;
        }
        self.counted = false;
        // INVARIANT "Last one reclaims": objects are reclaimed when every table that had records at
        // `Threads::share` was passed. `Walk::reclaim_preempted` of `pmem-tx` clears a mark before
        // the block is free.
        // Noticed by: planted `first-live-thread-reclaims`, `last-live-thread-reclaims-nothing`,
        // `reserved-place-holds-reclaim-up`.
        let last = M::section(|| {
            let left = self.replaying.get() - 1;
            self.replaying.set(left);
            left == 0
        });
        if planted!("nv-replay/last-live-thread-reclaims-nothing") {
            return;
        }
        if last || planted!("nv-replay/first-live-thread-reclaims") {
            // SAFETY: invariant "Reclaim after replay": every table's records were passed, so
            // nothing is adopted from now on.
            unsafe { self.context.reclaim() };
        }
    }
    /// Marks stay valid while transactions run.
    fn restarted(&mut self) -> Result<(), pmem_tx::OpenError> {
        Ok(())
    }
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        M::section(|| f(self.context.resting()))
    }
}

/// Tuples of the threads' roots. Sealed by its hidden method.
pub trait PlacesOf: ContextsOf {
    /// A place for each thread.
    type Places<'c, M: Model>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn places<'c, M: Model>(
        contexts: Self::Each<'c, M>,
        all: &'c AllTables<'c, M>,
    ) -> Self::Places<'c, M>;
}

/// The roots of several threads: a [`Sharing`]. Sealed by its supertrait.
pub trait ThreadRoots: Roots {}
impl<S: SharedRoots, C: PlacesOf> ThreadRoots for Sharing<S, C> {}

impl<M: Model> AllTables<'_, M> {
    #[inline(always)]
    fn place<'c, R>(&'c self, n: u8, context: Context<'c, R, M>) -> Place<'c, R, M> {
        let mut of = usize::from(n);
        if planted!("nv-replay/place-knows-another-table") {
            of = 0;
        }
        Place {
            all: self,
            context,
            scan: KnownScan {
                records: self.numbers.records.get(of).map_or(0, |n| *n),
                committed: self.numbers.of(of) as u16,
            },
            n,
            counted: self.numbers.with_records >> n & 1 != 0,
        }
    }

    /// Bytes of the region before the pool.
    fn before_pool(&self) -> usize {
        stride(&self.geo) * self.count
    }

    /// Scans all tables.
    ///
    /// **Errors**: one is damaged.
    #[inline(never)]
    fn read(&mut self) -> Result<(), OpenError> {
        let numbers = &mut self.numbers;
        numbers.with_records = 0;
        let (mut at, mut bit) = (0, 1);
        let each = numbers.committed.iter_mut().zip(&mut numbers.records);
        for (committed, records) in each.take(self.count) {
            let found = table_at(&self.region, &self.geo, at).scan();
            let found = found.map_err(OpenError::Damaged)?;
            at += stride(&self.geo);
            *committed = found.committed;
            *records = found.known::<M>().records;
            let some = found.cursor.at != found.cursor.end;
            if some || planted!("nv-replay/reserved-place-holds-reclaim-up") {
                numbers.with_records |= bit;
            }
            bit <<= 1;
        }
        if planted!("nv-replay/numbers-of-other-threads") {
            numbers.committed.swap(0, 1);
        }
        Ok(())
    }
}

macro_rules! places {
    ($($($r:ident $i:tt),+;)*) => {$(
        impl<$($r: Persist),+> PlacesOf for Contexts<($($r,)+)> {
            type Places<'c, Md: Model> = ($(Place<'c, $r, Md>,)+);
            #[allow(private_interfaces)]
            #[inline(always)]
            fn places<'c, Md: Model>(
                contexts: Self::Each<'c, Md>,
                all: &'c AllTables<'c, Md>,
            ) -> Self::Places<'c, Md> {
                ($(all.place($i, contexts.$i),)+)
            }
        }
    )*};
}
places! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6;
    A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7;
}

/// Bytes from one table to the next.
fn stride(geo: &Geometry) -> usize {
    if planted!("nv-replay/tables-overlap") {
        return geo.len - Superblock::BYTES - 8;
    }
    geo.len - Superblock::BYTES
}

/// The length of a region's superblock and tables; `None` if it does not fit into an address.
fn tables_len(geo: &Geometry, tables: usize) -> Option<usize> {
    stride(geo)
        .checked_mul(tables)?
        .checked_add(Superblock::BYTES)
}

/// The table of the thread `n`. Its offsets count from the place where its superblock would be:
/// there the table before it ends, which it does not touch.
fn table_of<'m, M: Model>(region: &Region<'m, M>, geo: &Geometry, n: usize) -> Table<'m, M> {
    let mut table = table_at(region, geo, stride(geo) * n);
    table.owner = NumberOwner::thread_of(region, n);
    table
}

/// The table that begins `at` bytes after the first one.
fn table_at<'m, M: Model>(region: &Region<'m, M>, geo: &Geometry, at: usize) -> Table<'m, M> {
    // SAFETY: invariants "Sole region" and "Inside the table": the offset is a multiple of 8, and
    // inside, as `geometry` has checked. A table uses only its own bytes after the superblock, and
    // the region stays in its `Threads`, which is borrowed while a table is in use.
    Table::new(unsafe { region.tail(at) }, *geo)
}

/// Finishes a committed migration: every table begins a run without records, that of the first
/// thread with the migration's number. Then clears the number in the superblock. May be repeated.
///
/// **Power loss**: the next open does the rest. **Errors**: a table is damaged; the number does not
/// follow that of the first thread.
#[cold]
#[inline(never)]
fn finish_migration<M: Model>(
    region: &mut Region<'_, M>,
    geo: &Geometry,
    tables: usize,
    sb: &mut Superblock,
) -> Result<(), OpenError> {
    let number = sb.params[param::MIGRATED];
    // Nothing is written before all is checked.
    for n in 0..tables {
        let found = table_of(region, geo, n).scan();
        let committed = found.map_err(OpenError::Damaged)?.committed;
        let follows = committed == number || geo.next(committed) == number;
        if n == 0 && !follows {
            return Err(OpenError::Damaged(Damage::Superblock));
        }
    }
    for n in 0..tables {
        let mut table = table_of(region, geo, n);
        let found = table.scan().map_err(OpenError::Damaged)?;
        let mut last = found.committed;
        if n == 0 && !planted!("nv-replay/migration-keeps-the-number") {
            last = number;
        }
        let empty = found.cursor.at == found.cursor.end;
        let empty = empty || planted!("nv-replay/migration-keeps-records");
        if last == found.committed && empty {
            continue;
        }
        if !planted!("nv-replay/migration-drops-messages") {
            table.keep_pending(found.committed);
        }
        let second_area = 1 << (Table::<M>::COUNTER_BITS - 1);
        let first = table.empty_area(table.other_area_end());
        table.begin_run(&first, last, found.run.counter ^ second_area);
    }
    sb.params[param::MIGRATED] = 0;
    if !planted!("nv-replay/migration-never-finished") {
        superblock::replace(region, sb);
    }
    Ok(())
}

/// What the scan of all tables has found.
struct Numbers {
    /// The number of each thread's last commit, in the form that `beside` of `open_beside` gets; 0
    /// for a blank region.
    committed: [u32; MAX_CONTEXTS],
    /// How many records of each count.
    records: [u16; MAX_CONTEXTS],
    /// A bit for each table with records.
    with_records: u8,
}

impl Numbers {
    const NONE: Self = Numbers {
        committed: [0; MAX_CONTEXTS],
        records: [0; MAX_CONTEXTS],
        with_records: 0,
    };

    /// The number of one thread's last commit.
    fn of(&self, thread: usize) -> u32 {
        self.committed.get(thread).map_or(0, |n| *n)
    }
}

/// The layout according to a superblock's parameters.
fn geometry<M: Model>(
    region: &Region<'_, M>,
    sb: &Superblock,
    tables: usize,
) -> Result<Geometry, OpenError> {
    let geo = Geometry::new::<M>(&sb.params).map_err(OpenError::Config)?;
    let needed = tables_len(&geo, tables).unwrap_or(usize::MAX);
    // Some bytes must remain for the pool.
    if region.len() <= needed {
        return Err(OpenError::TooSmall {
            needed: needed.saturating_add(8),
        });
    }
    Ok(geo)
}

impl<'m, T: ThreadRoots, M: Model> Threads<'m, T, M>
where
    M::Unit: Width,
{
    const COUNT: ThreadCount = ThreadCount {
        tables: T::COUNT,
        shared: T::SHARED,
    };

    /// Opens the threads' memory in `region`. Formats a blank region, with the roots that `init`
    /// returns, or recovers a used one: afterwards no context has a transaction in doubt, and no
    /// thread has run yet.
    ///
    /// `table` is the capacity of each thread's table, and `pool` the layout of the pool (`None`
    /// chooses it by the size). Both are used when the region is formatted. Accepts any bytes: a
    /// damaged image is an error, never undefined behaviour.
    ///
    /// **Power loss**: the next open restarts a format and continues a recovery. **Cost**: reads
    /// the headers of the records that count, at most one for each unit of the tables; the journal
    /// entries of each context, and everything reachable once. Stores the old content of the
    /// transactions that were cut, at most one in each context, and one unit for each cell that was
    /// written since the last open. So the time has a bound that depends on the region's size and
    /// on `pool` only. **Errors**: [`OpenError`], with the region.
    pub fn open<F>(
        region: Region<'m, M>,
        table: Config,
        pool: Option<pmem_tx::Config>,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<T::Init<'p>, pmem_tx::Error>,
    {
        let mut place = MaybeUninit::uninit();
        let opened = Self::open_by(
            &mut place,
            region,
            (table, pool),
            finish_migration,
            |_| Ok(()),
            init,
        );
        match opened {
            // SAFETY: invariant "Open in its place": `open_by` has written every field, and nothing
            // else refers to `place`.
            Ok(_) => Ok(unsafe { place.assume_init() }),
            Err((error, region)) => Err(OpenFailure { error, region }),
        }
    }

    /// [`Threads::open`] in `place`, for a kernel that keeps something of its own beside the
    /// threads: a boot moves nothing. When the tables are read, and before anything is written,
    /// `beside` gets the number of each thread's last committed transaction: 0 for a blank region,
    /// and for threads that do not exist. With these the kernel settles the words that it has
    /// staged.
    ///
    /// **Power loss** and **Cost**: as there. **Errors**: that of `beside`, and those of
    /// [`Threads::open`]; [`OpenError::Damaged`] for a region whose migration is not finished,
    /// because such a region is never migrated. The region is gone then.
    #[inline(always)]
    pub fn open_beside<'p, E: From<OpenError>, F>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        table: Config,
        pool: Option<pmem_tx::Config>,
        beside: impl FnOnce(&[u32; MAX_CONTEXTS]) -> Result<(), E>,
        init: F,
    ) -> Result<&'p mut Self, E>
    where
        F: for<'a> FnOnce(&Tx<'a, M>) -> Result<T::Init<'a>, pmem_tx::Error>,
    {
        let unfinished = |_: &mut Region<'_, M>, _: &Geometry, _, _: &mut Superblock| {
            Err(OpenError::Damaged(Damage::Superblock))
        };
        let opened = Self::open_by(place, region, (table, pool), unfinished, beside, init);
        opened.map_err(|(error, _)| error)
    }

    #[inline(always)]
    #[allow(clippy::type_complexity)]
    fn open_by<'p, E: From<OpenError>, F>(
        place: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        (table, pool): (Config, Option<pmem_tx::Config>),
        finish_migration: impl FnOnce(
            &mut Region<'_, M>,
            &Geometry,
            usize,
            &mut Superblock,
        ) -> Result<(), OpenError>,
        beside: impl FnOnce(&[u32; MAX_CONTEXTS]) -> Result<(), E>,
        init: F,
    ) -> Result<&'p mut Self, (E, Region<'m, M>)>
    where
        F: for<'a> FnOnce(&Tx<'a, M>) -> Result<T::Init<'a>, pmem_tx::Error>,
    {
        let at = place.as_mut_ptr();
        let count = Self::COUNT.tables;
        let (len, fingerprint) = (region.len(), T::fingerprint());
        let mut sb = table::superblock_of_threads::<M>(&table, Self::COUNT, pool, len, fingerprint);
        let read = open::read_superblock(&region, &mut sb, param::STORED_OF_THREADS, |sb| {
            geometry(&region, sb, count)
        });
        let (geo, blank) = match read {
            Ok(read) => read,
            Err(error) => return Err((error.into(), region)),
        };
        let sb = &sb;
        // SAFETY: invariant "Open in its place": a field of `place`, which is borrowed mutably.
        let tables = unsafe {
            let tables = &raw mut (*at).tables;
            tables.write(AllTables {
                region,
                geo,
                count,
                session: 0,
                replaying: Cell::new(0),
                numbers: Numbers::NONE,
            });
            &mut *tables
        };
        // SAFETY: invariant "Sole region": the tables are given up with the place.
        let given_up =
            |tables: &mut AllTables<'m, M>, error| unsafe { Err((error, tables.region.tail(0))) };
        if !blank && let Err(error) = tables.read() {
            return given_up(tables, error.into());
        }
        if let Err(error) = beside(&tables.numbers.committed) {
            return given_up(tables, error);
        }
        // The pool's values may have padding, even if this open fails later.
        tables.region.mark_values();
        let before_pool = tables.before_pool();
        // SAFETY: invariant "Sole region": the offset is a multiple of 8 and inside the region, as
        // `geometry` has checked. The pool leaves the bytes of a superblock unused, and the tables
        // end there. The region is given back only when the pool is gone.
        let pool_region = unsafe { tables.region.tail(before_pool) };
        // SAFETY: invariant "Open in its place": another field of `place`. Nothing reads it before
        // it is written.
        let pool: &mut MaybeUninit<Pool<'m, T, M>> = unsafe { &mut *(&raw mut (*at).pool).cast() };
        // Lent, not moved: so no numbers are copied.
        let of_resolve = &mut *tables;
        let mut begun = None;
        let marker = &mut begun;
        let resolve = move || {
            let tables = of_resolve;
            if blank {
                *marker = Some(superblock::begin_marked(&mut tables.region, sb));
                for n in 0..count {
                    if n > 0 && planted!("nv-replay/one-table-formatted") {
                        break;
                    }
                    table_of(&tables.region, &tables.geo, n).format(0);
                }
            }
            let migrated = sb.params[param::MIGRATED] != 0;
            if migrated {
                let mut sb = *sb;
                finish_migration(&mut tables.region, &tables.geo, count, &mut sb)?;
            }
            if blank || migrated {
                tables.read()?;
            }
            let numbers = &tables.numbers;
            Ok::<_, OpenError>((move |n| numbers.of(n), ()))
        };
        let mounted =
            Pool::<T, M>::mount_embedded(pool, pool_region, &sb.params, !blank, resolve, init);
        if let Err(error) = mounted {
            return given_up(tables, error.beside(before_pool).into());
        }
        if let Some(marker) = begun {
            // The pool is formatted too.
            superblock::finish_marked(&mut tables.region, marker, sb);
        }
        // SAFETY: invariant "Open in its place": the last field of `place`; `mount_embedded` has
        // succeeded, so the pool is whole.
        Ok(unsafe {
            (&raw mut (*at).shared).write(false);
            place.assume_init_mut()
        })
    }

    /// The number of a thread's last committed transaction; 0 for a thread that does not exist. A
    /// program that stages words of its own with numbers of this thread resolves them with it: see
    /// [`Token`](crate::Token). It is good until the places are handed out: the borrow checks that.
    ///
    /// **Power loss**: writes nothing. **Cost**: reads the headers of the thread's records.
    /// **Errors**: the table is damaged.
    pub fn last_committed(&self, thread: usize) -> Result<CommitNumber<'_>, OpenError> {
        let tables = &self.tables;
        let mut number = 0;
        if thread < Self::COUNT.tables {
            let found = table_of(&tables.region, &tables.geo, thread).scan();
            number = found.map_err(OpenError::Damaged)?.committed;
        }
        let owner = NumberOwner::thread_of(&tables.region, thread);
        Ok(CommitNumber::new(owner, number))
    }

    /// Like [`Threads::open`], and converts a region whose roots are an `Old` to one whose roots
    /// are a `T`, with as many threads and shared roots. `change` gets the old roots by value, own
    /// and shared, and returns the new ones, in the form that `init` returns. It converts handles
    /// in a root one by one: `into_inner`, then `PBox::new`.
    ///
    /// The records belong to the old program, whose steps had other types. So every thread starts
    /// over: see [`Update::StartOver`](crate::Update::StartOver). Messages that wait are sent when
    /// their place is opened. Objects that only records held are reclaimed. A kernel first settles
    /// what it has staged with a number of a thread.
    ///
    /// **Power loss**: the old program's region or the new one's, never a mixture; the next
    /// `migrate` continues. **Cost**: one transaction of the first thread, so the journal limits
    /// it: an entry for each root, one for all root words, and what `change` does. Two superblocks,
    /// and at most six stores for each thread. **Errors**: those of [`Threads::open`], and an error
    /// of `change` as [`pmem_tx::OpenError::Init`]; then the old program's region is unchanged.
    ///
    /// ```
    /// # use nv_replay::nvmem::Region;
    /// # use nv_replay::pmem_tx::{Contexts, Sharing};
    /// # use nv_replay::{Config, Options, Threads};
    /// type Old = Sharing<(u16,), Contexts<(u32, u32)>>;
    /// type New = Sharing<(u64,), Contexts<(u32, [u32; 2])>>;
    /// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 256]));
    /// # let old = Threads::<Old>::open(Region::new(memory), Config::SMALL, None, |_| {
    /// #     Ok(((5,), (6, 7)))
    /// # })?;
    /// # let region = old.close();
    /// // The new program calls this at each boot, instead of `open`.
    /// let mut threads = Threads::<New>::migrate::<Old, _, _>(
    ///     region,
    ///     Config::SMALL,
    ///     None,
    ///     |_| Ok(((0,), (0, [0; 2]))),
    ///     |_, ((shared,), (a, b))| Ok(((shared.into(),), (a, [b; 2]))),
    /// )?;
    /// # let ((_, place), _) = threads.share()?;
    /// # let mut rt = place.open(Options::default())?;
    /// # assert_eq!(rt.step((), |tx, root, ()| Ok(*root.get(tx))).unwrap(), [7; 2]);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn migrate<Old: ThreadRoots, F, G>(
        region: Region<'m, M>,
        table: Config,
        pool: Option<pmem_tx::Config>,
        init: F,
        change: G,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<T::Init<'p>, pmem_tx::Error>,
        G: for<'p> FnOnce(&Tx<'p, M>, Old::Init<'p>) -> Result<T::Init<'p>, pmem_tx::Error>,
    {
        let fingerprint = Old::fingerprint();
        let mine = table::superblock_of_threads::<M>(&table, Self::COUNT, pool, region.len(), 0);
        let old = match superblock::probe(&region, &mine) {
            superblock::State::Ready(sb) => {
                (sb.kind, sb.version, sb.fingerprint) == (mine.kind, mine.version, fingerprint)
            }
            _ => false,
        };
        if !old {
            return Self::open(region, table, pool, init);
        }
        let mut all =
            Threads::<Old, M>::open(region, table, pool, |_| Err(pmem_tx::Error::WrongPool))?;
        let changed = all.change_roots::<T, G>(change);
        let region = all.close();
        match changed {
            Ok(()) => Self::open(region, table, pool, init),
            Err(error) => Err(OpenFailure {
                error: OpenError::Pool(error),
                region,
            }),
        }
    }

    // INVARIANT "One store migrates": every root is of the types that the superblock names, and the
    // first thread's table has the migration's number before its context asks for it. The
    // superblock is replaced between the transaction's prepare and its end; `finish_migration` runs
    // before the pool is mounted.
    // Noticed by: tests/suite/migrate.rs, also twice; `marks` in tests/suite/hostile.rs; planted
    // bugs that begin with `migration-`.
    /// Commits a migration: the superblock gets the new fingerprint, and the number that is the
    /// first thread's last one from now on.
    ///
    /// **Errors**: that of `change`; nothing has changed then.
    fn change_roots<New: Roots, G>(&mut self, change: G) -> Result<(), pmem_tx::OpenError>
    where
        G: for<'p> FnOnce(&Tx<'p, M>, T::Init<'p>) -> Result<New::Init<'p>, pmem_tx::Error>,
    {
        let (region, geo) = (&mut self.tables.region, &self.tables.geo);
        self.pool.change_roots::<New, G>(change, |seq| {
            let mine = table::superblock::<M>(&Config::SMALL, None, region.len(), 0);
            let superblock::State::Ready(mut sb) = superblock::probe(region, &mine) else {
                // It was ready when it was opened.
                return;
            };
            if !planted!("nv-replay/migration-sends-uncommitted") {
                // A step that was cut may have staged messages with this number.
                table_of(region, geo, 0).retire_outbox(seq);
            }
            sb.fingerprint = New::fingerprint();
            sb.params[param::MIGRATED] = seq;
            superblock::replace(region, &sb);
        })
    }

    /// Counts the pool's objects. Objects that a thread or a record holds count as unreachable.
    ///
    /// **Power loss**: changes only scratch words. **Errors**: reachable data is damaged. After an
    /// audit no place is handed out; close and open the region.
    pub fn audit(&mut self) -> Result<pmem_tx::Audit, OpenError> {
        self.shared = true;
        self.pool.audit().map_err(OpenError::Pool)
    }

    /// Closes the pool and returns the region. Writes nothing.
    pub fn close(self) -> Region<'m, M> {
        // Dropping the rest drops the pool, which has the other part of the region.
        self.tables.region
    }
}

impl<'m, S: SharedRoots, C: PlacesOf, M: Model> Threads<'m, Sharing<S, C>, M>
where
    M::Unit: Width,
{
    // INVARIANT "A table for each thread": no two threads have the same table or context. `share`
    // hands out each place once, by value, and the tables do not overlap. A second `share` would
    // need the marks of a new walk, and would have to decide for each abandoned stack whether its
    // last record counts: `open` does that.
    // Noticed by: tests/ui/place_opened_twice.rs; planted `tables-overlap`,
    // `threads-handed-out-twice`, `numbers-of-other-threads`.
    /// The threads' places, and the keys to the shared roots. Open those places whose threads are
    /// to run; the others stay reserved.
    ///
    /// If no table has records, reclaims the objects that no root leads to. Otherwise the last
    /// thread does that which passes its records. If a thread with records is not opened, or stops
    /// before it has passed them, what has no owner is reclaimed after a later open.
    ///
    /// **Power loss**: nothing changes but that. **Cost**: that of the reclaim. **Errors**:
    /// [`OpenError::Shared`] the second time, and after an audit; [`OpenError::Pool`] if no session
    /// number is left.
    // A program shares once. Inlined, it moves the places to no other place.
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn share(&mut self) -> Result<(C::Places<'_, M>, S::Keys<'_, M::Unit>), OpenError> {
        if self.shared && !planted!("nv-replay/threads-handed-out-twice") {
            return Err(OpenError::Shared);
        }
        self.shared = true;
        // No thread has run since the open, so the scan's numbers still hold.
        let with_records = self.tables.numbers.with_records;
        let replaying = with_records.count_ones() as u8;
        self.tables.replaying.set(replaying);
        if with_records == 0 {
            self.pool.reclaim();
        }
        // INVARIANT "A handle of its thread": a step takes a `Held` only in the thread that got it,
        // whose table says whether it was consumed. Each thread has a session number of its own;
        // `Update::Keep` is refused where a dropped record has consumed a handle.
        // Noticed by: planted `threads-share-a-session`, `keep-forgets-consumed-handles`.
        let shared = self.pool.share_apart();
        let (contexts, keys, session) = shared.map_err(|_| {
            // The pool was just opened, so no transaction is open.
            OpenError::Pool(pmem_tx::OpenError::Sessions)
        })?;
        self.tables.session = session;
        Ok((C::places(contexts, &self.tables), keys))
    }
}

impl<'c, R: Persist, M: Model> Place<'c, R, M>
where
    M::Unit: Width,
{
    /// Opens the thread of this place: [`Replay::open`] for one thread of several. `options.table`
    /// and `options.pool` are not used.
    ///
    /// A table without records takes any version. Otherwise `options.update` decides, as for a
    /// single program, with one difference: [`Update::Keep`](crate::Update::Keep) is refused if one
    /// of the other records has consumed a handle, because another thread may own its object by
    /// now. Other threads may run meanwhile.
    ///
    /// **Power loss**: the next open sends the pending messages again. **Cost**: reads
    /// no record. **Errors**: [`OpenError`]: those that concern the version and the
    /// outbox; [`OpenError::Keep`] with [`Error::WrongPool`] for a consumed handle. The place is
    /// gone then, until the region is opened again.
    pub fn open(self, mut options: Options<'c>) -> Result<Thread<'c, R, M>, OpenError> {
        let outlet = options.outlet.take();
        self.open_with(options, outlet)
    }

    /// Like [`Place::open`], for a thread with an environment: see [`Replay::open_with`].
    /// **Errors**: those of [`Place::open`].
    pub fn open_with<E: Outlet>(
        self,
        options: Options<'_>,
        env: E,
    ) -> Result<Thread<'c, R, M, E>, OpenError> {
        let mut at = MaybeUninit::uninit();
        self.open_in(&mut at, options, env)?;
        // SAFETY: invariant "Open in its place": `open_in` has written it, and nothing else refers
        // to `at`.
        Ok(unsafe { at.assume_init() })
    }

    /// Like [`Place::open_with`], but constructs the runtime in `at`: its caller moves nothing, and
    /// drops it there. **Errors**: as there.
    #[doc(hidden)]
    #[inline(always)]
    pub fn open_in<'p, E: Outlet>(
        self,
        at: &'p mut MaybeUninit<Thread<'c, R, M, E>>,
        options: Options<'_>,
        env: E,
    ) -> Result<&'p mut Thread<'c, R, M, E>, OpenError> {
        self.open_by(at, options, env, |member, _, _| member)
    }

    /// Drops the records of this place: its next run begins without them. Its root stays, and so do
    /// messages that wait to be sent. Objects that only the records own are reclaimed, in this boot
    /// or after the next open. Other threads may run meanwhile.
    ///
    /// **Power loss**: all records, or none. **Cost**: two or three stores and a sequence number;
    /// none if there are no records. **Errors**: the table is damaged. The place is gone then,
    /// until the region is opened again.
    pub fn start_over(self) -> Result<Self, OpenError> {
        let found = self.table().found(self.scan);
        if found.cursor.at == found.cursor.end {
            return Ok(self);
        }
        let (all, n) = (self.all, self.n);
        let options = Options {
            version: found.run.version::<M>(),
            start_over: true,
            ..Options::default()
        };
        let mut rt = self.open_with(options, KeepAll)?;
        let found = rt.table.scan().map_err(OpenError::Damaged)?;
        Ok(Place {
            all,
            context: rt.pool.context,
            scan: found.known::<M>(),
            n,
            counted: rt.pool.counted,
        })
    }

    /// The same place, for code that does not use its root. Threads of all roots have one layout:
    /// a `&mut` to the thread of an untyped place may be cast to one of the place's own root.
    #[doc(hidden)]
    #[inline(always)]
    pub fn untyped(self) -> Place<'c, (), M> {
        Place {
            all: self.all,
            context: self.context.untyped(),
            scan: self.scan,
            n: self.n,
            counted: self.counted,
        }
    }

    /// Whose numbers its thread commits with.
    pub fn owner(&self) -> NumberOwner {
        NumberOwner::thread_of(&self.all.region, self.n.into())
    }

    fn table(&self) -> Table<'c, M> {
        table_of(&self.all.region, &self.all.geo, self.n.into())
    }

    /// Opens in `at` with the pool that `access` makes of the member, the bytes of the region
    /// before its pool, and those of all.
    #[inline(always)]
    fn open_by<'p, E: Outlet, P: PoolAccess<R, M>>(
        self,
        at: &'p mut MaybeUninit<Replay<'c, R, M, E, P>>,
        options: Options<'_>,
        mut env: E,
        access: impl FnOnce(Member<'c, R, M>, usize, usize) -> P,
    ) -> Result<&'p mut Replay<'c, R, M, E, P>, OpenError> {
        let mut table = self.table();
        let Place {
            all,
            context,
            scan,
            n,
            counted,
        } = self;
        let mut session = all.session + u32::from(n);
        if planted!("nv-replay/threads-share-a-session") {
            session = all.session;
        }
        let member = Member {
            context,
            session,
            replaying: &all.replaying,
            counted,
        };
        let Options {
            version,
            update,
            start_over,
            ..
        } = options;
        let found = table.found(scan);
        let mut keep = None;
        if found.cursor.at == found.cursor.end {
            table.begin_unused(&found, version);
        } else {
            keep = table.records_to_keep(&found, version, update, start_over)?;
        }
        if let Some(n @ 1..) = keep {
            let consumed = table.consumes_handles_after(&found.cursor, n);
            if consumed && !planted!("nv-replay/keep-forgets-consumed-handles") {
                return Err(OpenError::Keep(Error::WrongPool));
            }
        }
        let mut pool = access(member, all.before_pool(), all.region.len());
        pool.save_found()?;
        let (mut sent, mut resend) = (0, None);
        if !planted!("nv-replay/thread-keeps-its-messages") {
            resend = table.send_pending(&mut pool, found.committed, &mut env, &mut sent)?;
        }
        if planted!("nv-replay/place-forgets-what-waits") {
            resend = None;
        }
        let rt = at.write(Replay {
            table,
            cursor: found.cursor,
            live: false,
            no_room_error: Error::TableFull,
            divergence: None,
            twins: Twins::new(),
            innermost_loop: 0,
            pool,
            env,
            sent,
            queue: Queue::new::<E>(),
            resend,
            _root: PhantomData,
        });
        // It ends with the fence of the run's start word. So the old records are gone for good
        // before this thread, or another one that is the last to replay, frees their objects.
        if let Some(n) = keep
            && let Err(error) = rt.untyped().restart(n, &found, version)
        {
            // SAFETY: invariant "Open in its place": written above, and the caller does not use it.
            unsafe { core::ptr::drop_in_place(rt) };
            return Err(error);
        }
        rt.untyped().check_live();
        Ok(rt)
    }
}

impl<'c, R: Persist, M: Model> Place<'c, R, Ram<M>>
where
    M::Unit: Width,
{
    /// Like [`Place::open_with`], for threads whose region lies in RAM and is kept on a medium: see
    /// [`Replay::open_mirrored`](crate::Replay::open_mirrored). `saver` is shared by all threads:
    /// tasks of one thread pass `&SharedSaver` ([`nvmem::at_rest::SharedSaver`]). Threads that
    /// preempt each other pass a [`Save`] around a mutex of theirs.
    ///
    /// A save holds the region at one instant, with the commits of all threads. Open transactions
    /// of other threads are saved with their journals, so the next open undoes them.
    ///
    /// **Errors**: those of [`Place::open`]; [`OpenError::Medium`].
    pub fn open_mirrored<E: Outlet, S: Save>(
        self,
        saver: S,
        options: Options<'_>,
        env: E,
    ) -> Result<MirroredThread<'c, R, S, M, E>, OpenError> {
        let mut at = MaybeUninit::uninit();
        self.open_by(&mut at, options, env, |member, before, len| {
            Mirrored::new(member, saver, before, len)
        })?;
        // SAFETY: invariant "Open in its place": `open_by` has written it, and nothing else refers
        // to `at`.
        Ok(unsafe { at.assume_init() })
    }

    /// Like [`Place::open_mirrored`], for a medium with an async driver: see
    /// [`Replay::open_mirrored_async`](crate::Replay::open_mirrored_async). **Errors**: those of
    /// [`Place::open`].
    #[cfg(feature = "async")]
    pub fn open_mirrored_async<E: Outlet, S: AsyncSave>(
        self,
        saver: S,
        options: Options<'_>,
        env: E,
    ) -> Result<AsyncMirroredThread<'c, R, S, M, E>, OpenError> {
        let mut at = MaybeUninit::uninit();
        self.open_by(&mut at, options, env, |member, before, len| {
            AsyncMirrored::new(member, saver, before, len)
        })?;
        // SAFETY: invariant "Open in its place": `open_by` has written it, and nothing else refers
        // to `at`.
        Ok(unsafe { at.assume_init() })
    }
}

impl<'c, R: Persist, M: Model, E: Outlet> Thread<'c, R, M, E>
where
    M::Unit: Width,
{
    /// Drops the thread's records: a new run begins without them. The root and messages that wait
    /// stay. Objects that only the records own are reclaimed after the next open. Other threads may
    /// run meanwhile.
    ///
    /// To be called when the program has returned, whether it has passed all of its records or not.
    ///
    /// **Power loss**: all records, or none. **Cost**: two or three stores and a sequence number;
    /// none if there are no records. **Errors**: the table is damaged, or a number cannot be used.
    /// The thread has stopped then, or still has its records.
    pub fn start_over(&mut self) -> Result<(), OpenError> {
        let found = self.table.scan().map_err(OpenError::Damaged)?;
        self.cursor = found.cursor;
        self.no_room_error = Error::TableFull;
        self.divergence = None;
        self.twins = Twins::new();
        self.innermost_loop = 0;
        if found.cursor.at != found.cursor.end && !planted!("nv-replay/start-over-keeps-records") {
            self.restart(0, &found, found.run.version::<M>())?;
        }
        self.check_live();
        Ok(())
    }
}

impl<M: Model> Table<'_, M> {
    /// Enters the version of the program that begins to use a table without records.
    ///
    /// **Power loss**: the old version or this one; there are no records either way. **Cost**: at
    /// most two stores.
    fn begin_unused(&self, found: &ScanResult, version: u16) {
        let same = found.run.version::<M>() == version;
        if same || planted!("nv-replay/reserved-place-keeps-version") {
            return;
        }
        let area = u32::from(found.run.second::<M>()) << (Self::COUNTER_BITS - 1);
        let counter = u32::from(version) << Self::COUNTER_BITS | area;
        // The upper counter, one unit, is all that changes.
        let bits = State::start_bits(found.run.seq, found.run.done);
        self.write_state(self.geo.run_state(), bits, counter);
    }

    /// Whether a record after the first `n` has consumed a handle.
    fn consumes_handles_after(&self, f: &Cursor, n: u16) -> bool {
        let (mut at, mut payload, mut i) = (f.at, f.payload, 0);
        while at != f.end {
            let Some(h) = self.read_record(at, payload) else {
                break;
            };
            if i >= n && h.kind == CallKind::TookHandles {
                return true;
            }
            i += 1;
            at -= Self::UNIT;
            payload = h.end;
        }
        false
    }
}

/// The tables of a region of several threads, for a reader that does not know the threads' types.
pub(crate) struct Tables<'r, 'm, M> {
    region: &'r Region<'m, M>,
    geo: Geometry,
    pub count: usize,
}

impl<'r, 'm, M: Model> Tables<'r, 'm, M> {
    /// Reads the layout of a region of several threads. `None` if it is none.
    ///
    /// **Errors**: [`OpenError`].
    pub fn of(region: &'r Region<'m, M>) -> Result<Option<Self>, OpenError> {
        let mine = table::superblock::<M>(&Config::SMALL, None, region.len(), 0);
        let sb = match superblock::probe(region, &mine) {
            superblock::State::Ready(sb) => sb,
            _ => return Ok(None),
        };
        if (sb.kind, sb.version) != (mine.kind, VERSION_THREADS) {
            return Ok(None);
        }
        let same = |i: usize| sb.params[i] == mine.params[i];
        if !same(param::UNIT) {
            return Err(OpenError::Config(ConfigItem::Unit));
        }
        let count = ThreadCount::decode(sb.params[param::THREADS]);
        let count = count.filter(|_| same(param::LEN));
        let count = count.ok_or(OpenError::Damaged(Damage::Superblock))?.tables;
        let geo = geometry(region, &sb, count)?;
        Ok(Some(Tables { region, geo, count }))
    }

    /// The table of the thread `n`, which is less than `count`.
    pub fn table(&self, n: usize) -> Table<'m, M> {
        table_of(self.region, &self.geo, n)
    }
}

/// Like [`last_committed`](crate::last_committed), for one thread of several: the sequence number
/// of its last committed transaction. 0 for a blank region, and for a thread that the region does
/// not have.
///
/// It is good until [`Threads::open`], which the borrow checks. Writes nothing. **Cost** and
/// **Errors**: as there; [`OpenError::FormatVersion`] for the region of a single program.
pub fn last_committed_of<'o, M: Model>(
    region: &'o Region<'_, M>,
    thread: usize,
) -> Result<CommitNumber<'o>, OpenError> {
    let number = match Tables::of(region)? {
        Some(tables) if thread < tables.count => {
            let found = tables.table(thread).scan().map_err(OpenError::Damaged)?;
            found.committed
        }
        Some(_) => 0,
        None => match open::scan_region(region, &mut |_, _| {})? {
            None => 0,
            Some(_) => {
                return Err(OpenError::FormatVersion {
                    stored: table::VERSION,
                });
            }
        },
    };
    Ok(CommitNumber::new(
        NumberOwner::thread_of(region, thread),
        number,
    ))
}
