//! Types that the derive accepts.

use crate::derive::handle::PBox;
use core::num::NonZeroU16;
use nvmem::fields::{FieldAccess, Fields};
use nvmem::{Maybe, Persist, Plain};

/// Plain.
#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct Settings {
    /// Rate.
    pub rate: u16,
    pub(crate) on: bool,
    last: [Maybe<i32>; 3],
    owner: Option<NonZeroU16>,
}

#[derive(Persist)]
#[repr(C)]
struct Unit;

#[derive(Persist)]
#[repr(C)]
struct Tuple(u8, f64, char);

#[derive(Persist, PartialEq)]
#[repr(transparent)]
struct Meters(u32);

#[derive(Persist)]
#[repr(C)]
struct Node<'p> {
    v: u32,
    next: Option<PBox<'p, Node<'p>>>,
    by_self: Option<PBox<'p, Self>>,
}

#[derive(Persist)]
#[repr(C)]
struct Pair<A, B = A> {
    a: A,
    b: B,
}

#[derive(Persist)]
#[repr(C)]
pub struct Ring<T, const N: usize, const ON: bool = true> {
    r#type: u32,
    data: [T; N],
}

#[derive(Persist, PartialEq)]
#[repr(C)]
struct Bounded<T>
where
    T: Plain + PartialEq,
{
    value: Maybe<T>,
}

#[derive(Persist)]
#[repr(C)]
struct Inline<T: Plain + PartialEq> {
    value: Maybe<T>,
}

/// A trait that implies `Plain`.
trait Sample: Plain + Copy {}
impl Sample for u16 {}

#[derive(Persist)]
#[repr(C)]
struct Implied<'p, T: Sample> {
    value: [T; 2],
    next: Option<PBox<'p, Implied<'p, T>>>,
}

#[derive(Persist)]
#[repr(C)]
struct Tree<'p, T, const N: usize> {
    value: T,
    children: [Option<PBox<'p, Tree<'p, T, N>>>; N],
}

#[derive(Persist)]
#[repr(C)]
struct TupleOf<'p, T>(T, PBox<'p, Pair<T, Maybe<T>>>);

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[repr(i8)]
enum Mode {
    Off = -3,
    On,
    Auto = 7,
}

#[derive(Persist)]
#[repr(u8)]
enum Event<'p, T> {
    Nothing,
    Value(T, bool),
    Named { at: u64, mode: Mode },
    Owned(PBox<'p, Event<'p, T>>),
}

#[derive(Persist)]
#[repr(C, u16)]
enum Tagged<const N: usize> {
    A([u8; N]),
    B(u64, u8) = 9,
}

fn persist<T: Persist>() {}
fn plain<T: Plain>() {}
fn same<'p, T: Persist>(x: T::At<'p>) -> T::At<'p> {
    x
}
fn node_at<'p>(x: <Node<'static> as Persist>::At<'p>) -> Node<'p> {
    same::<Node<'static>>(x)
}

#[test]
fn they_compile() {
    plain::<Settings>();
    plain::<Unit>();
    plain::<Tuple>();
    plain::<Meters>();
    plain::<Mode>();
    plain::<Pair<Pair<u8>, [Mode; 4]>>();
    plain::<Ring<Pair<u8>, 3>>();
    plain::<Bounded<u16>>();
    plain::<Inline<Bounded<Meters>>>();
    plain::<Tagged<3>>();
    plain::<Option<NonZeroU16>>();
    persist::<Node<'_>>();
    persist::<Implied<'_, u16>>();
    persist::<Tree<'_, Mode, 3>>();
    persist::<Pair<Node<'_>>>();
    persist::<TupleOf<'_, PBox<'_, u8>>>();
    persist::<Event<'_, PBox<'_, Event<'_, u8>>>>();
    let _ = node_at;
}

/// Field slots that are pointers.
#[derive(Clone, Copy)]
struct Raw;
// SAFETY: the slot is a pointer to the field.
unsafe impl FieldAccess for Raw {
    type FieldSlot<U> = *mut U;
    unsafe fn field_slot<U>(self, at: *mut U) -> *mut U {
        at
    }
}

#[test]
fn slots_are_the_fields() {
    let mut s = Settings {
        rate: 1,
        on: false,
        last: [Maybe::None; 3],
        owner: None,
    };
    // SAFETY: `s` is not borrowed elsewhere.
    let slots: SettingsSlots<Raw> = unsafe { Settings::project(&mut s, Raw) };
    // SAFETY: as above.
    unsafe {
        *slots.rate = 2;
        *slots.on = true;
        *slots.last = [Maybe::Some(3); 3];
        *slots.owner = NonZeroU16::new(4);
    }
    let want = Settings {
        rate: 2,
        on: true,
        last: [Maybe::Some(3); 3],
        owner: NonZeroU16::new(4),
    };
    assert_eq!(s, want);
}

#[test]
fn slots_of_generic_and_branded_types() {
    let mut t = Tree::<u16, 2> {
        value: 1,
        children: [None, Some(PBox::new(8))],
    };
    // SAFETY: `t` is not borrowed elsewhere.
    let slots: TreeSlots<'_, u16, 2, Raw> = unsafe { Fields::project(&mut t, Raw) };
    // SAFETY: as above.
    unsafe {
        *slots.value = 5;
        (*slots.children)[0] = (*slots.children)[1].take();
    }
    assert!(t.value == 5 && t.children[0].is_some() && t.children[1].is_none());
}
