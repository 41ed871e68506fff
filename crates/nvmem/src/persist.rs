//! The traits of types that may live in non-volatile memory, and their implementations for built-in
//! types.

use crate::describe::{HandleTargets, Member, Type};
use crate::planted;
use core::num::*;

mod visit;

pub use visit::{CheckFn, HandleKind, NoHandles, Target, Visit, family_id};

/// Why stored bytes are not a valid value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Invalid {
    /// The bytes are not a value of the named type: for example a `bool` of 2, or an unknown enum
    /// tag.
    Bits(&'static str),
    /// A handle of the named family is invalid: it refers to no object, to an object of another
    /// type, or to one that another handle owns.
    Handle(&'static str),
    /// A handle of the named family is not allowed here.
    Family(&'static str),
}

impl core::fmt::Display for Invalid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Invalid::Bits(t) => write!(f, "the stored bytes are not a valid `{t}`"),
            Invalid::Handle(k) => write!(
                f,
                "a stored `{k}` does not refer to an object that it may own"
            ),
            Invalid::Family(k) => write!(f, "a stored `{k}` is not allowed here"),
        }
    }
}
impl core::error::Error for Invalid {}

// INVARIANT "Checked before it is a value": bytes of a medium become a value only after
// `Persist::check`. `from_bytes` here and the walk of `pmem-tx` keep it.
// Noticed by: hostile images; fuzzing; Miri.

// INVARIANT "Padding is not read": no byte of padding is read as initialised. `Persist::PADDED` is
// true where there is any. A region that holds values is not read as bytes before it is cleared,
// except where "Saved bytes have values" (model.rs). `clear_padding`, copies as `MaybeUninit`, the
// derive and `Region::mark_values` keep it.
// Noticed by: Miri on padded types, with `padding_is_copied_and_never_read` and
// `a_closed_region_is_not_read_as_bytes` in tests/suite/misuse/borrows.rs of `pmem-tx`;
// tests/suite/values.rs, planted `padding-read-as-bytes`; tests/suite/derive/padding.rs.

/// A type whose values may live in non-volatile memory. After a power cut, any build of the program
/// with the same layout fingerprint may read them back.
///
/// Implemented for fixed-width integers, floats, `bool`, `char`, `NonZero`, `Option<NonZero>`,
/// `()`, arrays, [`Maybe`](crate::Maybe) and persistent handles. `#[derive(Persist)]` implements it
/// for types whose fields implement it.
///
/// Not implemented for references, pointers, function pointers, cells, `Rc`, atomics, `usize`,
/// types with drop glue, and `Option`s without a guaranteed layout.
///
/// # Safety
/// - `At<'p>` is `Self` with another brand and the same layout.
/// - The type has no drop glue.
/// - `check` accepts only bytes that are a value of `Self`, and passes every handle to `v`. If
///   [`HANDLES`](Persist::HANDLES) is false, there is none.
/// - `clear_padding` leaves every byte initialised.
/// - `LAYOUT` and `HandleTargets` describe the whole layout.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot live in non-volatile memory",
    label = "does not implement `Persist`",
    note = "for a type of your own, write `#[derive(Persist)]` with `#[repr(C)]` on a struct, or with `#[repr(u8)]` on an enum",
    note = "persistent types are u8..u128, i8..i128, f32, f64, bool, char, NonZero, arrays, `Maybe<T>`, persistent handles, and types that derive `Persist`",
    note = "references, pointers, function pointers, cells, Rc/Arc/Vec/String/Instant and usize do not survive a power cut: store the value itself, an index, or a handle",
    note = "`Option<T>` and tuples have no guaranteed layout: use `nvmem::Maybe<T>`, `Option<NonZeroU16>`, or a struct with `#[repr(C)]`"
)]
pub unsafe trait Persist: Sized {
    /// The same type with the brand `'p` in its handles.
    type At<'p>: Persist;

    /// Whether a value of this type may have padding.
    const PADDED: bool = false;

    /// Whether a value of this type may hold a handle. If false, a walk over reachable objects
    /// skips it.
    const HANDLES: bool = true;

    /// The layout, including names.
    const LAYOUT: &'static Type;

    /// The types that its handles refer to.
    type HandleTargets: HandleTargets;

    /// Functions for the code that the derive generates.
    #[doc(hidden)]
    const DERIVED: crate::__derived::Derived = crate::__derived::Derived::NEW;

    /// Checks that the bytes at `p` are a value of this type. Ignores padding.
    ///
    /// **Errors**: [`Invalid`] if they are not, or if `v` refuses a handle in them.
    ///
    /// # Safety
    /// `p` is valid for reads of `size_of::<Self>()` bytes, aligned for `Self`, and initialised
    /// except for the padding.
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid>;

    /// Writes zeros over the padding of the value at `p`.
    ///
    /// # Safety
    /// `p` holds a valid value of this type and is valid for writes.
    unsafe fn clear_padding(p: *mut u8) {
        let _ = p;
    }
}

/// Compile-time check that a type has no padding.
///
/// The library never reads padding as initialised bytes, and writes zeros there when it writes a
/// value. But an assignment through a `&mut T` may copy the padding of its source. These stale
/// bytes of RAM then stay in non-volatile memory until the library writes the value again.
/// Rollbacks and moves copy them unread; no fingerprint, check or comparison depends on them. Where
/// that matters, add this check next to the type. In a region that is saved as bytes, the compiler
/// makes it wherever a `&mut T` is lent: see [`Ram`](crate::Ram).
///
/// ```
/// use nvmem::{Persist, assert_no_padding};
///
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Setting {
///     rate: u16,
///     on: bool,
///     spare: u8, // instead of padding
/// }
/// const _: () = assert_no_padding::<Setting>();
/// ```
///
/// ```compile_fail
/// # use nvmem::{Persist, assert_no_padding};
/// #[derive(Persist)]
/// #[repr(C)]
/// struct Setting {
///     rate: u16,
///     on: bool,
/// }
/// const _: () = assert_no_padding::<Setting>();
/// ```
///
/// An enum with data has padding unless all its variants have the same length. A
/// [`Maybe`](crate::Maybe) has padding too.
pub const fn assert_no_padding<T: Persist>() {
    assert!(
        !T::PADDED,
        "this type has padding: order the fields from large to small, and add a field of type `u8` or `[u8; n]` for each \
         gap; give the variants of an enum the same length"
    );
}

// INVARIANT "Plain is plain": a `Plain` type holds no handle and has no drop glue, so its bits may
// be copied. The derive compiles only where every field is `Plain`; `assert_layout` refuses drop
// glue.
// Noticed by: tests/ui/path_that_lies.rs; tests/ui/drop_impl.rs.

/// A persistable type without handles: its bytes mean the same at any address.
///
/// # Safety
/// A value holds no handle.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not plain persistent data",
    label = "may hold a handle",
    note = "plain data is `Persist` and holds no handle; a type with handles takes a lifetime parameter and passes it on: `struct Node<'p> {{ next: Option<PBox<'p, Node<'p>>> }}`",
    note = "to move a handle out of a transaction or into one, use `Held<T>` or `lend()`"
)]
pub unsafe trait Plain: for<'p> Persist<At<'p> = Self> + 'static {}

/// A persistable type whose `Option` stores `None` as all-zero bytes: the `NonZero` integers, and
/// owning handles.
///
/// # Safety
/// `Option<Self>` is guaranteed to be as large as `Self`, with all bytes zero for `None`; `Self`
/// has no padding and no value of all zero bytes; `Branded<'p>` is `At<'p>`.
#[diagnostic::on_unimplemented(
    message = "`Option<{Self}>` has no guaranteed layout and cannot live in non-volatile memory",
    label = "another compiler may choose another layout for `Option` of this type",
    note = "use `nvmem::Maybe<{Self}>`: it has a fixed layout and converts from and to `Option`",
    note = "`Option` has a guaranteed layout only for `NonZero` integers and owning handles"
)]
pub unsafe trait ZeroNiche: Persist {
    /// The same type as [`Persist::At`], with this bound.
    type Branded<'p>: ZeroNiche;
}

// SAFETY: invariant "Checked before it is a value": the layout is guaranteed by `ZeroNiche`; a
// value that is not `None` is checked by `T`.
unsafe impl<T: ZeroNiche> Persist for Option<T> {
    type At<'p> = Option<T::Branded<'p>>;
    const HANDLES: bool = T::HANDLES;
    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Option",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        members: &[Member::Field {
            name: "0",
            offset: 0,
            of: T::LAYOUT,
        }],
    };
    #[inline]
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariants "Parts are inside" and "Padding is not read": the value has none.
        let is_none = unsafe { is_zero::<T>(p) };
        if is_none || planted!("nvmem/option-unchecked") {
            return Ok(());
        }
        // SAFETY: invariant "Parts are inside": `T` is as large as its `Option`.
        unsafe { T::check(p, v) }
    }
}

/// Whether all bytes of a value are zero.
///
/// # Safety
/// `p` is valid for reads of a `T`, aligned for it, and all its bytes are initialised.
#[inline(always)]
unsafe fn is_zero<T>(p: *const u8) -> bool {
    // SAFETY: invariant "Parts are inside": as many bytes, aligned as the integer is, by the
    // contract.
    unsafe {
        match (size_of::<T>(), align_of::<T>()) {
            (2, a) if a >= align_of::<u16>() => p.cast::<u16>().read() == 0,
            (4, a) if a >= align_of::<u32>() => p.cast::<u32>().read() == 0,
            (n, _) => (0..n).all(|i| p.add(i).read() == 0),
        }
    }
}
// SAFETY: invariant "Plain is plain": no handle in `T`.
unsafe impl<T: Plain + for<'p> ZeroNiche<Branded<'p> = T>> Plain for Option<T> {}

// Without `do_not_recommend`, the compiler would list all scalars and hide the notes above.
macro_rules! any_bits {
    ($($t:ty)*) => {$(
        // SAFETY: invariant "Checked before it is a value": every bit pattern is one; no padding,
        // no handle.
        #[diagnostic::do_not_recommend]
        unsafe impl Persist for $t {
            type At<'p> = $t;
            const HANDLES: bool = false;
            type HandleTargets = ();
            const LAYOUT: &'static Type = &Type::Scalar(stringify!($t));
            #[inline(always)]
            unsafe fn check(_: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> { Ok(()) }
        }
        // SAFETY: invariant "Plain is plain": no handle.
        #[diagnostic::do_not_recommend]
        unsafe impl Plain for $t {}
    )*};
}
any_bits!(u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f32 f64);

// SAFETY: invariant "Checked before it is a value": it has no bytes.
#[diagnostic::do_not_recommend]
unsafe impl Persist for () {
    type At<'p> = ();
    const HANDLES: bool = false;
    type HandleTargets = ();
    const LAYOUT: &'static Type = &Type::Scalar("()");
    unsafe fn check(_: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
        Ok(())
    }
}
// SAFETY: invariant "Plain is plain": no handle.
#[diagnostic::do_not_recommend]
unsafe impl Plain for () {}

macro_rules! some_bits {
    ($($t:ty: $bits:ty => $ok:expr;)*) => {$(
        // SAFETY: invariant "Checked before it is a value": `check` accepts exactly the valid bit
        // patterns; no padding, no handle.
        #[diagnostic::do_not_recommend]
        unsafe impl Persist for $t {
            type At<'p> = $t;
            const HANDLES: bool = false;
            type HandleTargets = ();
            const LAYOUT: &'static Type = &Type::Scalar(stringify!($t));
            #[inline]
            unsafe fn check(p: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
                // SAFETY: invariant "Parts are inside": readable by the contract, and an integer
                // has no invalid pattern.
                let v = unsafe { p.cast::<$bits>().read() };
                let ok: fn($bits) -> bool = $ok;
                if ok(v) { Ok(()) } else { Err(Invalid::Bits(stringify!($t))) }
            }
        }
        // SAFETY: invariant "Plain is plain": no handle.
        #[diagnostic::do_not_recommend]
        unsafe impl Plain for $t {}
    )*};
}
some_bits! {
    bool: u8 => |v| v < 2;
    char: u32 => |v| char::from_u32(v).is_some();
    NonZeroU8: u8 => |v| v != 0;
    NonZeroU16: u16 => |v| v != 0;
    NonZeroU32: u32 => |v| v != 0;
    NonZeroU64: u64 => |v| v != 0;
    NonZeroU128: u128 => |v| v != 0;
    NonZeroI8: u8 => |v| v != 0;
    NonZeroI16: u16 => |v| v != 0;
    NonZeroI32: u32 => |v| v != 0;
    NonZeroI64: u64 => |v| v != 0;
    NonZeroI128: u128 => |v| v != 0;
}

macro_rules! zero_niche {
    ($($t:ty)*) => {$(
        // SAFETY: invariant "Checked before it is a value": the niche is guaranteed by the standard
        // library for the `NonZero` integers.
        #[diagnostic::do_not_recommend]
        unsafe impl ZeroNiche for $t {
            type Branded<'p> = $t;
        }
    )*};
}
zero_niche!(NonZeroU8 NonZeroU16 NonZeroU32 NonZeroU64 NonZeroU128
    NonZeroI8 NonZeroI16 NonZeroI32 NonZeroI64 NonZeroI128);

// SAFETY: invariant "Parts are inside": an array is its elements, one after the other.
unsafe impl<T: Persist, const N: usize> Persist for [T; N] {
    type At<'p> = [T::At<'p>; N];
    const PADDED: bool = N > 0 && T::PADDED;
    const HANDLES: bool = N > 0 && T::HANDLES;
    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "array",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[N as u128],
        members: &[Member::Field {
            name: "0",
            offset: 0,
            of: T::LAYOUT,
        }],
    };
    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        for i in 0..N {
            // SAFETY: invariant "Parts are inside": element `i`.
            unsafe { T::check(p.add(i * size_of::<T>()), v)? }
        }
        Ok(())
    }
    unsafe fn clear_padding(p: *mut u8) {
        for i in 0..N {
            // SAFETY: invariant "Parts are inside": element `i`.
            unsafe { T::clear_padding(p.add(i * size_of::<T>())) }
        }
    }
}
// SAFETY: invariant "Plain is plain": elements without handles.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// Encodes a plain value as its bytes, with zeros for padding.
///
/// Returns the filled part of `buf`, or `None` if `buf` is shorter than the value.
pub fn to_bytes<T: Plain>(value: T, buf: &mut [core::mem::MaybeUninit<u8>]) -> Option<&[u8]> {
    let n = size_of::<T>();
    let mut whole = core::mem::MaybeUninit::<T>::new(value);
    let buf = buf.get_mut(..n)?;
    // SAFETY: invariant "Padding is not read": `whole` holds a value, and its padding is cleared
    // before its bytes are copied; `buf` has `n` bytes.
    unsafe {
        T::clear_padding(whole.as_mut_ptr().cast());
        core::ptr::copy_nonoverlapping(whole.as_ptr().cast::<u8>(), buf.as_mut_ptr().cast(), n);
        Some(core::slice::from_raw_parts(buf.as_ptr().cast(), n))
    }
}

/// Decodes a plain value from its bytes.
///
/// **Errors**: [`Invalid::Bits`] if the bytes are not a value of `T`, or if their number is not its
/// size.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Result<T, Invalid> {
    let mut whole = core::mem::MaybeUninit::<T>::uninit();
    if bytes.len() != size_of::<T>() {
        return Err(Invalid::Bits(core::any::type_name::<T>()));
    }
    // SAFETY: invariant "Checked before it is a value": copied into an aligned place of the same
    // size, and checked there.
    unsafe {
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), whole.as_mut_ptr().cast(), bytes.len());
        T::check(whole.as_ptr().cast(), &mut NoHandles)?;
        Ok(whole.assume_init())
    }
}
