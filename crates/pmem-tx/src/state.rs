//! The RAM state of an open pool and of its contexts, and access to the pool's metadata words.

use crate::error::Error;
use crate::geometry::Geometry;
use crate::layout::Undo;
use crate::session;
use core::cell::Cell;
use nvmem::{Model, Region, Unit, mapped};

/// The bits of [`CtxState::flags`]. An idle context has none of them but `EXTERNAL`. So one
/// comparison before a transaction and one after it finds all special cases.
pub(crate) mod flag {
    /// Nesting level of the running transaction; 0 is idle.
    pub const LEVEL: usize = EXTERNAL - 1;
    /// The transaction is prepared: only its commit store is missing.
    pub const PREPARED: usize = 1 << (usize::BITS - 1);
    /// The transaction wrote a two-version cell.
    pub const CELLS: usize = 1 << (usize::BITS - 2);
    /// The transaction freed a block.
    pub const FREES: usize = 1 << (usize::BITS - 3);
    /// An operation that consumed a handle failed: the transaction can only abort.
    pub const FAILED: usize = 1 << (usize::BITS - 4);
    /// No transaction has run since the last walk.
    pub const WALKED: usize = 1 << (usize::BITS - 5);
    /// The caller owns the commit word.
    pub const EXTERNAL: usize = 1 << (usize::BITS - 6);
}

/// The part of a context's state that other contexts read: bits of [`CtxState::ctx`] beside the
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
