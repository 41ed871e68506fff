//! How a runtime reaches its pool: as its owner, or as one of several threads.

use nvmem::cross::Ret;
use nvmem::{Model, Persist};
use pmem_tx::{Context, Error, OpenError, Pool, Width};

/// What a runtime asks of its pool. Implemented here only: by [`Pool`], which the runtime of a
/// single program owns, and by [`Member`](crate::Member), a thread's part of a pool that several
/// share.
///
/// # Safety
/// The context is that of the runtime's own root, and its numbers are those of its table.
pub unsafe trait PoolAccess<R: Persist, M: Model>
where
    M::Unit: Width,
{
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
}

// SAFETY: invariant "One number, one transaction": the pool has one context, and the runtime owns
// both it and the table.
unsafe impl<R: Persist, M: Model> PoolAccess<R, M> for Pool<'_, R, M>
where
    M::Unit: Width,
{
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
}
