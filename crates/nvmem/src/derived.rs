//! Functions for the code that `#[derive(Persist)]` generates. Not for hand-written code: they may
//! change in any release.

use crate::persist::Persist;
use crate::planted;
use core::mem::MaybeUninit;

pub use crate::describe::{Member, Type};
pub use crate::fields::{FieldAccess, Fields};
pub use crate::persist::{Invalid, Visit};

/// The largest alignment of persistent data: the alignment of a region.
pub const MAX_ALIGN: usize = 8;

/// Whether the target honours this alignment for variables. LLVM does not realign the stack of
/// MSP430 but assumes the requested alignment, so it would access bytes outside the variable.
pub const fn is_kept(align: usize) -> bool {
    cfg!(not(target_arch = "msp430")) || align <= 2
}

// INVARIANT "Parts are inside": the functions of `Persist` and the derive's touch only bytes inside
// the value, at each field's own alignment and with the type that is checked there. The derive and
// `Derived` keep it.
// Noticed by: `the_compiler_agrees_on_the_offsets` in tests/suite/derive/layout.rs; Miri.

// INVARIANT "No name is believed": the proof by `#[derive(Persist)]` rests on the language and on
// the trait that it implements, never on a path or a name that a program can redefine. Generated
// code reaches `Derived` as `<Self as Persist>::DERIVED`. It takes field addresses by `&raw const`
// with their types, and discriminants from the compiler.
// Noticed by: tests/suite/derive/hygiene.rs; tests/derive_paths.rs; tests/ui/path_that_lies.rs.

/// The functions that generated code calls, as methods.
///
/// Generated code reaches it as `<Self as Persist>::DERIVED`, so the methods are certainly those of
/// this crate. A path could lead to another crate's function of the same name, even `::nvmem` or
/// `::core`, because `extern crate` renames crates. The trait cannot: implementing another crate's
/// trait gives a type no access to memory managed by this one.
#[derive(Clone, Copy)]
pub struct Derived(());

impl Derived {
    pub(crate) const NEW: Self = Derived(());

    /// Compile-time checks of a type's alignment and drop glue. A type with parameters is checked
    /// once they are known.
    pub const fn assert_layout<T: Persist>(self) {
        const {
            assert!(
                align_of::<T>() <= MAX_ALIGN,
                "persistent data is aligned to 8 bytes at most: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
            );
            assert!(
                is_kept(align_of::<T>()),
                "on MSP430 data is aligned to 2 bytes at most, as a variable is: drop `#[repr(align(..))]`"
            );
            assert!(
                !core::mem::needs_drop::<T>(),
                "persistent data has no drop glue: write a function that frees the objects it owns"
            );
        }
    }

    /// `core::mem::size_of`.
    #[inline(always)]
    pub const fn size_of<T>(self) -> usize {
        size_of::<T>()
    }

    /// The size of a tag of this type.
    #[inline(always)]
    pub const fn size_of_tag<T: Copy>(self, tag: T) -> usize {
        let _ = tag;
        size_of::<T>()
    }

    /// `core::mem::align_of`.
    #[inline(always)]
    pub const fn align_of<T>(self) -> usize {
        align_of::<T>()
    }

    /// Uninitialised memory for a value, to compute the offsets of its fields.
    #[inline(always)]
    pub const fn uninit<T>(self) -> MaybeUninit<T> {
        MaybeUninit::uninit()
    }

    /// The address of a field of this type.
    #[inline(always)]
    pub const fn field<T>(self, at: *const T) -> *const u8 {
        at.cast()
    }

    /// The offset of a field of this type in the value at `whole`.
    ///
    /// # Safety
    /// The field is inside the value at `whole`.
    #[inline(always)]
    pub const unsafe fn offset<W, T>(self, whole: *const W, at: *const T) -> usize {
        // SAFETY: invariant "Parts are inside": both are in the same value, by the contract.
        unsafe { at.cast::<u8>().offset_from_unsigned(whole.cast()) }
    }

    /// The offset of a field with this alignment that follows `end` bytes, by the rule of
    /// `#[repr(C)]`.
    #[inline(always)]
    pub const fn next_offset(self, end: usize, align: usize) -> usize {
        end.next_multiple_of(align)
    }

    /// Writes zeros over the bytes `from..to` of the value at `p`; `from <= to`.
    ///
    /// # Safety
    /// The bytes are inside the value and valid for writes.
    #[inline(always)]
    pub unsafe fn zero(self, p: *mut u8, from: usize, to: usize) {
        if planted!("nvmem/padding-not-cleared") {
            return;
        }
        // SAFETY: invariant "Parts are inside": forwarded to the caller.
        unsafe { p.add(from).write_bytes(0, to - from) }
    }

    /// The result of a check: the bytes are a value.
    #[inline(always)]
    pub const fn valid(self) -> Result<(), Invalid> {
        Ok(())
    }

    /// The result of a check: the bytes are not a value of the type with this name.
    #[inline(always)]
    pub const fn invalid(self, name: &'static str) -> Result<(), Invalid> {
        Err(Invalid::Bits(name))
    }

    /// The value of a const generic as a number. A `usize` stands for itself; other types add a
    /// number for the type.
    pub const fn param<T: Param>(self, value: T, bits: u128) -> u128 {
        let _ = value;
        match T::KIND {
            0 => bits,
            // Too wide to fit beside its kind.
            kind @ (5 | 11) => (kind as u128) << 64 | crate::describe::mixed(bits) as u128,
            kind => (kind as u128) << 64 | (bits as u64) as u128,
        }
    }
}

/// A type that a const generic may have.
pub trait Param: Copy {
    /// A different number for each type; 0 for `usize`.
    const KIND: u8;
}

macro_rules! params {
    ($($kind:literal $t:ty;)*) => {$(
        impl Param for $t {
            const KIND: u8 = $kind;
        }
    )*};
}
params! {
    0 usize;
    1 u8; 2 u16; 3 u32; 4 u64; 5 u128; 6 isize;
    7 i8; 8 i16; 9 i32; 10 i64; 11 i128;
    12 bool; 13 char;
}

// Methods named after the integer types, so that a user's type of the same name cannot interfere.
macro_rules! tags {
    ($($t:ident $read:ident;)*) => {
        impl Derived {$(
            /// Gives an integer literal this type.
            #[inline(always)]
            pub const fn $t(self, tag: $t) -> $t {
                tag
            }

            /// Reads the tag at `p`.
            ///
            /// # Safety
            /// `p` is aligned for it, valid for reads, and initialised.
            #[inline(always)]
            pub const unsafe fn $read(self, p: *const u8) -> $t {
                // SAFETY: invariant "Parts are inside": forwarded to the caller.
                unsafe { p.cast::<$t>().read() }
            }
        )*}
    };
}
tags! {
    u8 read_u8; u16 read_u16; u32 read_u32; u64 read_u64;
    i8 read_i8; i16 read_i16; i32 read_i32; i64 read_i64;
}
