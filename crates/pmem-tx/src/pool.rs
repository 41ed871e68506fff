//! Opening a pool: format a blank region, recover a used one, refuse a foreign one.
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

use crate::config::{self, Config, param};
use crate::context::{Context, Failed};
use crate::error::{Component, Error, OpenError, OpenFailure};
use crate::geometry::Geometry;
use crate::journal::VersionUpdate;
use crate::layout::{Block, BlockKind};
use crate::pbox::Width;
use crate::roots::Roots;
use crate::session;
use crate::state::{Core, CtxState};
use crate::tx::{InOneThread, Root, Tx};
use crate::walk::Walk;
use core::cell::Cell;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use nvmem::cross::{Arg, Ret};
use nvmem::superblock::{self, State};
use nvmem::{InOrder32, Model, Persist, Region, planted};

/// A region that holds persistent objects. They are reachable from a root of type `R`, or from one
/// root for each of several [`Contexts`](crate::Contexts). `M` is the model of the medium.
pub struct Pool<'m, R: Roots, M = InOrder32> {
    pub(crate) core: Core<'m, M>,
    pub(crate) states: R::States,
    _r: PhantomData<fn(R) -> R>,
}

// SAFETY: invariant "One thread": the bound never holds. (A pool may be moved, because its fields
// may.)
unsafe impl<R: Roots, M> Sync for Pool<'_, R, M> where Self: InOneThread {}

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
        if R::COUNT > 1
            && let OpenError::TooSmall { needed } = &mut refused.error
            && !planted!("pmem-tx/journals-do-not-grow")
        {
            *needed = Geometry::needed_by_len(*needed, R::COUNT, M::Unit::BYTES);
        }
        refused
    }

    /// Like [`Pool::open`], with a configuration. It is used only when the region is formatted.
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
    /// [`Pool::adopt`], then calls [`Pool::reclaim`].
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
    /// moves the pool.
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
    /// were checked, and before anything is written, `resolve` returns the number of the last
    /// committed transaction, and a value that is returned to the caller.
    #[doc(hidden)]
    #[inline(always)]
    pub fn mount_embedded<'p, F, T, E: From<OpenError>>(
        storage: &'p mut MaybeUninit<Self>,
        region: Region<'m, M>,
        params: &[u32; 8],
        ready: bool,
        resolve: impl FnOnce() -> Result<(u32, T), E>,
        init: F,
    ) -> Result<(&'p mut Self, T), E>
    where
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
        Self::recover(core, all, Some(&|_| committed), Some(&mut w)).map_err(OpenError::Damaged)?;
        w.check_all::<R>()?;
        core.mark_walked(all);
        Ok((pool, extra))
    }

    /// Opens and returns the pool by value. Without `resolve` the pool's own commit words tell what
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
        let mut mine = config::superblock::<M>(config, R::COUNT, len, fingerprint);
        let state = superblock::probe_view(region, &mine);
        let ready = matches!(state, State::Ready(_));
        if let State::Ready(stored) = &state
            && let Err(other) = stored.agrees(&mut mine, param::STORED)
        {
            return Err(config::mismatch_error(stored, &mine, other));
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
            superblock::begin(&mut core.region, &mine);
            Self::format(core, all, init).map_err(OpenError::Init)?;
            superblock::replace(&mut core.region, &mine);
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
        match Geometry::compute::<M>(geo, params, R::COUNT, len) {
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
        match walk {
            Some(w) => w.begin()?,
            None => core.for_each_block(|_, _| Ok(()))?,
        }
        for s in all {
            core.revert_versions(s, VersionUpdate::Mount);
        }
        Ok(())
    }

    fn format<F>(core: &Core<'m, M>, all: &[CtxState], init: F) -> Result<(), Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>) -> Result<R::Init<'p>, Error>,
    {
        let (g, unit) = (&core.geo, Core::<M>::UNIT);
        // SAFETY: invariant "Headers are never content": units of the table, of the header areas,
        // and the first block's header.
        unsafe {
            for s in all {
                core.store(s.word.get(), 0);
                for i in 0..g.entries {
                    core.store(s.header(i, unit) + unit, 0);
                }
            }
            core.store(g.heap, Block::word(BlockKind::Free, g.end - g.heap));
        }
        // Nothing is logged: an interrupted format starts over. Sequence number 0 settles cells.
        let Some(s) = all.first() else {
            return Ok(());
        };
        s.set_level(1);
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

impl<'m, R: Persist, M: Model> Pool<'m, R, M>
where
    M::Unit: Width,
{
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

    /// See [`Context::tx`].
    #[inline]
    pub fn tx<O, F>(&mut self, body: F) -> Result<O, Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<O, Error>,
    {
        self.context().tx(body)
    }

    /// See [`Context::tx_with`].
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

    /// See [`Context::tx_own`].
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
}
