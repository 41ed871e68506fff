//! How a runtime reaches its pool, as its owner or as one of several threads, and how what it
//! commits becomes durable.

use nvmem::at_rest::RestingRegion;
use nvmem::cross::Ret;
use nvmem::{Model, Persist};
use pmem_tx::{Context, Error, OpenError, Pool, Width};

/// What a runtime asks of its pool. Implemented here only: by [`Pool`], which the runtime of a
/// single program owns; by [`Member`](crate::Member), a thread's part of a pool that several
/// share; and by [`Mirrored`](crate::Mirrored), which saves what the runtime commits.
///
/// # Safety
/// The context is that of the runtime's own root, and its numbers are those of its table. An
/// [`Untyped`](PoolAccess::Untyped) has the layout of this type, and any value of it is one of this
/// type.
pub unsafe trait PoolAccess<R: Persist, M: Model>
where
    M::Unit: Width,
{
    /// The same access for code that does not use the root. A program with several types of roots
    /// contains such code once.
    #[doc(hidden)]
    type Untyped: PoolAccess<Self::AnyRoot, M>;
    /// The root of [`Untyped`](PoolAccess::Untyped).
    #[doc(hidden)]
    type AnyRoot: Persist;
    /// The context of the runtime's steps.
    #[doc(hidden)]
    fn context(&mut self) -> Context<'_, R, M>;
    /// The session number of the runtime's handles.
    #[doc(hidden)]
    fn session(&self) -> u32;
    /// [`Pool::adopt_unspent`].
    #[doc(hidden)]
    fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, Error>;
    /// The runtime has passed all of its records. Reclaims what has no owner, if every runtime of
    /// the pool has.
    #[doc(hidden)]
    fn all_passed(&mut self);
    /// Prepares for a replay of records after transactions have run.
    #[doc(hidden)]
    fn restarted(&mut self) -> Result<(), OpenError>;
    /// Calls `f` with the pool's region, which is at rest until it returns: the runtime is between
    /// two transactions.
    #[doc(hidden)]
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T;

    /// Whether commits are saved. If not, nothing below does anything.
    #[doc(hidden)]
    const MIRRORED: bool = false;
    /// Whether messages wait for [`Replay::drain_async`](crate::Replay::drain_async), because a
    /// save cannot be waited for here.
    #[doc(hidden)]
    const OUTPUT_WAITS: bool = false;
    /// A transaction is committed.
    #[doc(hidden)]
    fn committed(&mut self) -> Result<(), crate::Error> {
        Ok(())
    }
    /// The runtime is being opened: saves what the open has found, if that is due and can be waited
    /// for.
    #[doc(hidden)]
    #[inline(always)]
    fn save_found(&mut self) -> Result<(), crate::OpenError> {
        Ok(())
    }
    /// Something is about to be seen outside.
    #[doc(hidden)]
    fn durable(&mut self) -> Result<(), crate::Error> {
        Ok(())
    }
    /// Saves: always for an output, else if that is due.
    #[cfg(feature = "async")]
    #[doc(hidden)]
    fn durable_async(&mut self, output: bool) -> impl Future<Output = Result<(), crate::Error>> {
        let _ = output;
        core::future::ready(self.durable())
    }
}

/// A [`PoolAccess`] that owns its pool, and is constructed in place around it.
///
/// # Safety
/// `pool_in` returns the place of a field of `place`, and reads nothing. `write_rest` writes all
/// other fields.
pub unsafe trait OwnsPool<'m, R: Persist, M: Model>: PoolAccess<R, M>
where
    M::Unit: Width,
{
    /// The saver of the region; `()` if there is none.
    #[doc(hidden)]
    type Saver;
    /// # Safety
    /// `place` is valid for writes.
    #[doc(hidden)]
    unsafe fn pool_in(place: *mut Self) -> *mut Pool<'m, R, M>;
    /// # Safety
    /// `place` is valid for writes. `before` bytes of the region lie before the pool, which has
    /// `len` bytes in all.
    #[doc(hidden)]
    unsafe fn write_rest(place: *mut Self, saver: Self::Saver, before: usize, len: usize);
    #[doc(hidden)]
    fn pool(&mut self) -> &mut Pool<'m, R, M>;
}

// SAFETY: the pool is all there is.
unsafe impl<'m, R: Persist, M: Model> OwnsPool<'m, R, M> for Pool<'m, R, M>
where
    M::Unit: Width,
{
    type Saver = ();
    #[inline(always)]
    unsafe fn pool_in(place: *mut Self) -> *mut Pool<'m, R, M> {
        place
    }
    #[inline(always)]
    unsafe fn write_rest(_: *mut Self, (): (), _: usize, _: usize) {}
    #[inline(always)]
    fn pool(&mut self) -> &mut Pool<'m, R, M> {
        self
    }
}

// SAFETY: invariant "One number, one transaction": the pool has one context, and the runtime owns
// both it and the table.
unsafe impl<R: Persist, M: Model> PoolAccess<R, M> for Pool<'_, R, M>
where
    M::Unit: Width,
{
    // A program has one such runtime.
    type Untyped = Self;
    type AnyRoot = R;
    #[inline(always)]
    fn context(&mut self) -> Context<'_, R, M> {
        Pool::context(self)
    }
    #[inline(always)]
    fn session(&self) -> u32 {
        Pool::session(self)
    }
    #[inline(always)]
    fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, Error> {
        Pool::adopt_unspent(self, bytes, spent)
    }
    #[inline(always)]
    fn all_passed(&mut self) {
        self.reclaim();
    }
    /// Empty transactions have run since the pool was opened. Walks it again to find the handles in
    /// the kept records and the objects without an owner.
    #[inline(always)]
    fn restarted(&mut self) -> Result<(), OpenError> {
        self.walk()
    }
    fn resting<T>(&mut self, f: impl FnOnce(RestingRegion) -> T) -> T {
        f(Pool::context(self).resting())
    }
}
