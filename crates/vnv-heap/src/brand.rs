//! The tag that ties handles to their heap: a lifetime that no other heap has.

use core::marker::PhantomData;

/// Exactly `'h`, neither longer nor shorter.
pub(crate) type Tag<'h> = PhantomData<fn(&'h ()) -> &'h ()>;

/// What a heap is opened with: see [`brand!`](crate::brand). There is one for each scope in which the macro is used.
pub struct Brand<'h> {
    _tag: Tag<'h>,
}

/// What lives as long as a brand.
#[doc(hidden)]
pub struct Place<'h>(Tag<'h>);

/// Keeps its place borrowed to the end of the scope. As it has a destructor, that end is no other brand's.
#[doc(hidden)]
pub struct Ends<'h>(#[allow(dead_code)] &'h Place<'h>);

impl Drop for Ends<'_> {
    #[inline(always)]
    fn drop(&mut self) {}
}

impl<'h> Place<'h> {
    /// # Safety
    /// Only [`brand!`](crate::brand) calls it: the place is a hidden variable.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new() -> Self {
        Place(PhantomData)
    }
}

impl<'h> Ends<'h> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn new(place: &'h Place<'h>) -> Self {
        Ends(place)
    }
}

impl<'h> Brand<'h> {
    /// # Safety
    /// Only [`brand!`](crate::brand) calls it, once for each place.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn new(_: &'h Place<'h>) -> Self {
        Brand { _tag: PhantomData }
    }
}

/// `brand!(b)` declares `b`, with which one heap can be opened in this scope.
///
/// The handles of that heap carry the brand, so that those of two heaps cannot be mixed up and none outlives its heap: neither
/// compiles. Declare the RAM and the medium that the heap borrows *before* the brand.
///
/// ```
/// # #![forbid(unused)]
/// vnv_heap::brand!(b);
/// ```
#[macro_export]
macro_rules! brand {
    ($name:ident) => {
        // SAFETY: a variable that only this macro can name.
        let place = unsafe { $crate::__brand::Place::new() };
        let _ends = $crate::__brand::Ends::new(&place);
        // SAFETY: the only one of this place.
        let $name = unsafe { $crate::Brand::new(&place) };
        // Used, so that no lint needs to be allowed, which a program may forbid.
        let _ = &$name;
    };
}
