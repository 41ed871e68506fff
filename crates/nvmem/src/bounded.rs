//! Lists and texts of bounded length, with a layout that no compiler and no other crate changes.
//!
//! ```text
//!  List<u32, 3> with 2 items   | len = 2 | gap | item 0 | item 1 | unused |
//!                                u16     `--- padding             `--- padding
//!
//!  Text<6> with "FRAM"         | len = 4 | F R A M | unused |
//!                                2 bytes, little-endian; no padding, aligned to 1
//! ```
//!
//! Why this is safe: `check` accepts a length of at most `N`, and then each item up to it, or UTF-8
//! up to it. Items after the length are padding: nobody reads them, and `clear_padding` writes
//! zeros there. A handle in a removed item has moved to the caller, so it has one owner.

use crate::describe::{Member, Type};
use crate::persist::{Invalid, Persist, Plain, Visit};
use crate::planted;
use core::fmt;
use core::mem::{MaybeUninit, offset_of};
use core::ops::{Deref, DerefMut};

/// The value does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct CapacityError;

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the list or text has no space for it")
    }
}
impl core::error::Error for CapacityError {}

// INVARIANT "Filled to its length": a `List` has at most `N` items, and all up to its length are
// values. A `Text` is UTF-8 of at most `N` bytes. Nobody reads an item after the length. Private
// fields and `check` keep it.
// Noticed by: planted `list-items-unchecked`, `list-rest-not-cleared` and `text-unchecked` in
// tests/suite/bounded.rs; `any_bytes` in tests/suite/soundness/values.rs, under Miri.

/// A list of at most `N` items that may live in non-volatile memory. `N` is at most 65535.
///
/// It is a slice of its items. With the feature `heapless` it converts from and to
/// `heapless::Vec<T, N>`.
///
/// **Power loss**: that of the record, transaction or heap that holds it. **Cost**: it is stored
/// whole, with its unused items.
///
/// ```
/// use nvmem::List;
///
/// let mut samples = List::<u16, 4>::new();
/// samples.push(7)?;
/// samples.push(9)?;
/// assert_eq!(samples.iter().sum::<u16>(), 16);
/// assert_eq!((samples.pop(), samples.len()), (Some(9), 1));
/// # Ok::<(), u16>(())
/// ```
#[repr(C)]
pub struct List<T, const N: usize> {
    len: u16,
    items: [MaybeUninit<T>; N],
}

impl<T, const N: usize> List<T, N> {
    const FITS: () = assert!(N <= u16::MAX as usize, "a list has at most 65535 items");
    const ITEMS: usize = offset_of!(Self, items);
}

impl<T: Persist, const N: usize> List<T, N> {
    /// A list without items.
    pub const fn new() -> Self {
        const { Self::FITS }
        List {
            len: 0,
            items: [const { MaybeUninit::uninit() }; N],
        }
    }

    /// How many items fit.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// Whether no more item fits.
    pub const fn is_full(&self) -> bool {
        self.len as usize == N
    }

    /// Appends an item. **Errors**: the item, if the list is full.
    pub fn push(&mut self, item: T) -> Result<(), T> {
        match self.items.get_mut(usize::from(self.len)) {
            Some(free) => {
                free.write(item);
                self.len += 1;
                Ok(())
            }
            None => Err(item),
        }
    }

    /// Removes the last item.
    pub fn pop(&mut self) -> Option<T> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: invariant "Filled to its length": it was the last item, and is not one any more.
        Some(unsafe { self.items[usize::from(self.len)].assume_init_read() })
    }

    /// Removes the item at `index` and returns it. The last item takes its position.
    pub fn swap_remove(&mut self, index: usize) -> Option<T> {
        let last = self.len().checked_sub(1)?;
        if index > last {
            return None;
        }
        self.swap(index, last);
        self.pop()
    }

    /// Removes all items. Handles among them lose their owner.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends copies of the items. **Errors**: they do not all fit; then none was appended.
    pub fn extend_from_slice(&mut self, items: &[T]) -> Result<(), CapacityError>
    where
        T: Copy,
    {
        if items.len() > N - self.len() {
            return Err(CapacityError);
        }
        for item in items {
            // There is space for all.
            let _ = self.push(*item);
        }
        Ok(())
    }
}

impl<T: Persist, const N: usize> Deref for List<T, N> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: invariant "Filled to its length".
        unsafe { core::slice::from_raw_parts(self.items.as_ptr().cast(), self.len.into()) }
    }
}
impl<T: Persist, const N: usize> DerefMut for List<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: invariant "Filled to its length".
        unsafe { core::slice::from_raw_parts_mut(self.items.as_mut_ptr().cast(), self.len.into()) }
    }
}
impl<T: Persist, const N: usize> Default for List<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
impl<T: Copy, const N: usize> Clone for List<T, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Copy, const N: usize> Copy for List<T, N> {}
impl<T: Persist + fmt::Debug, const N: usize> fmt::Debug for List<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
impl<T: Persist + PartialEq, const N: usize, const M: usize> PartialEq<List<T, M>> for List<T, N> {
    fn eq(&self, other: &List<T, M>) -> bool {
        **self == **other
    }
}
impl<T: Persist + Eq, const N: usize> Eq for List<T, N> {}
impl<T: Persist + Copy, const N: usize> TryFrom<&[T]> for List<T, N> {
    type Error = CapacityError;
    fn try_from(items: &[T]) -> Result<Self, CapacityError> {
        let mut list = Self::new();
        list.extend_from_slice(items)?;
        Ok(list)
    }
}
impl<'a, T: Persist, const N: usize> IntoIterator for &'a List<T, N> {
    type Item = &'a T;
    type IntoIter = core::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

// SAFETY: invariant "Filled to its length": `check` accepts only such a list; the layout is that
// of `repr(C)`; `MaybeUninit` has no drop glue.
#[diagnostic::do_not_recommend]
unsafe impl<T: Persist, const N: usize> Persist for List<T, N> {
    type At<'p> = List<T::At<'p>, N>;
    const PADDED: bool = size_of::<Self>() > size_of::<u16>();
    const HANDLES: bool = N > 0 && T::HANDLES;
    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "List",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[N as u128],
        members: &[
            Member::Field {
                name: "len",
                offset: 0,
                of: u16::LAYOUT,
            },
            Member::Field {
                name: "items",
                offset: Self::ITEMS,
                of: T::LAYOUT,
            },
        ],
    };

    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Parts are inside": the length is the first field, and no padding.
        let len = usize::from(unsafe { p.cast::<u16>().read() });
        if len > N {
            return Err(Invalid::Bits("List"));
        }
        if planted!("nvmem/list-items-unchecked") {
            return Ok(());
        }
        for i in 0..len {
            // SAFETY: invariant "Parts are inside": an item, because `len` is at most `N`.
            unsafe { T::check(p.add(Self::ITEMS + i * size_of::<T>()), v)? }
        }
        Ok(())
    }

    unsafe fn clear_padding(p: *mut u8) {
        // SAFETY: invariant "Parts are inside": all in the value that the caller vouches for, whose
        // length is at most `N`.
        unsafe {
            let len = usize::from(p.cast::<u16>().read());
            p.add(size_of::<u16>())
                .write_bytes(0, Self::ITEMS - size_of::<u16>());
            for i in 0..len {
                T::clear_padding(p.add(Self::ITEMS + i * size_of::<T>()));
            }
            let used = Self::ITEMS + len * size_of::<T>();
            if !planted!("nvmem/list-rest-not-cleared") {
                p.add(used).write_bytes(0, size_of::<Self>() - used);
            }
        }
    }
}
// SAFETY: invariant "Plain is plain": no handle in `T`.
#[diagnostic::do_not_recommend]
unsafe impl<T: Plain, const N: usize> Plain for List<T, N> {}

/// Bytes of bounded length without padding: what a [`Text`] and a `Postcard` are stored as.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Bytes<const N: usize> {
    /// Little-endian, in bytes, so that the alignment is 1 and there is no padding.
    len: [u8; 2],
    bytes: [u8; N],
}

impl<const N: usize> Bytes<N> {
    const FITS: () = assert!(N <= u16::MAX as usize, "it has at most 65535 bytes");

    pub(crate) const fn new() -> Self {
        const { Self::FITS }
        Bytes {
            len: [0; 2],
            bytes: [0; N],
        }
    }

    pub(crate) fn len(&self) -> usize {
        u16::from_le_bytes(self.len).into()
    }

    pub(crate) fn get(&self) -> &[u8] {
        // The length is at most `N`, which the compiler does not know.
        self.bytes.get(..self.len()).unwrap_or(&[])
    }

    /// The free bytes. [`Bytes::grow`] adds the first of them to the content.
    pub(crate) fn free(&mut self) -> &mut [u8] {
        let len = self.len();
        self.bytes.get_mut(len..).unwrap_or(&mut [])
    }

    /// Adds the first `n` free bytes, or as many as there are.
    pub(crate) fn grow(&mut self, n: usize) {
        self.resize((self.len() + n).min(N));
    }

    /// Shortens it. The bytes after the new end become zeros.
    pub(crate) fn truncate(&mut self, len: usize) {
        if let Some(behind) = self.bytes.get_mut(len..) {
            behind.fill(0);
            self.resize(len);
        }
    }

    fn resize(&mut self, len: usize) {
        self.len = (len as u16).to_le_bytes();
    }

    /// The content of the `Bytes` at `p`. `None` if its length is more than `N`.
    ///
    /// # Safety
    /// `p` is valid for reads of a `Bytes<N>` for `'a`, and initialised.
    pub(crate) unsafe fn checked<'a>(p: *const u8) -> Option<&'a [u8]> {
        // SAFETY: invariant "Parts are inside": any initialised bytes are a `Bytes`, which is
        // aligned to 1.
        let whole = unsafe { &*p.cast::<Self>() };
        whole.bytes.get(..whole.len())
    }

    pub(crate) const fn layout(name: &'static str, params: &'static [u128]) -> Type {
        Type::Compound {
            name,
            size: size_of::<Self>(),
            align: 1,
            params,
            members: &[
                Member::Field {
                    name: "len",
                    offset: 0,
                    of: &Type::Scalar("u16"),
                },
                Member::Field {
                    name: "bytes",
                    offset: 2,
                    of: &Type::Scalar("u8"),
                },
            ],
        }
    }
}

/// A text of at most `N` bytes of UTF-8 that may live in non-volatile memory. `N` is at most 65535.
///
/// It is a `str`, and `write!` appends to it. With the feature `heapless` it converts from and to
/// `heapless::String<N>`.
///
/// **Power loss**: that of the record, transaction or heap that holds it. **Cost**: it is stored
/// whole: 2 bytes and `N`.
///
/// ```
/// use nvmem::Text;
///
/// let mut name = Text::<16>::try_from("sensor")?;
/// name.push_str(" 7")?;
/// assert_eq!(&*name, "sensor 7");
/// # Ok::<(), nvmem::CapacityError>(())
/// ```
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Text<const N: usize>(Bytes<N>);

impl<const N: usize> Text<N> {
    /// An empty text.
    pub const fn new() -> Self {
        Text(Bytes::new())
    }

    /// How many bytes fit.
    pub const fn capacity(&self) -> usize {
        N
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        // SAFETY: invariant "Filled to its length": UTF-8, because only whole strings are appended,
        // a text is shortened between characters, and `check` accepts nothing else.
        unsafe { core::str::from_utf8_unchecked(self.0.get()) }
    }

    /// Appends a string. **Errors**: it does not fit; then nothing was appended.
    pub fn push_str(&mut self, s: &str) -> Result<(), CapacityError> {
        let free = self.0.free().get_mut(..s.len()).ok_or(CapacityError)?;
        free.copy_from_slice(s.as_bytes());
        self.0.grow(s.len());
        Ok(())
    }

    /// Appends a character. **Errors**: it does not fit.
    pub fn push(&mut self, c: char) -> Result<(), CapacityError> {
        self.push_str(c.encode_utf8(&mut [0; 4]))
    }

    /// Removes the last character.
    pub fn pop(&mut self) -> Option<char> {
        let c = self.chars().next_back()?;
        self.0.truncate(self.len() - c.len_utf8());
        Some(c)
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.0.truncate(0);
    }
}

impl<const N: usize> Deref for Text<N> {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}
impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        Self::new()
    }
}
impl<const N: usize> fmt::Write for Text<N> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.push_str(s).map_err(|_| fmt::Error)
    }
}
impl<const N: usize> fmt::Display for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}
impl<const N: usize> fmt::Debug for Text<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}
impl<const N: usize, const M: usize> PartialEq<Text<M>> for Text<N> {
    fn eq(&self, other: &Text<M>) -> bool {
        self.as_str() == other.as_str()
    }
}
impl<const N: usize> Eq for Text<N> {}
impl<const N: usize> PartialEq<str> for Text<N> {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}
impl<const N: usize> PartialEq<&str> for Text<N> {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}
impl<const N: usize> TryFrom<&str> for Text<N> {
    type Error = CapacityError;
    fn try_from(s: &str) -> Result<Self, CapacityError> {
        let mut text = Self::new();
        text.push_str(s)?;
        Ok(text)
    }
}

// SAFETY: invariant "Filled to its length": `check` accepts only such a text; it has no padding, no
// handle and no drop glue.
#[diagnostic::do_not_recommend]
unsafe impl<const N: usize> Persist for Text<N> {
    type At<'p> = Self;
    const HANDLES: bool = false;
    type HandleTargets = ();
    const LAYOUT: &'static Type = &Bytes::<N>::layout("Text", &[N as u128]);
    unsafe fn check(p: *const u8, _: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Parts are inside": readable and initialised by the contract.
        let bytes = unsafe { Bytes::<N>::checked(p) }.ok_or(Invalid::Bits("Text"))?;
        if planted!("nvmem/text-unchecked") {
            return Ok(());
        }
        match core::str::from_utf8(bytes) {
            Ok(_) => Ok(()),
            Err(_) => Err(Invalid::Bits("Text")),
        }
    }
}
// SAFETY: invariant "Plain is plain": no handle.
#[diagnostic::do_not_recommend]
unsafe impl<const N: usize> Plain for Text<N> {}

#[cfg(feature = "heapless")]
mod heapless {
    use super::{List, Text};
    use crate::persist::Persist;

    impl<T: Persist, const N: usize> From<heapless::Vec<T, N>> for List<T, N> {
        fn from(items: heapless::Vec<T, N>) -> Self {
            let mut list = List::new();
            for item in items {
                // It has as many items at most.
                let _ = list.push(item);
            }
            list
        }
    }
    impl<T: Persist, const N: usize> From<List<T, N>> for heapless::Vec<T, N> {
        fn from(mut list: List<T, N>) -> Self {
            let mut items = heapless::Vec::new();
            list.reverse();
            while let Some(item) = list.pop() {
                // It has as many items at most.
                let _ = items.push(item);
            }
            items
        }
    }
    impl<const N: usize> From<heapless::String<N>> for Text<N> {
        fn from(s: heapless::String<N>) -> Self {
            Text::from(&s)
        }
    }
    impl<const N: usize> From<&heapless::String<N>> for Text<N> {
        fn from(s: &heapless::String<N>) -> Self {
            let mut text = Text::new();
            // It has as many bytes at most.
            let _ = text.push_str(s);
            text
        }
    }
    impl<const N: usize> From<Text<N>> for heapless::String<N> {
        fn from(text: Text<N>) -> Self {
            let mut s = heapless::String::new();
            // It has as many bytes at most.
            let _ = s.push_str(&text);
            s
        }
    }
}
