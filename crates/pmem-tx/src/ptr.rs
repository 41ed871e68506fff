//! The owning handles: `PBox` leads to an object, `Ptr` to a cell with two versions.
//!
//! A handle is the offset of a block's payload, in one atomic unit. A `PBox` is read and written
//! through the undo log. A `Ptr` leads to a cell, whose writes are not logged:
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
//! Why this is safe: a handle is neither `Copy` nor `Clone`, so an object has one owner, and a
//! borrow of the handle is a borrow of the object. An object is logged before it is lent. A cell's
//! tag is one atomic unit and is stored after the version it names. A tag with the number in doubt
//! is reverted at the next open, so the old version counts again. Numbers repeat only after a sweep
//! has settled all older tags.

use crate::context::flag;
use crate::error::Error;
use crate::layout::{BlockKind, GRANULE, Tag, cell_bytes};
use crate::tx::{Brand, FieldLender, FieldSlot, Tx};
use crate::walk::family;
use core::marker::PhantomData;
use core::num::{NonZeroU16, NonZeroU32};
use nvmem::describe::{HandleTo, Type};
use nvmem::fields::Fields;
use nvmem::model::assert_lendable;
use nvmem::persist::{HandleKind, Visit, ZeroNiche, family_id};
use nvmem::{Invalid, Model, Persist, Plain, Unit, mapped, planted};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u16 {}
    impl Sealed for u32 {}
}

/// The width of a handle: that of the medium's atomic unit. Sealed: `u16` and `u32`.
pub trait Width: Unit + Plain + sealed::Sealed {
    #[doc(hidden)]
    type Off: Copy + Eq + core::fmt::Debug + Send + Sync + 'static;
    /// An offset at which nothing is read.
    #[doc(hidden)]
    const NOWHERE: Self::Off;
    #[doc(hidden)]
    fn off(v: usize) -> Option<Self::Off>;
    #[doc(hidden)]
    fn value(o: Self::Off) -> usize;
}
impl Width for u16 {
    type Off = NonZeroU16;
    const NOWHERE: NonZeroU16 = NonZeroU16::MAX;
    fn off(v: usize) -> Option<NonZeroU16> {
        NonZeroU16::new(u16::try_from(v).ok()?)
    }
    #[inline(always)]
    fn value(o: NonZeroU16) -> usize {
        o.get().into()
    }
}
impl Width for u32 {
    type Off = NonZeroU32;
    const NOWHERE: NonZeroU32 = NonZeroU32::MAX;
    fn off(v: usize) -> Option<NonZeroU32> {
        NonZeroU32::new(u32::try_from(v).ok()?)
    }
    #[inline(always)]
    fn value(o: NonZeroU32) -> usize {
        o.get() as usize
    }
}

// INVARIANT "Sole owner": a handle in use is the only one to its object. Handles are not `Clone`
// and carry a brand, `Held` (cross.rs) is compared by session, open refuses two owners (walk.rs),
// and a later walk begins a new session (pool.rs).
// Noticed by: compile-fail tests in tests/ui; planted `walk-allows-two-owners`,
// `session-not-compared`, `walk-keeps-session`, `pending-kept`.

/// An owning handle to a persistent `T`: an offset of 4 bytes, or 2 on a medium with 16-bit units.
/// `Option<PBox>` has the same size.
///
/// It exists only inside a transaction, whose brand `'p` it carries, or stored in a persistent
/// object. It is neither `Copy` nor `Clone`: an object has one owner. There is no `Drop`: a handle
/// that is overwritten or dropped leaves its object unreachable until the next open reclaims it.
/// Free the object with [`PBox::into_inner`] or [`PBox::free`].
#[must_use = "a dropped handle leaves its object unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct PBox<'p, T, W: Width = u32> {
    off: W::Off,
    _t: PhantomData<fn(T) -> T>,
    _brand: Brand<'p>,
}

// SAFETY: invariant "Checked before it is a value": an offset, `At` differs in the brand only, and
// `check` shows it to the walk.
unsafe impl<T: Persist, W: Width> Persist for PBox<'_, T, W> {
    type At<'p> = PBox<'p, T::At<'p>, W>;
    type HandleTargets = HandleTo<T>;
    const LAYOUT: &'static Type = &Type::Handle(family(W::BYTES, false));
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Checked before it is a value": readable and aligned by the contract.
        let value = unsafe { p.cast::<W>().read() }.widen();
        v.handle(value, handle_kind::<T, W, false>())
    }
}
// SAFETY: invariant "Checked before it is a value": a transparent non-zero integer, whose option
// has the guaranteed layout.
unsafe impl<T: Persist, W: Width> ZeroNiche for PBox<'_, T, W> {
    type Branded<'p> = PBox<'p, T::At<'p>, W>;
}

pub(crate) const fn handle_kind<T: Persist, W: Width, const CELL: bool>() -> &'static HandleKind {
    const {
        // Asserts at compile time that two versions of `T` fit.
        let _ = if CELL { cell_bytes::<T>() } else { 0 };
        let id = family_id(family(W::BYTES, false)) + CELL as u32;
        &HandleKind::of::<T>(family(W::BYTES, CELL), id)
    }
}

/// Writes a whole value, with its padding as zeros.
///
/// # Safety
/// `at` is aligned and valid for writes, no reference to it is live, and its old content is not
/// needed.
pub(crate) unsafe fn write_value<T: Persist>(at: *mut T, v: T) {
    mapped::lend(at.cast(), size_of::<T>());
    // SAFETY: invariant "Padding is not read": written whole, then its padding as zeros; `at` is
    // valid by the contract.
    unsafe {
        at.write(v);
        T::clear_padding(at.cast());
    }
    mapped::end_loan(at.cast(), size_of::<T>());
}

/// Rejects at compile time types that cannot be stored in a block.
pub(crate) const fn assert_storable<T>() {
    assert!(
        align_of::<T>() <= GRANULE,
        "persistent data must be aligned to at most 8 bytes: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
    );
    assert!(
        !core::mem::needs_drop::<T>(),
        "persistent data must not have drop glue: free its resources in a function"
    );
}

impl<'p, T: Persist, W: Width> PBox<'p, T, W> {
    pub(crate) fn from_offset(off: W::Off) -> Self {
        PBox {
            off,
            _t: PhantomData,
            _brand: PhantomData,
        }
    }
    pub(crate) fn offset(&self) -> W::Off {
        self.off
    }
    fn value(&self) -> usize {
        W::value(self.off)
    }
    pub(crate) fn ptr<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> *mut T {
        tx.core.at(self.value()).cast()
    }

    /// Allocates an object that holds `v`.
    ///
    /// **Power loss**: the object exists if and only if the transaction commits. **Cost**: `v`, one
    /// journal header (8 bytes, 4 with 16-bit units), and one or two block headers. Writing to the
    /// object in the same transaction logs nothing. **Errors**: [`Error::PoolFull`],
    /// [`Error::JournalFull`], [`Error::OuterTransaction`]. Then the transaction of `tx`, and all
    /// nested in it, can only abort: handles in `v` have lost their owner.
    pub fn new<M: Model<Unit = W>>(tx: &Tx<'p, M>, v: T) -> Result<Self, Error> {
        const { assert_storable::<T>() }
        tx.or_fail(tx.check_innermost())?;
        let allocated = tx.core.alloc(
            tx.s,
            tx.others,
            size_of::<T>(),
            BlockKind::Object,
            tx.logged,
        );
        let o = tx.or_fail(allocated.narrow::<W>())?;
        let b = Self::from_offset(o);
        // SAFETY: invariant "Free means free": a block that was free and is this transaction's own,
        // aligned to 8 and large enough.
        unsafe { write_value(b.ptr(tx), v) }
        Ok(b)
    }

    /// Borrows the object to read it. **Cost**: 0 stores.
    #[inline]
    pub fn get<'a, M: Model<Unit = W>>(&'a self, tx: &'a Tx<'p, M>) -> &'a T {
        let p = self.ptr(tx);
        mapped::will_read(p.cast(), size_of::<T>());
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and is borrowed as long as
        // the reference lives.
        unsafe { &*p }
    }

    /// Borrows the object to write it. The first time in a transaction its old content is logged.
    ///
    /// **Power loss**: unless the transaction commits, the old content is restored. **Cost**: for
    /// `n` bytes, rounded up to units, `n + 8` (`n + 4` with 16-bit units, for each started 510
    /// bytes). 0 the second time, and for an object that is new in this transaction. **Errors**:
    /// [`Error::JournalFull`], [`Error::OuterTransaction`]; nothing was changed.
    ///
    /// In a pool over a mirror `T` has no padding: see [`Ram`](nvmem::Ram). So this does not
    /// compile:
    ///
    /// ```compile_fail,E0080
    /// # use nvmem::{Persist, Ram};
    /// # use pmem_tx::{Error, PBox, Tx};
    /// # #[derive(Persist)]
    /// # #[repr(C)]
    /// # struct Meter<T> { sum: u32, rate: T }
    /// # type Padded = Meter<u8>;
    /// fn add<'p>(tx: &Tx<'p, Ram>, meter: &mut PBox<'p, Padded>) -> Result<(), Error> {
    ///     meter.get_mut(tx)?.sum += 1;
    ///     Ok(())
    /// }
    /// # let _: for<'p> fn(&Tx<'p, Ram>, &mut PBox<'p, Padded>) -> _ = add;
    /// ```
    #[inline]
    pub fn get_mut<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> Result<&'a mut T, Error> {
        tx.log_to_lend::<T>(self.value())?;
        // SAFETY: invariant "Sole owner", "Logged before lent": the handle owns a valid `T`, and is
        // borrowed mutably as long as the reference lives.
        Ok(unsafe { &mut *self.ptr(tx) })
    }

    /// The object's fields, each logged when it is first written. **Cost**: 0 stores.
    #[inline]
    pub fn fields<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> T::Slots<FieldLender<'a, 'p, M>>
    where
        T: Fields,
    {
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and is borrowed mutably as
        // long as the slots live.
        unsafe { T::project(self.ptr(tx), FieldLender::new(tx)) }
    }

    /// The object as a field slot, to follow handles in it without logging it. **Cost**: 0 stores.
    #[inline]
    pub fn slot<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
    ) -> FieldSlot<'a, 'p, T, M> {
        // SAFETY: invariant "Sole owner": the handle owns a valid `T`, and is borrowed mutably as
        // long as the slot lives.
        unsafe { FieldSlot::new(self.ptr(tx), tx) }
    }

    /// Frees the object and returns its value, with the handles in it.
    ///
    /// **Power loss**: the object is free if and only if the transaction commits. Its space is
    /// reused only after that. **Cost**: one journal header, and one store before the commit.
    /// **Errors**: [`Error::JournalFull`], [`Error::OuterTransaction`]. Then the transaction of
    /// `tx`, and all nested in it, can only abort.
    pub fn into_inner<M: Model<Unit = W>>(self, tx: &Tx<'p, M>) -> Result<T, Error> {
        tx.or_fail(tx.check_innermost())?;
        tx.or_fail(tx.core.free(tx.s, self.value(), BlockKind::Object))?;
        mapped::will_read(self.ptr(tx).cast(), size_of::<T>());
        // SAFETY: invariant "Sole owner", "Free means free": the handle owned a valid `T` and is
        // consumed; the block does not change until the commit.
        Ok(unsafe { self.ptr(tx).read() })
    }

    /// Frees an object that holds no handles. See [`PBox::into_inner`]. **Errors**: as there.
    pub fn free<M: Model<Unit = W>>(self, tx: &Tx<'p, M>) -> Result<(), Error>
    where
        T: Plain,
    {
        self.into_inner(tx).map(drop)
    }
}

impl<'p, T: Persist, const N: usize, W: Width> PBox<'p, [T; N], W> {
    /// Borrows one element to write it; only that element is logged. **Errors**: [`Error::Index`]
    /// and those of [`PBox::get_mut`].
    pub fn at_mut<'a, M: Model<Unit = W>>(
        &'a mut self,
        tx: &'a Tx<'p, M>,
        i: usize,
    ) -> Result<&'a mut T, Error> {
        if i >= N {
            return Err(Error::Index { index: i, len: N });
        }
        let off = self.value() + i * size_of::<T>();
        tx.log_to_lend::<T>(off)?;
        // SAFETY: invariant "Sole owner", "Logged before lent": an element of the array that the
        // handle owns; `i` is less than `N`.
        Ok(unsafe { &mut *tx.core.at(off).cast() })
    }
}

impl<'p, M: Model> Tx<'p, M> {
    /// Logs the `T` at byte offset `off`, to lend it as `&mut T`. The caller has borrowed it
    /// mutably.
    #[inline(always)]
    pub(crate) fn log_to_lend<T: Persist>(&self, off: usize) -> Result<(), Error> {
        const { assert_lendable::<T, M>() }
        self.log::<T>(off)
    }

    /// Logs the `T` at byte offset `off`. The caller has borrowed it mutably.
    pub(crate) fn log<T>(&self, off: usize) -> Result<(), Error> {
        self.check_innermost()?;
        if !self.logged || size_of::<T>() == 0 {
            return Ok(());
        }
        let (unit, len) = (M::Unit::BYTES, size_of::<T>());
        // A range of whole units needs no rounding; the compiler knows which case applies.
        let (from, to) = if align_of::<T>() >= unit && len.is_multiple_of(unit) {
            (off, off + len)
        } else {
            (off & !(unit - 1), (off + len).next_multiple_of(unit))
        };
        Ok(self.core.log(self.s, from, to)?)
    }
}

/// The format fixes the size of handles.
const _: () = {
    assert!(size_of::<Option<PBox<'static, u64, u32>>>() == 4);
    assert!(size_of::<Option<PBox<'static, u64, u16>>>() == 2);
};

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
    /// Allocates a cell that holds `v`. **Power loss**, **Cost**, **Errors**: as for
    /// [`PBox::new`](crate::PBox::new), for two versions and a tag.
    pub fn new<M: Model<Unit = W>>(tx: &Tx<'p, M>, v: T) -> Result<Self, Error> {
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

    // INVARIANT "A tag is its owner's": content that a transaction may restore has no tag with the
    // sequence number of another context.
    // Noticed by: planted `tag-of-another-kept`.

    /// The tag, settled first if another context wrote it. That context can settle it only where it
    /// finds it. It does not look into this transaction's journal, which could restore the old tag
    /// after its number repeats.
    #[inline(never)]
    fn settle_foreign_tag<M: Model<Unit = W>>(&self, tx: &Tx<'p, M>) -> Tag {
        let tag = self.tag(tx);
        let foreign = tag.seq != 0 && tag.ctx != tx.s.index::<M>();
        if !foreign || planted!("pmem-tx/tag-of-another-kept") {
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

    // INVARIANT "One current version": the tag of a cell names a version that is a valid value, and
    // an uncommitted sequence number reverts to the other. Also in `Core::revert_versions`
    // (journal.rs).
    // Noticed by: planted `cell-overwrites-valid`, `cell-not-reverted`, `cells-of-every-context`.

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
        if s.level() > flag::OUTERMOST {
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
        let into = if already || planted!("pmem-tx/cell-overwrites-valid") {
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

    /// Stores a value without handles. See [`Ptr::replace`]. **Errors**: as there.
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
    /// **Errors**: as there.
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
