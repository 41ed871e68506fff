//! Roots that the contexts of a pool share, each behind a lock of the program's own choice.
//!
//! ```text
//!              own root                 shared roots                 own root
//!  context 0  ----------> Ui     Board <------------.  Radio  <---------- context 1
//!                                  ^                 |
//!                          Shared<Board>: a key, kept in a mutex.  tx_with(&mut key, ...)
//! ```
//!
//! [`Pool::share`] returns one [`Shared`] for each shared root, beside the contexts. It is a key:
//! there is one value of it, it is not `Clone`, and only a transaction that gets a `&mut` to it
//! reaches the root. So the lock is whatever hands out that `&mut`: a local variable of a
//! super-loop, a `RefCell`, an async mutex, a kernel's mutex, a spin lock.
//!
//! A shared root owns its objects as any root does. A transaction that moves a `PBox` from its own
//! root to a shared one, or back, hands the object over when it commits. While the object is in the
//! shared root, no context owns it.
//!
//! # After a cut
//!
//! | a cut | the next open finds |
//! |---|---|
//! | in a transaction with a key | its journal entries of the shared root and of its own; all are undone, before any context runs |
//! | after its commit store | all changes; the lock is free, because it is volatile |
//! | between two transactions under one lock | the first alone: the lock does not join them |
//!
//! # Why this is safe
//!
//! - A transaction holds the `&mut` until it has ended: its arguments live as long as it does. So
//!   at most one context has journal entries of a shared root that are not committed, and undoing
//!   them undoes nobody else's changes.
//! - A `Prepared` that is forgotten never ends. Its key stays marked as in use, and every later
//!   transaction with it is refused ([`Error::Unfinished`]). [`Pool::share`] refuses such a pool
//!   until it is opened again.
//! - A stack that is given up without unwinding never releases its locks, so nobody else gets its
//!   keys. The next [`Pool::share`] undoes its transaction and makes new keys.
//! - An object has one owner, whichever root that is: the walk from the roots starts at the shared
//!   ones, too, and refuses a second owner.

use crate::context::Context;
use crate::context::{Core, flag};
use crate::error::Error;
use crate::pool::{
    ContextsOf, Pool, Roots, add_root, adopt_unowned, init_root, session, take_root, walk_one,
};
use crate::ptr::Width;
use crate::tx::{Root, Tx};
use crate::walk::Walk;
use core::cell::Cell;
use core::marker::PhantomData;
use nvmem::cross::{Arg, Ret, type_hash};
use nvmem::{Invalid, Model, Persist, planted};

/// The roots of a pool whose contexts share some: `Pool<Sharing<(Board,), Contexts<(Ui, Radio)>>>`.
///
/// `S` is a tuple of up to four shared roots, and `C` the [`Contexts`](crate::Contexts).
///
/// ```
/// # use core::cell::RefCell;
/// use pmem_tx::{Contexts, PBox, Pool, Sharing, nvmem::{Persist, Region}};
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Board<'p> {
///     letter: Option<PBox<'p, [u8; 4]>>,
/// }
///
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 128]));
/// type Roots = Sharing<(Board<'static>,), Contexts<(u32, Option<PBox<'static, [u8; 4]>>)>>;
/// let mut pool = Pool::<Roots>::open(Region::new(memory), |_| {
///     Ok(((Board { letter: None },), (0, None)))
/// })?;
/// let ((mut writer, mut reader), (board,)) = pool.share()?;
/// // Any lock will do.
/// let board = RefCell::new(board);
///
/// writer.tx_with(&mut *board.borrow_mut(), |tx, sent, mut board| {
///     *sent.get_mut(tx)? += 1;
///     board.get_mut(tx)?.letter = Some(PBox::new(tx, *b"Hi!\0")?);
///     Ok(())
/// })
/// .map_err(|failed| failed.error)?;
/// let got = reader.tx_with(&mut *board.borrow_mut(), |tx, mine, mut board| {
///     let letter = board.get_mut(tx)?.letter.take();
///     let mine = mine.get_mut(tx)?;
///     *mine = letter;
///     Ok(mine.as_ref().map(|letter| *letter.get(tx)))
/// })
/// .map_err(|failed| failed.error)?;
/// assert_eq!(got, Some(*b"Hi!\0"));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
pub struct Sharing<S, C> {
    _never: core::convert::Infallible,
    _roots: PhantomData<(S, C)>,
}

/// Tuples of shared roots. Sealed by its hidden methods.
///
/// # Safety
/// Implemented here only.
pub unsafe trait SharedRoots {
    #[doc(hidden)]
    const COUNT: usize;
    /// Whether one of them may hold handles.
    #[doc(hidden)]
    const HANDLES: bool;
    /// The values that a format stores.
    type Init<'p>;
    /// A key for each root.
    type Keys<'c, W: Width>;
    #[doc(hidden)]
    fn fingerprint() -> u64;
    #[doc(hidden)]
    fn init_roots<'p, M: Model>(
        first: usize,
        init: Self::Init<'p>,
        tx: &Tx<'p, M>,
    ) -> Result<(), Error>
    where
        M::Unit: Width;
    /// # Safety
    /// As for [`Roots::take_roots`].
    #[doc(hidden)]
    unsafe fn take_roots<'p, M: Model>(
        first: usize,
        tx: &Tx<'p, M>,
    ) -> Result<Self::Init<'p>, Error>
    where
        M::Unit: Width;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn walk<M: Model, const H: bool>(
        first: usize,
        w: &mut Walk<'_, '_, M>,
        core: &Core<'_, M>,
    ) -> Result<(), Invalid>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn keys<'c, M: Model>(
        first: usize,
        core: &'c Core<'c, M>,
        sessions: (u32, u8),
    ) -> Option<Self::Keys<'c, M::Unit>>
    where
        M::Unit: Width;
}

// INVARIANT "A key for a shared root": only a transaction that has the `&mut` to the one key of a
// shared root reaches it, and the key enters no other transaction before that one has ended. So
// uncommitted entries of a shared root are in one journal. `Shared` is not `Clone`; `Arg::in_use`
// and `Arg::ended` are asked in context.rs, and in call.rs of nv-replay for the steps of several
// threads.
// Noticed by: tests/ui/shared.rs; planted `shared-in-use-ignored`, `shared-of-any-pool`,
// `shared-not-walked` in tests/suite/shared.rs; tests/suite/sharing.rs.

/// The key to a shared root of type `S`: see [`Sharing`]. A `&mut` to it is an argument of a
/// transaction, which gets the root.
///
/// It may be sent to another thread, and gives nothing through a shared reference: a mutex of it is
/// the lock of the root.
pub struct Shared<'c, S, W: Width = u32> {
    off: W::Off,
    /// The first session number in which it is valid, and how many there are: more than one where
    /// each context has a number of its own.
    session: u32,
    sessions: u8,
    index: u8,
    /// A transaction that has this key has not ended.
    in_use: Cell<bool>,
    _pool: PhantomData<&'c ()>,
    _s: PhantomData<fn(S) -> S>,
}

impl<S, W: Width> core::fmt::Debug for Shared<'_, S, W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Shared({} of session {})", self.index, self.session)
    }
}

impl<'c, S, W: Width> Shared<'c, S, W> {
    fn new<M: Model<Unit = W>>(
        first: usize,
        i: usize,
        core: &'c Core<'c, M>,
        (session, sessions): (u32, u8),
    ) -> Option<Self> {
        // SAFETY: invariant "Headers are never content": the root word of an entry of the table.
        let off = unsafe { core.load(core.geo.root(first + i, Core::<M>::UNIT)) };
        Some(Shared {
            off: W::off(off)?,
            session,
            sessions,
            index: i as u8,
            in_use: Cell::new(false),
            _pool: PhantomData,
            _s: PhantomData,
        })
    }
}

impl<S, W: Width> Shared<'_, S, W> {
    /// What stands in for the key of the root `index` where a runtime passes a transaction that it
    /// has recorded: its bytes are those of the key. It belongs to no session, so every transaction
    /// refuses it.
    #[doc(hidden)]
    pub fn stand_in(index: u8) -> Self {
        Shared {
            off: W::NOWHERE,
            session: 0,
            sessions: 0,
            index,
            in_use: Cell::new(false),
            _pool: PhantomData,
            _s: PhantomData,
        }
    }
}

// SAFETY: invariant "Sole owner": the key is borrowed mutably as long as the transaction runs, and
// refused while one that was forgotten has not ended; there is one key for each root. Nothing is
// given away.
unsafe impl<S: Persist, W: Width> Arg for &mut Shared<'_, S, W> {
    type In<'p> = Root<'p, S::At<'p>, W>;
    const TYPE: u64 = type_hash::<S>("shared");
    const OWNED: usize = 0;
    fn of_session(&self, session: u32) -> bool {
        let own = session.wrapping_sub(self.session) < self.sessions.into();
        own || planted!("pmem-tx/shared-of-any-pool")
    }
    fn in_use(&self) -> bool {
        self.in_use.get() && !planted!("pmem-tx/shared-in-use-ignored")
    }
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, f: &mut dyn FnMut(&[u8])) {
        f(&[self.index])
    }
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        self.in_use.set(true);
        Root::new(self.off)
    }
    unsafe fn ended(&self) {
        self.in_use.set(false)
    }
}

// SAFETY: invariant "Sole owner": a root for each context and the shared ones, each shown to the
// walk once.
unsafe impl<S: SharedRoots, C: ContextsOf> Roots for Sharing<S, C> {
    const COUNT: usize = C::COUNT;
    const SHARED: usize = S::COUNT;
    const HANDLES: bool = S::HANDLES || C::HANDLES;
    type States = C::States;
    type Init<'p> = (S::Init<'p>, C::Init<'p>);
    fn fingerprint() -> u64 {
        (S::fingerprint().rotate_left(11) ^ C::fingerprint()).wrapping_mul(0x100_0000_01b3)
    }
    fn init_roots<'p, M: Model>(init: Self::Init<'p>, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        M::Unit: Width,
    {
        S::init_roots(C::COUNT, init.0, tx)?;
        C::init_roots(init.1, tx)
    }
    unsafe fn take_roots<'p, M: Model>(tx: &Tx<'p, M>) -> Result<Self::Init<'p>, Error>
    where
        M::Unit: Width,
    {
        // SAFETY: the caller's contract.
        unsafe { Ok((S::take_roots(C::COUNT, tx)?, C::take_roots(tx)?)) }
    }
    #[allow(private_interfaces)]
    fn walk<M: Model, const H: bool>(
        w: &mut Walk<'_, '_, M>,
        core: &Core<'_, M>,
    ) -> Result<(), Invalid> {
        if !planted!("pmem-tx/shared-not-walked") {
            S::walk::<M, H>(C::COUNT, w, core)?;
        }
        C::walk::<M, H>(w, core)
    }
}

impl<'m, S: SharedRoots, C: ContextsOf, M: Model> Pool<'m, Sharing<S, C>, M>
where
    M::Unit: Width,
{
    /// The contexts, one for each root, and the keys to the shared roots.
    ///
    /// Undoes transactions whose stack was given up without unwinding. **Errors**:
    /// [`Error::Unfinished`] if a prepared transaction was forgotten: open the pool again;
    /// [`Error::Sessions`].
    #[allow(clippy::type_complexity)]
    pub fn share(&mut self) -> Result<(C::Each<'_, M>, S::Keys<'_, M::Unit>), Error> {
        let (core, states) = (&self.core, &self.states);
        for s in states.as_ref() {
            if s.is(flag::PREPARED) {
                return Err(Error::Unfinished);
            }
            if s.level() > 0 {
                core.rollback(s);
            }
        }
        let session = core.session()?;
        // The roots were checked at open.
        let keys = S::keys(C::COUNT, core, (session, 1)).ok_or(Error::WrongPool)?;
        Ok((C::each(core, states), keys))
    }

    /// [`Pool::share`] for a caller that was opened with a resolver and gives each context a
    /// session number of its own, so that no context takes another one's handles. Context `n` has
    /// the returned number and `n`. The keys are valid in all of them.
    ///
    /// **Errors**: those of [`Pool::share`].
    #[doc(hidden)]
    #[inline(always)]
    #[allow(clippy::type_complexity)]
    pub fn share_apart(&mut self) -> Result<(C::Each<'_, M>, S::Keys<'_, M::Unit>, u32), Error> {
        let (core, states) = (&self.core, &self.states);
        if states.as_ref().iter().any(|s| s.level() > 0) {
            return Err(Error::Unfinished);
        }
        let count = C::COUNT as u8;
        let first = session::take(count.into()).ok_or(Error::Sessions)?;
        let keys = S::keys(C::COUNT, core, (first, count)).ok_or(Error::WrongPool)?;
        Ok((C::each(core, states), keys, first))
    }
}

/// For the runtime of one thread among several.
impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    /// The same context, for a shorter time.
    #[doc(hidden)]
    #[inline(always)]
    pub fn reborrow(&mut self) -> Context<'_, R, M> {
        Context {
            core: self.core,
            others: self.others,
            s: self.s,
            _r: PhantomData,
        }
    }

    /// The same context, for code that does not use its root. Contexts of all roots have one
    /// layout.
    #[doc(hidden)]
    #[inline(always)]
    pub fn untyped(self) -> Context<'c, (), M> {
        Context {
            core: self.core,
            others: self.others,
            s: self.s,
            _r: PhantomData,
        }
    }

    /// [`Pool::adopt_unspent`] while transactions of other contexts run. The handles get the number
    /// `session`, that of this context.
    ///
    /// **Errors**: as there.
    ///
    /// # Safety
    /// The pool was walked when it was opened with a resolver. Since then every transaction has run
    /// in a context from [`Pool::share_apart`], and [`Context::reclaim`] was not called. `session`
    /// is this context's. No other context is in a call of this function.
    #[doc(hidden)]
    pub unsafe fn adopt_unspent<O: Ret>(
        &mut self,
        bytes: &[u8],
        session: u32,
        spent: &mut dyn FnMut(u32) -> bool,
    ) -> Result<O, Error> {
        if bytes.len() != O::BYTES {
            return Err(Error::Invalid(Invalid::Bits(core::any::type_name::<O>())));
        }
        adopt_unowned(self.core, bytes, session, spent)
    }

    /// [`Pool::reclaim`] while transactions of other contexts run.
    ///
    /// # Safety
    /// As for [`Context::adopt_unspent`]. Nothing is adopted from now on.
    #[doc(hidden)]
    #[cold]
    #[inline(never)]
    pub unsafe fn reclaim(&mut self) -> usize {
        Walk::resume(self.core).reclaim()
    }
}

macro_rules! shared_roots {
    ($($n:literal: $($s:ident $i:tt $v:ident),+;)*) => {$(
        // SAFETY: invariant "Sole owner": each root is shown to the walk once, and has one key.
        unsafe impl<$($s: Persist),+> SharedRoots for ($($s,)+) {
            const COUNT: usize = $n;
            const HANDLES: bool = false $(|| <$s as Persist>::HANDLES)+;
            type Init<'p> = ($($s::At<'p>,)+);
            type Keys<'c, W: Width> = ($(Shared<'c, $s, W>,)+);
            fn fingerprint() -> u64 {
                let mut hash = $n;
                $(hash = add_root(hash, nvmem::fingerprint::<$s>());)+
                hash
            }
            fn init_roots<'p, Md: Model>(
                first: usize,
                init: Self::Init<'p>,
                tx: &Tx<'p, Md>,
            ) -> Result<(), Error>
            where
                Md::Unit: Width,
            {
                let ($($v,)+) = init;
                $(init_root(first + $i, $v, tx)?;)+
                Ok(())
            }
            unsafe fn take_roots<'p, Md: Model>(
                first: usize,
                tx: &Tx<'p, Md>,
            ) -> Result<Self::Init<'p>, Error>
            where
                Md::Unit: Width,
            {
                // SAFETY: the caller's contract.
                Ok(unsafe { ($(take_root::<$s::At<'p>, Md>(first + $i, tx)?,)+) })
            }
            #[allow(private_interfaces)]
            fn walk<Md: Model, const HANDLES: bool>(
                first: usize,
                w: &mut Walk<'_, '_, Md>,
                core: &Core<'_, Md>,
            ) -> Result<(), Invalid> {
                $(walk_one::<$s, Md, HANDLES>(first + $i, w, core)?;)+
                Ok(())
            }
            #[allow(private_interfaces)]
            #[inline(always)]
            fn keys<'c, Md: Model>(
                first: usize,
                core: &'c Core<'c, Md>,
                sessions: (u32, u8),
            ) -> Option<Self::Keys<'c, Md::Unit>>
            where
                Md::Unit: Width,
            {
                Some(($(Shared::<$s, _>::new(first, $i, core, sessions)?,)+))
            }
        }
    )*};
}
shared_roots! {
    1: A 0 a;
    2: A 0 a, B 1 b;
    3: A 0 a, B 1 b, C 2 c;
    4: A 0 a, B 1 b, C 2 c, D 3 d;
}
const _: () = assert!(<(u8, u8, u8, u8) as SharedRoots>::COUNT == crate::layout::MAX_SHARED);
