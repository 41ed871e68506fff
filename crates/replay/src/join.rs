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

use crate::error::{Error, OpenFailure};
use crate::open;
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::{Model, Region, planted};
use pmem_tx::Open;

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

/// The type of a join that is not there.
type NoJoin = for<'c> fn(Commit<'c>) -> Result<Committed<'c>, Error>;

/// The type of a join that is not there, and would read a result of type `O`.
type NoJoinOf<O> = for<'c> fn(&O, Commit<'c>) -> Result<Committed<'c>, Error>;

/// No join.
pub(crate) fn no_join() -> Option<NoJoin> {
    None
}

/// No join that reads a result of this type.
pub(crate) fn no_join_of<O>() -> Option<NoJoinOf<O>> {
    None
}

/// Commits a step together with what `join` stages. `stage` stages its messages, `word` stores the
/// commit word, which is `number`, and its fences; `stored` tells that it has done so.
///
/// **Errors**: that of a join that did not commit. The step is undone.
#[inline(always)]
pub(crate) fn commit_joined<M: Model>(
    open: Open<'_, M>,
    number: u32,
    stage: impl FnOnce(),
    stored: &Cell<bool>,
    join: impl for<'c> FnOnce(Commit<'c>) -> Result<Committed<'c>, Error>,
    word: impl Fn(),
) -> Result<(), Error> {
    let ready = open.prepare();
    ready.announce();
    let mut ready = Some(ready);
    stage();
    let mut store = || {
        word();
        if let Some(r) = ready.take() {
            r.committed();
        }
        stored.set(true);
    };
    if planted!("nv-replay/committed-before-join") {
        store();
    }
    let commit = Commit {
        number,
        store: &mut store,
        _brand: PhantomData,
    };
    let joined = join(commit).map(drop);
    if stored.get() {
        return Ok(());
    }
    Err(joined.err().map_or(Error::Other, Error::recorded))
}

/// The sequence number of the last committed transaction, 0 for none. An owner of joined operations
/// resolves its staged operation with it. Call this before [`Replay::open`](crate::Replay::open),
/// which may commit again.
///
/// Writes nothing. The region comes back in every case. **Cost**: reads the superblock and the
/// headers of all records that count. **Errors**: [`OpenError`](crate::OpenError).
pub fn last_committed<M: Model>(
    region: Region<'_, M>,
) -> Result<(u32, Region<'_, M>), OpenFailure<'_, M>> {
    let (found, region) = open::scan_region(region, &mut |_, _| {})?;
    Ok((found.map_or(0, |found| found.committed), region))
}
