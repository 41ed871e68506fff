//! Arguments and results of transactions: plain values, handles in the form that their library
//! defines, and tuples.
//!
//! ```text
//! outside                           inside a transaction 'p
//! Arg    (Held<T>, u32)  --enter-->  (PBox<'p, T>, u32)     handle given away
//! Repeat (held.lend(), u32) -enter-> (HeldBox<'p, T>, u32)  lent to each turn of a loop
//! Share  (&mut held, u32) -share-->  (lent handle, u32)     anew for each iteration of a loop
//! Ret    (Held<U>, u16)  <--leave--  (PBox<'p, U>, u16)     result
//!        bytes           <-encode--  Ret                    as a replay table stores it
//! ```

use crate::describe::{compound_hash, layout_hash};
use crate::persist::{Invalid, Persist, Plain, Visit};
use core::mem::MaybeUninit;

/// For an implementation of [`Arg::TYPE`], [`Share::TYPE`] or [`Ret::TYPE`]: a hash of the layout
/// of `T`, equal in every build, and of how it crosses (`kind`).
pub const fn type_hash<T: Persist>(kind: &str) -> u64 {
    compound_hash(kind, &[layout_hash::<T>()])
}

/// An argument of a transaction's body: plain values, `Held` by value, the result of `lend()`, and
/// tuples of them.
///
/// # Safety
/// `enter` yields each owning handle once. `handles` reports all handles. `owned` reports
/// [`Arg::OWNED`] of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot enter a transaction as an argument",
    note = "arguments are plain persistent values, `Held<T>`, `held.lend()`, `&mut key` of a shared root, and tuples of them"
)]
pub unsafe trait Arg: Sized {
    /// The argument's type inside the transaction.
    type In<'p>;
    /// A hash of the type, equal in every build of the same declarations. A replay compares it.
    const TYPE: u64;
    /// How many owning handles the caller gives away.
    const OWNED: usize;
    /// Whether every handle belongs to this session.
    fn of_session(&self, session: u32) -> bool;
    /// Whether a transaction that has entered it has not [ended](Arg::ended): then it must not
    /// enter another one.
    fn in_use(&self) -> bool {
        false
    }
    /// Calls `f` with the offset of every handle, in order.
    fn handles(&self, f: &mut dyn FnMut(u32));
    /// Calls `f` with the offset of every handle that the caller gives away, in order. Leaves out
    /// lent handles.
    fn owned(&self, f: &mut dyn FnMut(u32)) {
        self.handles(f)
    }
    /// Calls `f` with the bytes of every plain value, in order, with zeros for padding.
    fn bytes(&self, f: &mut dyn FnMut(&[u8]));
    /// Converts the argument for use inside a transaction.
    ///
    /// # Safety
    /// The caller forgets `self` afterwards, or rolls the transaction back, or `Self` is
    /// [`Repeat`]. It has seen that `self` is not [in use](Arg::in_use), and calls [`Arg::ended`]
    /// when the transaction has ended. Only a caller whose pool has no shared roots, or who enters
    /// a [`Repeat`], may leave these two out.
    unsafe fn enter<'p>(&self) -> Self::In<'p>;
    /// The transaction that it has entered is committed or rolled back.
    ///
    /// # Safety
    /// That has happened, or it has entered none.
    unsafe fn ended(&self) {}
}

/// An argument that can enter one transaction after the other: plain values, handles that are lent,
/// and tuples of them.
///
/// # Safety
/// [`Arg::OWNED`] is 0, and [`Arg::enter`] may be called again when the transaction that was
/// entered has ended. [`Arg::in_use`] is always false, and [`Arg::ended`] does nothing.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot enter a transaction in every iteration of a loop",
    note = "a loop's arguments are plain persistent values, `held.lend()`, and tuples of them",
    note = "to give a handle away, or to use the key of a shared root, use a step in the body of `each`"
)]
pub unsafe trait Repeat: Arg {}

/// An argument that every iteration of a loop gets anew: plain values are copied, handles are lent,
/// and tuples of them. So an iteration cannot pass state to the next one.
///
/// # Safety
/// An iteration can neither keep nor exchange a handle that it gets.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to every iteration of a loop",
    note = "a loop's arguments are plain values that are `Copy`, `&mut held` for a handle that is lent, and tuples of them"
)]
pub unsafe trait Share {
    /// The argument's type in one iteration.
    type In<'a>;
    /// A hash of the type, equal in every build of the same declarations. A replay compares it.
    const TYPE: u64;
    /// Makes the argument of the next iteration.
    ///
    /// # Safety
    /// `self` lives for `'a` and is not otherwise used in it.
    unsafe fn share<'a>(&mut self) -> Self::In<'a>;
    /// Calls `f` with the offset of every handle, in order.
    fn handles(&self, f: &mut dyn FnMut(u32));
    /// Calls `f` with the bytes of every plain value, in order, with zeros for padding.
    fn bytes(&self, f: &mut dyn FnMut(&[u8]));
}

/// A result of a transaction's body: plain values, handles that become `Held`, and tuples of them.
///
/// # Safety
/// `leave` and `decode` yield each owning handle once. `decode` is the inverse of `encode`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot leave a transaction",
    note = "results are plain persistent values, `Held<T>` and tuples of them; a reference or a PBox cannot outlive its transaction",
    note = "for types with `serde` only, wrap the whole result in one `Postcard`: `Postcard((a, b))`"
)]
pub unsafe trait Ret: Sized {
    /// The result's type inside the transaction.
    type In<'p>;
    /// A hash of the type, equal in every build of the same declarations. A replay compares it.
    const TYPE: u64;
    /// The type's name, for a type without a layout, whose [`Ret::TYPE`] says only how it is
    /// encoded. A replay compares it.
    fn type_name() -> Option<&'static str> {
        None
    }
    /// How many bytes `encode` writes; [`UNKNOWN_LENGTH`] if that depends on the value.
    const BYTES: usize;
    /// How many handles the result has.
    const HANDLES: usize;
    /// Converts the result for use outside; its handles get this session.
    ///
    /// # Safety
    /// The transaction of `inside` commits, or the caller forgets the returned value. `session` is
    /// that of the transaction's pool.
    unsafe fn leave(inside: Self::In<'_>, session: u32) -> Self;
    /// Calls `f` with the bytes that a replay table stores: plain values with zeros for padding,
    /// handles as integers of their width.
    fn encode(&self, f: &mut dyn FnMut(&[u8]));
    /// Decodes a value. **Errors**: the bytes are not a value of this type, or `v` refuses a
    /// handle.
    ///
    /// # Safety
    /// The bytes came from `encode` of a value that no longer exists, and `session` is that of the
    /// pool that owns the objects. Or `v` refuses every handle for which this does not hold.
    unsafe fn decode(bytes: &[u8], session: u32, v: &mut dyn Visit) -> Result<Self, Invalid>;
}

/// For [`Ret::BYTES`]: the length depends on the value. `encode` may write different bytes each
/// time.
pub const UNKNOWN_LENGTH: usize = usize::MAX;

/// A result that can be an element of a tuple: its length is known at compile time.
///
/// # Safety
/// [`Ret::BYTES`] is the length of what `encode` writes.
pub unsafe trait RetPart: Ret {}

// SAFETY: invariant "Plain is plain": the bytes of the value.
unsafe impl<T: Plain> RetPart for T {}

/// Calls `f` with the bytes of a plain value, if it has any. So the hash of no arguments is a
/// constant, also where the compiler optimises for size and does not see through `f`.
#[inline(always)]
fn plain_bytes<T: Plain>(v: &T, f: &mut dyn FnMut(&[u8])) {
    if size_of::<T>() > 0 {
        some_bytes(v, f)
    }
}

fn some_bytes<T: Plain>(v: &T, f: &mut dyn FnMut(&[u8])) {
    let mut copy = MaybeUninit::<T>::uninit();
    // SAFETY: invariants "Plain is plain" and "Padding is not read": a bit copy of a value without
    // handles or drop glue; only its bytes are looked at, after its padding is cleared.
    unsafe {
        core::ptr::copy_nonoverlapping(v, copy.as_mut_ptr(), 1);
        T::clear_padding(copy.as_mut_ptr().cast());
        f(core::slice::from_raw_parts(
            copy.as_ptr().cast(),
            size_of::<T>(),
        ))
    }
}

// SAFETY: invariant "Plain is plain": no handle.
unsafe impl<T: Plain> Arg for T {
    type In<'p> = T;
    const TYPE: u64 = type_hash::<T>("plain");
    const OWNED: usize = 0;
    fn of_session(&self, _: u32) -> bool {
        true
    }
    #[inline(always)]
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    #[inline(always)]
    fn bytes(&self, f: &mut dyn FnMut(&[u8])) {
        plain_bytes(self, f)
    }
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        // SAFETY: invariant "Plain is plain": bits may be copied.
        unsafe { core::ptr::read(self) }
    }
}
// SAFETY: invariant "Plain is plain": no handle, and bits may be copied.
unsafe impl<T: Plain> Repeat for T {}
// SAFETY: invariant "Plain is plain": no handle.
unsafe impl<T: Plain + Copy> Share for T {
    type In<'a> = T;
    const TYPE: u64 = type_hash::<T>("plain");
    unsafe fn share<'a>(&mut self) -> Self::In<'a> {
        *self
    }
    #[inline(always)]
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    #[inline(always)]
    fn bytes(&self, f: &mut dyn FnMut(&[u8])) {
        plain_bytes(self, f)
    }
}
// SAFETY: invariant "Plain is plain": no handle.
unsafe impl<T: Plain> Ret for T {
    type In<'p> = T;
    const TYPE: u64 = type_hash::<T>("plain");
    const BYTES: usize = size_of::<T>();
    const HANDLES: usize = 0;
    unsafe fn leave(inside: T, _: u32) -> T {
        inside
    }
    fn encode(&self, f: &mut dyn FnMut(&[u8])) {
        plain_bytes(self, f)
    }
    unsafe fn decode(bytes: &[u8], _: u32, _: &mut dyn Visit) -> Result<T, Invalid> {
        crate::persist::from_bytes(bytes)
    }
}

macro_rules! tuples {
    ($($($n:ident $i:tt),+;)*) => {$(
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: Arg),+> Arg for ($($n,)+) {
            type In<'p> = ($($n::In<'p>,)+);
            const TYPE: u64 = compound_hash("tuple", &[$($n::TYPE),+]);
            const OWNED: usize = 0 $(+ $n::OWNED)+;
            fn of_session(&self, session: u32) -> bool { $(self.$i.of_session(session))&&+ }
            fn in_use(&self) -> bool { $(self.$i.in_use())||+ }
            // SAFETY: invariant "A key for a shared root": as promised to this one.
            unsafe fn ended(&self) { $(unsafe { self.$i.ended() };)+ }
            fn handles(&self, f: &mut dyn FnMut(u32)) { $(self.$i.handles(f);)+ }
            fn owned(&self, f: &mut dyn FnMut(u32)) { $(self.$i.owned(f);)+ }
            fn bytes(&self, f: &mut dyn FnMut(&[u8])) { $(self.$i.bytes(f);)+ }
            unsafe fn enter<'p>(&self) -> Self::In<'p> {
                // SAFETY: invariant "Sole owner": forwarded, part by part.
                unsafe { ($(self.$i.enter(),)+) }
            }
        }
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: Repeat),+> Repeat for ($($n,)+) {}
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: Share),+> Share for ($($n,)+) {
            type In<'a> = ($($n::In<'a>,)+);
            const TYPE: u64 = compound_hash("tuple", &[$($n::TYPE),+]);
            unsafe fn share<'a>(&mut self) -> Self::In<'a> {
                // SAFETY: invariant "Sole owner": forwarded, part by part.
                unsafe { ($(self.$i.share(),)+) }
            }
            fn handles(&self, f: &mut dyn FnMut(u32)) { $(self.$i.handles(f);)+ }
            fn bytes(&self, f: &mut dyn FnMut(&[u8])) { $(self.$i.bytes(f);)+ }
        }
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: RetPart),+> Ret for ($($n,)+) {
            type In<'p> = ($($n::In<'p>,)+);
            const TYPE: u64 = compound_hash("tuple", &[$($n::TYPE),+]);
            const BYTES: usize = 0 $(+ $n::BYTES)+;
            const HANDLES: usize = 0 $(+ $n::HANDLES)+;
            unsafe fn leave(inside: Self::In<'_>, session: u32) -> Self {
                // SAFETY: invariant "Sole owner": forwarded, part by part.
                unsafe { ($($n::leave(inside.$i, session),)+) }
            }
            fn encode(&self, f: &mut dyn FnMut(&[u8])) { $(self.$i.encode(f);)+ }
            unsafe fn decode(bytes: &[u8], session: u32, v: &mut dyn Visit) -> Result<Self, Invalid> {
                let mut rest = bytes;
                Ok(($({
                    let (head, tail) = rest.split_at_checked($n::BYTES).ok_or(Invalid::Bits("tuple"))?;
                    rest = tail;
                    let _ = &rest;
                    // SAFETY: invariant "Sole owner": forwarded, part by part.
                    unsafe { $n::decode(head, session, v)? }
                },)+))
            }
        }
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: RetPart),+> RetPart for ($($n,)+) {}
    )*};
}
tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}
