//! What an open pool is made of, and access to its words.

use crate::error::Error;
use crate::layout::{Geometry, Undo};
use core::cell::Cell;
use nvmem::{Model, Region, Unit, mapped};

/// The volatile state of a context.
#[derive(Debug, Default)]
pub struct CtxState {
    /// The sequence number of the running, or the next, transaction.
    pub(crate) seq: Cell<u32>,
    /// Journal entries of the running transaction.
    pub(crate) count: Cell<u32>,
    /// Journal payload of the running transaction, in bytes.
    pub(crate) used: Cell<u32>,
    /// Entries before this belong to enclosing transactions.
    pub(crate) base: Cell<u32>,
    /// How deep transactions are nested.
    pub(crate) level: Cell<u32>,
    /// A two-version cell was written.
    pub(crate) cells: Cell<bool>,
    /// Everything but the commit store is done.
    pub(crate) prepared: Cell<bool>,
    /// An operation that consumed a handle failed: the transaction can only abort.
    pub(crate) failed: Cell<Option<Error>>,
}

/// An open pool, without its types.
pub(crate) struct Core<'m, M> {
    pub region: Region<'m, M>,
    pub geo: Geometry,
    /// Where the search for a free block goes on.
    pub cursor: Cell<u32>,
    /// The root's and the handles' walk is still good: nothing has changed since.
    pub walked: Cell<bool>,
    pub session: u32,
    pub external: bool,
}

impl<'m, M: Model> Core<'m, M> {
    pub const UNIT: usize = M::Unit::BYTES;

    #[inline(always)]
    pub fn at(&self, off: usize) -> *mut u8 {
        debug_assert!(off <= self.region.len());
        self.region.base().wrapping_add(off)
    }

    /// # Safety
    /// `off` is the offset of a unit of the superblock's, the table's or the journals' areas, or of a block header or tag.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> u32 {
        // SAFETY: forwarded; these words are never lent.
        unsafe { self.region.load(off) }
    }

    /// # Safety
    /// As [`Core::load`].
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: u32) {
        // SAFETY: forwarded; these words are never lent.
        unsafe { self.region.store(off, v) }
    }

    pub fn fence(&self) {
        mapped::fence::<M>()
    }

    /// The `i`-th journal entry's header if it belongs to the transaction `seq`.
    pub fn entry(&self, ctx: usize, i: u32, seq: u32) -> Option<(u32, u32)> {
        if i >= self.geo.entries {
            return None;
        }
        let h = self.geo.header(ctx, i, Self::UNIT);
        // SAFETY: `i` is an entry of the header area.
        let (first, second) = unsafe { (self.load(h), self.load(h + Self::UNIT)) };
        (Undo::seq(second, Self::UNIT) == seq).then_some((first, second))
    }
}
