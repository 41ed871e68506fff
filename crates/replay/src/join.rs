//! Joins: something outside of the pool takes effect with a step's commit store.
//!
//! ```text
//! last_committed(&region) -> n     others open first, and resolve what they staged with n
//! Replay::open
//!
//! step_join:  body runs -> prepared -> join(result, commit)
//!                                        stage with commit.number()     cut: never happened
//!                                        commit.store()   <-- commits the step and the staged work
//!                                        finish the staged work         cut: finished at open
//! ```

use crate::error::{Error, OpenError};
use crate::open;
use crate::outbox::{Outlet, Queue};
use crate::table::{CommitWord, Table};
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::{CommitNumber, InOrder32, Model, NumberOwner, Region, planted};
use pmem_tx::{Open, Ready};

/// An invariant lifetime: ties a [`Committed`] to the [`Commit`] that made it.
type Brand<'c> = PhantomData<fn(&'c ()) -> &'c ()>;

/// A step that is prepared: only its commit store is missing. If it is dropped without it, the step
/// is undone.
pub struct Commit<'c, M: Model = InOrder32> {
    ready: Ready<'c, M>,
    table: &'c Table<'c, M>,
    word: CommitWord,
    stored: &'c Cell<bool>,
    _brand: Brand<'c>,
}

/// Proof that the step is committed.
#[must_use = "`join` must return the `Committed` that `Commit::store` gave it"]
pub struct Committed<'c>(Brand<'c>);

impl<'c, M: Model> Commit<'c, M> {
    /// The number of the step's commit. Work staged with it takes effect if and only if
    /// [`last_committed`] returns it after a cut.
    #[inline(always)]
    pub fn number(&self) -> CommitNumber<'c> {
        CommitNumber::new(self.table.owner, self.ready.seq())
    }

    /// Commits the step and the work staged with its number.
    ///
    /// **Power loss**: before the store nothing of it happened, after it all of it. **Cost**: one
    /// store, and a fence before and after it.
    #[inline(always)]
    pub fn store(self) -> Committed<'c> {
        self.table.store_commit_word(self.word);
        self.ready.committed();
        self.stored.set(true);
        Committed(PhantomData)
    }
}

// One closure around the store, not one callback before and one after it: those would need a place
// for the staged data between them.

// INVARIANT "Joined or not": data staged with a step's sequence number is staged before the step's
// header, and finished after it; also for a token (token.rs).
// Noticed by: tests/suite/crash.rs (`joined`, `tokens`); planted `committed-before-join`,
// `token-not-joined`, `token-not-undone`.
/// Commits a step together with what `join` stages. `word` prepares the commit word of the number
/// that it is given; `stored` tells that it is stored. Returns the number.
///
/// **Errors**: that of a join that did not commit. The step is undone, unless the join has
/// forgotten its [`Commit`].
#[inline(always)]
pub(crate) fn commit_joined<M: Model, E: Outlet>(
    open: Open<'_, M>,
    table: &Table<'_, M>,
    queue: &Queue<M>,
    stored: &Cell<bool>,
    join: impl for<'c> FnOnce(Commit<'c, M>) -> Result<Committed<'c>, Error>,
    word: impl FnOnce(u32) -> CommitWord,
) -> Result<u32, Error> {
    let ready = open.prepare();
    let seq = ready.seq();
    queue.stage::<E>(table, seq);
    let word = word(seq);
    if planted!("nv-replay/committed-before-join") {
        table.store_commit_word(word);
    }
    // INVARIANT "A forgotten commit ends it": after a join that has forgotten its `Commit`, no
    // transaction runs in the context until the next open: `Watch` of `pmem-tx` sees to it.
    // Noticed by: `who_joins_a_step_forgets_it` in tests/suite/soundness.rs; planted
    // `forgotten-commit-goes-on`.
    let watch = ready.watch();
    let joined = join(Commit {
        ready,
        table,
        word,
        stored,
        _brand: PhantomData,
    });
    if stored.get() || planted!("nv-replay/forgotten-commit-goes-on") {
        watch.ended();
    }
    if stored.get() {
        return Ok(seq);
    }
    Err(joined.err().map_or(Error::Other, Error::recorded))
}

/// The number of the last committed transaction, 0 for none. An owner of joined operations resolves
/// its staged operation with it, and then takes numbers of this region only.
///
/// [`Replay::open`](crate::Replay::open) may commit again, so the number is good until then: it
/// borrows the region, and a use after the open does not compile.
///
/// ```compile_fail,E0505
/// use nv_replay::nvmem::{InOrder32, Region};
/// use nv_replay::{Options, Replay, last_committed};
///
/// # fn boot(region: Region<'_, InOrder32>) -> Result<(), Box<dyn core::error::Error>> {
/// let number = last_committed(&region)?;
/// let rt = Replay::<u32>::open(region, Options::default(), |_| Ok(0));
/// println!("{}", number.get()); // `rt` may have committed more
/// # drop(rt);
/// # Ok(())
/// # }
/// ```
///
/// Writes nothing. **Cost**: reads the superblock and the headers of all records that count.
/// **Errors**: [`OpenError`].
pub fn last_committed<'o, M: Model>(
    region: &'o Region<'_, M>,
) -> Result<CommitNumber<'o>, OpenError> {
    let found = open::scan_region(region, &mut |_, _| {})?;
    let owner = NumberOwner::thread_of(region, 0);
    let number = found.map_or(0, |found| found.committed);
    Ok(CommitNumber::new(owner, number))
}
