//! An option type with a fixed layout.

use crate::describe::{Member, Type};
use crate::persist::{Invalid, Persist, Plain, Visit};
use crate::planted;
use core::mem::offset_of;

/// `None` or `Some`, with a layout that no compiler changes: a tag byte of 0 or 1, then the value
/// at its alignment.
///
/// `Option<u16>` has no guaranteed layout, so it cannot live in non-volatile memory; `Maybe<u16>`
/// can.
///
/// ```
/// use nvmem::Maybe;
///
/// let mut last: Maybe<u16> = Maybe::None;
/// last.replace(7);
/// assert_eq!(last.as_ref(), Some(&7));
/// assert_eq!(Option::from(last), Some(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(u8)]
pub enum Maybe<T> {
    /// No value.
    #[default]
    None = 0,
    /// A value.
    Some(T) = 1,
}

impl<T> Maybe<T> {
    /// Whether there is a value.
    pub const fn is_some(&self) -> bool {
        matches!(self, Maybe::Some(_))
    }

    /// Whether there is none.
    pub const fn is_none(&self) -> bool {
        !self.is_some()
    }

    /// The value, borrowed.
    pub const fn as_ref(&self) -> Option<&T> {
        match self {
            Maybe::Some(v) => Some(v),
            Maybe::None => None,
        }
    }

    /// The value, borrowed mutably.
    pub const fn as_mut(&mut self) -> Option<&mut T> {
        match self {
            Maybe::Some(v) => Some(v),
            Maybe::None => None,
        }
    }

    /// Converts to an [`Option`], for its other methods.
    pub fn into_option(self) -> Option<T> {
        self.into()
    }

    /// Takes the value out and leaves `None`.
    pub fn take(&mut self) -> Option<T> {
        core::mem::replace(self, Maybe::None).into()
    }

    /// Sets the value and returns the previous one.
    pub fn replace(&mut self, value: T) -> Option<T> {
        core::mem::replace(self, Maybe::Some(value)).into()
    }

    /// Returns the value; sets it to `make()` first if there is none.
    pub fn get_or_insert_with(&mut self, make: impl FnOnce() -> T) -> &mut T {
        if self.is_none() {
            *self = Maybe::Some(make());
        }
        match self {
            Maybe::Some(v) => v,
            Maybe::None => unreachable!("the value was set above"),
        }
    }

    /// Applies `f` to the value, if there is one.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Maybe<U> {
        match self {
            Maybe::Some(v) => Maybe::Some(f(v)),
            Maybe::None => Maybe::None,
        }
    }
}

impl<T> From<Option<T>> for Maybe<T> {
    fn from(v: Option<T>) -> Self {
        match v {
            Some(v) => Maybe::Some(v),
            None => Maybe::None,
        }
    }
}

impl<T> From<Maybe<T>> for Option<T> {
    fn from(v: Maybe<T>) -> Self {
        match v {
            Maybe::Some(v) => Some(v),
            Maybe::None => None,
        }
    }
}

impl<T> From<T> for Maybe<T> {
    fn from(v: T) -> Self {
        Maybe::Some(v)
    }
}

/// The documented layout of a `#[repr(u8)]` variant: a `#[repr(C)]` struct that begins with the
/// tag.
#[repr(C)]
struct Layout<T> {
    tag: u8,
    value: T,
}

impl<T> Layout<T> {
    const VALUE: usize = offset_of!(Self, value);
    const END: usize = Self::VALUE + size_of::<T>();
}

// SAFETY: invariant "Checked before it is a value": the layout of `#[repr(u8)]` enums is
// documented; the tag is checked, and the value by its type; `T` has no drop glue.
unsafe impl<T: Persist> Persist for Maybe<T> {
    type At<'p> = Maybe<T::At<'p>>;
    // `None` is the tag alone.
    const PADDED: bool = size_of::<Self>() > 1;
    const HANDLES: bool = T::HANDLES;

    type HandleTargets = T::HandleTargets;
    const LAYOUT: &'static Type = &Type::Compound {
        name: "Maybe",
        size: size_of::<Self>(),
        align: align_of::<Self>(),
        params: &[],
        members: &[
            Member::Field {
                name: "tag",
                offset: offset_of!(Layout<T>, tag),
                of: u8::LAYOUT,
            },
            Member::Variant {
                name: "None",
                tag: 0,
            },
            Member::Variant {
                name: "Some",
                tag: 1,
            },
            Member::Field {
                name: "0",
                offset: Layout::<T>::VALUE,
                of: T::LAYOUT,
            },
        ],
    };

    unsafe fn check(p: *const u8, v: &mut dyn Visit) -> Result<(), Invalid> {
        // SAFETY: invariant "Parts are inside": the tag is the first byte, and never padding.
        match unsafe { p.read() } {
            0 => Ok(()),
            // SAFETY: invariant "Parts are inside": the value of this variant.
            1 => unsafe { T::check(p.add(Layout::<T>::VALUE), v) },
            _ => Err(Invalid::Bits("Maybe")),
        }
    }

    unsafe fn clear_padding(p: *mut u8) {
        // SAFETY: invariant "Parts are inside": all in the value that the caller vouches for.
        unsafe {
            let used = if p.read() == 0 {
                1
            } else {
                T::clear_padding(p.add(Layout::<T>::VALUE));
                if !planted!("nvmem/maybe-gap-not-cleared") {
                    p.add(1).write_bytes(0, Layout::<T>::VALUE - 1);
                }
                Layout::<T>::END
            };
            p.add(used).write_bytes(0, size_of::<Self>() - used);
        }
    }
}

// SAFETY: invariant "Plain is plain": no handle in `T`.
unsafe impl<T: Plain> Plain for Maybe<T> {}
