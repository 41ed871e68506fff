//! Joins: something outside of the pool takes effect with a step's commit store.
//!
//! ```text
//! last_committed(region) -> n     others open first, and resolve what they staged with n
//! Replay::open
//!
//! step_join:  body runs -> prepared -> join(result, commit)
//!                                        stage with commit.number()     cut: never happened
//!                                        commit.store()   <-- commits the step and the staged work
//!                                        finish the staged work         cut: finished at open
//! ```

use crate::error::{Error, OpenFailure, StepError};
use crate::open::Replay;
use crate::recovery;
use crate::site;
use crate::step::{Step, StepBody};
use crate::table::Table;
use core::marker::PhantomData;
use core::panic::Location;
use nvmem::cross::{Arg, Ret};
use nvmem::{Model, Persist, Region};
use pmem_tx::{Root, Width};

/// An invariant lifetime: ties a [`Committed`] to the [`Commit`] that made it.
type Brand<'c> = PhantomData<fn(&'c ()) -> &'c ()>;

/// A step that is prepared: only its commit store is missing.
pub struct Commit<'c> {
    pub(crate) number: u32,
    pub(crate) store: &'c mut dyn FnMut(),
    pub(crate) _brand: Brand<'c>,
}

/// Proof that the step is committed.
#[must_use = "who joins a step gives this back"]
pub struct Committed<'c>(Brand<'c>);

impl<'c> Commit<'c> {
    /// The sequence number of the step's commit. Work staged with this number takes effect if and
    /// only if [`last_committed`] returns it after a cut.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Commits the step and the work staged with its number.
    ///
    /// **Power loss**: before the store nothing of it happened, after it all of it. **Cost**: one
    /// store, and a fence before and after it.
    pub fn store(self) -> Committed<'c> {
        (self.store)();
        Committed(PhantomData)
    }
}

/// The closure that joins a step.
pub(crate) type Join<'a> = dyn for<'c> FnMut(Commit<'c>) -> Result<Committed<'c>, Error> + 'a;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Like [`Replay::step`], together with an operation outside of the pool: one of `nvlist`, or
    /// of a kernel. `join` is called with the body's result when the body has returned `Ok`. It
    /// stages its operation, commits the step with [`Commit::store`], and finishes the operation.
    /// It may capture. A bypass does not call it: the operation was finished when its owner was
    /// opened with the number from [`last_committed`]. An error of `join` undoes the step and is
    /// recorded.
    ///
    /// **Power loss**: before the store nothing of the step and of the staged operation happened,
    /// after it all. **Cost** and **Errors**: those of [`Replay::step`] and of `join`.
    #[track_caller]
    #[inline(always)]
    pub fn step_join<A: Arg, O>(
        &mut self,
        args: A,
        body: StepBody<R, M, A, O>,
        mut join: impl for<'c> FnMut(&O, Commit<'c>) -> Result<Committed<'c>, Error>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        let site = site::site(Location::caller());
        let id = Table::<M>::id(site, site::args_hash(&args));
        if let Some(o) = self.bypass::<A, O>(id) {
            // Consumed by the first execution.
            core::mem::forget(args);
            return Ok(o);
        }
        self.call_slow::<A, O, _>(
            id,
            args,
            &move |tx: &Step<'_, '_, M>, root: &mut Root<'_, R::At<'_>, M::Unit>, a: A::In<'_>| {
                body(tx, root, a)
            },
            Some(&mut join),
        )
    }
}

/// The sequence number of the last committed transaction, 0 for none. An owner of joined operations
/// resolves its staged operation with it. Call this before [`Replay::open`], which may commit
/// again.
///
/// Writes nothing. The region comes back in every case. **Cost**: reads the superblock and the
/// headers of all records that count. **Errors**: [`OpenError`](crate::OpenError).
pub fn last_committed<M: Model>(
    region: Region<'_, M>,
) -> Result<(u32, Region<'_, M>), OpenFailure<'_, M>> {
    let (found, region) = recovery::scan_region(region, &mut |_, _| {})?;
    Ok((found.map_or(0, |found| found.committed), region))
}
