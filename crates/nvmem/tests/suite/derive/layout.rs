//! The layout of a type and its fingerprint.

use crate::derive::handle::PBox;
use nvmem::describe::{Member, Type};
use nvmem::{Maybe, Persist, fingerprint};

fn walk<T: Persist>() -> String {
    fn told(t: &Type, out: &mut String) {
        match t {
            Type::Scalar(n) => out.push_str(n),
            Type::Handle(kind) => *out += &format!("->{kind}"),
            Type::Compound {
                name,
                size,
                align,
                params,
                members,
            } => {
                *out += &format!("{name}[{size}/{align}](");
                for p in *params {
                    *out += &format!(" <{p}>");
                }
                for p in *members {
                    match p {
                        Member::Variant { name, tag } => *out += &format!(" | {name}={tag}"),
                        Member::Field { name, offset, of } => {
                            *out += &format!(" {name}@{offset}: ");
                            told(of, out);
                        }
                        other => panic!("unknown part {other:?}"),
                    }
                }
                out.push_str(" )");
            }
            other => panic!("unknown type {other:?}"),
        }
    }
    let mut out = String::new();
    told(T::LAYOUT, &mut out);
    out
}

mod base {
    use super::*;
    #[derive(Persist)]
    #[repr(C)]
    pub struct Inner {
        pub x: u8,
        pub y: u16,
    }
    #[derive(Persist)]
    #[repr(u8)]
    pub enum Mode {
        Off,
        Slow = 4,
        Fast,
    }
    #[derive(Persist)]
    #[repr(C)]
    pub struct Data<'p, const N: usize> {
        pub rate: u32,
        pub limit: u32,
        pub mode: Mode,
        pub inner: Inner,
        pub list: [u16; N],
        pub next: Option<PBox<'p, Inner>>,
    }
}

#[test]
fn the_layout_lists_every_fact_in_order() {
    assert_eq!(
        walk::<base::Data<'_, 3>>(),
        "Data[32/4]( <3> rate@0: u32 limit@4: u32 \
         mode@8: Mode[1/1]( tag@0: u8 | Off=0 | Slow=4 | Fast=5 ) \
         inner@10: Inner[4/2]( x@0: u8 y@2: u16 ) \
         list@14: array[6/2]( <3> 0@0: u16 ) \
         next@20: Option[4/4]( 0@0: ->test ) )"
            .replace(
                "Data[32/4]",
                &format!("Data[{}/4]", size_of::<base::Data<'_, 3>>())
            )
    );
}

#[test]
fn variants_have_field_offsets() {
    #[derive(Persist)]
    #[repr(u8)]
    #[allow(dead_code)]
    enum Own {
        A,
        B(u8, u32),
        C { x: u64 } = 9,
        r#D(Maybe<u16>),
    }
    assert_eq!(
        walk::<Own>(),
        "Own[16/8]( tag@0: u8 | A=0 | B=1 0@1: u8 1@4: u32 | C=9 x@8: u64 \
         | D=10 0@2: Maybe[4/2]( tag@0: u8 | None=0 | Some=1 0@2: u16 ) )"
    );
    #[derive(Persist)]
    #[repr(C, i16)]
    #[allow(dead_code)]
    enum Apart<T> {
        A(u8) = -7,
        B(u8, T),
    }
    assert_eq!(
        walk::<Apart<u64>>(),
        "Apart[24/8]( tag@0: i16 | A=-7 0@8: u8 | B=-6 0@8: u8 1@16: u64 )"
    );
}

/// The bytes in which two values differ: the compiler's offset of the differing field.
fn differing<T: nvmem::Plain>(a: T, b: T) -> Vec<usize> {
    let (mut x, mut y) = (vec![], vec![]);
    for (v, out) in [(a, &mut x), (b, &mut y)] {
        let mut buf = [const { core::mem::MaybeUninit::uninit() }; 64];
        out.extend_from_slice(nvmem::persist::to_bytes(v, &mut buf).unwrap());
    }
    (0..x.len()).filter(|&i| x[i] != y[i]).collect()
}

#[test]
fn the_compiler_agrees_on_the_offsets() {
    #[derive(Persist, Clone, Copy)]
    #[repr(u16)]
    #[allow(dead_code)]
    enum Own {
        A(u8, u32, u8),
        B { a: u16, b: u64 },
    }
    assert_eq!(differing(Own::A(0, 0, 0), Own::A(255, 0, 0)), [2]);
    assert_eq!(differing(Own::A(0, 0, 0), Own::A(0, !0, 0)), [4, 5, 6, 7]);
    assert_eq!(differing(Own::A(0, 0, 0), Own::A(0, 0, 255)), [8]);
    assert_eq!(
        differing(Own::B { a: 0, b: 0 }, Own::B { a: !0, b: !0 }),
        [2, 3, 8, 9, 10, 11, 12, 13, 14, 15]
    );
    assert_eq!(
        walk::<Own>(),
        "Own[16/8]( tag@0: u16 | A=0 0@2: u8 1@4: u32 2@8: u8 | B=1 a@2: u16 b@8: u64 )"
    );
    #[derive(Persist, Clone, Copy)]
    #[repr(u8, align(8))]
    #[allow(dead_code)]
    enum Aligned {
        A(u8, u16),
    }
    assert_eq!(differing(Aligned::A(0, 0), Aligned::A(!0, !0)), [1, 2, 3]);
    assert_eq!(
        walk::<Aligned>(),
        "Aligned[8/8]( tag@0: u8 | A=0 0@1: u8 1@2: u16 )"
    );
    #[derive(Persist, Clone, Copy)]
    #[repr(C, u8)]
    #[allow(dead_code)]
    enum Apart {
        A(u8, u16),
        B(u32),
    }
    assert_eq!(differing(Apart::A(0, 0), Apart::A(!0, !0)), [4, 6, 7]);
    assert_eq!(
        walk::<Apart>(),
        "Apart[8/4]( tag@0: u8 | A=0 0@4: u8 1@6: u16 | B=1 0@4: u32 )"
    );
}

#[test]
fn maybe_has_the_layout_of_a_derived_enum() {
    mod derived {
        #[derive(nvmem::Persist)]
        #[repr(u8)]
        #[allow(dead_code)]
        pub enum Maybe<T> {
            None,
            Some(T),
        }
    }
    assert_eq!(walk::<Maybe<u8>>(), walk::<derived::Maybe<u8>>());
    assert_eq!(walk::<Maybe<u64>>(), walk::<derived::Maybe<u64>>());
    assert_eq!(
        walk::<Maybe<Maybe<[u16; 3]>>>(),
        walk::<derived::Maybe<derived::Maybe<[u16; 3]>>>()
    );
}

/// The types of `base`, each with one change.
macro_rules! layout {
    ($name:ident, $x:ty, $slow:literal $fast:ident, $($field:ident: $t:ty),*) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            #[derive(Persist)]
            #[repr(C)]
            pub struct Inner { pub x: $x, pub y: u16 }
            #[derive(Persist)]
            #[repr(u8)]
            pub enum Mode { Off, Slow = $slow, $fast }
            #[derive(Persist)]
            #[repr(C)]
            pub struct Data<'p, const N: usize> { $(pub $field: $t),* }
        }
    };
}
layout! { same, u8, 4 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { order, u8, 4 Fast,
limit: u32, rate: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { name, u8, 4 Fast,
speed: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { kind, u8, 4 Fast,
rate: i32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { element, u8, 4 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [i16; N], next: Option<PBox<'p, Inner>> }
layout! { discriminant, u8, 5 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { variant_name, u8, 4 Quick,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { nested, i8, 4 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, Inner>> }
layout! { owned, u8, 4 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: PBox<'p, Inner> }
layout! { behind_a_handle, u8, 4 Fast,
rate: u32, limit: u32, mode: Mode, inner: Inner, list: [u16; N], next: Option<PBox<'p, [u8; 3]>> }

#[test]
fn a_changed_layout_has_another_fingerprint() {
    let base = fingerprint::<base::Data<'_, 3>>();
    assert_eq!(fingerprint::<same::Data<'_, 3>>(), base);
    let changed = [
        ("the order of fields", fingerprint::<order::Data<'_, 3>>()),
        ("a field's name", fingerprint::<name::Data<'_, 3>>()),
        ("a field's type", fingerprint::<kind::Data<'_, 3>>()),
        ("an element's type", fingerprint::<element::Data<'_, 3>>()),
        ("a const size", fingerprint::<base::Data<'_, 2>>()),
        ("a discriminant", fingerprint::<discriminant::Data<'_, 3>>()),
        (
            "a variant's name",
            fingerprint::<variant_name::Data<'_, 3>>(),
        ),
        ("a nested type", fingerprint::<nested::Data<'_, 3>>()),
        ("an option", fingerprint::<owned::Data<'_, 3>>()),
        (
            "what a handle leads to",
            fingerprint::<behind_a_handle::Data<'_, 3>>(),
        ),
    ];
    let mut seen = vec![base];
    for (what, f) in changed {
        assert!(
            !seen.contains(&f),
            "{what} changed and the fingerprint did not"
        );
        seen.push(f);
    }
}

/// Types with handles to each other, and a third type at the end of a chain of handles.
macro_rules! ring {
    ($name:ident, $v:ty) => {
        mod $name {
            use super::*;
            #[derive(Persist)]
            #[repr(C)]
            pub struct Left<'p> {
                pub right: Option<PBox<'p, Right<'p>>>,
            }
            #[derive(Persist)]
            #[repr(C)]
            pub struct Right<'p> {
                pub left: Option<PBox<'p, Left<'p>>>,
                pub chain: PBox<'p, [Option<PBox<'p, Pair<PBox<'p, Last>>>>; 2]>,
            }
            #[derive(Persist)]
            #[repr(C)]
            pub struct Pair<T>(T, u32);
            #[derive(Persist)]
            #[repr(C)]
            pub struct Last {
                pub v: $v,
            }
        }
    };
}
ring! { ring, u32 }
ring! { again, u32 }
ring! { other, i32 }

#[test]
fn a_recursive_type_has_a_fingerprint() {
    assert_eq!(
        walk::<ring::Left<'_>>(),
        "Left[4/4]( right@0: Option[4/4]( 0@0: ->test ) )"
    );
    let base = fingerprint::<ring::Left<'_>>();
    assert_eq!(base, fingerprint::<again::Left<'_>>());
    assert_ne!(base, fingerprint::<other::Left<'_>>());
    assert_ne!(base, fingerprint::<ring::Right<'_>>());
}

/// `u8` behind this many handles.
macro_rules! away {
    ($t:ty;) => { $t };
    ($t:ty; $one:tt $($more:tt)*) => { away!(PBox<'static, $t>; $($more)*) };
}

#[test]
fn sixteen_handles_are_followed() {
    assert_eq!(nvmem::describe::REACH, 16);
    assert_ne!(
        fingerprint::<away!(u8; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)>(),
        fingerprint::<away!(i8; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)>()
    );
    assert_eq!(
        fingerprint::<away!(u8; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)>(),
        fingerprint::<away!(i8; 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17)>()
    );
}
