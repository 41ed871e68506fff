//! The store module: every store that a Relume crate makes to a memory-mapped medium passes here.
//!
//! Stores are volatile, so the compiler keeps them all, in program order and of one atomic unit each. What user code
//! writes through a lent `&mut T` is plain: it is ordered only by [`lend`] before it and [`end_loan`] after it, and
//! in between any subset of the units may have persisted.
//!
//! With the feature `instrument` each call is also reported to the [observer](crate::instrument); without it these
//! functions are the bare machine instruction.

use crate::model::{Model, Unit};
use core::mem::MaybeUninit;

#[cfg(feature = "instrument")]
use crate::instrument::with as observe;

/// One store of one atomic unit.
///
/// **Power loss**: the unit is old or new. **Cost**: one store.
///
/// # Safety
/// `at` is aligned, valid for writes, and no reference to these bytes is live.
#[inline(always)]
pub unsafe fn store<U: Unit>(at: *mut U, v: U) {
    #[cfg(feature = "instrument")]
    observe(|o| o.store(at.cast(), &v.widen().to_le_bytes()[..U::BYTES]));
    // SAFETY: invariant "Inside the region": forwarded to the caller.
    unsafe { at.write_volatile(v) }
}

/// One load of one atomic unit.
///
/// # Safety
/// `at` is aligned, valid for reads and initialised.
#[inline(always)]
pub unsafe fn load<U: Unit>(at: *const U) -> U {
    #[cfg(feature = "instrument")]
    observe(|o| o.read(at.cast(), U::BYTES));
    // SAFETY: invariant "Inside the region": forwarded to the caller.
    unsafe { at.read_volatile() }
}

/// Copies `units` whole units inside the medium, in ascending order, padding included and never looked at.
///
/// **Power loss**: on an in-order medium a prefix of the units is new. **Cost**: `units` stores.
///
/// # Safety
/// Both ranges are aligned and valid, they do not overlap, and no mutable reference to them is live.
#[inline(always)]
pub unsafe fn copy<U: Unit>(from: *const U, to: *mut U, units: usize) {
    #[cfg(feature = "instrument")]
    observe(|o| o.read(from.cast(), units * U::BYTES));
    for i in 0..units {
        // SAFETY: invariants "Inside the region" and "Padding is not read": in the ranges that the caller vouches for; as `MaybeUninit`.
        unsafe {
            let v = from.add(i).cast::<MaybeUninit<U>>().read_volatile();
            #[cfg(feature = "instrument")]
            observe(|o| {
                // Miri's shadow would call a padding byte uninitialised; a machine has a value there.
                let bytes = core::slice::from_raw_parts(from.add(i).cast::<u8>(), U::BYTES);
                o.store(to.add(i).cast(), bytes)
            });
            to.add(i).cast::<MaybeUninit<U>>().write_volatile(v);
        }
    }
}

/// Everything stored before to media of this model persists before anything stored after. Nothing at run time on an
/// in-order medium.
///
/// It is about all media of the model, and about no other: a program with two media that are fenced apart gives each a
/// [`Model`] of its own.
#[inline(always)]
pub fn fence<M: Model>() {
    if M::BUFFERED {
        barrier();
        M::fence();
    }
    #[cfg(feature = "instrument")]
    observe(|o| o.fence(M::NAME));
}

/// A range is about to be written through a `&mut T` that the library hands out.
///
/// Nothing that the user writes there happens before this call. **Cost**: no instruction.
#[inline(always)]
pub fn lend(at: *mut u8, len: usize) {
    barrier_on(at);
    #[cfg(feature = "instrument")]
    observe(|o| o.lend(at, len));
    let _ = len;
}

/// Nobody writes to a lent range any more: what was written there is in memory before any later store.
///
/// The pointer matters: a barrier that does not name it orders nothing that was written through a `&mut T` in the
/// same function. On a buffered medium a [`fence`] must follow. **Cost**: no instruction.
#[inline(always)]
pub fn end_loan(at: *mut u8, len: usize) {
    barrier_on(at);
    #[cfg(feature = "instrument")]
    observe(|o| o.end_loan(at, len));
    let _ = len;
}

/// Whether an [observer](crate::instrument) is listening: then whoever ends loans tells it each. Never on a device, where this is
/// a constant; a test without an observer runs what a device runs.
#[inline(always)]
pub fn observed() -> bool {
    #[cfg(feature = "instrument")]
    return crate::instrument::is_observed();
    #[cfg(not(feature = "instrument"))]
    false
}

/// Nobody writes to any lent range of the region at `base` any more: what [`end_loan`] does, for all of them together.
///
/// An observer is not told. **Cost**: no instruction.
#[inline(always)]
pub fn end_loans(base: *mut u8) {
    barrier_on(base)
}

/// A range on the medium that is scratch: its content means nothing after a cut. Only told to the observer.
#[inline(always)]
pub fn scratch(at: *mut u8, len: usize) {
    #[cfg(feature = "instrument")]
    observe(|o| o.scratch(at, len));
    let _ = (at, len);
}

/// `len` bytes are about to be read, not through [`load`].
#[inline(always)]
pub fn will_read(at: *const u8, len: usize) {
    #[cfg(feature = "instrument")]
    observe(|o| o.read(at, len));
    let _ = (at, len);
}

/// A compiler barrier.
#[inline(always)]
pub fn barrier() {
    barrier_on(core::ptr::null_mut())
}

/// Where the compiler has an assembler that is stable (or, on MSP430, must be used because `compiler_fence` aborts
/// LLVM), an empty statement that may read and write what `at` points to; elsewhere a compiler fence.
#[inline(always)]
pub(crate) fn barrier_on(at: *mut u8) {
    #[cfg(all(
        not(miri),
        any(
            target_arch = "x86",
            target_arch = "x86_64",
            target_arch = "arm",
            target_arch = "aarch64",
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "msp430"
        )
    ))]
    // SAFETY: invariant "Loans have ends", for which this is: no instruction is emitted, so nothing can go wrong.
    unsafe {
        core::arch::asm!("/* {0} */", in(reg) at, options(nostack, preserves_flags))
    }
    #[cfg(not(all(
        not(miri),
        any(
            target_arch = "x86",
            target_arch = "x86_64",
            target_arch = "arm",
            target_arch = "aarch64",
            target_arch = "riscv32",
            target_arch = "riscv64",
            target_arch = "msp430"
        )
    )))]
    {
        let _ = at;
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst)
    }
}
