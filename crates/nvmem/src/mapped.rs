//! The store module: all stores of Relume crates to memory-mapped media go through these functions.
//!
//! Each store is volatile and writes one atomic unit, so the compiler keeps all stores in program
//! order. Writes of user code through a lent `&mut T` are plain: only [`lend`] before and
//! [`end_loan`] after them order them. In between, any subset of the units may have persisted.
//!
//! ```text
//! store(a)  store(b)  lend(r)   plain writes to r   end_loan(r)  store(c)
//!    |         |         |      (any order, any        |            |
//!    +----<----+----<----+       subset persists)      +-----<------+
//!       program order                                   r before c
//! ```
//!
//! With the feature `instrument`, each call is also reported to the [observer](crate::instrument).
//! Without it, each function is the bare machine instruction.

use crate::model::{Model, Unit};
use core::mem::MaybeUninit;

#[cfg(feature = "instrument")]
use crate::instrument::with as observe;

// INVARIANT "One store module": a library store to a mapped medium goes through this module, with
// one machine store for each unit.
// Noticed by: powerfail, which compares memory at the end of a run and finds a store that no event
// explains; the rig, which sees each machine store.

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

/// Copies `units` whole units inside the medium, in ascending order, including padding, which is
/// not interpreted.
///
/// **Power loss**: on an in-order medium a prefix of the units is new. **Cost**: `units` stores.
///
/// # Safety
/// Both ranges are aligned and valid, they do not overlap, and no mutable reference to them is
/// live.
#[inline(always)]
pub unsafe fn copy<U: Unit>(from: *const U, to: *mut U, units: usize) {
    #[cfg(feature = "instrument")]
    observe(|o| o.read(from.cast(), units * U::BYTES));
    for i in 0..units {
        // SAFETY: invariants "Inside the region" and "Padding is not read": inside the ranges that
        // the caller guarantees; as `MaybeUninit`.
        unsafe {
            let v = from.add(i).cast::<MaybeUninit<U>>().read_volatile();
            #[cfg(feature = "instrument")]
            observe(|o| {
                // Miri treats a padding byte as uninitialised; on a machine it has a value.
                let bytes = core::slice::from_raw_parts(from.add(i).cast::<u8>(), U::BYTES);
                o.store(to.add(i).cast(), bytes)
            });
            to.add(i).cast::<MaybeUninit<U>>().write_volatile(v);
        }
    }
}

/// [`copy`] in a short loop, for few units: the compiler repeats the body of a loop four times, and
/// what leads to it takes longer than to copy two units.
///
/// **Power loss** and **Cost**: as there.
///
/// # Safety
/// As there.
#[doc(hidden)]
#[inline(always)]
pub unsafe fn copy_in_pairs<U: Unit>(mut from: *const U, mut to: *mut U, units: usize) {
    let end = from.wrapping_add(units);
    // SAFETY: invariant "Inside the region": parts of the range that the caller guarantees.
    unsafe {
        if units % 2 == 1 {
            copy(from, to, 1);
            (from, to) = (from.add(1), to.add(1));
        }
        while from != end {
            // Keeps the loop as it is written.
            barrier_on(to.cast());
            copy(from, to, 2);
            (from, to) = (from.add(2), to.add(2));
        }
    }
}

/// Everything stored before to media of this model persists before anything stored after. No
/// instruction on an in-order medium.
///
/// Applies to all media of the model and to no other. If two media need separate fences, give each
/// its own [`Model`].
#[inline(always)]
pub fn fence<M: Model>() {
    if M::BUFFERED {
        barrier();
        M::fence();
    }
    #[cfg(feature = "instrument")]
    observe(|o| o.fence(M::NAME));
}

/// Begins a loan: user code may write to the range through a `&mut T`.
///
/// No write of the user to the range happens before this call. **Cost**: no instruction.
#[inline(always)]
pub fn lend(at: *mut u8, len: usize) {
    barrier_on(at);
    #[cfg(feature = "instrument")]
    observe(|o| o.lend(at, len));
    let _ = len;
}

// INVARIANT "Loans have ends": between the end of a loan and the next library store, everything
// that was written through the loan is in memory. `end_loan` and `end_loans` keep it.
// Noticed by: tests/suite/asm.rs; the rig's scenario `nvmem/loan` on three machines.

/// Ends a loan: all writes of the user to the range are in memory before any later store.
///
/// The barrier must take the pointer: otherwise it does not order writes through a `&mut T` in the
/// same function. On a buffered medium a [`fence`] must follow. **Cost**: no instruction.
#[inline(always)]
pub fn end_loan(at: *mut u8, len: usize) {
    barrier_on(at);
    #[cfg(feature = "instrument")]
    observe(|o| o.end_loan(at, len));
    let _ = len;
}

/// Whether an [observer](crate::instrument) is installed. Then a library reports the end of each
/// loan separately. Constant `false` on a device; a test without an observer runs the device's
/// code.
#[inline(always)]
pub fn observed() -> bool {
    #[cfg(feature = "instrument")]
    return crate::instrument::is_observed();
    #[cfg(not(feature = "instrument"))]
    false
}

/// Ends all loans of the region at `base` with one barrier.
///
/// Not reported to an observer. **Cost**: no instruction.
#[inline(always)]
pub fn end_loans(base: *mut u8) {
    barrier_on(base)
}

/// Declares a range as scratch: its content does not matter after a cut. Only reports it to the
/// observer.
#[inline(always)]
pub fn scratch(at: *mut u8, len: usize) {
    #[cfg(feature = "instrument")]
    observe(|o| o.scratch(at, len));
    let _ = (at, len);
}

/// Reports to the observer that `len` bytes are about to be read without [`load`].
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

/// A compiler barrier for the memory at `at`: an empty assembler statement that may read and write
/// it, on targets with stable inline assembler. Also on MSP430, because `compiler_fence` aborts
/// LLVM there. Elsewhere a compiler fence.
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
    // SAFETY: invariant "Loans have ends", for which this is: no instruction is emitted, so nothing
    // can go wrong.
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
