//! What the code of `#[derive(Persist)]` calls. Not for hand-written code: it may change in any release.

use crate::persist::{Persist, Plain};

use crate::planted;

pub use crate::describe::{Part, Type};
pub use crate::fields::{Fields, Lend};
pub use crate::persist::{Invalid, Visit};

/// The largest alignment of persistent data: that of a region.
pub const MAX_ALIGN: usize = 8;

/// Whether a variable gets this alignment. LLVM does not realign the stack of MSP430, but counts on what a variable asks for: parts of it are then
/// read and written beside it.
pub const fn is_kept(align: usize) -> bool {
    cfg!(not(target_arch = "msp430")) || align <= 2
}

/// A type with parameters can be judged only when they are known.
pub const fn assert_layout<T: Persist>() {
    const {
        assert!(
            align_of::<T>() <= MAX_ALIGN,
            "persistent data is aligned to 8 bytes at most: replace `u128` by `[u64; 2]`, drop `#[repr(align(..))]`"
        );
        assert!(
            is_kept(align_of::<T>()),
            "on MSP430 data is aligned to 2 bytes at most, as a variable is: drop `#[repr(align(..))]`"
        );
        assert!(
            !core::mem::needs_drop::<T>(),
            "persistent data has no drop glue: free what it owns by a function"
        );
    }
}

/// Asks that a field is plain.
pub const fn assert_plain<T: Plain>() {}

/// The offset of a field with this alignment that follows `end` bytes, by the rule of `#[repr(C)]`.
pub const fn place(end: usize, align: usize) -> usize {
    end.next_multiple_of(align)
}

/// Writes zeros over the bytes `from..to` of the value at `p`; `from <= to`.
///
/// # Safety
/// The bytes are inside the value and valid for writes.
#[inline(always)]
pub unsafe fn zero(p: *mut u8, from: usize, to: usize) {
    if planted!("nvmem/padding-kept") {
        return;
    }
    // SAFETY: forwarded to the caller.
    unsafe { p.add(from).write_bytes(0, to - from) }
}
