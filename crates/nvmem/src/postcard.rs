//! `Postcard`: values without a stable layout, as the bytes that postcard encodes them to.

use crate::bounded::Bytes;
use crate::describe::Type;
use crate::persist::{Invalid, Persist, Plain, Visit};
use core::fmt;
use core::marker::PhantomData;
use serde::{Deserialize, Serialize};

/// A `T` that [postcard](https://docs.rs/postcard) has encoded to at most `N` bytes. It may live in
/// non-volatile memory even if `T` has no stable layout: in a record, a persistent object, a heap's
/// object, a list's node, and as a step's result. `N` is at most 65535.
///
/// The layout fingerprint covers `N` only: another `T` of the same `N` opens, and then
/// [`Postcard::get`] fails or returns something else. Change `N` or the name of a type around it
/// when you change `T` in a way that postcard cannot read.
///
/// **Power loss**: that of the record, transaction or heap that holds it. **Cost**: it is stored
/// whole: 2 bytes and `N`.
///
/// ```
/// use nvmem::Postcard;
///
/// # #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize)]
/// # struct Route(Option<u16>, (u8, bool));
/// let route = Postcard::<Route, 16>::new(&Route(Some(7), (1, true)))?;
/// assert_eq!(route.get()?, Route(Some(7), (1, true)));
/// # Ok::<(), postcard::Error>(())
/// ```
#[repr(transparent)]
pub struct Postcard<T, const N: usize> {
    bytes: Bytes<N>,
    _t: PhantomData<fn(T) -> T>,
}

impl<T, const N: usize> Postcard<T, N> {
    /// Encodes a value. **Errors**: it takes more than `N` bytes, or its `Serialize` fails.
    pub fn new(value: &T) -> Result<Self, postcard::Error>
    where
        T: Serialize,
    {
        let mut bytes = Bytes::new();
        let n = postcard::to_slice(value, bytes.free())?.len();
        bytes.grow(n);
        Ok(Postcard {
            bytes,
            _t: PhantomData,
        })
    }

    /// Replaces the value. **Errors**: those of [`Postcard::new`]; then the old value stays.
    pub fn set(&mut self, value: &T) -> Result<(), postcard::Error>
    where
        T: Serialize,
    {
        *self = Self::new(value)?;
        Ok(())
    }

    /// Decodes the value. **Errors**: the bytes are not the encoding of a `T`.
    pub fn get<'a>(&'a self) -> Result<T, postcard::Error>
    where
        T: Deserialize<'a>,
    {
        postcard::from_bytes(self.bytes.get())
    }

    /// The encoded bytes.
    pub fn encoded(&self) -> &[u8] {
        self.bytes.get()
    }
}

impl<T, const N: usize> Clone for Postcard<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const N: usize> Copy for Postcard<T, N> {}
impl<T, const N: usize> PartialEq for Postcard<T, N> {
    fn eq(&self, other: &Self) -> bool {
        self.encoded() == other.encoded()
    }
}
impl<T, const N: usize> Eq for Postcard<T, N> {}
impl<T, const N: usize> fmt::Debug for Postcard<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Postcard").field(&self.encoded()).finish()
    }
}

// SAFETY: invariant "Filled to its length": `check` accepts only a length of at most `N`, and any
// bytes; no padding, no handle and no drop glue.
#[diagnostic::do_not_recommend]
unsafe impl<T: 'static, const N: usize> Persist for Postcard<T, N> {
    type At<'p> = Self;
    const HANDLES: bool = false;
    type HandleTargets = ();
    const LAYOUT: &'static Type = &Bytes::<N>::layout("Postcard", &[N as u128]);
    unsafe fn check(p: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Parts are inside": readable and initialised by the contract.
        match unsafe { Bytes::<N>::checked(p) } {
            Some(_) => Ok(()),
            None => Err(Invalid::Bits("Postcard")),
        }
    }
}
// SAFETY: invariant "Plain is plain": no handle.
#[diagnostic::do_not_recommend]
unsafe impl<T: 'static, const N: usize> Plain for Postcard<T, N> {}
