//! Owning handles.

use crate::brand::Tag;
use crate::object::HeapHandles;
use core::marker::PhantomData;
use core::num::NonZeroU16;
use nvmem::describe::{HandleTo, Type};
use nvmem::persist::{CheckFn, HandleKind, Visit, ZeroNiche, family_id};
use nvmem::{Invalid, Persist};

/// The family of handles to one object, for `Visit`.
pub(crate) const OWN: &str = "vnv-heap";
pub(crate) const OWN_ID: u32 = family_id(OWN);

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
    /// handle belong to its fields, see [`Fields`](crate::Fields).
    pub fn number(own: &Self) -> u16 {
        own.id()
    }
}

// SAFETY: a number; `At` differs in the brand only; `check` shows the handle to the owner of the
// memory.
unsafe impl<T: Persist, B> Persist for Own<'_, T, B> {
    type At<'p> = Own<'p, T::At<'p>, B>;
    type HandleTargets = HeapHandles<HandleTo<T>, B>;
    const LAYOUT: &'static Type = &Type::Handle(OWN);
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: readable and aligned by the contract.
        let value = u32::from(unsafe { p.cast::<u16>().read() });
        v.handle(value, const { &HandleKind::of::<T>(OWN, OWN_ID) })
    }
}
// SAFETY: a transparent non-zero integer, whose option has the guaranteed layout.
unsafe impl<T: Persist, B> ZeroNiche for Own<'_, T, B> {
    type Branded<'p> = Own<'p, T::At<'p>, B>;
}

/// The layout of handles, which the format promises.
const _: () = assert!(size_of::<Option<Own<'static, u64>>>() == 2);

/// The largest object.
pub(crate) const MAX_OBJECT: usize = crate::ram::MAX_LEN;

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
        assert!(
            align_of::<T>() <= 8,
            "objects are aligned to 8 bytes at most: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
        );
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
