//! Apart from the suite: a crate in which `::nvmem` and `::core` refer to the crate itself. It
//! defines all names that generated code uses, with wrong functions.
//!
//! `extern crate` needs no `unsafe`, so the derive's guarantees must not depend on a path.

#![allow(missing_docs, dead_code, clippy::missing_safety_doc)]

extern crate nvmem as real;
extern crate self as core;
extern crate self as nvmem;

pub use real::{Persist, Plain};
pub use std::{assert, marker, ops, primitive, result};

pub mod mem {
    pub use crate::lie as offset_of;
    pub const fn size_of<T>() -> usize {
        1
    }
    pub const fn align_of<T>() -> usize {
        1
    }
}

#[macro_export]
macro_rules! lie {
    ($($t:tt)*) => {
        0
    };
}

pub mod __derived {
    pub use crate::real::__derived::*;
    pub const fn next_offset(_: usize, _: usize) -> usize {
        0
    }
    pub const fn assert_layout<T>() {}
    pub const fn assert_plain<T>() {}
    pub const unsafe fn zero(_: *mut u8, _: usize, _: usize) {}
}

#[derive(Persist, Clone, Copy)]
#[repr(C)]
struct Data {
    first: u8,
    on: bool,
    wide: u32,
    kind: Kind,
}

#[derive(Persist, Clone, Copy)]
#[repr(u8)]
enum Kind {
    A(u32, bool),
    B,
}

#[test]
fn paths_to_other_functions_are_not_used() {
    let v = Data {
        first: 7,
        on: true,
        wide: !0,
        kind: Kind::A(!0, true),
    };
    let mut buf = [std::mem::MaybeUninit::new(0xEE); 32];
    let good = real::persist::to_bytes(v, &mut buf).unwrap().to_vec();
    assert_eq!(
        good,
        [
            7, 1, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255, 1, 0, 0, 0
        ]
    );
    let v = real::persist::from_bytes::<Data>(&good).ok().unwrap();
    assert!(v.first == 7 && v.on && v.wide == !0 && matches!(v.kind, Kind::A(n, true) if n == !0));
    for (at, name) in [(1, "bool"), (8, "Kind"), (16, "bool")] {
        let mut bad = good.clone();
        bad[at] = 2;
        let e = real::persist::from_bytes::<Data>(&bad).err();
        assert_eq!(e, Some(real::Invalid::Bits(name)));
    }
    assert!(real::persist::from_bytes::<Kind>(&[1; 12]).is_ok_and(|k| matches!(k, Kind::B)));
}
