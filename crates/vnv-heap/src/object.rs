//! Which types can be objects of a heap: those whose handles are of that heap.

use core::marker::PhantomData;
use nvmem::Persist;
use nvmem::describe::{Depth, HandleTargets};

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

/// A type whose handles are all of heaps with the marker `B`, so that it can be stored there.
/// Implemented for every such [`Persist`] type.
pub trait Marked<B>: Persist<HandleTargets: OfHeap<B>> {}
impl<B, T: Persist<HandleTargets: OfHeap<B>>> Marked<B> for T {}
