//! A pool: its opening (format a blank region, recover a used one, refuse a foreign one), its
//! roots, migration to other types, and the uses of the walk in an open pool.
//!
//! ```text
//!  superblock?   blank, half formatted -> store header "formatting"
//!                |                        commit words, journal headers := 0; one free block; init
//!                |                        superblock becomes valid          <- commits the format
//!                ready                 -> finish a committed migration
//!                foreign, damaged, other types or length -> the error, with the region
//!
//!  recovery, for each context:  last = its commit word (or the resolver's answer)
//!                               undo the valid journal entries of number last + 1, newest first
//!  then:                        walk the chain of blocks; revert or settle cell tags
//!                               walk from the roots, check each object before it becomes a value
//!                               free the blocks that no root leads to
//! ```
//!
//! A cut during a format or a recovery is harmless: the next open does the same again. Nothing is
//! written before the superblock and all parameters were checked. Journal entries are checked
//! before the first one is undone, and each undo is idempotent.
//!
//! The pool is built in its final memory, field by field (`mount`, `init_geometry`, `init_fields`).
//! The invariant *A pool is whole before it is one* states which fields are initialised when.
//!
//! Migration changes the types of a pool and keeps its content:
//!
//! ```text
//!  1  one transaction of context 0 makes the new roots, own and shared, from the old ones;
//!     it is prepared, not committed
//!  2  superblock := new fingerprint, MIGRATED = the transaction's number    <- commits both
//!  3  commit word := that number
//!  4  superblock := MIGRATED = 0
//! ```
//!
//! A cut before step 2 leaves the old pool: the open with the old types undoes the transaction. A
//! cut after it leaves the new pool: `finish_migration` does steps 3 and 4 again at every open
//! until `MIGRATED` is 0. The superblock is replaced atomically, so types and content never
//! disagree.

use crate::context::{Context, Core, CtxState, Failed, flag};
use crate::error::{Component, Error, OpenError, OpenFailure};
use crate::layout::{self, Block, BlockKind, Config, Count, Geometry, param};
use crate::ptr::{PBox, Width, assert_storable, write_value};
use crate::tx::{InOneThread, Root, Tx};
use crate::walk::{Audit, Walk};
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nvmem::cross::{Arg, Ret};
use nvmem::persist::{HandleKind, Visit};
use nvmem::superblock::{self, State};
use nvmem::{InOrder32, Invalid, Model, Persist, Region, Superblock, Unit, mapped, planted};

/// A region that holds persistent objects. They are reachable from a root of type `R`, or from one
/// root for each of several [`Contexts`]. `M` is the model of the medium.
///
/// [`Pool::tx`] runs a transaction, and [`Pool::open`] opens the pool:
///
/// ```
/// # use pmem_tx::{Pool, nvmem::Region};
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 128]));
/// # let region = Region::<nvmem::InOrder32>::new(memory);
/// let mut boots = Pool::<u32>::open(region, |_| Ok(0))?;
/// let n = boots.tx(|tx, boots| {
///     *boots.get_mut(tx)? += 1;
///     Ok(*boots.get(tx))
/// })?;
/// # assert_eq!(n, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pool<'m, R: Roots, M = InOrder32> {
    pub(crate) core: Core<'m, M>,
    pub(crate) states: R::States,
    _r: PhantomData<fn(R) -> R>,
}

// SAFETY: invariant "One thread": the bound never holds. (A pool may be moved, because its fields
// may.)
unsafe impl<R: Roots, M> Sync for Pool<'_, R, M> where Self: InOneThread {}

impl<'m, R: Persist, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Runs a transaction: everything `body` does to persistent objects happens, or nothing. See
    /// [`Context::tx`] for **Power loss**, **Cost** and **Errors**.
    #[inline]
    pub fn tx<O, F>(&mut self, body: F) -> Result<O, Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<O, Error>,
    {
        self.context().tx(body)
    }

    /// Runs a transaction with arguments: plain values and handles. See [`Context::tx_with`].
    ///
    /// **Errors**: those of [`Context::tx_with`], with the arguments back.
    pub fn tx_with<A: Arg, O, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O, Error>,
    {
        self.context().tx_with(args, body)
    }

    /// Runs a transaction whose result may hold handles. See [`Context::tx_own`].
    ///
    /// **Errors**: those of [`Context::tx_own`], with the arguments back.
    pub fn tx_own<A: Arg, O: Ret, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        self.context().tx_own::<A, O, F>(args, body)
    }

    /// The pool's only context.
    #[inline]
    pub fn context(&mut self) -> Context<'_, R, M> {
        let (core, all) = self.core_and_states();
        Context {
            core,
            others: &[],
            s: &all[0],
            _r: PhantomData,
        }
    }
}

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Opens the pool in `region`: formats a blank region with the content that `init` returns,
    /// recovers a used one, refuses a foreign one.
    ///
    /// Accepts any bytes: everything reachable is checked before it becomes a value, and objects
    /// that no root leads to are freed. The journal takes about an eighth of the region; use
    /// [`Pool::open_with`] to choose.
    ///
    /// **Power loss**: a format starts over; a recovery continues. **Cost**: a read of everything
    /// reachable. The journal's old content if a transaction was cut. One store for each object
    /// that is reclaimed, and for each cell that was written since the last open. To format: the
    /// superblock, the tables and the content of `init`. **Errors**: [`OpenError`], with the region
    /// back.
    pub fn open<F>(region: Region<'m, M>, init: F) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        let config = Config::for_len(region.len());
        Self::open_with(region, &config, init).map_err(Self::grow_needed)
    }

    /// The journals of several contexts grow with the region, so a length that is enough for
    /// shorter journals may be too short.
    #[inline(always)]
    fn grow_needed(mut refused: OpenFailure<'m, M>) -> OpenFailure<'m, M> {
        if planted!("pmem-tx/journals-do-not-grow") {
            return refused;
        }
        if R::COUNT + R::SHARED > 1
            && let OpenError::TooSmall { needed } = &mut refused.error
        {
            *needed = Geometry::needed_by_len(*needed, count_of::<R>(), Core::<M>::UNIT);
        }
        refused
    }

    /// Like [`Pool::open`], with a configuration. It is used only when the region is formatted.
    ///
    /// **Errors**: those of [`Pool::open`]. [`OpenError::Config`] if the configuration is not
    /// possible.
    pub fn open_with<F>(
        region: Region<'m, M>,
        config: &Config,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        Self::open_value(region, config, None, true, init)
    }

    /// Like [`Pool::open_with`], for a caller that owns the commit words. `resolve(context)`
    /// returns the sequence number of the context's last committed transaction, 0 for none.
    /// Transactions use [`Context::prepare`].
    ///
    /// Nothing is reclaimed yet: the caller first passes the handles in its own records to
    /// [`Pool::adopt`], then calls [`Pool::reclaim`]. **Errors**: those of [`Pool::open_with`];
    /// [`OpenError::Sessions`]; [`OpenError::Damaged`] if `resolve` returns a number that is larger
    /// than [`Pool::seq_max`].
    pub fn open_resolved<F, S>(
        region: Region<'m, M>,
        config: &Config,
        resolve: S,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
        S: Fn(usize) -> u32,
    {
        Self::open_value(region, config, Some(&resolve), true, init)
    }

    /// Like [`Pool::open_with`] without the walk, for a quick reboot: nothing reachable is checked
    /// and nothing is reclaimed.
    ///
    /// **Errors**: those of [`Pool::open_with`] but [`OpenError::Invalid`] and
    /// [`OpenError::TooManyTypes`], which only the walk finds.
    ///
    /// # Safety
    /// This program, or one with the same types, formatted the region. Nothing else has written to
    /// it since, and the medium has kept it.
    pub unsafe fn open_trusting<F>(
        region: Region<'m, M>,
        config: &Config,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        Self::open_value(region, config, None, false, init)
    }

    /// Like [`Pool::open`], in memory that the caller provides. A small program saves the code that
    /// moves the pool. **Errors**: those of [`Pool::open`].
    #[inline(always)]
    pub fn open_in<'p, F>(
        storage: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        init: F,
    ) -> Result<&'p mut Self, OpenFailure<'m, M>>
    where
        F: for<'t> FnOnce(&Tx<'t, M>) -> Result<R::Init<'t>, Error>,
    {
        let config = Config::for_len(region.len());
        Self::mount(storage, region, &config, None, true, init).map_err(Self::grow_needed)
    }

    /// Opens a pool that is embedded in a larger structure, as [`Pool::open_resolved`] and
    /// [`Pool::open_in`] do.
    ///
    /// The structure's superblock gives the pool's parameters, and the pool becomes valid together
    /// with it. The region's first [`Superblock::BYTES`](nvmem::Superblock::BYTES) are not touched.
    /// The pool is formatted unless it is `ready`.
    ///
    /// `params` are those of [`Config::params`], as stored or as they would be stored. After they
    /// were checked, and before anything is written, `resolve` returns a function that gives the
    /// number of a context's last committed transaction, and a value that is returned to the
    /// caller.
    #[doc(hidden)]
    #[inline(always)]
    pub fn mount_embedded<'p, F, C, T, E: From<OpenError>>(
        storage: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        params: &[u32; 8],
        ready: bool,
        resolve: impl FnOnce() -> Result<(C, T), E>,
        init: F,
    ) -> Result<(&'p mut Self, T), E>
    where
        C: Fn(usize) -> u32,
        F: for<'t> FnOnce(&Tx<'t, M>) -> Result<R::Init<'t>, Error>,
    {
        let at = storage.as_mut_ptr();
        let session = session::next().ok_or(OpenError::Sessions)?;
        // SAFETY: invariant "A pool is whole before it is one": inside the storage; after these
        // three steps all fields are initialised.
        let pool = unsafe {
            (&raw mut (*at).core.region).write(region);
            Self::init_geometry(at, params, ready)?;
            Self::init_fields(at, session, true)
        };
        let (committed, extra) = resolve()?;
        let (core, all) = (&pool.core, pool.states.as_ref());
        if !ready {
            Self::format(core, all, init).map_err(OpenError::Init)?;
        }
        let mut w = Walk::resume(core);
        Self::recover(core, all, Some(&committed), Some(&mut w)).map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        core.mark_walked(all);
        Ok((pool, extra))
    }

    /// Opens and returns the pool by value. Without `resolve` the pool's own commit words say what
    /// is committed.
    fn open_value<F>(
        region: Region<'m, M>,
        config: &Config,
        resolve: Option<&dyn Fn(usize) -> u32>,
        check: bool,
        init: F,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        let mut storage = MaybeUninit::uninit();
        Self::mount(&mut storage, region, config, resolve, check, init)?;
        // SAFETY: invariant "A pool is whole before it is one": `mount` has succeeded, and nothing
        // else uses it.
        Ok(unsafe { storage.assume_init() })
    }

    #[inline(always)]
    fn mount<'p, F>(
        storage: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        config: &Config,
        resolve: Option<&dyn Fn(usize) -> u32>,
        check: bool,
        init: F,
    ) -> Result<&'p mut Self, OpenFailure<'m, M>>
    where
        F: for<'t> FnOnce(&Tx<'t, M>) -> Result<R::Init<'t>, Error>,
    {
        let at = storage.as_mut_ptr();
        // SAFETY: invariant "A pool is whole before it is one": inside the storage; the region is
        // written first.
        unsafe { (&raw mut (*at).core.region).write(region) }
        // SAFETY: invariant "A pool is whole before it is one": the region is initialised.
        match unsafe { Self::open_in_place(at, config, resolve, check, init) } {
            // SAFETY: invariant "A pool is whole before it is one": `open_in_place` has succeeded.
            Ok(()) => Ok(unsafe { storage.assume_init_mut() }),
            Err(error) => Err(OpenFailure {
                error,
                // SAFETY: invariant "A pool is whole before it is one": the region is still
                // initialised, and is moved out only here.
                region: unsafe { (&raw const (*at).core.region).read() },
            }),
        }
    }

    // INVARIANT "A pool is whole before it is one": a field is read only after it was written, and
    // a pool is returned only when all fields are written. Also in `mount`, `init_geometry` and
    // `init_fields`.
    // Noticed by: Miri on every test that opens a pool; `misused_while_a_pool_is_formatted` in
    // tests/suite/misuse/probes.rs.

    /// Opens a pool whose region is initialised; writes the other fields once their values are
    /// known.
    ///
    /// # Safety
    /// `at` is memory for a pool that only the caller uses, and its region is initialised. On
    /// success all fields are.
    #[inline(always)]
    unsafe fn open_in_place<F>(
        at: *mut Self,
        config: &Config,
        resolve: Option<&dyn Fn(usize) -> u32>,
        check: bool,
        init: F,
    ) -> Result<(), OpenError>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        // Contexts that preempt each other could take two numbers; take one now.
        let session = match resolve {
            None if !M::PREEMPTED => session::NONE,
            _ => session::next().ok_or(OpenError::Sessions)?,
        };
        // SAFETY: invariant "A pool is whole before it is one": the region is initialised, by the
        // contract.
        let region = unsafe { &(*at).core.region };
        let fingerprint = R::fingerprint();
        let len = region.len();
        let mut mine = layout::superblock::<M>(config, count_of::<R>(), len, fingerprint);
        let state = superblock::probe_view(region, &mine);
        let ready = matches!(state, State::Ready(_));
        if let State::Ready(stored) = &state
            && !stored.is_expected()
            && let Err(other) = stored.agrees(&mut mine, param::STORED)
        {
            return Err(layout::mismatch_error(stored, &mine, other));
        }
        // SAFETY: invariant "A pool is whole before it is one": the region is initialised.
        unsafe { Self::init_geometry(at, &mine.params, ready)? };
        match state {
            State::Foreign => return Err(OpenError::Foreign),
            State::Damaged => return Err(OpenError::Damaged(Component::Superblock)),
            _ => {}
        }
        // SAFETY: invariant "A pool is whole before it is one": the region and the geometry are
        // initialised.
        let pool = unsafe { Self::init_fields(at, session, resolve.is_some()) };
        let (core, all) = (&mut pool.core, pool.states.as_ref());
        if ready {
            Self::finish_migration(core, &mut mine)
        } else {
            // Values that `init` writes may have padding.
            core.region.mark_values();
            let marker = superblock::begin_marked(&mut core.region, &mine);
            Self::format(core, all, init).map_err(OpenError::Init)?;
            superblock::finish_marked(&mut core.region, marker, &mine);
        }
        let mut w = Walk::resume(core);
        Self::recover(core, all, resolve, check.then_some(&mut w)).map_err(OpenError::Damaged)?;
        if check {
            w.check_all::<R>()?;
            if resolve.is_some() {
                core.mark_walked(all);
            } else if !planted!("pmem-tx/no-reclaim") {
                w.reclaim();
            }
        }
        Ok(())
    }

    /// Computes the geometry from superblock parameters; `stored` if they come from the medium.
    ///
    /// # Safety
    /// As for `open_in_place`. On success the geometry is initialised.
    #[inline(always)]
    unsafe fn init_geometry(
        at: *mut Self,
        params: &[u32; 8],
        stored: bool,
    ) -> Result<(), OpenError> {
        // SAFETY: invariant "A pool is whole before it is one": fields of the storage, whose region
        // is initialised.
        let (geo, len) = unsafe {
            let geo = &mut *(&raw mut (*at).core.geo).cast();
            (geo, (*at).core.region.len())
        };
        match Geometry::compute::<M>(geo, params, count_of::<R>(), len) {
            Ok(_) => Ok(()),
            Err(bad) => Err(bad.into_open_error(stored)),
        }
    }

    /// Initialises the fields other than the region and the geometry.
    ///
    /// # Safety
    /// As for `open_in_place`, and the geometry is initialised too.
    #[inline(always)]
    unsafe fn init_fields<'p>(at: *mut Self, session: u32, caller_commits: bool) -> &'p mut Self {
        // SAFETY: invariant "A pool is whole before it is one": with the region and the geometry,
        // these are all fields.
        let pool = unsafe {
            (&raw mut (*at).core.cursor).write(Cell::new((*at).core.geo.heap));
            (&raw mut (*at).core.walk_valid).write(Cell::new(false));
            (&raw mut (*at).core.marked).write(Cell::new((*at).core.geo.heap));
            (&raw mut (*at).core.unowned).write(Cell::new(0));
            (&raw mut (*at).core.session).write(Cell::new(session));
            (&raw mut (*at).core.caller_commits).write(caller_commits);
            (&raw mut (*at).states).write(R::States::default());
            &mut *at
        };
        for (ctx, s) in pool.states.as_ref().iter().enumerate() {
            pool.core.init_context(ctx, s);
        }
        pool
    }

    /// Undoes transactions that were not committed. **Errors**: a component that no transaction
    /// leaves like this.
    fn recover(
        core: &Core<'m, M>,
        all: &[CtxState],
        resolve: Option<&dyn Fn(usize) -> u32>,
        walk: Option<&mut Walk<'_, 'm, M>>,
    ) -> Result<(), Component> {
        for (ctx, s) in all.iter().enumerate() {
            let last = match resolve {
                // SAFETY: invariant "Headers are never content": the context's commit word.
                None => unsafe { core.load(s.word.get()) },
                Some(resolve) => resolve(ctx) as usize,
            };
            if last > core.geo.seq_max {
                return Err(Component::CommitWord);
            }
            s.set_seq_after(&core.geo, last);
            core.recover(s)?;
        }
        let mut written = true;
        match walk {
            Some(w) => written = w.begin(true)?,
            None => core.for_each_block(|_, _| Ok(()))?,
        }
        if written {
            core.mount_versions(all);
        }
        core.fence();
        Ok(())
    }

    fn format<F>(core: &Core<'m, M>, all: &[CtxState], init: F) -> Result<(), Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        let g = &core.geo;
        // SAFETY: invariant "Headers are never content": units of the table, of the header areas,
        // and the first block's header.
        unsafe {
            for s in all {
                core.store(s.word.get(), 0);
                // The second words of the headers.
                let mut word = core.at(s.headers.get()).cast::<M::Unit>();
                for _ in 0..g.entries {
                    mapped::store(word.add(1), M::Unit::truncate(0));
                    word = word.add(2);
                }
            }
            core.store(g.heap, Block::word(BlockKind::Free, g.end - g.heap));
        }
        // Nothing is logged: an interrupted format starts over. Sequence number 0 settles cells.
        let Some(s) = all.first() else {
            return Ok(());
        };
        s.set_level(flag::OUTERMOST);
        let tx = Tx::new(core, &[], s, false);
        R::init_roots(init(&tx)?, &tx)?;
        s.check_failed()?;
        core.reset(s);
        core.fence();
        Ok(())
    }

    pub(crate) fn core_and_states(&self) -> (&Core<'_, M>, &[CtxState]) {
        (&self.core, self.states.as_ref())
    }

    /// The largest sequence number. The number after it is 1.
    pub fn seq_max(&self) -> u32 {
        self.core.geo.seq_max as u32
    }

    /// The session number of this opening, which every [`Held`](crate::Held) carries.
    ///
    /// `u32::MAX`, which is never a session, if no number was taken yet: a pool that keeps its own
    /// commit words takes one when the first handle leaves a transaction.
    pub fn session(&self) -> u32 {
        self.core.session.get()
    }

    /// Closes the pool and returns its region. Writes nothing.
    ///
    /// The region can be opened again. It holds values whose padding bytes are uninitialised: to
    /// read it as a [`Medium`](nvmem::Medium), call [`Region::clear`] first.
    pub fn close(self) -> Region<'m, M> {
        let mut region = self.core.region;
        region.mark_values();
        region
    }
}

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Finishes a committed migration: enters its number in the commit word, then clears it in the
    /// superblock. May be repeated.
    pub(crate) fn finish_migration(core: &mut Core<'m, M>, stored: &mut Superblock) {
        let seq = stored.params[param::MIGRATED] as usize;
        if seq == 0 {
            return;
        }
        // SAFETY: invariant "Headers are never content": the first context's commit word.
        unsafe { core.store(core.geo.word(0, Core::<M>::UNIT), seq) }
        // A value that is not a sequence number is refused later, when the commit words are
        // checked.
        if !planted!("pmem-tx/migration-never-entered") {
            stored.params[param::MIGRATED] = 0;
        }
        superblock::replace(&mut core.region, stored);
    }
}

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Like [`Pool::open_with`], and converts a pool whose roots are an `Old` to one whose roots
    /// are an `R`: of as many contexts and shared roots. `change` gets the old roots by value and
    /// returns the new ones, in the form that `init` returns. It converts handles in a root one by
    /// one: `into_inner`, then `PBox::new`.
    ///
    /// **Power loss**: the old pool or the new one, never a mixture; the next `migrate` continues.
    /// **Cost**: one transaction, so the journal limits it: an entry for each root, one for all
    /// root words, and what `change` does. Two superblocks. **Errors**: those of [`Pool::open`],
    /// and an error of `change` as [`OpenError::Init`]; then the old pool is unchanged.
    pub fn migrate<Old: Roots, F, G>(
        region: Region<'m, M>,
        config: &Config,
        init: F,
        change: G,
    ) -> Result<Self, OpenFailure<'m, M>>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
        G: for<'p> FnOnce(&Tx<'p, M>, Old::Init<'p>) -> Result<R::Init<'p>, Error>,
    {
        let mine = layout::superblock::<M>(config, count_of::<R>(), region.len(), 0);
        let old = match superblock::probe(&region, &mine) {
            State::Ready(sb) => sb.fingerprint == Old::fingerprint(),
            _ => false,
        };
        if !old {
            return Self::open_with(region, config, init);
        }
        let mut pool = Pool::<Old, M>::open_with(region, config, |_| Err(Error::WrongPool))?;
        let mut stored = match superblock::probe(&pool.core.region, &mine) {
            State::Ready(sb) => sb,
            // It was ready when it was opened.
            _ => mine,
        };
        let base = pool.core.region.base();
        let r = pool.change_roots::<R, G>(change, |seq| {
            stored.fingerprint = R::fingerprint();
            stored.params[param::MIGRATED] = seq;
            // SAFETY: invariant "Sole region": the superblock's bytes, which nothing else uses
            // while the pool is borrowed here.
            let head = unsafe { Region::<M>::from_raw(base, base.add(Superblock::BYTES)) };
            if let Ok(mut head) = head {
                superblock::replace(&mut head, &stored);
            }
        });
        let region = pool.close();
        match r {
            Ok(()) => Self::open_with(region, config, init),
            Err(e) => Err(OpenFailure { error: e, region }),
        }
    }

    /// Replaces all roots in one transaction of context 0. `commit` stores its number, and that the
    /// roots are a `New` now, with a fence before and after it. Then the pool is closed.
    ///
    /// **Power loss**: `commit` decides. **Cost**: see [`Pool::migrate`]. **Errors**: that of
    /// `change`; nothing has changed then.
    #[doc(hidden)]
    pub fn change_roots<New: Roots, G>(
        &mut self,
        change: G,
        commit: impl FnOnce(u32),
    ) -> Result<(), OpenError>
    where
        G: for<'p> FnOnce(&Tx<'p, M>, R::Init<'p>) -> Result<New::Init<'p>, Error>,
    {
        const {
            assert!(
                New::COUNT == R::COUNT && New::SHARED == R::SHARED,
                "a migration keeps the numbers of contexts and of shared roots"
            )
        }
        let (core, all) = self.core_and_states();
        let last = count_of::<R>().roots() - 1;
        let unit = Core::<M>::UNIT;
        let (from, to) = (core.geo.root(0, unit), core.geo.root(last, unit) + unit);
        let mut context = Context::<u8, M> {
            core,
            others: if all.len() > 1 { all } else { &[] },
            s: &all[0],
            _r: PhantomData,
        };
        let p = context
            .prepare_resolved::<(), (), _>((), |tx, _, ()| {
                // SAFETY: invariant "Sole owner": called once, and the old root words are
                // overwritten below, or the transaction is undone.
                let old = unsafe { R::take_roots(tx)? };
                let new = change(tx, old)?;
                // One entry for all root words. Between them are commit words, which do not change.
                if !planted!("pmem-tx/migration-logs-one-root") {
                    tx.core.log(tx.s, from, to)?;
                    mapped::end_loan(tx.core.at(from), to - from);
                } else {
                    tx.core.log(tx.s, from, from + unit)?;
                    mapped::end_loan(tx.core.at(from), unit);
                }
                New::init_roots(new, tx)
            })
            .map_err(|f| OpenError::Init(f.error))?;
        commit(p.seq());
        p.committed();
        Ok(())
    }
}

impl<'m, R: Roots, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
    /// Frees the objects that no root leads to and that were not adopted; returns their number.
    /// Does nothing once a transaction has run.
    ///
    /// **Power loss**: the next open frees the others. **Cost**: one store for each object.
    pub fn reclaim(&mut self) -> usize {
        if !self.core.walk_valid.replace(false) || planted!("pmem-tx/no-reclaim") {
            return 0;
        }
        Walk::resume(&self.core).reclaim()
    }

    /// Restores a result that the caller has recorded as bytes. Its handles become
    /// [`Held`](crate::Held) again, checked as at open, and their objects are not reclaimed.
    ///
    /// **Errors**: [`Error::Invalid`] if the bytes are not such a result, or an object already has
    /// an owner. [`Error::WrongPool`] for a result with handles if the pool was not walked, by
    /// [`Pool::walk`] or by an open with a resolver, or if a transaction, [`Pool::reclaim`] or
    /// [`Pool::audit`] has run since. [`Error::Sessions`].
    pub fn adopt<O: Ret>(&mut self, bytes: &[u8]) -> Result<O, Error> {
        if O::HANDLES > 0 && !self.core.walk_valid.get() {
            return Err(Error::WrongPool);
        }
        self.adopt_unspent(bytes, &mut |_| false)
    }

    /// Like [`Pool::adopt`], for a result some of whose handles a later record of the caller has
    /// consumed.
    ///
    /// A handle for which `spent` returns true is not checked. It becomes a [`Held`](crate::Held)
    /// of a session that every transaction refuses: a replay can compare it, and nothing else can
    /// be done with it. **Errors**: those of [`Pool::adopt`].
    pub fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, Error> {
        if O::HANDLES > 0 && !self.core.walk_valid.get() {
            return Err(Error::WrongPool);
        }
        if bytes.len() != O::BYTES {
            return Err(Error::Invalid(Invalid::Bits(core::any::type_name::<O>())));
        }
        adopt_unowned(&self.core, bytes, self.core.session()?, spent)
    }

    /// Walks from the roots again, as at open. Afterwards results can be adopted and objects
    /// reclaimed, even if transactions have run before.
    ///
    /// A new session begins: every earlier [`Held`](crate::Held) is refused with
    /// [`Error::WrongPool`], because its object may be reclaimed or adopted now. To keep an object,
    /// store its handle in the pool first.
    ///
    /// **Power loss**: only the scratch area changes. **Errors**: something reachable is damaged;
    /// [`OpenError::Unfinished`] if a prepared transaction was forgotten; [`OpenError::Sessions`].
    pub fn walk(&mut self) -> Result<(), OpenError> {
        self.core.walk_valid.set(false);
        for s in self.states.as_ref() {
            if s.is(flag::PREPARED) {
                return Err(OpenError::Unfinished);
            }
            if s.level() > 0 {
                // The stack on which the last one ran was given up without unwinding.
                self.core.rollback(s);
            }
        }
        // Without a session number no handle has left a transaction, so none can be stale.
        if self.core.session.get() != session::NONE && !planted!("pmem-tx/walk-keeps-session") {
            let new = session::next().ok_or(OpenError::Sessions)?;
            self.core.session.set(new);
        }
        let mut w = Walk::resume(&self.core);
        w.begin(false).map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        self.core.mark_walked(self.states.as_ref());
        Ok(())
    }

    /// Walks from the roots and counts blocks. Objects that a [`Held`](crate::Held) owns count as
    /// unreachable.
    ///
    /// **Power loss**: only the scratch area changes. **Errors**: something reachable is damaged.
    pub fn audit(&mut self) -> Result<Audit, OpenError> {
        self.core.walk_valid.set(false);
        let mut w = Walk::resume(&self.core);
        w.begin(false).map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        Ok(w.count())
    }
}

/// Restores a result from its bytes: its handles lead to objects that the last walk has found
/// without an owner, or are `spent`.
///
/// **Errors**: those of [`Pool::adopt_unspent`].
#[inline(always)]
pub(crate) fn adopt_unowned<O: Ret, M: Model>(
    core: &Core<'_, M>,
    bytes: &[u8],
    session: u32,
    spent: &mut dyn FnMut(u32) -> bool,
) -> Result<O, Error> {
    let mut w = AdoptVisitor {
        walk: Walk::resume(core),
        spent,
        last_spent: false,
        complete: false,
    };
    // SAFETY: invariant "Sole owner": the walk accepts a handle only if nothing owns its object
    // yet, neither an object of the pool nor a handle of this session; a spent one gets session 0,
    // which no pool has.
    let r = unsafe { O::decode(bytes, session, &mut w) };
    let r = r.and_then(|o| w.walk.check_pending().map(|()| o));
    w.complete = r.is_ok();
    Ok(r?)
}

/// Shows the handles of a recorded result to the walk, except the spent ones.
struct AdoptVisitor<'a, 'c, 'm, M: Model> {
    walk: Walk<'c, 'm, M>,
    spent: &'a mut dyn FnMut(u32) -> bool,
    last_spent: bool,
    /// The whole result was checked successfully.
    complete: bool,
}

/// A check may fail, or `spent` may unwind, after the first handles of a tuple were claimed. The
/// next walk numbers the types anew, so pending claims must be forgotten.
impl<M: Model> Drop for AdoptVisitor<'_, '_, '_, M> {
    fn drop(&mut self) {
        if !self.complete && !planted!("pmem-tx/pending-kept") {
            self.walk.forget_pending();
        }
    }
}

impl<M: Model> Visit for AdoptVisitor<'_, '_, '_, M> {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        self.last_spent = (self.spent)(value);
        if self.last_spent {
            Ok(())
        } else {
            self.walk.handle(value, found)
        }
    }
    fn session(&mut self, given: u32) -> u32 {
        if self.last_spent { 0 } else { given }
    }
}

/// The roots of a pool: a `Persist` type, [`Contexts`] of a tuple of them, or
/// [`Sharing`](crate::Sharing) with roots that the contexts share.
///
/// # Safety
/// Sealed by its hidden methods: implemented here only.
pub unsafe trait Roots {
    #[doc(hidden)]
    const COUNT: usize;
    /// The number of shared roots.
    #[doc(hidden)]
    const SHARED: usize = 0;
    /// Whether one of them may hold handles.
    #[doc(hidden)]
    const HANDLES: bool;
    #[doc(hidden)]
    type States: AsRef<[CtxState]> + Default;
    /// The values that a format stores: one for each root.
    type Init<'p>;
    #[doc(hidden)]
    fn fingerprint() -> u64;
    #[doc(hidden)]
    fn init_roots<'p, M: Model>(init: Self::Init<'p>, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        M::Unit: Width;
    /// The values of all roots, which stay where they are. **Errors**: the pool is damaged.
    ///
    /// # Safety
    /// Called once in a transaction, in which no root is used otherwise. It overwrites all root
    /// words before it commits.
    #[doc(hidden)]
    unsafe fn take_roots<'p, M: Model>(tx: &Tx<'p, M>) -> Result<Self::Init<'p>, Error>
    where
        M::Unit: Width;
    /// `H` is `HANDLES` of all roots of the pool.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn walk<M: Model, const H: bool>(
        w: &mut Walk<'_, '_, M>,
        core: &Core<'_, M>,
    ) -> Result<(), Invalid>;
}

pub(crate) const fn count_of<R: Roots>() -> Count {
    Count {
        contexts: R::COUNT,
        shared: R::SHARED,
    }
}

/// The fingerprint of some roots with one more. Inlined, so that the compiler knows the result.
#[inline(always)]
pub(crate) fn add_root(hash: u64, root: u64) -> u64 {
    (hash.rotate_left(7) ^ root).wrapping_mul(0x100_0000_01b3)
}

pub(crate) fn init_root<'p, T: Persist, M: Model>(
    i: usize,
    v: T,
    tx: &Tx<'p, M>,
) -> Result<(), Error>
where
    M::Unit: Width,
{
    const { assert_storable::<T>() }
    let at = init_root_block(i, size_of::<T>(), tx)?;
    // SAFETY: invariant "Free means free": a block that was free and is this transaction's own,
    // aligned to 8 and large enough.
    unsafe { write_value(at.cast::<T>(), v) }
    Ok(())
}

/// Allocates `bytes` bytes for the object of root `i`, of any type. Returns where they are.
fn init_root_block<M: Model>(i: usize, bytes: usize, tx: &Tx<'_, M>) -> Result<*mut u8, Error>
where
    M::Unit: Width,
{
    let kind = BlockKind::Object;
    let allocated = tx.core.alloc(tx.s, tx.others, bytes, kind, tx.logged);
    let off = <M::Unit as Width>::value(tx.or_fail(allocated.narrow::<M::Unit>())?);
    // SAFETY: invariant "Headers are never content": the root word of context `i` is a unit of the
    // table, never lent.
    unsafe { tx.core.store(tx.core.geo.root(i, Core::<M>::UNIT), off) }
    Ok(tx.core.at(off))
}

/// The value of root `i`. Its object stays, and is reclaimed once no root leads to it.
///
/// **Errors**: the root word is no handle.
///
/// # Safety
/// As for [`Roots::take_roots`]. The root is a `T`.
pub(crate) unsafe fn take_root<'p, T: Persist, M: Model>(
    i: usize,
    tx: &Tx<'p, M>,
) -> Result<T, Error>
where
    M::Unit: Width,
{
    // SAFETY: invariant "Headers are never content": the root word of an entry of the table.
    let off = unsafe { tx.core.load(tx.core.geo.root(i, Core::<M>::UNIT)) };
    let off = M::Unit::off(off).ok_or(Error::WrongPool)?;
    let at = PBox::<T, M::Unit>::from_offset(off).ptr(tx);
    mapped::will_read(at.cast(), size_of::<T>());
    // SAFETY: invariant "Sole owner": the walk at open has found a valid `T` there, and nothing
    // uses it again, by the contract.
    Ok(unsafe { at.read() })
}

#[inline(always)]
pub(crate) fn walk_one<T: Persist, M: Model, const H: bool>(
    i: usize,
    w: &mut Walk<'_, '_, M>,
    core: &Core<'_, M>,
) -> Result<(), Invalid> {
    // SAFETY: invariant "Headers are never content": the root word of context `i` is a unit of the
    // table, never lent.
    w.claim_root::<T, H>(unsafe { core.load(core.geo.root(i, Core::<M>::UNIT)) })
}

// SAFETY: invariant "Sole owner": one root, shown to the walk once.
unsafe impl<R: Persist> Roots for R {
    const COUNT: usize = 1;
    const HANDLES: bool = <R as Persist>::HANDLES;
    type States = [CtxState; 1];
    type Init<'p> = R::At<'p>;
    fn fingerprint() -> u64 {
        nvmem::fingerprint::<R>()
    }
    fn init_roots<'p, M: Model>(init: R::At<'p>, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        M::Unit: Width,
    {
        init_root(0, init, tx)
    }
    unsafe fn take_roots<'p, M: Model>(tx: &Tx<'p, M>) -> Result<R::At<'p>, Error>
    where
        M::Unit: Width,
    {
        // SAFETY: the caller's contract.
        unsafe { take_root(0, tx) }
    }
    #[inline(always)]
    #[allow(private_interfaces)]
    fn walk<M: Model, const H: bool>(
        w: &mut Walk<'_, '_, M>,
        core: &Core<'_, M>,
    ) -> Result<(), Invalid> {
        walk_one::<R, M, H>(0, w, core)
    }
}

/// The contexts of a [`Contexts`].
pub trait ContextsOf: Roots {
    /// One context for each root.
    type Each<'c, M: Model>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn each<'c, M: Model>(core: &'c Core<'c, M>, all: &'c Self::States) -> Self::Each<'c, M>;
}

/// Several roots, one for each context: `Pool<Contexts<(Ui, Radio)>>`.
pub struct Contexts<T>(PhantomData<fn(T) -> T>);

macro_rules! contexts {
    ($($n:literal: $($r:ident $i:tt $v:ident),+;)*) => {$(
        // SAFETY: invariant "Sole owner": a root for each context, each shown to the walk once.
        unsafe impl<$($r: Persist),+> Roots for Contexts<($($r,)+)> {
            const COUNT: usize = $n;
            const HANDLES: bool = false $(|| <$r as Persist>::HANDLES)+;
            type States = [CtxState; $n];
            type Init<'p> = ($($r::At<'p>,)+);
            fn fingerprint() -> u64 {
                // Order matters: a type's index in the tuple is the index of its context.
                let mut hash = $n;
                $(hash = add_root(hash, nvmem::fingerprint::<$r>());)+
                hash
            }
            fn init_roots<'p, Md: Model>(init: Self::Init<'p>, tx: &Tx<'p, Md>) -> Result<(), Error>
            where
                Md::Unit: Width,
            {
                let ($($v,)+) = init;
                $(init_root($i, $v, tx)?;)+
                Ok(())
            }
            unsafe fn take_roots<'p, Md: Model>(tx: &Tx<'p, Md>) -> Result<Self::Init<'p>, Error>
            where
                Md::Unit: Width,
            {
                // SAFETY: the caller's contract.
                Ok(unsafe { ($(take_root::<$r::At<'p>, Md>($i, tx)?,)+) })
            }
            #[allow(private_interfaces)]
            fn walk<Md: Model, const HANDLES: bool>(
                w: &mut Walk<'_, '_, Md>,
                core: &Core<'_, Md>,
            ) -> Result<(), Invalid> {
                $(walk_one::<$r, Md, HANDLES>($i, w, core)?;)+
                Ok(())
            }
        }
        impl<$($r: Persist),+> ContextsOf for Contexts<($($r,)+)> {
            type Each<'c, Md: Model> = ($(Context<'c, $r, Md>,)+);
            #[allow(private_interfaces)]
            #[inline(always)]
            fn each<'c, Md: Model>(
                core: &'c Core<'c, Md>,
                all: &'c Self::States,
            ) -> Self::Each<'c, Md> {
                ($(Context::<$r, Md> { core, others: all, s: &all[$i], _r: PhantomData },)+)
            }
        }
        impl<'m, $($r: Persist,)+ M: Model> Pool<'m, Contexts<($($r,)+)>, M>
        where
            M::Unit: Width,
        {
            /// The contexts, one for each root.
            pub fn contexts(&mut self) -> ($(Context<'_, $r, M>,)+) {
                let (core, all) = self.core_and_states();
                ($(Context::<$r, M> { core, others: all, s: &all[$i], _r: PhantomData },)+)
            }
        }
    )*};
}
contexts! {
    1: A 0 a;
    2: A 0 a, B 1 b;
    3: A 0 a, B 1 b, C 2 c;
    4: A 0 a, B 1 b, C 2 c, D 3 d;
    5: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e;
    6: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f;
    7: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g;
    8: A 0 a, B 1 b, C 2 c, D 3 d, E 4 e, F 5 f, G 6 g, H 7 h;
}

/// Session numbers: each opening of a pool that sends handles outside has its own, so that handles
/// of another opening are recognised.
///
/// Numbers are counted in RAM, from 1 after each reset, and never repeat. A handle that is kept for
/// 2^32 openings must not match again: its object may have another type by then. When the numbers
/// run out, no handle can leave a transaction until the next reset. Transactions without such
/// handles still work. The medium holds no session numbers.
pub(crate) mod session {
    /// The number that no session and no handle has.
    pub(crate) const NONE: u32 = u32::MAX;

    /// The last session number. Each refused call adds one before it is taken back; the distance to
    /// `u32::MAX` is larger than the number of calls that can be refused at the same time.
    const LAST: u32 = u32::MAX - (1 << 20);

    // INVARIANT "No session twice": between two resets a session number goes to one opening of one
    // pool, or to one walk of it. When the numbers have run out, it goes to none. `Core::session`
    // takes it.
    // Noticed by: `a_session_begins_with_its_first_handle` in tests/suite/misuse/handles.rs.

    /// Takes the next number, if one is left.
    pub(crate) fn next() -> Option<u32> {
        take(1)
    }

    /// Takes the next `count` numbers, at most some hundreds, if they are left; returns the first.
    #[cfg(target_has_atomic = "32")]
    #[inline(always)]
    pub(crate) fn take(count: u32) -> Option<u32> {
        use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let n = NEXT.fetch_add(count, Relaxed);
        if n > LAST {
            NEXT.store(LAST + 1, Relaxed);
            return None;
        }
        Some(n)
    }

    /// Takes the next `count` numbers, at most some hundreds, if they are left; returns the first.
    #[cfg(not(target_has_atomic = "32"))]
    #[inline(always)]
    pub(crate) fn take(count: u32) -> Option<u32> {
        use core::cell::Cell;
        use critical_section::{Mutex, with};
        static NEXT: Mutex<Cell<u32>> = Mutex::new(Cell::new(1));
        with(|cs| {
            let c = NEXT.borrow(cs);
            let n = c.get();
            c.set(if n <= LAST { n + count } else { n });
            (n <= LAST).then_some(n)
        })
    }
}
