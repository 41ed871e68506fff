//! Names in scope do not change the meaning of generated code.

use crate::derive::handle::PBox;
use core::mem::MaybeUninit;
use nvmem::persist::{from_bytes, to_bytes};
use nvmem::{Invalid, Persist, Plain, fingerprint};

/// `nvmem`'s traits, with wrong helper functions.
mod lies {
    pub use ::nvmem::*;
    pub mod __derived {
        pub use ::nvmem::__derived::*;
        pub const MAX_ALIGN: usize = 4096;
        pub const fn is_kept(_: usize) -> bool {
            true
        }
        pub const fn next_offset(_: usize, _: usize) -> usize {
            0
        }
        pub const fn assert_layout<T>() {}
        pub const fn assert_plain<T>() {}
        pub const fn zero(_: *mut u8, _: usize, _: usize) {}
        /// Has the same methods, which do nothing.
        #[derive(Clone, Copy)]
        pub struct Derived;
        impl Derived {
            pub const fn next_offset(self, _: usize, _: usize) -> usize {
                0
            }
        }
    }
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(crate = crate::derive::hygiene::lies)]
#[repr(C)]
struct Data {
    wide: u32,
    on: bool,
    kind: Kind,
}

#[derive(Persist, Clone, Copy, Debug, PartialEq)]
#[persist(crate = lies)]
#[repr(u8)]
enum Kind {
    Byte(u8, bool),
    Wide(u32, bool),
}

fn bytes<T: Plain>(v: T) -> Vec<u8> {
    let mut buf = [MaybeUninit::new(0xEE); 64];
    to_bytes(v, &mut buf).unwrap().to_vec()
}

#[test]
fn a_module_with_wrong_functions_changes_nothing() {
    let data = |kind| Data {
        wide: !0,
        on: true,
        kind,
    };
    for kind in [Kind::Byte(7, true), Kind::Wide(!0, true)] {
        let good = bytes(data(kind));
        assert_eq!(from_bytes::<Data>(&good), Ok(data(kind)));
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] = 2;
            // Accepted bytes are a value, which encodes to the same bytes.
            if let Ok(v) = from_bytes::<Data>(&bad) {
                assert!(
                    matches!(v.kind, Kind::Byte(_, on) | Kind::Wide(_, on) if u8::from(on) < 2)
                );
                assert_eq!(from_bytes::<Data>(&bytes(v)), Ok(v));
            }
        }
    }
    let mut bad = bytes(data(Kind::Wide(0, true)));
    *bad.last_mut().unwrap() = 0;
    let on = 8 + 8;
    assert_eq!(size_of::<Data>(), 20);
    bad[on] = 2;
    assert_eq!(from_bytes::<Data>(&bad), Err(Invalid::Bits("bool")));
    bad[on] = 1;
    bad[4] = 2;
    assert_eq!(from_bytes::<Data>(&bad), Err(Invalid::Bits("bool")));
    const {
        assert!(Data::PADDED && Kind::PADDED);
    }
}

/// Constants and statics with names that generated code may use: a pattern with such a name would
/// refer to them.
#[allow(non_upper_case_globals, non_camel_case_types, dead_code)]
mod constants {
    use nvmem::Persist;

    pub const __TAG_0: u8 = 100;
    pub const __TAG_1: u8 = 9;
    pub const __tag_0: u8 = 100;
    pub const __tag_1: u8 = 9;
    pub const __at_0_0: usize = 1;
    pub const __d: usize = 1;
    pub const __p: usize = 1;
    pub const __v: usize = 1;
    pub const __at: usize = 1;
    pub const __end: usize = 1;
    pub const __start: usize = 1;
    pub const __align: usize = 1;
    pub const __padded: bool = false;
    pub const __is_padded: bool = false;
    pub const __stored: u8 = 1;
    pub const __room: usize = 1;
    pub const __gap: usize = 1;
    pub static __whole: usize = 1;
    pub static __lend: usize = 1;
    pub static field: usize = 1;
    pub static value: usize = 1;

    macro_rules! tag {
        () => {
            __TAG_1 + __tag_1
        };
    }

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(u8)]
    pub enum Kind {
        A(u16) = __TAG_1,
        B = 7,
        C(bool) = __tag_1 + 1,
        D = tag!(),
        E,
    }

    #[derive(Persist, Clone, Copy, Debug, PartialEq)]
    #[repr(C, u8)]
    pub enum Apart {
        A(u16) = __TAG_1,
        B(u8) = __tag_0,
    }

    #[derive(Persist)]
    #[repr(C)]
    pub struct Struct<T> {
        pub __at: u8,
        pub __whole: T,
    }
}

#[test]
fn constants_of_the_same_names() {
    use constants::*;
    let known: Vec<u8> = (0..=255)
        .filter(|tag| from_bytes::<Kind>(&[*tag, 0, 0, 0]).is_ok())
        .collect();
    assert_eq!(known, [7, 9, 10, 18, 19]);
    for v in [Kind::A(3), Kind::B, Kind::C(true), Kind::D, Kind::E] {
        assert_eq!(from_bytes::<Kind>(&bytes(v)), Ok(v));
    }
    let refused = from_bytes::<Kind>(&[10, 2, 0, 0]);
    assert_eq!(refused, Err(Invalid::Bits("bool")));
    for v in [Apart::A(3), Apart::B(4)] {
        assert_eq!(from_bytes::<Apart>(&bytes(v)), Ok(v));
    }
    assert!(from_bytes::<Apart>(&[10, 0, 0, 0]).is_err());
    assert!(fingerprint::<Struct<u32>>() != 0);
}

/// Types, traits, values and macros with the names of the prelude and of the language.
#[allow(non_camel_case_types, dead_code, unused_macros, non_upper_case_globals)]
mod shadowed {
    use ::nvmem::Persist;

    pub struct bool;
    pub struct u8;
    pub struct u16;
    pub struct u128;
    pub struct i128;
    pub struct usize;
    pub struct str;
    pub struct Option;
    pub struct Result;
    pub struct Self_;
    pub trait Drop {}
    pub trait Copy {}
    pub trait Sized {}
    pub trait Fn {}
    pub const Ok: () = ();
    pub const Err: () = ();
    pub const Some: () = ();
    pub const None: () = ();
    macro_rules! assert {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    macro_rules! matches {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    macro_rules! panic {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    macro_rules! offset_of {
        ($($t:tt)*) => {
            compile_error!("the user's own")
        };
    }
    mod core {}
    mod std {}
    mod nvmem {}

    #[derive(Persist)]
    #[repr(u8)]
    pub enum Enum {
        Ok,
        Err(i32),
        Some { bool: f32 } = 5,
        None,
    }

    #[derive(Persist)]
    #[repr(C, i16)]
    pub enum Apart<T> {
        Ok,
        Err(i32, T),
    }

    #[derive(Persist)]
    #[repr(C)]
    pub struct Struct<const N: ::core::primitive::usize> {
        pub bool: [i32; N],
        pub u8: Enum,
        pub u128: Apart<i32>,
    }

    #[derive(Persist)]
    #[repr(transparent)]
    pub struct Transparent(i32);
}

#[test]
fn names_that_mean_something_else() {
    use shadowed::{Enum, Struct, Transparent};
    assert!(fingerprint::<Struct<2>>() != fingerprint::<Struct<3>>());
    let known: Vec<u8> = (0..=255)
        .filter(|tag| {
            let mut b = [0; size_of::<Enum>()];
            b[0] = *tag;
            from_bytes::<Enum>(&b).is_ok()
        })
        .collect();
    assert_eq!(known, [0, 1, 5, 6]);
    assert_eq!(fingerprint::<Transparent>(), {
        #[derive(Persist)]
        #[repr(transparent)]
        struct Transparent(i32);
        fingerprint::<Transparent>()
    });
}

/// No prelude. A type without a type parameter does not compile here, because the compiler's
/// attributes need the prelude.
#[no_implicit_prelude]
#[allow(dead_code)]
mod without_prelude {
    #[derive(::nvmem::Persist)]
    #[repr(C)]
    pub struct Struct<'p, T> {
        pub next: ::core::option::Option<super::PBox<'p, Struct<'p, T>>>,
        pub on: bool,
        pub value: T,
    }

    #[derive(::nvmem::Persist)]
    #[repr(u8)]
    pub enum Enum<T> {
        A,
        B(T, bool),
    }
}

#[test]
fn without_a_prelude() {
    assert!(fingerprint::<without_prelude::Struct<'_, u8>>() != 0);
    assert!(fingerprint::<without_prelude::Enum<u8>>() != 0);
}

/// Parameters, types and a lifetime with the names of generated ones.
#[allow(non_camel_case_types, non_snake_case, dead_code)]
mod parameters {
    use nvmem::Persist;

    #[derive(Persist)]
    #[repr(C)]
    pub struct Struct<'brand, __L, __T, const __N: usize> {
        pub a: __L,
        pub b: [__T; __N],
        pub c: Option<super::PBox<'brand, Struct<'brand, __L, __T, __N>>>,
    }

    #[derive(Persist)]
    #[repr(C)]
    pub struct __Probe {
        pub a: u8,
    }

    #[derive(Persist)]
    #[repr(u8)]
    pub enum __Otherwise {
        __T(u8),
        __L,
    }

    #[derive(Persist)]
    #[repr(C)]
    pub struct __L {
        pub a: u8,
        pub other: __Probe,
    }

    #[derive(Persist)]
    #[repr(C)]
    pub struct PersistentDataMustNotImplementDrop<T> {
        pub __T: T,
        pub __is_plain: __L,
    }
}

#[test]
fn parameters_of_the_same_names() {
    use parameters::*;
    fn slots<T: nvmem::fields::Fields>() -> u64 {
        fingerprint::<T>()
    }
    assert!(slots::<Struct<'_, u8, u16, 3>>() != 0);
    assert!(slots::<__L>() != slots::<__Probe>());
    assert!(fingerprint::<__Otherwise>() != 0);
    assert!(slots::<PersistentDataMustNotImplementDrop<u32>>() != 0);
}

/// The type of a const generic changes the fingerprint.
#[test]
fn const_generics_of_different_types() {
    macro_rules! of {
        ($($name:ident $t:ty = $one:expr;)*) => {{
            let mut all = vec![];
            $({
                mod $name {
                    #[derive(nvmem::Persist)]
                    #[repr(C)]
                    pub struct G<const V: $t> {
                        pub a: u8,
                    }
                }
                all.push((stringify!($name), fingerprint::<$name::G<{ $one }>>()));
            })*
            all
        }};
    }
    let all = of! {
        a u8 = 1; b u16 = 1; c u32 = 1; d u64 = 1; e u128 = 1; f usize = 1;
        g i8 = 1; h i16 = 1; i i32 = 1; j i64 = 1; k i128 = 1; l isize = 1;
        m bool = true; n char = '\u{1}';
        o u8 = 2; p u128 = 2; q i8 = -1; r bool = false; s u128 = 1 << 64; t usize = 0;
    };
    for (i, (name, f)) in all.iter().enumerate() {
        for (other, g) in &all[..i] {
            assert_ne!(f, g, "{other} and {name}");
        }
    }
}

/// As documented, the module does not change the fingerprint.
#[test]
fn a_type_may_be_moved() {
    mod a {
        #[derive(nvmem::Persist)]
        #[repr(C)]
        pub struct Moved(u32);
    }
    mod b {
        pub mod c {
            #[derive(nvmem::Persist)]
            #[repr(C)]
            pub struct Moved(u32);
        }
    }
    assert_eq!(fingerprint::<a::Moved>(), fingerprint::<b::c::Moved>());
}
