//! A two-version cell: an owning pointer whose writes are not logged.
//!
//! ```text
//!  payload of a cell      +-----+-----------+-----------+
//!                         | tag | version 0 | version 1 |
//!                         +-----+-----------+-----------+
//!                           `-- current version, context, sequence number
//!
//!  write in transaction 8   version 1 := new value, then tag := (current 1, number 8)
//!  commit of 8              nothing: the number is committed, so version 1 counts
//!  abort or cut             tag := (current 0, settled)
//! ```
//!
//! IntOS (7.3) leaves out the log of an object that a transaction writes before it reads. In place
//! that is unsound: the transaction may run again with another input and not write the object at
//! all, and then uncommitted content stays. Here a write goes to the version that is not current,
//! and the commit makes it count.
//!
//! Why this is safe: the tag is one atomic unit and is stored after the version it names. A tag
//! with the number in doubt is reverted at the next open, so the old version counts again. Numbers
//! repeat only after a sweep has settled all older tags.

use crate::error::Error;
use crate::layout::{BlockKind, GRANULE, Tag, cell_bytes};
use crate::pbox::{Width, assert_storable, handle_kind, write_value};
use crate::state::flag;
use crate::tx::{Brand, Tx};
use crate::walk::family;
use core::marker::PhantomData;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{Visit, ZeroNiche};
use nvmem::{Invalid, Model, Persist, Plain, mapped};

/// An owning handle to a persistent `T` that is kept in two versions. A write stores the new value
/// and one word and never logs the old value.
///
/// It takes twice the space. Use it for values that each transaction rewrites as a whole. `T` is
/// any `Persist` type; a value with handles is replaced, not copied.
#[must_use = "a dropped handle leaves its object unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct Ptr<'p, T, W: Width = u32> {
    off: W::Off,
    _t: PhantomData<fn(T) -> T>,
    _brand: Brand<'p>,
}

// SAFETY: invariant "One current version": as for `PBox`, and the walk checks the version that the
// tag names.
unsafe impl<T: Persist, W: Width> Persist for Ptr<'_, T, W> {
    type At<'p> = Ptr<'p, T::At<'p>, W>;
    type HandleTargets = HandleTo<T>;
    const LAYOUT: &'static Type = &Type::Handle(family(W::BYTES, true));
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": readable and aligned by the contract.
        let value = unsafe { p.cast::<W>().read() }.widen();
        v.handle(value, handle_kind::<T, W, true>())
    }
}
// SAFETY: invariant "Checked before it is a value": a transparent non-zero integer, whose option
// has the guaranteed layout.
unsafe impl<T: Persist, W: Width> ZeroNiche for Ptr<'_, T, W> {
    type Branded<'p> = Ptr<'p, T::At<'p>, W>;
}

impl<'p, T: Persist, W: Width> Ptr<'p, T, W> {
    /// Allocates a cell that holds `v`. Costs and errors as for [`PBox::new`](crate::PBox::new),
    /// for two versions and a tag.
    pub fn new<M: Model<Unit = W>>(v: T, tx: &Tx<'p, M>) -> Result<Self, Error> {
        const { assert_storable::<T>() }
        tx.or_fail(tx.check_innermost())?;
        let allocated = tx.core.alloc(
            tx.s,
            tx.others,
            cell_bytes::<T>(),
            BlockKind::Cell,
            tx.logged,
        );
        let o = tx.or_fail(allocated.narrow::<W>())?;
        let b = Ptr {
            off: o,
            _t: PhantomData,
            _brand: PhantomData,
        };
        // SAFETY: invariant "Free means free": a block that was free and is this transaction's own,
        // as large as a tag and two versions.
        unsafe {
            write_value(b.version(tx, 0), v);
            M::section(|| tx.core.store(W::value(o), Tag::SETTLED.encode(W::BYTES)));
        }
        Ok(b)
    }

    fn tag_offset(&self) -> usize {
        W::value(self.off)
    }
    fn tag<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> Tag {
        // SAFETY: invariant "One current version": a cell's payload starts with its tag, which is
        // never lent.
        Tag::decode(
            M::section(|| unsafe { tx.core.load(self.tag_offset()) }),
            W::BYTES,
        )
    }
    /// The tag, settled first if another context wrote it. That context can settle it only where it
    /// finds it. It does not look into this transaction's journal, which could restore the old tag
    /// after its number repeats.
    #[inline(never)]
    fn settle_foreign_tag<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> Tag {
        let tag = self.tag(tx);
        let foreign = tag.seq != 0 && tag.ctx != tx.s.index::<M>();
        if !foreign || nvmem::planted!("pmem-tx/tag-of-another-kept") {
            return tag;
        }
        // SAFETY: invariant "One current version": the cell's tag, which is never lent. The handle
        // comes from a transaction that has committed.
        M::section(|| unsafe {
            tx.core
                .store(self.tag_offset(), tag.settled().encode(W::BYTES))
        });
        tag.settled()
    }
    fn version<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>, i: usize) -> *mut T {
        tx.core
            .at(self.tag_offset() + GRANULE + i * size_of::<T>())
            .cast()
    }
    /// Borrows the current value to read it. **Cost**: 0 stores.
    pub fn get<'a, M: Model<Unit = W>>(&'a self, tx: &'a Tx<'p, M>) -> &'a T {
        let p = self.version(tx, self.tag(tx).current);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "One current version", "Sole owner": the version that the tag names is
        // a valid `T`; a write needs the handle mutably.
        unsafe { &*p }
    }

    /// Stores `v` and returns the old value, with the handles in it.
    ///
    /// **Power loss**: unless the transaction commits, the old value is back. **Cost**: `v` and one
    /// word the first time in a transaction, then `v`. In a nested transaction the cell is logged
    /// like an object. **Errors**: [`Error::OuterTransaction`], and in a nested transaction
    /// [`Error::JournalFull`]. Then the transaction of `tx` can only abort, because handles in `v`
    /// have lost their owner.
    pub fn replace<M: Model<Unit = W>>(&mut self, tx: &Tx<'p, M>, v: T) -> Result<T, Error> {
        self.replace_through(tx, v)
    }

    /// [`Ptr::replace`] for a caller that holds the exclusive borrow in another form, such as a
    /// field slot.
    pub(crate) fn replace_through<M: Model<Unit = W>>(
        &self,
        tx: &Tx<'p, M>,
        v: T,
    ) -> Result<T, Error> {
        tx.or_fail(tx.check_innermost())?;
        let s = tx.s;
        let mut tag = self.tag(tx);
        let mine = Tag {
            seq: s.seq.get(),
            ctx: s.index::<M>(),
            current: tag.current ^ 1,
        };
        let p = self.version(tx, tag.current);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "One current version": it is valid, and moved out once, because the new
        // one becomes current.
        let old = unsafe { p.read() };
        if s.level() > 1 {
            tag = self.settle_foreign_tag(tx);
            // If only the nested transaction aborts, the outer one's version must come back: log
            // the whole cell.
            let len = cell_bytes::<T>();
            let (at, unit) = (self.tag_offset(), W::BYTES);
            let to = (at + len).next_multiple_of(unit);
            tx.or_fail(tx.core.log(s, at, to))?;
            mapped::end_loan(tx.core.at(at), len);
        }
        let already = (tag.seq, tag.ctx) == (mine.seq, mine.ctx);
        let into = if already || nvmem::planted!("pmem-tx/cell-overwrites-valid") {
            tag.current
        } else {
            mine.current
        };
        // SAFETY: invariant "One current version": it writes this transaction's own version, or the
        // one that the tag does not name.
        unsafe { write_value(self.version(tx, into), v) }
        if into != tag.current {
            s.set_flag(flag::CELLS);
            // SAFETY: invariant "One current version": the cell's tag, which is never lent.
            M::section(|| unsafe { tx.core.store(self.tag_offset(), mine.encode(W::BYTES)) })
        }
        Ok(old)
    }

    /// Stores a value without handles. See [`Ptr::replace`].
    pub fn write<M: Model<Unit = W>>(&mut self, tx: &Tx<'p, M>, v: T) -> Result<(), Error>
    where
        T: Plain,
    {
        self.replace(tx, v).map(drop)
    }

    /// Copies a value without handles. **Cost**: 0 stores.
    pub fn read<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> T
    where
        T: Plain + Copy,
    {
        *self.get(tx)
    }

    /// Frees the cell and returns its value. See [`PBox::into_inner`](crate::PBox::into_inner).
    pub fn into_inner<M: Model<Unit = W>>(self, tx: &Tx<'p, M>) -> Result<T, Error> {
        tx.or_fail(tx.check_innermost())?;
        let tag = self.settle_foreign_tag(tx);
        tx.or_fail(tx.core.free(tx.s, self.tag_offset(), BlockKind::Cell))?;
        let p = self.version(tx, tag.current);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "One current version", "Sole owner": the version that the tag names is
        // valid, and the handle is gone.
        Ok(unsafe { p.read() })
    }
}
