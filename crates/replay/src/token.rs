//! Tokens: what a kernel lends to the body of a step, and what takes part in its commit.
//!
//! ```text
//! step_with(&token, …):  body runs with step.token()   volatile: claims, a list of operations
//!                          |                |
//!                          | Ok, prepared   | error, unwinds, no room
//!                          v                v
//!                        token.join(commit) token.undone()     exactly one of the two
//!                          stage with commit.number()           cut: never happened
//!                          commit.store()   <-- commits the step and what is staged
//!                          finish                               cut: finished at open
//! ```
//!
//! A token is shared by reference, so what it remembers lies in cells. Safe without `unsafe` in the
//! kernel and in its users: an operation of the kernel takes `&Step<'_, '_, M, K>`, and only this
//! crate makes one. It is lent to a function pointer for any lifetimes, so it cannot leave the
//! body, nor reach the body of another step.

use crate::access::PoolAccess;
use crate::call::{Join, Named, Step, StepBody};
use crate::error::{Error, StepError};
use crate::join::{Commit, Committed};
use crate::open::Replay;
use crate::outbox::Outlet;
use crate::signature::{Name, args_hash, call_hash, kind};
use crate::table::Table;
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, NumberOwner, Persist, planted};
use pmem_tx::Width;

/// A value that a caller lends to the bodies of its steps and that takes part in their commits: the
/// token of a kernel, or of a driver that has durable words of its own.
///
/// The operations that it offers take the [`Step`] with this token, so they are called inside of a
/// step only. They store nothing that counts; they remember what is to be done. Each body that runs
/// is followed by one call, of [`Token::join`] or of [`Token::undone`]. A bypass calls neither.
///
/// # Sequence numbers
///
/// A token stages its words with [`Commit::number`]. They take effect if and only if
/// [`last_committed`](crate::last_committed) returns this number after a cut, or a later one; with
/// several threads it is [`last_committed_of`](crate::last_committed_of) that thread.
/// Numbers are used up by other calls, too, for which no token is asked:
///
/// | call | numbers |
/// |---|---|
/// | a step, with a token or without; an input | 1 |
/// | a step that fails | 1, for the record of its error |
/// | a loop that is opened | 1 |
/// | an iteration of `each` or `forever` that ends | 1; 2 if the first record of the iteration would count again |
/// | a turn of `each_step` or `forever_step` | 1 |
/// | a turn that fails; a view; a bypass; an open | 0 |
/// | an open that starts over or keeps `n` records | `n` + 1 |
///
/// Numbers repeat after 2^`seq_bits` - 1 of them. So a token whose stamps stay on the medium must
/// sweep them in time, and count the numbers that others use: [`nvmem::tagged`] allows at most
/// [`max_unswept`](nvmem::tagged::Widths::max_unswept) between two sweeps. Where the program bounds
/// no such count, settle the words in `join` when `store` has returned.
pub trait Token<M: Model = InOrder32> {
    /// Commits the step whose body has returned `Ok`, together with what the body has done with the
    /// token: stages it with the step's number, calls [`Commit::store`], and finishes it.
    ///
    /// **Errors**: an error undoes the step, which fails with it. Then `join` has undone the body's
    /// claims itself; [`Token::undone`] is not called. The next commit, that of the error's record,
    /// uses the same number again: so before `join` returns an error or unwinds, it clears what it
    /// has staged with it.
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error>;

    /// Undoes the body's claims: the body has failed or unwound, or the step found no room. The
    /// step is undone.
    fn undone(&self);

    /// Whose numbers resolve what it stages: those of the [`CommitNumber`](nvmem::CommitNumber)
    /// that its words were opened with. A step of anybody else fails with [`Error::WrongOwner`]
    /// before its body runs, and stores nothing. `None`: nothing stays staged after `join`, so it
    /// takes part in any step.
    fn owner(&self) -> Option<NumberOwner> {
        None
    }
}

/// A body that runs with a token. If it is not joined, it was undone.
pub(crate) struct Attempt<'a, M: Model, K: Token<M>> {
    pub token: &'a K,
    open: Cell<bool>,
    _m: PhantomData<fn(M)>,
}

/// What takes part in the commits of the turns of a loop.
pub(crate) trait Partner<M: Model> {
    /// What the bodies get.
    type Token;
    /// Whether it is asked to commit. If not, a turn commits without it.
    const JOINS: bool;
    /// What the bodies get.
    fn token(&self) -> &Self::Token;
    /// A body begins.
    fn begin(&self);
    /// Commits a turn. **Errors**: those of [`Token::join`].
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error>;
}

/// Nobody takes part.
pub(crate) struct Nobody;
impl<M: Model> Partner<M> for Nobody {
    type Token = ();
    const JOINS: bool = false;
    #[inline(always)]
    fn token(&self) -> &() {
        &()
    }
    #[inline(always)]
    fn begin(&self) {}
    #[inline(always)]
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        Ok(commit.store())
    }
}

impl<M: Model, K: Token<M>> Partner<M> for Attempt<'_, M, K> {
    type Token = K;
    const JOINS: bool = true;
    #[inline(always)]
    fn token(&self) -> &K {
        self.token
    }
    #[inline(always)]
    fn begin(&self) {
        Attempt::begin(self)
    }
    #[inline(always)]
    fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        Attempt::join(self, commit)
    }
}

impl<'a, M: Model, K: Token<M>> Attempt<'a, M, K> {
    // INVARIANT "Numbers of its own": what is staged with a number is resolved by numbers of the
    // same region and thread: a token takes part in the steps of one owner.
    // Noticed by: `token_of_another_region` in tests/suite/crash/owners.rs; planted
    // `token-of-any-owner`.
    /// Tries a token in a step of `owner`.
    ///
    /// **Errors**: [`Error::WrongOwner`].
    #[inline(always)]
    pub fn new(token: &'a K, owner: NumberOwner) -> Result<Self, Error> {
        let of_another = token.owner().is_some_and(|own| own != owner);
        if of_another && !planted!("nv-replay/token-of-any-owner") {
            return Err(Error::WrongOwner);
        }
        Ok(Attempt {
            token,
            open: Cell::new(false),
            _m: PhantomData,
        })
    }

    /// A body begins.
    pub fn begin(&self) {
        self.open.set(true)
    }

    /// The token's join. From here on the token itself undoes the body's claims if the commit
    /// fails.
    pub fn join<'c>(&self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        self.open.set(false);
        if planted!("nv-replay/token-not-joined") {
            return Ok(commit.store());
        }
        self.token.join(commit)
    }
}

impl<M: Model, K: Token<M>> Join<M> for &Attempt<'_, M, K> {
    #[inline(always)]
    fn join<'c>(&mut self, commit: Commit<'c, M>) -> Result<Committed<'c>, Error> {
        Attempt::join(self, commit)
    }
}

impl<M: Model, K: Token<M>> Drop for Attempt<'_, M, K> {
    fn drop(&mut self) {
        if self.open.get() && !planted!("nv-replay/token-not-undone") {
            self.token.undone()
        }
    }
}

impl<M, K> Step<'_, '_, M, K> {
    /// The token that the step was called with.
    pub fn token(&self) -> &K {
        self.token
    }
}

/// A [`Token`] that joins a step together with another one, its inner one: the devices of a program
/// and its kernel.
///
/// Implementers must forward [`join`](Token::join) and [`undone`](Token::undone) to
/// [`inner`](HasInner::inner). Otherwise the inner token keeps its claims of this step.
pub trait HasInner {
    /// The other one.
    type Inner;
    /// The other one.
    fn inner(&self) -> &Self::Inner;
}

impl<'p, M, K: HasInner> Step<'_, 'p, M, K> {
    /// The same step with its inner token, for calls that take that one.
    pub fn inner(&self) -> Step<'_, 'p, M, K::Inner> {
        Step {
            tx: self.tx,
            table: self.table,
            queue: self.queue,
            token: self.token.inner(),
        }
    }
}

impl<'m, R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Replay<'m, R, M, E, P>
where
    M::Unit: Width,
{
    /// Like [`Replay::step`], with a token: the body reaches it through [`Step::token`], and it
    /// takes part in the commit. What the body does with it happens with the step or not at all.
    ///
    /// **Power loss**: before the commit store nothing of the step and of what the token has staged
    /// happened, after it all. **Cost** and **Errors**: those of [`Replay::step`] and of
    /// [`Token::join`].
    ///
    /// ```
    /// use core::cell::Cell;
    /// use nv_replay::nvmem::InOrder32;
    /// use nv_replay::{Commit, Committed, Error, Replay, Step, Token};
    ///
    /// /// Lamps that go on when a step commits.
    /// #[derive(Default)]
    /// struct Lamps {
    ///     lit: Cell<u32>,
    ///     wanted: Cell<u32>,
    /// }
    ///
    /// impl Lamps {
    ///     /// Lights lamp `n` with the commit of the step.
    ///     fn light(step: &Step<'_, '_, InOrder32, Lamps>, n: u32) {
    ///         let wanted = &step.token().wanted;
    ///         wanted.set(wanted.get() | 1 << n)
    ///     }
    /// }
    ///
    /// impl Token for Lamps {
    ///     fn join<'c>(&self, commit: Commit<'c>) -> Result<Committed<'c>, Error> {
    ///         let done = commit.store();
    ///         self.lit.set(self.lit.get() | self.wanted.take());
    ///         Ok(done)
    ///     }
    ///     fn undone(&self) {
    ///         self.wanted.take();
    ///     }
    /// }
    ///
    /// fn program(rt: &mut Replay<'_, u32>, lamps: &Lamps) -> Result<(), Error> {
    ///     rt.step_with(lamps, 3, |step, count, n| {
    ///         *count.get_mut(step)? += 1;
    ///         Lamps::light(step, n);
    ///         Ok(())
    ///     })?;
    ///     Ok(())
    /// }
    /// # use nv_replay::{nvmem::Region, Options};
    /// # let mut fram = vec![std::mem::MaybeUninit::new(0); 512];
    /// # let mut rt = Replay::open(Region::new(&mut fram), Options::default(), |_| Ok(0)).unwrap();
    /// # let lamps = Lamps::default();
    /// # program(&mut rt, &lamps).unwrap();
    /// # assert_eq!(lamps.lit.get(), 8);
    /// ```
    #[track_caller]
    #[inline(always)]
    pub fn step_with<K: Token<M>, A: Arg, O>(
        &mut self,
        token: &K,
        args: A,
        body: StepBody<R, M, A, O, K>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.twins
            .note(call_hash::<A, O>(kind::TOKEN | kind::STEP, Name::NONE));
        self.token_named(Name::NONE, token, args, body)
    }

    #[inline(always)]
    fn token_named<K: Token<M>, A: Arg, O>(
        &mut self,
        name: Name,
        token: &K,
        args: A,
        body: StepBody<R, M, A, O, K>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        // A replay refuses it, too, and does not pass the record of another call.
        let attempt = match Attempt::new(token, self.owner()) {
            Ok(attempt) => attempt,
            Err(error) => return Err(StepError { error, args }),
        };
        let call = call_hash::<A, O>(kind::TOKEN | kind::STEP, name);
        let id = Table::<M>::id(call, args_hash(&args));
        if let Some(o) = self.bypass::<A, O>(id) {
            // The recorded execution has consumed the arguments.
            core::mem::forget(args);
            return Ok(o);
        }
        self.call_slow::<A, O, _>(
            id,
            args,
            &|step, root, a| {
                attempt.begin();
                let Step {
                    tx, table, queue, ..
                } = *step;
                let step = Step {
                    tx,
                    table,
                    queue,
                    token,
                };
                body(&step, root, a)
            },
            |rt, _, end, header| rt.commit_joined(end, header, &mut &attempt),
        )
    }
}

impl<R: Persist, M: Model, E: Outlet, P: PoolAccess<R, M>> Named<'_, '_, R, M, E, P>
where
    M::Unit: Width,
{
    /// [`Replay::step_with`] with this name. **Errors**: as there.
    #[inline(always)]
    pub fn step_with<K: Token<M>, A: Arg, O>(
        self,
        token: &K,
        args: A,
        body: StepBody<R, M, A, O, K>,
    ) -> Result<O, StepError<A>>
    where
        O: for<'p> Ret<In<'p> = O>,
    {
        self.rt.token_named(self.name, token, args, body)
    }
}
