//! Transaction contexts: each runs the transactions of one thread of control. Also the state that
//! they share, and the model of a pool whose contexts preempt each other.
//!
//! Each context has a journal, a root and a commit word of its own, so contexts need no lock
//! between them.
//!
//! ```text
//!             begin             body succeeds          commit word = seq
//!    idle -----------> running ---------------> prepared --------------> idle, seq + 1
//!     ^                   |   error, unwinding     |   Prepared dropped
//!     `-------------------+------------------------'
//!           roll back: undo all entries, newest first
//! ```
//!
//! `tx` goes through all states. `prepare` stops before the commit store and returns `Prepared`:
//! the caller stores the number in a commit word of its own. A stack that is given up without
//! unwinding leaves the context in `running`; the next `begin` rolls back first. A forgotten
//! `Prepared` leaves it in `prepared`, and `begin` refuses with `Unfinished`: the caller's word may
//! name its number.
//!
//! Why this is safe: until the commit word holds the transaction's number, the journal can undo all
//! of it. The word is one atomic unit, stored between two fences, so a cut leaves either number.
//!
//! Where contexts preempt each other:
//!
//! ```text
//! control    --|search|--                     --|search, take|--write the object--|free|-- commit
//! interrupt              |search, take| commit
//!
//! |...|  a critical section: only there are block headers, cell tags, the allocator's
//!        cursor and what a context announces about its journal read and written
//! ```
//!
//! Everything else belongs to one context, so it may be preempted at any instruction. That is why
//! a context of such a pool is `Send`.

use crate::error::{BeginError, Error};
use crate::layout::{Geometry, Undo};
use crate::pool::session;
use crate::ptr::Width;
use crate::tx::{InOneThread, Root, Tx};
use core::cell::Cell;
use core::convert::Infallible;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use nvmem::cross::{Arg, Ret};
use nvmem::{InOrder32, Model, Persist, Region, Unit, mapped, planted};

/// The bits of [`CtxState::flags`]. An idle context has none of them but `EXTERNAL`. So one
/// comparison before a transaction and one after it finds all special cases. The usual values are
/// small numbers, which fit into instructions.
pub(crate) mod flag {
    /// The caller owns the commit word.
    pub const EXTERNAL: usize = 1 << 0;
    /// The transaction is prepared: only its commit store is missing.
    pub const PREPARED: usize = 1 << 1;
    /// The transaction wrote a two-version cell.
    pub const CELLS: usize = 1 << 2;
    /// The transaction freed a block.
    pub const FREES: usize = 1 << 3;
    /// An operation that consumed a handle failed: the transaction can only abort.
    pub const FAILED: usize = 1 << 4;
    /// No transaction has run since the last walk.
    pub const WALKED: usize = 1 << 5;
    /// The caller decides whether the transaction may commit: its body has failed, or something in
    /// it has.
    pub const ASK: usize = 1 << 6;
    /// The nesting level of a transaction that is not nested. Each level adds as much again.
    pub const OUTERMOST: usize = 1 << 7;
    /// Nesting level of the running transaction; 0 is idle.
    pub const LEVEL: usize = !(OUTERMOST - 1);
}

/// The part of a context's state that other contexts read: bits of [`CtxState::ctx`], next to the
/// context's index.
pub(crate) mod announced {
    pub const INDEX: usize = 0x7f;
    /// Blocks named in its journal may change their kind again, whatever their headers say: a free
    /// before its commit, or an abort under way.
    pub const DOUBT: usize = 1 << 7;
    /// No blocks were joined since it began to walk the chain: its position is still a block
    /// header.
    pub const CHAIN_STABLE: usize = 1 << 8;
}

/// The volatile state of a context.
///
/// Where contexts preempt each other, other contexts access it in critical sections only. They read
/// `ctx`, and, while it announces `DOUBT`, `count` and that many journal headers. They clear
/// `CHAIN_STABLE` in `ctx`, which is set only during a walk. All other fields are private to their
/// context.
#[derive(Debug)]
pub struct CtxState {
    pub(crate) flags: Cell<usize>,
    /// The sequence number of the running, or the next, transaction.
    pub(crate) seq: Cell<usize>,
    /// The next number whose transaction sweeps stale headers. There are two in a round, so that
    /// each sweep clears the entries of the other sweeping transaction.
    pub(crate) sweep_seq: Cell<usize>,
    /// Journal entries that the running transaction has written.
    pub(crate) count: Cell<usize>,
    /// Bytes of journal payload that the running transaction has written.
    pub(crate) used: Cell<usize>,
    /// Offsets in the region of the commit word, the first journal header and the first old
    /// content.
    pub(crate) word: Cell<usize>,
    pub(crate) headers: Cell<usize>,
    pub(crate) payload: Cell<usize>,
    /// Entries below this index belong to enclosing transactions.
    pub(crate) base: Cell<usize>,
    /// The context's index, and the bits of [`announced`]. Where contexts preempt each other it
    /// changes only in a critical section.
    pub(crate) ctx: Cell<usize>,
    /// The error to return if `FAILED` is set.
    pub(crate) failed: Cell<Error>,
    /// The outermost nesting level that can only abort, if `FAILED` is set.
    pub(crate) failed_level: Cell<usize>,
}

/// Placeholder values before [`Core::init_context`]. They are not all zero: the compiler would call
/// `memset`, which a small program may not link otherwise.
impl Default for CtxState {
    fn default() -> Self {
        let unset = || Cell::new(1);
        CtxState {
            flags: unset(),
            seq: Cell::new(0),
            sweep_seq: unset(),
            count: unset(),
            used: unset(),
            word: unset(),
            headers: unset(),
            payload: unset(),
            base: unset(),
            ctx: unset(),
            failed: Cell::new(Error::WrongPool),
            failed_level: unset(),
        }
    }
}

impl CtxState {
    /// The nesting level: 0, or a multiple of [`flag::OUTERMOST`].
    pub fn level(&self) -> usize {
        self.flags.get() & flag::LEVEL
    }
    pub fn is(&self, flag: usize) -> bool {
        self.flags.get() & flag != 0
    }
    pub fn set_flag(&self, flag: usize) {
        self.flags.set(self.flags.get() | flag)
    }
    pub fn clear_flag(&self, flag: usize) {
        self.flags.set(self.flags.get() & !flag)
    }
    /// The context's index.
    #[inline(always)]
    pub fn index<M: Model>(&self) -> usize {
        if M::PREEMPTED {
            self.ctx.get() & announced::INDEX
        } else {
            self.ctx.get()
        }
    }
    /// Whether it announces this bit. Call in a critical section.
    pub fn announces(&self, what: usize) -> bool {
        self.ctx.get() & what != 0
    }
    /// Announces a bit to other contexts. Call in a critical section.
    pub fn announce(&self, what: usize) {
        self.ctx.set(self.ctx.get() | what)
    }
    /// Withdraws a bit. Call in a critical section.
    pub fn withdraw(&self, what: usize) {
        self.ctx.set(self.ctx.get() & !what)
    }

    // INVARIANT "In doubt is nobody's": while an entry of a block may still be undone, or is being
    // undone, no other context takes the block, even if its header says free. The doubt is
    // announced before the header changes. It ends after the fence that follows the commit store or
    // the cleared entry.
    // Noticed by: planted `free-not-announced`, `undo-not-announced` in tests/suite/preempt.rs.

    /// Whether blocks that its journal names may still change their kind, so that no other context
    /// may take them.
    #[inline(always)]
    pub fn in_doubt<M: Model>(&self) -> bool {
        if M::PREEMPTED {
            self.announces(announced::DOUBT)
        } else {
            self.is(flag::PREPARED)
        }
    }
    /// **Errors**: the stored error if the transaction can only abort.
    #[inline(always)]
    pub fn check_failed(&self) -> Result<(), Error> {
        if self.is(flag::FAILED) {
            return Err(self.failed.get());
        }
        Ok(())
    }
    /// Sets the nesting level and keeps the other flags.
    pub fn set_level(&self, level: usize) {
        self.flags.set(self.flags.get() & !flag::LEVEL | level)
    }
    /// Sets the next transaction's sequence number to the one after `last`, and the next sweep.
    #[inline(never)]
    pub(crate) fn set_seq_after(&self, geo: &Geometry, last: usize) {
        let seq = geo.next(last);
        self.seq.set(seq);
        let half = geo.seq_max / 2;
        self.sweep_seq
            .set(if seq > half { geo.seq_max } else { half });
    }
    /// The offset of the header of entry `i`.
    #[inline(always)]
    pub fn header(&self, i: usize, unit: usize) -> usize {
        self.headers.get() + i * 2 * unit
    }
}

/// An open pool without its types.
pub(crate) struct Core<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
    /// Where the next search for a free block starts: the offset of a block header. Changes in a
    /// critical section only.
    pub cursor: Cell<usize>,
    /// The marks of the last walk are valid: nothing has changed since. Changes in a critical
    /// section only.
    pub walk_valid: Cell<bool>,
    /// The end of the last block in use when the marks were made: there are marks up to it.
    pub marked: Cell<usize>,
    /// How many blocks the marks call unowned. Changes while nothing is adopted by another context.
    pub unowned: Cell<usize>,
    /// The session number of this opening. [`session::NONE`] until the first handle leaves a
    /// transaction; where contexts preempt each other it is taken at open.
    pub session: Cell<u32>,
    pub caller_commits: bool,
}

impl<'m, M: Model> Core<'m, M> {
    /// Bytes of an atomic unit. A unit fits into a `usize`, so unit arithmetic needs no wider type
    /// than the machine's.
    pub const UNIT: usize = {
        assert!(M::Unit::BYTES <= size_of::<usize>());
        M::Unit::BYTES
    };

    /// Initialises `s` as the state of context `ctx`, idle.
    pub fn init_context(&self, ctx: usize, s: &CtxState) {
        let g = &self.geo;
        s.ctx.set(ctx);
        s.word.set(g.word(ctx, Self::UNIT));
        s.headers.set(g.header(ctx, 0, Self::UNIT));
        s.payload.set(g.payload(ctx));
        s.flags.set(if self.caller_commits {
            flag::EXTERNAL
        } else {
            0
        });
        self.reset(s);
    }

    /// The session number of this opening, which every handle outside of a transaction carries.
    /// **Errors**: no number is left.
    pub fn session(&self) -> Result<u32, Error> {
        // Two contexts that preempt each other may both send out the first handle.
        M::section(|| match self.session.get() {
            session::NONE => {
                let n = session::next().ok_or(Error::Sessions)?;
                self.session.set(n);
                Ok(n)
            }
            n => Ok(n),
        })
    }

    /// Records that the walk's marks are valid until a transaction of any of these contexts begins.
    pub fn mark_walked(&self, all: &[CtxState]) {
        self.walk_valid.set(true);
        for s in all {
            s.set_flag(flag::WALKED);
        }
    }

    #[inline(always)]
    pub fn at(&self, off: usize) -> *mut u8 {
        debug_assert!(off <= self.region.len());
        self.region.base().wrapping_add(off)
    }

    /// # Safety
    /// `off` is the offset of a unit of the superblock's, the table's or the journals' areas, or of
    /// a block header or tag.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> usize {
        // SAFETY: invariant "Headers are never content": the caller names such a word, and they are
        // never lent.
        unsafe { self.region.load(off) as usize }
    }

    /// # Safety
    /// As [`Core::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: usize) {
        // SAFETY: invariant "Headers are never content": the caller names such a word, and they are
        // never lent.
        unsafe { self.region.store(off, v as u32) }
    }

    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// The two words of the `i`-th journal header, which is one of `geo.entries`.
    pub fn words(&self, s: &CtxState, i: usize) -> (usize, usize) {
        let h = s.header(i, Self::UNIT);
        // SAFETY: invariant "Headers are never content": `i` is an entry of the header area.
        unsafe { (self.load(h), self.load(h + Self::UNIT)) }
    }

    /// The header of journal entry `i` if it carries the sequence number of the transaction in
    /// doubt.
    pub fn entry(&self, s: &CtxState, i: usize) -> Option<(usize, usize)> {
        if i >= self.geo.entries {
            return None;
        }
        let (first, second) = self.words(s, i);
        (Undo::seq(second, Self::UNIT) == s.seq.get()).then_some((first, second))
    }
}

/// Runs transactions on a root of type `R`. A pool has one context for each of its roots. Their
/// transactions may be open at the same time, each on its own stack.
// The layout is the same for every root type: see `Context::untyped`.
#[repr(C)]
pub struct Context<'c, R, M = InOrder32> {
    pub(crate) core: &'c Core<'c, M>,
    /// The states of all contexts if there are several, else empty. An allocation looks there for
    /// blocks in doubt.
    pub(crate) others: &'c [CtxState],
    pub(crate) s: &'c CtxState,
    pub(crate) _r: PhantomData<fn(R) -> R>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Send for Context<'_, R, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<R, M> Sync for Context<'_, R, M> where Self: InOneThread {}

/// A transaction that did not commit, with the arguments it was given. Handles among them are valid
/// again.
#[derive(Debug)]
pub struct Failed<A> {
    /// Why.
    pub error: Error,
    /// The arguments that were passed in.
    pub args: A,
}
impl<A> From<Failed<A>> for Error {
    fn from(f: Failed<A>) -> Error {
        f.error
    }
}

/// Calls `Arg::ended` when the transaction has ended, also if it unwinds.
struct Ended<'a, A: Arg>(&'a A);
impl<A: Arg> Drop for Ended<'_, A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: invariant "A key for a shared root": dropped when the transaction has ended.
        unsafe { self.0.ended() }
    }
}

/// Arguments of a prepared transaction. They are not dropped; `Arg::ended` is called when the
/// transaction has ended.
struct Entered<A: Arg>(ManuallyDrop<A>);
impl<A: Arg> Entered<A> {
    fn into_inner(self) -> A {
        // SAFETY: invariant "A key for a shared root": called when the transaction has ended.
        unsafe { self.0.ended() };
        let mut args = ManuallyDrop::new(self);
        // SAFETY: invariant "Sole owner": taken once; nothing drops what is left.
        unsafe { ManuallyDrop::take(&mut args.0) }
    }
}
impl<A: Arg> Drop for Entered<A> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: invariant "A key for a shared root": dropped when the transaction has ended.
        unsafe { self.0.ended() }
    }
}

/// Guard of a running transaction: rolls back when it is dropped, also by unwinding.
pub(crate) struct Running<'c, M: Model> {
    pub(crate) core: &'c Core<'c, M>,
    pub(crate) s: &'c CtxState,
}
impl<M: Model> Drop for Running<'_, M> {
    #[inline]
    fn drop(&mut self) {
        self.core.rollback(self.s)
    }
}
impl<M: Model> Running<'_, M> {
    /// Ends the transaction after its commit word was stored.
    pub(crate) fn committed(self) {
        self.core.committed(self.s);
        core::mem::forget(self)
    }

    /// Stores the commit word.
    fn commit(self) {
        let s = self.s;
        let seq = s.seq.get();
        // Fast path: one level, content was logged, and there are no cells, frees or sweep.
        if s.flags.get() == flag::OUTERMOST && s.count.get() > 0 && seq != s.sweep_seq.get() {
            self.core.end_loans(s);
            self.store_word(seq);
            s.seq.set(seq + 1);
            s.count.set(0);
            s.used.set(0);
            s.flags.set(0);
            core::mem::forget(self)
        } else {
            self.commit_slow()
        }
    }

    #[inline(never)]
    fn commit_slow(self) {
        if self.s.count.get() == 0 && !self.s.is(flag::CELLS) {
            // Nothing was changed: the next transaction uses this number.
            self.core.reset(self.s);
            return core::mem::forget(self);
        }
        self.core.prepare(self.s);
        self.store_word(self.s.seq.get());
        self.committed();
    }

    // INVARIANT "Commit is one unit": between `prepare` and `committed` one unit decides.
    // Noticed by: planted `commit-in-two-stores`; the asserted costs.

    #[inline(always)]
    fn store_word(&self, seq: usize) {
        let at = self.s.word.get();
        if !planted!("pmem-tx/no-fence-before-commit") {
            self.core.fence();
        }
        // SAFETY: invariant "Commit is one unit": the context's commit word, which is never lent.
        unsafe {
            if planted!("pmem-tx/commit-in-two-stores") {
                self.core.store(at, seq & 1);
            }
            if !planted!("pmem-tx/no-commit-store") {
                self.core.store(at, seq);
            }
        }
        self.core.fence();
    }
}

impl<'c, R: Persist, M: Model> Context<'c, R, M>
where
    M::Unit: Width,
{
    /// Begins a transaction. `idle_flags` are the flags of an idle context.
    #[inline(always)]
    pub(crate) fn begin(&mut self, idle_flags: usize) -> Result<Running<'c, M>, Error> {
        if self.s.flags.get() != idle_flags {
            self.begin_slow(idle_flags)?;
        }
        self.s.flags.set(idle_flags | flag::OUTERMOST);
        Ok(Running {
            core: self.core,
            s: self.s,
        })
    }

    /// Slow path of `begin`: a flag is set. Reports misuse, rolls back an abandoned transaction,
    /// and invalidates the walk's marks.
    #[cold]
    fn begin_slow(&self, idle_flags: usize) -> Result<(), BeginError> {
        let s = self.s;
        if idle_flags == 0 && s.is(flag::EXTERNAL) {
            return Err(BeginError::CallersCommitWord);
        }
        if !s.is(idle_flags) && idle_flags != 0 {
            return Err(BeginError::PoolsCommitWord);
        }
        if s.is(flag::PREPARED) {
            return Err(BeginError::Unfinished);
        }
        M::section(|| self.core.walk_valid.set(false));
        if s.level() > 0 {
            // The stack of the previous transaction was given up without unwinding.
            self.core.rollback(s);
        }
        s.clear_flag(flag::WALKED);
        Ok(())
    }

    /// The offset of the root object.
    #[inline(always)]
    pub(crate) fn root(&self) -> Result<<M::Unit as Width>::Off, Error> {
        // SAFETY: invariant "Headers are never content": the root word is the unit after the commit
        // word.
        let off = unsafe { self.core.load(self.s.word.get() + Core::<M>::UNIT) };
        M::Unit::off(off).ok_or(Error::WrongPool)
    }

    /// Runs a body in a new transaction. Always inlined: each body has one call site, and half of
    /// the cost is returning its result through memory.
    #[inline(always)]
    pub(crate) fn run_body<O, E: From<Error>>(
        &mut self,
        idle_flags: usize,
        f: impl FnOnce(&Tx<'c, M>, &mut Root<'c, R::At<'c>, M::Unit>) -> Result<O, E>,
    ) -> Result<(Running<'c, M>, O), E> {
        let running = self.begin(idle_flags)?;
        let tx = Tx::new(self.core, self.others, self.s, true);
        let o = f(&tx, &mut Root::new(self.root()?))?;
        // If the flags are as `begin` set them, no operation has failed.
        if self.s.flags.get() != idle_flags | flag::OUTERMOST {
            self.s.check_failed()?;
        }
        Ok((running, o))
    }

    /// Runs a transaction: everything `body` does to persistent objects happens, or nothing.
    ///
    /// **Power loss**: before the commit store the next open undoes everything; after it, nothing.
    /// **Cost**: 0 stores to begin. One store of an atomic unit to commit, whatever the size; none
    /// if nothing was changed. The operations of the body cost what [`PBox`](crate::PBox) and
    /// [`Ptr`](crate::Ptr) state. Twice in a round of sequence numbers, stale journal headers and
    /// cell tags are cleared, with at most one store for each. **Errors**: that of the body, or of
    /// an operation in it after which the transaction can only abort; then everything was undone.
    /// [`Error::CallersCommitWord`] if the pool was opened with a resolver; then the body was not
    /// run. **Panics**: never; if the body unwinds, everything is undone.
    #[inline]
    pub fn tx<O, F>(&mut self, body: F) -> Result<O, Error>
    where
        F: for<'p> FnOnce(&Tx<'p, M>, &mut Root<'p, R::At<'p>, M::Unit>) -> Result<O, Error>,
    {
        let (running, o) = self.run_body(0, |tx, root| body(tx, root))?;
        running.commit();
        Ok(o)
    }

    /// Like [`Context::tx`], with arguments: plain values, and [`Held`](crate::Held) handles by
    /// value or lent.
    ///
    /// **Errors**: those of [`Context::tx`], and [`Error::WrongPool`] for a handle of another
    /// session. The arguments come back.
    pub fn tx_with<A: Arg, O, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O, Error>,
    {
        if let Err(error) = self.check_session(&args) {
            return Err(Failed { error, args });
        }
        let ended = Ended(&args);
        // SAFETY: invariant "Sole owner": if the body fails, everything is undone and the arguments
        // are valid again; if not, they are forgotten.
        let r = self.run_body(0, |tx, root| body(tx, root, unsafe { args.enter() }));
        match r {
            Ok((running, o)) => {
                running.commit();
                drop(ended);
                core::mem::forget(args);
                Ok(o)
            }
            Err(error) => {
                drop(ended);
                Err(Failed { error, args })
            }
        }
    }

    /// Like [`Context::tx_with`], with a result that may hold handles. Name its type, as in
    /// `tx_own::<_, Held<Node>, _>`.
    ///
    /// **Errors**: those of [`Context::tx_with`]; [`Error::Sessions`] if the result may hold
    /// handles and no session number is left. The arguments come back.
    pub fn tx_own<A: Arg, O: Ret, F>(&mut self, args: A, body: F) -> Result<O, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        // The arguments end after the commit: until then a key to a shared root is in use.
        let Prepared {
            running,
            result,
            args: _args,
        } = self.run_with_args::<A, O, F>(0, args, body)?;
        running.commit();
        Ok(result)
    }

    fn check_session<A: Arg>(&self, args: &A) -> Result<(), Error> {
        if !args.of_session(M::section(|| self.core.session.get())) {
            return Err(Error::WrongPool);
        }
        if args.in_use() {
            return Err(Error::Unfinished);
        }
        Ok(())
    }

    fn run_with_args<A: Arg, O: Ret, F>(
        &mut self,
        idle_flags: usize,
        args: A,
        body: F,
    ) -> Result<Prepared<'c, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        if let Err(error) = self.check_session(&args) {
            return Err(Failed { error, args });
        }
        let session = if O::HANDLES > 0 {
            match self.core.session() {
                Ok(session) => session,
                Err(error) => return Err(Failed { error, args }),
            }
        } else {
            session::NONE
        };
        let ended = Ended(&args);
        let r = self.run_body(idle_flags, |tx, root| {
            // SAFETY: invariant "Sole owner": if the body fails everything is undone; `Prepared`
            // forgets the arguments when it commits.
            let args = unsafe { args.enter() };
            // SAFETY: invariant "Sole owner": the result is dropped unless the transaction commits.
            body(tx, root, args).map(|o| unsafe { O::leave(o, session) })
        });
        match r {
            Ok((running, result)) => {
                core::mem::forget(ended);
                Ok(Prepared {
                    running,
                    result,
                    args: Entered(ManuallyDrop::new(args)),
                })
            }
            Err(error) => {
                drop(ended);
                Err(Failed { error, args })
            }
        }
    }

    /// Runs a transaction up to its commit store, which the caller makes in a commit word of its
    /// own. At the next open the resolver reads from that word whether this sequence number is
    /// committed.
    ///
    /// Store [`Prepared::seq`] there with one store of an atomic unit, fence, and call
    /// [`Prepared::committed`]. Other contexts may run transactions in between. **Power loss**: the
    /// caller's word decides. **Cost**: that of [`Context::tx`] without the commit store.
    /// **Errors**: those of [`Context::tx_own`] but [`Error::CallersCommitWord`];
    /// [`Error::PoolsCommitWord`] if the pool was opened without a resolver;
    /// [`Error::Unfinished`] if an earlier prepared transaction was forgotten.
    pub fn prepare<A: Arg, O: Ret, F>(
        &mut self,
        args: A,
        body: F,
    ) -> Result<Prepared<'_, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        if !self.core.caller_commits {
            return Err(Failed {
                error: Error::PoolsCommitWord,
                args,
            });
        }
        self.prepare_resolved::<A, O, F>(args, body)
    }

    /// [`Context::prepare`] for the caller that opened the pool with a resolver: does not check
    /// that.
    #[doc(hidden)]
    pub fn prepare_resolved<A: Arg, O: Ret, F>(
        &mut self,
        args: A,
        body: F,
    ) -> Result<Prepared<'_, A, O, M>, Failed<A>>
    where
        F: for<'p> FnOnce(
            &Tx<'p, M>,
            &mut Root<'p, R::At<'p>, M::Unit>,
            A::In<'p>,
        ) -> Result<O::In<'p>, Error>,
    {
        let p = self.run_with_args::<A, O, F>(self.s.flags.get() & flag::EXTERNAL, args, body)?;
        self.core.prepare(self.s);
        if !planted!("pmem-tx/no-fence-before-commit") {
            self.core.fence();
        }
        self.s.set_flag(flag::PREPARED);
        Ok(p)
    }

    /// The sequence number of the next transaction.
    pub fn next_seq(&self) -> u32 {
        self.s.seq.get() as u32
    }
}

/// A transaction that lacks only its commit store. It is undone when it is dropped. If it is
/// forgotten, its context refuses further transactions with [`Error::Unfinished`].
#[must_use = "a prepared transaction is undone when it is dropped"]
pub struct Prepared<'c, A: Arg, O, M: Model> {
    // Dropped first: the rollback ends before `Arg::ended` is called.
    running: Running<'c, M>,
    result: O,
    args: Entered<A>,
}

// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<A: Arg, O, M: Model> Send for Prepared<'_, A, O, M> where Self: InOneThread {}
// SAFETY: invariant "One thread": the bound never holds.
unsafe impl<A: Arg, O, M: Model> Sync for Prepared<'_, A, O, M> where Self: InOneThread {}

impl<A: Arg, O, M: Model> Prepared<'_, A, O, M> {
    /// The sequence number to store in the caller's commit word.
    pub fn seq(&self) -> u32 {
        self.running.s.seq.get() as u32
    }
    /// The body's result.
    pub fn result(&self) -> &O {
        &self.result
    }
    /// Ends the transaction as committed. Call it after the caller's commit word is stored and
    /// fenced.
    pub fn committed(self) -> O {
        let Prepared {
            running, result, ..
        } = self;
        running.committed();
        result
    }
    /// Undoes the transaction and returns the arguments.
    pub fn abandon(self) -> A {
        let Prepared { running, args, .. } = self;
        drop(running);
        args.into_inner()
    }
}

/// A critical section of the program: while one is held, no other context of the pool runs in one.
///
/// Example: a kernel that masks all interrupts, or those that use a context of the pool:
///
/// ```
/// # mod cortex_m { pub fn mask() -> bool { true } pub fn restore(_: bool) {} }
/// enum Masked {}
/// // SAFETY: one core; nothing runs between the two calls but `f`.
/// unsafe impl pmem_tx::Section for Masked {
///     fn with<R>(f: impl FnOnce() -> R) -> R {
///         let before = cortex_m::mask();
///         let r = f();
///         cortex_m::restore(before);
///         r
///     }
/// }
/// ```
///
/// Sections are short, and their length does not depend on the length of the pool:
///
/// | in one section | stores | loads |
/// |---|---|---|
/// | search of an allocation | none | 4 block headers; for each that is free, the journal headers of the contexts in doubt |
/// | last section of an allocation | 4, in order: two words of the journal, one or two block headers | the same, for the free neighbours that are joined |
/// | a block freed, or given back by an abort | 1 | its header |
/// | an entry cleared by an abort | 1 | none |
/// | tags updated by a sweep or an abort | at most 4 | 4 block headers and their tags |
/// | a cell's tag read or written | at most 1 | 1 |
/// | a unit of old content restored by an abort | 1 | 1 |
/// | the pool's session number read or taken, for handles outside | none | none |
///
/// On a buffered medium the last section of an allocation has up to 4 fences; the others have none.
/// A search starts again if another context has joined free blocks since its previous section: at
/// most once for each time that it is preempted.
///
/// Sections are never nested.
///
/// [`Section::exclusive`] is for the one task whose length does depend on the pool: in a replay, a
/// thread of `nv-replay` checks an object that a recorded result owns. All of these together check
/// each object at most once in a boot. By default that is a section. A kernel may override it with
/// a mutex, or lock its scheduler and leave the interrupts on; then no interrupt may run a thread
/// that replays handles, because it would wait for ever.
///
/// # Safety
/// `with` calls `f` exactly once, on this thread, before it returns, and does not unwind by itself.
/// Of two calls in any threads, interrupts or cores, one `f` ends before the other begins, and the
/// second sees everything the first wrote. So a section is a barrier for the compiler and, with
/// several cores, for the memory. The same holds for `exclusive` and other calls of `exclusive`.
///
/// A type that is not `Send` promises this for one thread of an operating system only, as a test
/// kit does that runs all threads of a program in one. Contexts with such a section are not `Send`.
pub unsafe trait Section: 'static {
    /// Runs `f` while no other context of the pool is in a section.
    fn with<R>(f: impl FnOnce() -> R) -> R;
    /// Runs `f` while no other context of the pool is in a call of this function. Other contexts
    /// may be in sections meanwhile; `f` enters none.
    #[inline(always)]
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        Self::with(f)
    }
}

/// The model `M`, for a pool whose contexts may preempt each other anywhere outside of a section
/// `S`.
///
/// ```
/// use pmem_tx::{Contexts, PBox, Pool, Preempted, Section, nvmem::{InOrder32, Region}};
/// use std::sync::Mutex;
///
/// // For a host. On a device with one core: `critical_section::with(|_| f())`.
/// static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
///
/// enum Masked {}
/// // SAFETY: while `f` runs, no other thread or interrupt runs one.
/// unsafe impl Section for Masked {
///     fn with<R>(f: impl FnOnce() -> R) -> R {
///         let _guard = ONE_AT_A_TIME.lock();
///         f()
///     }
/// }
/// type Fram = Preempted<InOrder32, Masked>;
/// type Root = Option<PBox<'static, [u32; 4]>>;
///
/// # let memory = Box::leak(Box::new([const { core::mem::MaybeUninit::<u64>::new(0) }; 256]));
/// let region = Region::new(memory);
/// let mut pool = Pool::<Contexts<(Root, u32)>, Fram>::open(region, |_| Ok((None, 0)))?;
/// let (mut control, mut timer) = pool.contexts();
/// std::thread::scope(|s| {
///     s.spawn(move || timer.tx(|tx, ticks| Ok(*ticks.get_mut(tx)? += 1)));
///     control.tx(|tx, samples| {
///         *samples.get_mut(tx)? = Some(PBox::new(tx, [0; 4])?);
///         Ok(())
///     })
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A context is used by one thread of control at a time; its type enforces this. Transactions of
/// other contexts, in threads and interrupts, may preempt it anywhere outside of a section, and may
/// stay open. An interrupt with its own context may allocate, free, update and abort; it never
/// waits. It may get [`Error::PoolFull`] earlier, because a block that another context frees is
/// available only after the commit of that context.
///
/// The format is that of `M`. **Cost**: the sections. A pool of any other model has none.
pub struct Preempted<M, S> {
    _never: Infallible,
    _m: PhantomData<fn() -> (M, S)>,
}

// SAFETY: invariant "A fence is nothing else": that of `M`; `S` promises its section.
unsafe impl<M: Model, S: Section> Model for Preempted<M, S> {
    type Unit = M::Unit;
    const BUFFERED: bool = M::BUFFERED;
    const NAME: &'static str = M::NAME;
    #[inline(always)]
    fn fence() {
        M::fence()
    }
    const READ_AS_BYTES: bool = M::READ_AS_BYTES;
    const PREEMPTED: bool = true;
    #[inline(always)]
    fn section<R>(f: impl FnOnce() -> R) -> R {
        S::with(f)
    }
    #[inline(always)]
    fn exclusive<R>(f: impl FnOnce() -> R) -> R {
        S::exclusive(f)
    }
}

// SAFETY: invariant "Shared in sections": contexts share `Core` and their states. Shared fields are
// changed in sections only, and a context reads another one's state in sections only; sections
// exclude each other. The other fields of a state belong to its context. On the medium a context
// owns its journal and the objects its handles lead to; block headers and tags are read and written
// in sections.
unsafe impl<R, M: Model, S: Section + Send> Send for Context<'_, R, Preempted<M, S>> {}
