//! RV32I with its 32 registers, in machine mode, without floating-point registers.
//!
//! The frame, from its lowest address: the return address, s0 to s11, `mstatus`, `mepc`, and a
//! padding word. `mstatus` and `mepc` are enough to resume a handler like any other code.

use core::arch::naked_asm;

/// Frames begin at multiples of this.
pub const ALIGN: usize = 16;

/// The flags for the context, or `None` if the program cannot be resumed from here.
pub fn context_flags() -> Option<u32> {
    Some(0)
}

/// Saves the registers on the stack, switches interrupts off, and calls `then(of, frame)` on the
/// stack that ends at `top`. Returns the value of that call, with all registers and the interrupt
/// state as before. [`resume`] makes it return once more.
///
/// # Safety
/// `top` is the end of an unused stack. It is a multiple of 16, and the stack is long enough.
#[unsafe(naked)]
pub unsafe extern "C" fn capture<T>(
    of: *mut T,
    top: *mut u8,
    then: unsafe extern "C" fn(*mut T, usize) -> usize,
) -> usize {
    naked_asm!(
        "addi sp, sp, -64",
        "sw ra, 0(sp)",
        "sw s0, 4(sp)",
        "sw s1, 8(sp)",
        "sw s2, 12(sp)",
        "sw s3, 16(sp)",
        "sw s4, 20(sp)",
        "sw s5, 24(sp)",
        "sw s6, 28(sp)",
        "sw s7, 32(sp)",
        "sw s8, 36(sp)",
        "sw s9, 40(sp)",
        "sw s10, 44(sp)",
        "sw s11, 48(sp)",
        "csrrci t0, mstatus, 8",
        "sw t0, 52(sp)",
        "csrr t0, mepc",
        "sw t0, 56(sp)",
        "sw zero, 60(sp)",
        "mv s0, sp",
        "mv sp, a1",
        "mv a1, s0",
        "jalr a2",
        "mv a1, a0",
        "mv a0, s0",
        "tail {unwind}",
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
        "mv sp, a0",
        "mv a0, a1",
        "lw ra, 0(sp)",
        "lw s0, 4(sp)",
        "lw s1, 8(sp)",
        "lw s2, 12(sp)",
        "lw s3, 16(sp)",
        "lw s4, 20(sp)",
        "lw s5, 24(sp)",
        "lw s6, 28(sp)",
        "lw s7, 32(sp)",
        "lw s8, 36(sp)",
        "lw s9, 40(sp)",
        "lw s10, 44(sp)",
        "lw s11, 48(sp)",
        "lw t1, 56(sp)",
        "csrw mepc, t1",
        "lw t0, 52(sp)",
        "addi sp, sp, 64",
        "csrw mstatus, t0",
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
