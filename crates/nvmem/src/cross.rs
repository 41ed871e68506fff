//! What crosses the border of a transaction: plain values, handles in the form that their library gives them, and tuples.

use crate::persist::{Invalid, Plain, Visit};
use core::mem::MaybeUninit;

/// What a body takes as its argument: plain values, `Held` by value, what `lend` gives, and tuples of them.
///
/// # Safety
/// `enter` gives each owning handle once; `handles` tells all handles; `owned` tells [`Arg::OWNED`] of them.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot enter a transaction as an argument",
    note = "arguments are plain persistent values, `Held<T>`, `held.lend()`, and tuples of them"
)]
pub unsafe trait Arg: Sized {
    /// The argument inside.
    type In<'p>;
    /// How many handles are given away for good.
    const OWNED: usize;
    /// Whether every handle belongs to this session.
    fn of_session(&self, session: u32) -> bool;
    /// Tells the offset of every handle, in order.
    fn handles(&self, f: &mut dyn FnMut(u32));
    /// Tells the offset of every handle that is given away for good, in order: all but those that are only lent.
    fn owned(&self, f: &mut dyn FnMut(u32)) {
        self.handles(f)
    }
    /// Tells the bytes of every plain value, in order, padding as zeros.
    fn bytes(&self, f: &mut dyn FnMut(&[u8]));
    /// The argument inside a transaction.
    ///
    /// # Safety
    /// `self` is forgotten afterwards, or the transaction is undone.
    unsafe fn enter<'p>(&self) -> Self::In<'p>;
}

/// What every iteration of a loop may be given anew, so that it carries nothing from one to the next: plain values, which
/// are copied, handles, which are lent, and tuples of them.
///
/// # Safety
/// An iteration can neither keep nor exchange a handle that it is given.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be given to every iteration of a loop",
    note = "a loop's arguments are plain values that are `Copy`, `&mut held` for a handle that is lent, and tuples of them"
)]
pub unsafe trait Share {
    /// What one iteration gets.
    type In<'a>;
    /// The argument of the next iteration.
    ///
    /// # Safety
    /// `self` lives for `'a` and is not otherwise used in it.
    unsafe fn share<'a>(&mut self) -> Self::In<'a>;
    /// Tells the offset of every handle, in order.
    fn handles(&self, f: &mut dyn FnMut(u32));
    /// Tells the bytes of every plain value, in order, padding as zeros.
    fn bytes(&self, f: &mut dyn FnMut(&[u8]));
}

/// What a body returns: plain values, handles that become `Held`, and tuples of them.
///
/// # Safety
/// `leave` and `decode` give each owning handle once; `encode` and `decode` are inverse.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot leave a transaction",
    note = "results are plain persistent values, `Held<T>` and tuples of them; a reference or a PBox cannot outlive its transaction",
    note = "what is only `serde` goes into one `Postcard` with all of the result: `Postcard((a, b))`"
)]
pub unsafe trait Ret: Sized {
    /// The result inside.
    type In<'p>;
    /// How many bytes `encode` writes; [`UNKNOWN_LENGTH`] if that is only known when the value is there.
    const BYTES: usize;
    /// How many of the parts are handles.
    const HANDLES: usize;
    /// The result outside, its handles of this session.
    ///
    /// # Safety
    /// The transaction that `inside` is of commits, or what is returned is forgotten; `session` is that of its pool.
    unsafe fn leave(inside: Self::In<'_>, session: u32) -> Self;
    /// Tells the bytes that a replay table keeps: plain values with zeros for padding, handles as numbers of their width.
    fn encode(&self, f: &mut dyn FnMut(&[u8]));
    /// The value of these bytes. **Errors**: they are none, or `v` refuses a handle.
    ///
    /// # Safety
    /// The bytes came from `encode` of a value that nobody has any more, and `session` is that of the pool that owns the
    /// objects; or `v` refuses every handle for which that is not so.
    unsafe fn decode(bytes: &[u8], session: u32, v: &mut dyn Visit) -> Result<Self, Invalid>;
}

/// In [`Ret::BYTES`]: the length is only known when the value is there, and `encode` need not write the same twice.
pub const UNKNOWN_LENGTH: usize = usize::MAX;

/// What can stand beside others in a result: its length is known when the program is compiled.
///
/// # Safety
/// [`Ret::BYTES`] is the length of what `encode` writes.
pub unsafe trait RetPart: Ret {}

// SAFETY: invariant "Plain is plain": the bytes of the value.
unsafe impl<T: Plain> RetPart for T {}

/// Calls `f` with the bytes of a plain value.
fn plain_bytes<T: Plain>(v: &T, f: &mut dyn FnMut(&[u8])) {
    let mut copy = MaybeUninit::<T>::uninit();
    // SAFETY: invariants "Plain is plain" and "Padding is not read": a bit copy of a value without handles or drop glue; only its bytes are
    // looked at, after its padding is cleared.
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
    const OWNED: usize = 0;
    fn of_session(&self, _: u32) -> bool {
        true
    }
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, f: &mut dyn FnMut(&[u8])) {
        plain_bytes(self, f)
    }
    unsafe fn enter<'p>(&self) -> Self::In<'p> {
        // SAFETY: invariant "Plain is plain": bits may be copied.
        unsafe { core::ptr::read(self) }
    }
}
// SAFETY: invariant "Plain is plain": no handle.
unsafe impl<T: Plain + Copy> Share for T {
    type In<'a> = T;
    unsafe fn share<'a>(&mut self) -> Self::In<'a> {
        *self
    }
    fn handles(&self, _: &mut dyn FnMut(u32)) {}
    fn bytes(&self, f: &mut dyn FnMut(&[u8])) {
        plain_bytes(self, f)
    }
}
// SAFETY: invariant "Plain is plain": no handle.
unsafe impl<T: Plain> Ret for T {
    type In<'p> = T;
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
            const OWNED: usize = 0 $(+ $n::OWNED)+;
            fn of_session(&self, session: u32) -> bool { $(self.$i.of_session(session))&&+ }
            fn handles(&self, f: &mut dyn FnMut(u32)) { $(self.$i.handles(f);)+ }
            fn owned(&self, f: &mut dyn FnMut(u32)) { $(self.$i.owned(f);)+ }
            fn bytes(&self, f: &mut dyn FnMut(&[u8])) { $(self.$i.bytes(f);)+ }
            unsafe fn enter<'p>(&self) -> Self::In<'p> {
                // SAFETY: invariant "Sole owner": forwarded, part by part.
                unsafe { ($(self.$i.enter(),)+) }
            }
        }
        // SAFETY: invariant "Sole owner": part by part.
        unsafe impl<$($n: Share),+> Share for ($($n,)+) {
            type In<'a> = ($($n::In<'a>,)+);
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
