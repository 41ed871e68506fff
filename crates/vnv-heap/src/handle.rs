//! Handles and guards: what owns an object, what pins it in RAM, what the heap knows of its type,
//! which types can be objects of a heap, and the fields of an object as methods of its handle.

use crate::brand::Tag;
use crate::config::{Promise, Snapshot};
use crate::error::Error;
use crate::policy::{Policy, Predict};
use crate::sections::Core;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::num::NonZeroU16;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use nvmem::describe::{Depth, HandleTargets, HandleTo, Type};
use nvmem::persist::{CheckFn, HandleKind, Visit, ZeroNiche, family_id};
use nvmem::{Invalid, Medium, Persist, Plain, planted};

/// The family of handles to one object, for `Visit`.
pub(crate) const OWN: &str = "vnv-heap";
pub(crate) const OWN_ID: u32 = family_id(OWN);

// INVARIANT "Sole owner": every object that the root leads to has one owner, of its type and size.
// A copy of a handle's bits is used only if the original is not. Handles are not `Clone`; brands
// tie them to their heap, also those that a `Scoped` frees; the walk at open (walk.rs) checks the
// image.
// Noticed by: forged handles in tests/suite/hostile.rs; planted `two-owners`, `walk-accepts-all`.
/// An owning handle to a `T` in the heap with the brand `'h` and the marker `B`. 2 bytes, also as
/// `Option<Own>`.
///
/// Neither `Copy` nor `Clone`: an object has one owner. It can be stored in objects of the same
/// heap. It has no destructor: a handle that is overwritten or dropped leaves its object
/// unreachable, until the next open frees it. Pass it to [`Heap::free`](crate::Heap::free) instead.
#[must_use = "a dropped handle leaves its object unreachable until the next open: store it, or free it"]
#[repr(transparent)]
pub struct Own<'h, T, B = ()> {
    id: NonZeroU16,
    _t: PhantomData<fn(T) -> T>,
    _brand: Tag<'h, B>,
}

impl<T, B> core::fmt::Debug for Own<'_, T, B> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Own({})", self.id)
    }
}

impl<T, B> Own<'_, T, B> {
    /// The only handle to this object, or the root's.
    pub(crate) fn new(id: NonZeroU16) -> Self {
        Own {
            id,
            _t: PhantomData,
            _brand: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn id(&self) -> u16 {
        self.id.get()
    }

    /// The number of the object, as errors name it: `Own::number(&own)`. Not a method: methods of a
    /// handle belong to its fields, see [`Fields`].
    pub fn number(own: &Self) -> u16 {
        own.id()
    }
}

// SAFETY: invariant "Sole owner": a number; `At` differs in the brand only; `check` shows the
// handle to the owner of the memory.
unsafe impl<T: Persist, B> Persist for Own<'_, T, B> {
    type At<'p> = Own<'p, T::At<'p>, B>;
    type HandleTargets = HeapHandles<HandleTo<T>, B>;
    const LAYOUT: &'static Type = &Type::Handle(OWN);
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        const { assert_alignment::<T>() }
        // SAFETY: invariant "Checked before it is a value": readable and aligned by the contract.
        let value = u32::from(unsafe { p.cast::<u16>().read() });
        v.handle(value, const { &HandleKind::of::<T>(OWN, OWN_ID) })
    }
}
// SAFETY: invariant "Checked before it is a value": a transparent non-zero integer, whose option
// has the guaranteed layout.
unsafe impl<T: Persist, B> ZeroNiche for Own<'_, T, B> {
    type Branded<'p> = Own<'p, T::At<'p>, B>;
}

/// The layout of handles, which the format promises.
const _: () = assert!(size_of::<Option<Own<'static, u64>>>() == 2);

/// The largest object.
pub(crate) const MAX_OBJECT: usize = crate::cache::MAX_LEN;

/// Refuses types that an object, and so the walk at open, could not align.
pub(crate) const fn assert_alignment<T>() {
    assert!(
        align_of::<T>() <= 8,
        "objects are aligned to 8 bytes at most: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
    );
}

// INVARIANT "A kind is its type": the length, check and `clear_padding` of a `Kind` are those of
// one type (`Kind::of`, `Kind::to_free`). An object is filled, checked and freed as the kind that
// it was allocated with: the brands and types of handles.
// Noticed by: tests/suite/soundness.rs under Miri.
/// What the heap needs to know of a type.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// Bytes in the heap; a type without any takes one.
    pub(crate) len: u16,
    /// Bytes of a value.
    pub(crate) size: u16,
    /// Whether a value may hold handles.
    pub(crate) handles: bool,
    pub(crate) check: CheckFn,
    pub(crate) clear_padding: unsafe fn(*mut u8),
}

impl Kind {
    /// The kind of a type. Types that cannot be objects are refused at compile time.
    pub(crate) const fn of<T: Persist>() -> &'static Kind {
        const { &Self::new::<T>() }
    }

    /// The kind of an object that is only freed.
    pub(crate) fn to_free(len: u16, handles: bool, check: CheckFn) -> Kind {
        unsafe fn nothing(_: *mut u8) {}
        Kind {
            len,
            size: len,
            handles,
            check,
            clear_padding: nothing,
        }
    }

    const fn new<T: Persist>() -> Kind {
        assert_alignment::<T>();
        assert!(
            !core::mem::needs_drop::<T>(),
            "objects have no drop glue: free what they own by a function"
        );
        assert!(
            size_of::<T>() <= MAX_OBJECT,
            "an object has at most 16 KiB less 8 bytes: use a chunked array"
        );
        Kind {
            len: if size_of::<T>() == 0 {
                1
            } else {
                size_of::<T>() as u16
            },
            size: size_of::<T>() as u16,
            handles: T::HANDLES,
            check: T::check,
            clear_padding: T::clear_padding,
        }
    }
}

/// Accepts handles whose numbers this heap can have. The heap wrote the bytes, and open checked the
/// owners.
pub(crate) struct HandleRange {
    pub(crate) objects: u16,
}

impl Visit for HandleRange {
    fn handle(&mut self, value: u32, found: &HandleKind) -> Result<(), Invalid> {
        if found.kind(OWN_ID) != 0 {
            return Err(Invalid::Family(found.family));
        }
        if value == 0 || value > u32::from(self.objects) {
            return Err(Invalid::Handle(found.family));
        }
        Ok(())
    }
}

/// The targets of a handle in a heap with the marker `B`.
pub struct HeapHandles<L, B>(PhantomData<fn(L, B)>);

impl<L: HandleTargets, B> HandleTargets for HeapHandles<L, B> {
    type Within<D: Depth> = L::Within<D>;
}

/// Implemented for lists of handles that are all of heaps with the marker `B`.
#[diagnostic::on_unimplemented(
    message = "a handle in this value is not one of the heap with the marker `{B}`",
    label = "holds a handle of another heap, or of another library",
    note = "the marker is the last parameter of a handle's type: `Own<'h, Node<'h>, Log>`; without one it is `()`"
)]
pub trait OfHeap<B> {}
impl<B> OfHeap<B> for () {}
impl<L, B> OfHeap<B> for HeapHandles<L, B> {}

macro_rules! tuples {
    ($($($n:ident)+;)*) => {$(
        impl<Marker, $($n: OfHeap<Marker>),+> OfHeap<Marker> for ($($n,)+) {}
    )*};
}
tuples! {
    T0;
    T0 T1;
    T0 T1 T2;
    T0 T1 T2 T3;
    T0 T1 T2 T3 T4;
    T0 T1 T2 T3 T4 T5;
    T0 T1 T2 T3 T4 T5 T6;
    T0 T1 T2 T3 T4 T5 T6 T7;
}

// `alloc` and `get` require this, so neither a value nor an image brings in a handle of another
// heap. `get` checks the type that it gives out, not the types that this one leads to: each further
// object needs a call of its own. The root's type as the marker would leave `Own<'static, u32>`
// ambiguous, and a closure `for<'h> FnOnce(Brand<'h>)` would prevent that a heap is stored.

/// A type whose handles are all of heaps with the marker `B`, so that it can be stored there.
/// Implemented for every such [`Persist`] type.
pub trait Marked<B>: Persist<HandleTargets: OfHeap<B>> {}
impl<B, T: Persist<HandleTargets: OfHeap<B>>> Marked<B> for T {}

// Rejected: a macro that rewrites the variables of a function into such calls. It would hide where
// an object is paged in, where `Error::Busy` and a medium's error come from, and where references
// end. Each of them would become a panic, or an early return that the source does not show.

/// A struct whose fields are methods of its handles. `#[derive(Fields)]` makes them:
///
/// | field | methods |
/// |---|---|
/// | `name`, which holds no handle | `own.name(&heap)`, a copy; `own.set_name(&heap, value)` |
/// | `name`, which may hold one: its type names the struct's lifetime | `own.with_name(&heap, f)`, `own.update_name(&heap, f)` with closures; `own.replace_name(&heap, value)`, which returns the previous value, so that no owned object is lost |
/// | `name`, whose type depends on a type parameter | those of the second row; those of the first where it is [`Plain`] |
///
/// A method is as public as its field, and has its documentation. It pins the object and releases
/// it at its end, and copies only the field. **Power loss**, **Cost**, **Errors**: getters as
/// [`Heap::get`](crate::Heap::get), setters as [`Heap::get_mut`](crate::Heap::get_mut). Each call
/// looks up the object again, so that a guard is better for several fields at once.
/// [`Heap::root_handle`](crate::Heap::root_handle) is the root's handle.
///
/// ```
/// use vnv_heap::nvmem::{Persist, ram::RamFram};
/// use vnv_heap::{Config, Fields, Heap, Own, brand};
///
/// #[derive(Persist, Fields)]
/// #[repr(C)]
/// struct Node<'h> {
///     temperature: i16,
///     next: Option<Own<'h, Node<'h>>>,
/// }
///
/// # fn main() { run().unwrap(); }
/// # fn run() -> Result<(), vnv_heap::OpenError<vnv_heap::nvmem::device::Misuse>> {
/// # let (fram, mut ram) = (RamFram::<4096>::filled(0), [0; 512]);
/// brand!(b);
/// let new = |temperature| Node { temperature, next: None };
/// let heap = Heap::<Node, _>::open(b, fram, &mut ram, Config::DEFAULT, |_| Ok(new(20)))?;
/// let node = heap.alloc(new(21))?;
/// node.set_temperature(&heap, node.temperature(&heap)? + 1)?;
/// let before = heap.root_handle().replace_next(&heap, Some(node))?;
/// assert!(before.is_none());
/// let read = heap.root_handle().with_next(&heap, |next| next.as_ref().map(|n| n.temperature(&heap)))?;
/// assert_eq!(read.transpose()?, Some(22));
/// # Ok(()) }
/// ```
///
/// `#[fields(name = Name)]`: another name for the struct that has the methods, `NodeFields` here.
/// `#[fields(crate = path)]`: where this crate is, if it is not `::vnv_heap`.
///
/// # Safety
/// [`Of`](Fields::Of) is a transparent [`Own`] of this type, of the same brand and marker.
pub unsafe trait Fields: Persist {
    /// The struct that has the methods.
    type Of<'h, B>;

    /// A handle by its other name. This conversion shows that both types have the same content.
    #[doc(hidden)]
    fn named<'h, B>(own: Own<'h, Self, B>) -> Self::Of<'h, B>;
}

impl<'h, T: Fields, B> Deref for Own<'h, T, B> {
    type Target = T::Of<'h, B>;
    #[inline(always)]
    fn deref(&self) -> &T::Of<'h, B> {
        const { assert!(size_of::<T::Of<'h, B>>() == size_of::<Own<'h, T, B>>()) };
        // SAFETY: invariant "Sole owner": the same handle, lent on. The trait guarantees that both
        // types have the same layout, brand and target.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }
}

/// A copy of a field.
#[doc(hidden)]
#[inline(always)]
pub fn copy<T: Plain>(field: &T) -> T {
    // SAFETY: invariant "Plain is plain": a valid value; plain data may be copied.
    unsafe { core::ptr::from_ref(field).read() }
}

/// An object pinned for reading. It stays in RAM, at its address, while this lives. A leaked guard
/// pins it for good.
///
/// **Power loss**: a restore puts the object back at its address. **Cost**: 8 bytes of the dirty
/// limit.
#[must_use = "a guard that is dropped at once only pages the object in"]
pub struct Ref<'a, T: Persist, S: Medium, P: Promise = Snapshot, Pol: Policy = Predict> {
    at: NonNull<T>,
    core: &'a Core<S, P, Pol>,
    _t: PhantomData<&'a T>,
}

/// An object pinned for writing. It counts as changed from the start, whether or not it is.
///
/// **Power loss**: as [`Ref`]. **Cost**: the object's size and 10 bytes of the dirty limit.
#[must_use = "a guard that is dropped at once only pages the object in and marks it as changed"]
pub struct RefMut<'a, T: Persist, S: Medium, P: Promise = Snapshot, Pol: Policy = Predict> {
    at: NonNull<T>,
    core: &'a Core<S, P, Pol>,
    _t: PhantomData<&'a mut T>,
}

impl<'a, T: Persist, S: Medium, P: Promise, Pol: Policy> Ref<'a, T, S, P, Pol> {
    /// Pins an object for reading.
    ///
    /// # Safety
    /// The object is a `T`.
    #[inline(always)]
    pub(crate) unsafe fn pin(core: &'a Core<S, P, Pol>, id: u16) -> Result<Self, Error<S::Error>> {
        Ok(Ref {
            at: core.pin_shared(id, Kind::of::<T>())?.cast(),
            core,
            _t: PhantomData,
        })
    }
}

impl<'a, T: Persist, S: Medium, P: Promise, Pol: Policy> RefMut<'a, T, S, P, Pol> {
    /// Pins an object for writing.
    ///
    /// # Safety
    /// The object is a `T`.
    #[inline(always)]
    pub(crate) unsafe fn pin(core: &'a Core<S, P, Pol>, id: u16) -> Result<Self, Error<S::Error>> {
        let at = core.pin_exclusive(id, Kind::of::<T>())?.cast();
        if T::PADDED {
            core.count_padded(|n| n.saturating_add(1));
        }
        Ok(RefMut {
            at,
            core,
            _t: PhantomData,
        })
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Deref for Ref<'_, T, S, P, Pol> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: invariant "What is held stays", "One writer or many readers": valid, at its
        // address, and not written to while it is pinned.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Deref for RefMut<'_, T, S, P, Pol> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: invariant "What is held stays", "One writer or many readers": valid, at its
        // address, and pinned by this guard alone.
        unsafe { self.at.as_ref() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> DerefMut for RefMut<'_, T, S, P, Pol> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: invariant "What is held stays", "One writer or many readers": as in `deref`.
        unsafe { self.at.as_mut() }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Drop for Ref<'_, T, S, P, Pol> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: invariant "What is held stays": the object is pinned for this guard, which ends.
        unsafe { self.core.release(self.at.cast(), Kind::of::<T>(), false) }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Drop for RefMut<'_, T, S, P, Pol> {
    #[inline(always)]
    fn drop(&mut self) {
        if T::PADDED {
            // An assignment may have copied uninitialised padding, and all bytes of an object are
            // written back.
            // SAFETY: invariant "One writer or many readers", "All bytes have a value": a valid
            // value, pinned by this guard alone.
            unsafe { T::clear_padding(self.at.as_ptr().cast()) }
            // After an overflow the count stays.
            self.core.count_padded(|n| n - u8::from(n != u8::MAX));
        }
        // SAFETY: invariant "What is held stays": the object is pinned for this guard, which ends.
        unsafe { self.core.release(self.at.cast(), Kind::of::<T>(), true) }
    }
}

// A guard, not a closure `heap.scope(|heap, scope| …)`: that would need a list of what to free, and
// would forbid to keep an object after all. A value shows its own handles. Soundness does not rest
// on the destructor.

/// A value of the program that is freed with all that it owns when this goes out of scope, as a
/// `Box` is: at the end of a block, by `?`, by a panic. Made by [`Heap::scoped`], which has an
/// example.
///
/// It borrows the heap, so no commit comes while it lives.
///
/// **Power loss**: no object of the heap owns the value. So after a cut the next open frees what it
/// owned, and also after this was leaked. An error when it is freed has the same effect. **Cost**:
/// as [`Heap::discard`], at the end.
///
/// [`Heap::scoped`]: crate::Heap::scoped
/// [`Heap::discard`]: crate::Heap::discard
#[must_use = "a scoped value that is dropped at once is freed at once"]
pub struct Scoped<'a, T: Persist, S: Medium, P: Promise = Snapshot, Pol: Policy = Predict> {
    value: ManuallyDrop<T>,
    core: &'a Core<S, P, Pol>,
}

impl<'a, T: Persist, S: Medium, P: Promise, Pol: Policy> Scoped<'a, T, S, P, Pol> {
    /// The value's handles are of this heap: the caller's bounds on its brand and marker say so.
    pub(crate) fn new(core: &'a Core<S, P, Pol>, value: T) -> Self {
        Scoped {
            value: ManuallyDrop::new(value),
            core,
        }
    }

    /// Returns the value, which is not freed then: `Scoped::keep(packet)`. Not a method, so that it
    /// hides none of the value's.
    pub fn keep(scoped: Self) -> T {
        let mut scoped = ManuallyDrop::new(scoped);
        // SAFETY: invariant "Sole owner": the value is taken once; `scoped` is not dropped.
        unsafe { ManuallyDrop::take(&mut scoped.value) }
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Deref for Scoped<'_, T, S, P, Pol> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> DerefMut for Scoped<'_, T, S, P, Pol> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T: Persist, S: Medium, P: Promise, Pol: Policy> Drop for Scoped<'_, T, S, P, Pol> {
    fn drop(&mut self) {
        if T::HANDLES && !planted!("vnv-heap/scoped-is-kept") {
            // SAFETY: invariant "A kind is its type", "Sole owner": a `T` with its check, which is
            // not used again. The brand of its handles is that of this heap, also after a swap with
            // another scoped value. If this fails, the next open frees the rest.
            let _ = unsafe {
                self.core
                    .free_owned(T::check, (&raw const self.value).cast())
            };
        }
    }
}

impl<T: Persist + core::fmt::Debug, S: Medium, P: Promise, Pol: Policy> core::fmt::Debug
    for Ref<'_, T, S, P, Pol>
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
impl<T: Persist + core::fmt::Debug, S: Medium, P: Promise, Pol: Policy> core::fmt::Debug
    for RefMut<'_, T, S, P, Pol>
{
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        (**self).fmt(f)
    }
}
