//! Zeroing and copying bytes.
//!
//! On small cores by loops that do not become calls of the compiler's `memset` and `memcpy`: with these a small
//! program is 1.2 KiB longer.

use core::mem::MaybeUninit;

/// Zeroes `n` bytes.
///
/// # Safety
/// `to` is valid for that.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(crate) unsafe fn zero(to: *mut u8, n: usize) {
    // SAFETY: as the caller vouches.
    unsafe {
        if cfg!(target_pointer_width = "64") {
            return to.write_bytes(0, n);
        }
        for i in 0..n {
            to.add(i).write_volatile(0);
        }
    }
}

/// As many zeros as `place` has bytes, made in place.
#[inline(always)]
pub(crate) fn zeros<const N: usize>(place: &mut MaybeUninit<[u8; N]>) -> &mut [u8; N] {
    // SAFETY: as many bytes as the array has.
    unsafe { zero(place.as_mut_ptr().cast(), N) }
    // SAFETY: just written.
    unsafe { place.assume_init_mut() }
}

/// Copies `n` bytes.
///
/// # Safety
/// Both are valid for that, and do not overlap.
#[cfg_attr(target_pointer_width = "64", inline(always))]
#[cfg_attr(not(target_pointer_width = "64"), inline(never))]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    // SAFETY: as the caller vouches.
    unsafe {
        if cfg!(target_pointer_width = "64") {
            return from.copy_to_nonoverlapping(to, n);
        }
        for i in 0..n {
            to.add(i).write_volatile(from.add(i).read());
        }
    }
}
