//! What else takes effect with a step: the moment between its preparation and its commit.

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

/// Only this very one.
type Brand<'c> = PhantomData<fn(&'c ()) -> &'c ()>;

/// A step of which only the commit store is missing.
pub struct Commit<'c> {
    pub(crate) number: u32,
    pub(crate) store: &'c mut dyn FnMut(),
    pub(crate) _brand: Brand<'c>,
}

/// The step is committed.
#[must_use = "who joins a step gives this back"]
pub struct Committed<'c>(Brand<'c>);

impl<'c> Commit<'c> {
    /// The sequence number with which the step is going to be committed: what is staged with it happens if and only if
    /// [`last_committed`] tells it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Commits the step, and what was staged with its number.
    ///
    /// **Power loss**: before the store nothing of it, after it all. **Cost**: one store, and a fence before and after it.
    pub fn store(self) -> Committed<'c> {
        (self.store)();
        Committed(PhantomData)
    }
}

/// Who joins a step.
pub(crate) type Join<'a> = dyn for<'c> FnMut(Commit<'c>) -> Result<Committed<'c>, Error> + 'a;

impl<'m, R: Persist, M: Model> Replay<'m, R, M>
where
    M::Unit: Width,
{
    /// Like [`Replay::step`], for something that commits with the step and is no persistent object of the pool: an operation of
    /// `nvlist`, or of a kernel. `join` is called when the body has ended well, with its result; it stages, commits the step by
    /// [`Commit::store`], and finishes what it has staged. It may capture, and is not called when the step is bypassed: then
    /// whoever it has staged with was told so by [`last_committed`] when it was opened. An error undoes the step and is recorded.
    ///
    /// **Power loss**: before the store nothing of the step, after it all, and all that was staged with its number. **Cost** and
    /// **Errors**: those of [`Replay::step`], and of `join`.
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

/// The number of the last transaction that is committed, 0 for none: what those resolve with that have joined a step. Ask it,
/// and open them with it, before the runtime is opened, for that may commit again.
///
/// Writes nothing. **Cost**: reads the superblock and the headers that count. **Errors**: [`OpenError`](crate::OpenError);
/// with the region back, as it always comes back.
pub fn last_committed<M: Model>(
    region: Region<'_, M>,
) -> Result<(u32, Region<'_, M>), OpenFailure<'_, M>> {
    let (found, region) = recovery::scan_region(region, &mut |_, _| {})?;
    Ok((found.map_or(0, |found| found.committed), region))
}
