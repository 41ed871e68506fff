//! A memory-mapped region with one owner.

use crate::device::Misuse;
use crate::mapped;
use crate::model::{Model, Unit};
use crate::persist::{NoHandles, Plain};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};

/// Why a range of addresses cannot be a [`Region`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum RegionError {
    /// The start is not a multiple of [`Region::ALIGN`].
    Misaligned,
    /// The end lies before the start, or the start is null.
    Empty,
    /// The offset of a split is not a multiple of [`Region::ALIGN`] or lies outside the region.
    BadSplit,
    /// The region holds typed values: see [`Region::clear`].
    HoldsValues,
}

impl core::fmt::Display for RegionError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            RegionError::Misaligned => "the region does not start at a multiple of 8",
            RegionError::Empty => "the region has no bytes",
            RegionError::BadSplit => "a region can be split only at a multiple of 8 inside it",
            RegionError::HoldsValues => "the region holds typed values, so it cannot be split",
        })
    }
}
impl core::error::Error for RegionError {}

// INVARIANT "Sole region": a range of addresses has one owner. `Region` is not `Clone`, and the
// constructor from raw addresses is `unsafe`.
// Noticed by: the compile-fail tests of `pmem-tx`.

// INVARIANT "Regions are aligned": a region begins at a multiple of 8 on every target, also where a
// `u64` needs less alignment. `Region::new` skips the bytes before, `Region::from_raw` refuses
// other addresses, and a split is at a multiple of 8.
// Noticed by: tests/suite/soundness/region.rs under Miri, for a target that aligns a `u64` to 4.

// INVARIANT "Inside the region": each load from a region or store to it lies in it, at a multiple
// of its unit. `Region::load`, `store` and `tail` are `unsafe` and assert it in debug builds;
// `check_range` in mapped_medium.rs and `Area` compare each offset with the length.
// Noticed by: Miri and tests/suite/soundness/region.rs, with all ways to split a region in two, and
// one without bytes; tests/suite/values.rs.

/// Exclusive ownership of a memory-mapped range of a medium whose failure model is `M`.
///
/// A region is not `Clone`: only its holder stores to the range. Bytes at the end that do not fill
/// an 8-byte group are not used.
///
/// A region that a pool gave back holds typed values, whose padding must not be read as bytes. The
/// same library can open it again. As a [`Medium`](crate::Medium) it refuses reads and writes until
/// [`Region::clear`].
pub struct Region<'m, M> {
    base: NonNull<u8>,
    /// A multiple of 8; the lowest bit is set if the region holds typed values.
    len: usize,
    #[allow(clippy::type_complexity)]
    _bytes: PhantomData<&'m mut [MaybeUninit<u64>]>,
    _model: PhantomData<fn() -> M>,
}

// SAFETY: invariant "Sole region": it owns its bytes as a `&mut [_]` does.
unsafe impl<M> Send for Region<'_, M> {}

/// Its address and length; not its bytes, which may be padding.
impl<M> core::fmt::Debug for Region<'_, M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let mut s = f.debug_struct("Region");
        s.field("base", &self.base);
        s.field("len", &(self.len & !HOLDS_VALUES)).finish()
    }
}

impl<'m, M: Model> Region<'m, M> {
    /// Every region starts at a multiple of this, in bytes.
    pub const ALIGN: usize = ALIGN;

    /// A region in a buffer: for tests and host builds of firmware.
    ///
    /// The region begins at the first multiple of [`ALIGN`](Self::ALIGN) in the buffer. Some
    /// targets align `u64` to less (4 bytes on 32-bit x86, 2 on MSP430). There the region may be 8
    /// bytes shorter than the buffer.
    ///
    /// Unwritten bytes have the value that the memory holds, as after power-up. Miri treats them as
    /// uninitialised: under Miri, use `MaybeUninit::new(0)`.
    pub fn new(words: &'m mut [MaybeUninit<u64>]) -> Self {
        let len = size_of_val(words);
        let mut whole = (NonNull::from(words).cast(), len);
        if align_of::<MaybeUninit<u64>>() < ALIGN {
            whole = aligned(whole.0, len);
        }
        let (base, len) = whole;
        // The compiler must not assume anything about loads from an unwritten buffer.
        mapped::barrier_on(base.as_ptr());
        Region {
            len,
            base,
            _bytes: PhantomData,
            _model: PhantomData,
        }
    }

    /// The region between two addresses, for example linker symbols.
    ///
    /// **Errors**: [`RegionError::Misaligned`], [`RegionError::Empty`].
    ///
    /// # Safety
    /// `start..end` is memory of the model `M`, initialised (as any memory is after power-up),
    /// valid for `'m`, and nothing else reads or writes it: call this once per range.
    pub unsafe fn from_raw(start: *mut u8, end: *mut u8) -> Result<Self, RegionError> {
        let len = (end as usize)
            .checked_sub(start as usize)
            .ok_or(RegionError::Empty)?
            & !(Self::ALIGN - 1);
        let base = NonNull::new(start).ok_or(RegionError::Empty)?;
        if len == 0 {
            return Err(RegionError::Empty);
        }
        if !(start as usize).is_multiple_of(Self::ALIGN) {
            return Err(RegionError::Misaligned);
        }
        Ok(Region {
            base,
            len,
            _bytes: PhantomData,
            _model: PhantomData,
        })
    }

    /// Length in bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len & !HOLDS_VALUES
    }

    /// Marks the region as holding typed values, whose padding may be uninitialised. It is no
    /// longer read as bytes.
    #[doc(hidden)]
    pub fn mark_values(&mut self) {
        self.len |= HOLDS_VALUES
    }

    /// Whether the region holds typed values.
    pub(crate) fn holds_values(&self) -> bool {
        self.len & HOLDS_VALUES != 0 && !crate::planted!("nvmem/padding-read-as-bytes")
    }

    /// Stores zeros everywhere. A region that held typed values can be read as bytes again, and be
    /// split.
    ///
    /// **Power loss**: on an in-order medium a prefix is zero. **Cost**: one store for each unit.
    pub fn clear(&mut self) {
        // SAFETY: invariant "Sole region": all units of the region; nothing is lent while the
        // region is borrowed mutably.
        unsafe { self.store_zeros(0, self.len()) }
        mapped::fence::<M>();
        self.len &= !HOLDS_VALUES
    }

    /// Stores a plain value, with zeros for its padding, and zeros up to the end of its last unit.
    /// Begins at byte `at`, a multiple of the unit.
    ///
    /// **Power loss**: some units are new. **Cost**: one store for each unit. **Errors**: those of
    /// a write of these units.
    #[inline]
    pub fn write_value<T: Plain>(&mut self, at: usize, value: &T) -> Result<(), Misuse> {
        self.check_value::<T>(at)?;
        // SAFETY: invariant "Inside the region": it was checked, and nothing is lent.
        unsafe { self.write_inside(at, value) }
        Ok(())
    }

    /// The same without checks.
    ///
    /// # Safety
    /// `at` is a multiple of the unit; the units of a `T` from there on are inside, and none is
    /// lent.
    #[inline(always)]
    pub(crate) unsafe fn write_inside<T: Plain>(&mut self, at: usize, value: &T) {
        let mut copy = MaybeUninit::<T>::uninit();
        // SAFETY: invariants "Plain is plain" and "Padding is not read": a bit copy of a value
        // without handles or drop glue; only its bytes are read, after its padding is cleared.
        unsafe {
            ptr::copy_nonoverlapping(value, copy.as_mut_ptr(), 1);
            T::clear_padding(copy.as_mut_ptr().cast());
        }
        // By lengths that are constants: one instruction copies a unit.
        let (whole, rest) = const { units::<T, M>() };
        let put = |at_value: usize, n: usize| {
            let mut unit = [0; 4];
            // SAFETY: invariant "Inside the region": `n` bytes of the copy; a unit inside, by the
            // contract.
            unsafe {
                let from = copy.as_ptr().cast::<u8>().add(at_value);
                ptr::copy_nonoverlapping(from, unit_part::<M>(&mut unit), n);
                self.store(at + at_value, u32::from_ne_bytes(unit));
            }
        };
        let mut done = 0;
        while done < whole {
            put(done, M::Unit::BYTES);
            done += M::Unit::BYTES;
        }
        if rest > 0 {
            put(whole, rest);
        }
    }

    /// Loads what [`write_value`](Self::write_value) has stored. `None` if there is no such place,
    /// or if its bytes are not a value of `T`.
    #[inline]
    pub fn read_value<T: Plain>(&self, at: usize) -> Option<T> {
        self.check_value::<T>(at).ok()?;
        // SAFETY: invariant "Inside the region": it was checked, and the region holds no values.
        unsafe { self.read_inside(at) }
    }

    /// The same without checks.
    ///
    /// # Safety
    /// `at` is a multiple of the unit; the units of a `T` from there on are inside and initialised,
    /// and none is lent.
    #[inline(always)]
    pub(crate) unsafe fn read_inside<T: Plain>(&self, at: usize) -> Option<T> {
        let mut copy = MaybeUninit::<T>::uninit();
        let (whole, rest) = const { units::<T, M>() };
        let mut get = |at_value: usize, n: usize| {
            // SAFETY: invariants "Inside the region" and "Padding is not read": by the contract.
            unsafe {
                let mut unit = self.load(at + at_value).to_ne_bytes();
                let to = copy.as_mut_ptr().cast::<u8>().add(at_value);
                ptr::copy_nonoverlapping(unit_part::<M>(&mut unit), to, n);
            }
        };
        let mut done = 0;
        while done < whole {
            get(done, M::Unit::BYTES);
            done += M::Unit::BYTES;
        }
        if rest > 0 {
            get(whole, rest);
        }
        // SAFETY: invariant "Checked before it is a value": initialised above, in an aligned place.
        unsafe {
            T::check(copy.as_ptr().cast(), &mut NoHandles).ok()?;
            Some(copy.assume_init())
        }
    }

    #[inline]
    fn check_value<T>(&self, at: usize) -> Result<(), Misuse> {
        if !at.is_multiple_of(M::Unit::BYTES) {
            Err(Misuse::Misaligned)
        } else if self.holds_values() {
            Err(Misuse::HoldsValues)
        } else if !fits::<T, M>(at, self.len()) {
            Err(Misuse::OutOfRange)
        } else {
            Ok(())
        }
    }

    /// The address of the first byte.
    #[inline(always)]
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The part from byte `at` on, without checks. The caller manages the part before it.
    ///
    /// # Safety
    /// `at` is a multiple of 8 and less than the length. While the part is in use, the caller
    /// neither moves `self` nor uses it from `at` on.
    #[inline(always)]
    pub unsafe fn tail(&self, at: usize) -> Self {
        debug_assert!(at.is_multiple_of(Self::ALIGN) && at < self.len());
        Region {
            // SAFETY: invariant "Inside the region": `at` is less than the length, by the contract.
            base: unsafe { self.base.add(at) },
            len: self.len - at,
            _bytes: PhantomData,
            _model: PhantomData,
        }
    }

    /// Splits the region in two, the first of `at` bytes. An error returns the whole region.
    ///
    /// **Errors**: [`RegionError::BadSplit`], [`RegionError::HoldsValues`].
    pub fn split_at(self, at: usize) -> Result<(Self, Self), (RegionError, Self)> {
        if !at.is_multiple_of(Self::ALIGN) || at > self.len() {
            return Err((RegionError::BadSplit, self));
        }
        if self.holds_values() {
            // Opening the second part would read a superblock where padding may be.
            return Err((RegionError::HoldsValues, self));
        }
        let second = Region {
            // SAFETY: invariant "Inside the region": `at` is at most the length.
            base: unsafe { self.base.add(at) },
            len: self.len - at,
            _bytes: PhantomData,
            _model: PhantomData,
        };
        let first = Region {
            base: self.base,
            len: at,
            _bytes: PhantomData,
            _model: PhantomData,
        };
        Ok((first, second))
    }

    /// Loads the atomic unit at byte offset `off`.
    ///
    /// # Safety
    /// `off` is a multiple of the unit and inside; the unit is initialised and no `&mut` to it is
    /// live.
    #[inline(always)]
    pub unsafe fn load(&self, off: usize) -> u32 {
        debug_assert!(off.is_multiple_of(M::Unit::BYTES) && off + M::Unit::BYTES <= self.len());
        // SAFETY: invariant "Inside the region", by the contract.
        unsafe { mapped::load(self.base().add(off).cast::<M::Unit>()).widen() }
    }

    /// Stores the low bits of `v` to the atomic unit at byte offset `off`.
    ///
    /// # Safety
    /// `off` is a multiple of the unit and inside; no reference to it is live.
    #[inline(always)]
    pub unsafe fn store(&self, off: usize, v: u32) {
        debug_assert!(off.is_multiple_of(M::Unit::BYTES) && off + M::Unit::BYTES <= self.len());
        // SAFETY: invariant "Inside the region", by the contract.
        unsafe { mapped::store(self.base().add(off).cast::<M::Unit>(), M::Unit::truncate(v)) }
    }

    /// Stores zeros to the units from byte offset `from` to `to`, in ascending order.
    ///
    /// # Safety
    /// Both are multiples of the unit and at most the length; no reference to a unit between them
    /// is live.
    #[doc(hidden)]
    pub unsafe fn store_zeros(&self, from: usize, to: usize) {
        debug_assert!(from.is_multiple_of(M::Unit::BYTES) && to <= self.len());
        // Reads the base once: for all the compiler knows, a store might change `self`.
        let mut at = self.base().wrapping_add(from).cast::<M::Unit>();
        for _ in from / M::Unit::BYTES..to / M::Unit::BYTES {
            // SAFETY: invariant "Inside the region", by the contract.
            unsafe { mapped::store(at, M::Unit::truncate(0)) }
            at = at.wrapping_add(1);
        }
    }
}

/// Whether the units of a `T` at byte `at` lie in `len` bytes.
#[inline(always)]
pub(crate) fn fits<T, M: Model>(at: usize, len: usize) -> bool {
    let bytes = const { size_of::<T>().next_multiple_of(M::Unit::BYTES) };
    len.checked_sub(bytes).is_some_and(|last| at <= last)
}

/// The bytes of a `T` that are whole units, and those after them.
const fn units<T, M: Model>() -> (usize, usize) {
    let rest = size_of::<T>() % M::Unit::BYTES;
    (size_of::<T>() - rest, rest)
}

/// The bytes of a unit in the word that holds it.
#[inline(always)]
fn unit_part<M: Model>(word: &mut [u8; 4]) -> *mut u8 {
    let skip = if cfg!(target_endian = "big") {
        4 - M::Unit::BYTES
    } else {
        0
    };
    word.as_mut_ptr().wrapping_add(skip)
}

/// The bit of `len` that is set if the region holds typed values.
const HOLDS_VALUES: usize = 1;

const ALIGN: usize = 8;

/// The part of a buffer that begins at a multiple of 8 and has whole 8-byte groups: its start and
/// length.
fn aligned(start: NonNull<u8>, len: usize) -> (NonNull<u8>, usize) {
    let skip = (start.as_ptr() as usize).wrapping_neg() % ALIGN;
    if len < skip {
        // Not a dangling pointer to `u64`, which may be aligned to less.
        let nowhere = const { NonNull::new(ptr::without_provenance_mut(ALIGN)).unwrap() };
        return (nowhere, 0);
    }
    // SAFETY: invariant "Inside the region": inside the buffer, or at its end.
    (unsafe { start.add(skip) }, (len - skip) & !(ALIGN - 1))
}

/// The error of an `open` that takes a [`Region`], with the region for another attempt.
pub struct OpenFailure<'m, M, E> {
    /// The reason.
    pub error: E,
    /// The region.
    pub region: Region<'m, M>,
}

impl<M, E: core::fmt::Debug> core::fmt::Debug for OpenFailure<'_, M, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}
impl<M, E: core::fmt::Display> core::fmt::Display for OpenFailure<'_, M, E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.error.fmt(f)
    }
}
impl<M, E: core::error::Error> core::error::Error for OpenFailure<'_, M, E> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_from_its_first_multiple_of_8() {
        #[repr(align(8))]
        struct Memory([u8; 32]);
        let mut memory = Memory([0; 32]);
        let base = NonNull::from(&mut memory.0).cast::<u8>();
        for skip in 0..8 {
            for len in 0..=24 {
                // SAFETY: invariant "Inside the region": inside the memory.
                let (at, n) = aligned(unsafe { base.add(skip) }, len);
                assert!((at.as_ptr() as usize).is_multiple_of(ALIGN) && n.is_multiple_of(ALIGN));
                let from = skip.next_multiple_of(ALIGN);
                let whole = (skip + len).saturating_sub(from) / ALIGN * ALIGN;
                assert_eq!(n, whole, "{len} bytes from {skip} on");
                if n > 0 {
                    assert_eq!(at.as_ptr() as usize, base.as_ptr() as usize + from);
                }
            }
        }
    }
}
