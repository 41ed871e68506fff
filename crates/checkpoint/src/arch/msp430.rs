//! MSP430, its small memory model.
//!
//! The frame, from its lowest address: SR, r10 to r4, and the address to return to. The ABI lets a call change all others. A handler is a
//! place as any other: `reti` takes all that it needs from the stack.

use core::arch::naked_asm;

/// Frames begin at multiples of this.
pub const ALIGN: usize = 2;

/// What the context says beside the frame's address, or `None` where a program cannot be brought back to.
pub fn place() -> Option<u32> {
    Some(0)
}

/// Saves the registers on the stack, switches interrupts off, and calls `then(of, frame)` on the stack that ends at `top`. What that
/// returns, this returns, with all as it was; so it does again when [`resume`] is called.
///
/// # Safety
/// `top` is the end of a stack that nobody uses, a multiple of 2, and long enough.
#[unsafe(naked)]
pub unsafe extern "C" fn capture<T>(
    of: *mut T,
    top: *mut u8,
    then: unsafe extern "C" fn(*mut T, usize) -> usize,
) -> usize {
    naked_asm!(
        "push r4",
        "push r5",
        "push r6",
        "push r7",
        "push r8",
        "push r9",
        "push r10",
        "push r2",
        "dint",
        "nop",
        "mov r1, r4",
        "mov r13, r1",
        "mov r4, r13",
        "call r14",
        "mov r12, r13",
        "mov r4, r12",
        "br #{unwind}",
        unwind = sym unwind::<T>,
    )
}

/// The end of [`capture`]: returns from it with `value`.
// As all here it has a parameter so that it is assembled where it is used, and on no other processor of this family.
#[allow(clippy::extra_unused_type_parameters)]
#[unsafe(naked)]
unsafe extern "C" fn unwind<T>(frame: usize, value: usize) -> ! {
    naked_asm!(
        "mov r12, r1",
        "mov r13, r12",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop r7",
        "pop r6",
        "pop r5",
        "pop r4",
        "nop",
        "mov r11, r2",
        "nop",
        "ret",
    )
}

/// Returns with `value` from the [`capture`] that had this frame.
///
/// # Safety
/// The frame, and all that the program needs, is what it was then. Runs on another stack.
#[allow(clippy::extra_unused_type_parameters)]
pub unsafe fn resume<T>(frame: usize, _context: u32, value: usize) -> ! {
    // SAFETY: *One state*, as the caller promises.
    unsafe { unwind::<T>(frame, value) }
}
