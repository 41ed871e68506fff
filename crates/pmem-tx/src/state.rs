//! What an open pool is made of, and access to its words.

use crate::error::Error;
use crate::geometry::Geometry;
use crate::layout::Undo;
use crate::session;
use core::cell::Cell;
use nvmem::{Model, Region, Unit, mapped};

/// What [`CtxState::flags`] consists of. A context at rest has none of them but `EXTERNAL`, so that one comparison tells
/// what there is to do before a transaction, and one what there is after it.
pub(crate) mod flag {
    /// How deep transactions are nested.
    pub const LEVEL: usize = EXTERNAL - 1;
    /// Everything but the commit store is done.
    pub const PREPARED: usize = 1 << (usize::BITS - 1);
    /// A two-version cell was written.
    pub const CELLS: usize = 1 << (usize::BITS - 2);
    /// A block was freed.
    pub const FREES: usize = 1 << (usize::BITS - 3);
    /// An operation that consumed a handle failed: the transaction can only abort.
    pub const FAILED: usize = 1 << (usize::BITS - 4);
    /// No transaction has run since the walk at open.
    pub const WALKED: usize = 1 << (usize::BITS - 5);
    /// The commit word is the caller's.
    pub const EXTERNAL: usize = 1 << (usize::BITS - 6);
}

/// What other contexts see of one that they preempt, beside its number in [`CtxState::ctx`].
pub(crate) mod announced {
    pub const INDEX: usize = 0x7f;
    /// The blocks in its journal are in doubt: they may change hands again, whatever their headers
    /// say.
    pub const DOUBT: usize = 1 << 7;
    /// Since it began to walk along the blocks none were joined: where it is, a block begins.
    pub const CHAIN_STABLE: usize = 1 << 8;
}

/// The volatile state of a context.
///
/// Where contexts preempt each other, another one may look at `ctx` in a section, and, while that
/// says `DOUBT`, at `count` and at as many journal headers. They are changed then in sections only.
/// Another one changes `ctx` only where it says `CHAIN_STABLE`, which it does only during a walk. All
/// else is its own.
#[derive(Debug)]
pub struct CtxState {
    pub(crate) flags: Cell<usize>,
    /// The sequence number of the running, or the next, transaction.
    pub(crate) seq: Cell<usize>,
    /// The next number in whose transaction stale headers are cleared: twice in a round, so that a header of either of the two is
    /// cleared by the other.
    pub(crate) sweep_seq: Cell<usize>,
    /// Journal entries of the running transaction.
    pub(crate) count: Cell<usize>,
    /// Journal payload of the running transaction, in bytes.
    pub(crate) used: Cell<usize>,
    /// Where the commit word, the first journal header and the first old content lie. They are in the region.
    pub(crate) word: Cell<usize>,
    pub(crate) headers: Cell<usize>,
    pub(crate) payload: Cell<usize>,
    /// Entries before this belong to enclosing transactions.
    pub(crate) base: Cell<usize>,
    /// The context's place among the others, and for them what [`announced`] lists. Where contexts
    /// preempt each other it is only changed in a section.
    pub(crate) ctx: Cell<usize>,
    /// Why the transaction can only abort, if `FAILED`.
    pub(crate) failed: Cell<Error>,
    /// The outermost level that can only abort, if `FAILED`.
    pub(crate) failed_level: Cell<usize>,
}

/// Before [`Core::init_context`]. Not zeros: a row of them would be a call of `memset`, which a small program may not have yet.
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
    /// The context's place among the others.
    #[inline(always)]
    pub fn index<M: Model>(&self) -> usize {
        if M::PREEMPTED {
            self.ctx.get() & announced::INDEX
        } else {
            self.ctx.get()
        }
    }
    /// Whether others see this of it. In a section.
    pub fn announces(&self, what: usize) -> bool {
        self.ctx.get() & what != 0
    }
    /// Lets others see this. In a section.
    pub fn announce(&self, what: usize) {
        self.ctx.set(self.ctx.get() | what)
    }
    /// In a section.
    pub fn withdraw(&self, what: usize) {
        self.ctx.set(self.ctx.get() & !what)
    }
    /// Whether what its journal says of blocks may happen again, so that they are nobody else's.
    #[inline(always)]
    pub fn in_doubt<M: Model>(&self) -> bool {
        if M::PREEMPTED {
            self.announces(announced::DOUBT)
        } else {
            self.is(flag::PREPARED)
        }
    }
    /// **Errors**: why the transaction can only abort, if so.
    #[inline(always)]
    pub fn check_failed(&self) -> Result<(), Error> {
        if self.is(flag::FAILED) {
            return Err(self.failed.get());
        }
        Ok(())
    }
    /// Replaces the level, and nothing else.
    pub fn set_level(&self, level: usize) {
        self.flags.set(self.flags.get() & !flag::LEVEL | level)
    }
    /// The number of the next transaction is that after `last`.
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

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
    /// Where the search for a free block goes on: a block begins there. Changed in a section.
    pub cursor: Cell<usize>,
    /// The root's and the handles' walk is still good: nothing has changed since. Changed in a
    /// section.
    pub walk_valid: Cell<bool>,
    /// The number of this opening; [`session::NONE`] until a handle wants one, which is at once
    /// where contexts preempt each other.
    pub session: Cell<u32>,
    pub caller_commits: bool,
}

impl<'m, M: Model> Core<'m, M> {
    /// A unit fits into a `usize`: what calculates with units wants no wider number than the machine has.
    pub const UNIT: usize = {
        assert!(M::Unit::BYTES <= size_of::<usize>());
        M::Unit::BYTES
    };

    /// `s` is the state of context `ctx`, which rests.
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

    /// The number of this opening, which every handle outside of a transaction carries. **Errors**: there is none left.
    pub fn session(&self) -> Result<u32, Error> {
        // Of two contexts that preempt each other both may give the first handle away.
        M::section(|| match self.session.get() {
            session::NONE => {
                let n = session::next().ok_or(Error::Sessions)?;
                self.session.set(n);
                Ok(n)
            }
            n => Ok(n),
        })
    }

    /// The walk's marks are good until a transaction of any of these contexts begins.
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
    /// `off` is the offset of a unit of the superblock's, the table's or the journals' areas, or of a block header or tag.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> usize {
        // SAFETY: invariant "Headers are never content": the caller says that it is such a word,
        // and these are never lent.
        unsafe { self.region.load(off) as usize }
    }

    /// # Safety
    /// As [`Core::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: usize) {
        // SAFETY: invariant "Headers are never content": the caller says that it is such a word,
        // and these are never lent.
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

    /// The `i`-th journal entry's header if it belongs to the transaction in doubt.
    pub fn entry(&self, s: &CtxState, i: usize) -> Option<(usize, usize)> {
        if i >= self.geo.entries {
            return None;
        }
        let (first, second) = self.words(s, i);
        (Undo::seq(second, Self::UNIT) == s.seq.get()).then_some((first, second))
    }
}
