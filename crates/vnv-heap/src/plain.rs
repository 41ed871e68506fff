//! Zeroing and copying bytes, by loops that do not become calls of the compiler's `memset` and
//! `memcpy`: these make a small program 1.2 KiB longer. One call still copies the default policy's
//! state. Aligned to words it would not be needed, and a heap would be 4 bytes longer. For the same
//! reason the heap leaves `open` in two parts, each short enough for single instructions. The price
//! is a slower copy of a new object's value, once.

use core::mem::MaybeUninit;

// INVARIANT "Written before it is read": memory that is not initialised is written as a whole
// before it becomes a slice or a value: this file, `Core::moved` in sections.rs, `Heap::take` in
// heap.rs, and the types of walk.rs.
// Noticed by: tests/suite/soundness.rs under Miri.
/// Zeroes `n` bytes.
///
/// # Safety
/// `to` is valid for writes of `n` bytes.
#[inline(never)]
pub(crate) unsafe fn zero(to: *mut u8, n: usize) {
    // SAFETY: invariant "Written before it is read": only writes, and the caller vouches for `n`
    // bytes.
    unsafe {
        for i in 0..n {
            to.add(i).write_volatile(0);
        }
    }
}

/// An array of zero words, made in place.
#[inline(always)]
pub(crate) fn zeros<const N: usize>(place: &mut MaybeUninit<[u32; N]>) -> &mut [u32; N] {
    let to = place.as_mut_ptr().cast::<u32>();
    for i in 0..N {
        // SAFETY: invariant "Written before it is read": one of its words.
        unsafe {
            to.add(i).write_volatile(0);
        }
    }
    // SAFETY: invariant "Written before it is read": just written.
    unsafe { place.assume_init_mut() }
}

/// The bytes of words as they are in memory.
pub(crate) fn as_bytes(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: invariant "Written before it is read": the same memory, lent on; it is initialised,
    // and any bytes are words.
    unsafe { core::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

/// Copies `n` bytes, which may be padding: a byte of a value need not be initialised.
///
/// # Safety
/// Both are valid for `n` bytes, and do not overlap.
#[inline(never)]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    let (from, to) = (from.cast::<MaybeUninit<u8>>(), to.cast::<MaybeUninit<u8>>());
    // SAFETY: invariant "Written before it is read": the caller vouches for both. What is not
    // initialised is copied as such, and never read as a value here.
    unsafe {
        for i in 0..n {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}

/// Copies `n` words, which may be padding. A function of its own: so what it fills is not moved
/// once more.
///
/// # Safety
/// Both are aligned to words, valid for `n` of them, and do not overlap.
#[inline(never)]
pub(crate) unsafe fn copy_words(from: *const usize, to: *mut usize, n: usize) {
    let (from, to) = (
        from.cast::<MaybeUninit<usize>>(),
        to.cast::<MaybeUninit<usize>>(),
    );
    // SAFETY: invariant "Written before it is read": the caller vouches for both. What is not
    // initialised is copied as such, and never read as a value here.
    unsafe {
        for i in 0..n {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}
