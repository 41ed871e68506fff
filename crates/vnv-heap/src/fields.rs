//! Getters and setters: the fields of an object as methods of its handle.

use crate::own::Own;
use core::ops::Deref;
use nvmem::{Persist, Plain};

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
        // SAFETY: the trait guarantees that both are the same type by two names.
        unsafe { &*core::ptr::from_ref(self).cast() }
    }
}

/// A copy of a field.
#[doc(hidden)]
#[inline(always)]
pub fn copy<T: Plain>(field: &T) -> T {
    // SAFETY: a valid value; plain data may be copied.
    unsafe { core::ptr::from_ref(field).read() }
}
