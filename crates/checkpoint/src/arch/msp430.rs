//! MSP430, its small memory model.
//!
//! The frame, from its lowest address: SR, r10 to r4, and the return address. The ABI lets a call
//! change all other registers. A handler needs no special treatment: `reti` takes all it needs from
//! the stack.

use core::arch::naked_asm;

/// Frames begin at multiples of this.
pub const ALIGN: usize = 2;

/// The flags for the context, or `None` if the program cannot be resumed from here.
pub fn context_flags() -> Option<u32> {
    Some(0)
}

/// Saves the registers on the stack, switches interrupts off, and calls `then(of, frame)` on the
/// stack that ends at `top`. Returns the value of that call, with all registers and the interrupt
/// state as before. [`resume`] makes it return once more.
///
/// # Safety
/// `top` is the end of an unused stack. It is a multiple of 2, and the stack is long enough.
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
// Generic, as all functions here, so that it is assembled only where it is used and never for
// another processor of this family.
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

/// Makes the [`capture`] of this frame return `value`.
///
/// # Safety
/// The frame, and all memory that the program needs, are as `capture` left them. The caller runs on
/// another stack.
#[allow(clippy::extra_unused_type_parameters)]
pub unsafe fn resume<T>(frame: usize, _context: u32, value: usize) -> ! {
    // SAFETY: *One state*, as the caller promises.
    unsafe { unwind::<T>(frame, value) }
}
