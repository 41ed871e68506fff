//! Cortex-M. Uses only instructions that all Cortex-M have. With an FPU it saves the FPU's
//! registers too.
//!
//! The frame, from its lowest address: with an FPU a padding word, FPSCR and s16 to s31; then
//! PRIMASK, r8 to r11, r4 to r7 and the return address. AAPCS: a call may change all other
//! registers.

use core::arch::{asm, naked_asm};

/// A flag in the context: the frame was captured in an exception handler.
const HANDLER: u32 = 1;
/// Frames begin at multiples of this.
pub const ALIGN: usize = 8;

const CPUID: *const u32 = 0xE000_ED00 as *const u32;
const ICSR: *const u32 = 0xE000_ED04 as *const u32;

/// The flags for the context, or `None` if the program cannot be resumed from here.
pub fn context_flags() -> Option<u32> {
    let (exception, control): (u32, u32);
    // SAFETY: *One state*: reads two registers of the core and nothing else.
    unsafe {
        asm!("mrs {}, ipsr", out(reg) exception, options(nomem, nostack, preserves_flags));
        asm!("mrs {}, control", out(reg) control, options(nomem, nostack, preserves_flags));
    }
    if exception == 0 {
        // Unprivileged, or on the process stack: an operating system's thread.
        return (control & 3 == 0).then_some(0);
    }
    // SAFETY: *One state*: two registers of the system control block, which every Cortex-M has.
    let (id, state) = unsafe { (CPUID.read_volatile(), ICSR.read_volatile()) };
    // RETTOBASE: no other handler was preempted. ARMv6-M does not have this bit.
    let alone = id >> 16 & 0xF == 0xF && state & 1 << 11 != 0;
    alone.then_some(HANDLER)
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
        // With link-time optimisation, a program's assembly knows no FPU without this.
        #[cfg(target_abi = "eabihf")]
        ".fpu fpv4-sp-d16",
        "push {{r4-r7, lr}}",
        "mov r4, r8",
        "mov r5, r9",
        "mov r6, r10",
        "mov r7, r11",
        "push {{r4-r7}}",
        "mrs r3, primask",
        "push {{r3}}",
        "cpsid i",
        // In a handler this also completes the lazy stacking of the preempted program's FPU
        // registers.
        #[cfg(target_abi = "eabihf")]
        "vpush {{s16-s31}}",
        #[cfg(target_abi = "eabihf")]
        "vmrs r3, fpscr",
        #[cfg(target_abi = "eabihf")]
        "push {{r2, r3}}",
        "mov r4, sp",
        "mov sp, r1",
        "mov r1, r4",
        "blx r2",
        "mov r1, r0",
        "mov r0, r4",
        "bl {resume}",
        resume = sym unwind::<T>,
    )
}

/// The end of [`capture`]: returns from it with `value`.
// Generic, as all functions here, so that it is assembled only where it is used and never for
// another processor of this family.
#[allow(clippy::extra_unused_type_parameters)]
#[unsafe(naked)]
unsafe extern "C" fn unwind<T>(frame: usize, value: usize) -> ! {
    naked_asm!(
        #[cfg(target_abi = "eabihf")]
        ".fpu fpv4-sp-d16",
        "mov sp, r0",
        "mov r0, r1",
        #[cfg(target_abi = "eabihf")]
        "pop {{r2, r3}}",
        #[cfg(target_abi = "eabihf")]
        "vmsr fpscr, r3",
        #[cfg(target_abi = "eabihf")]
        "vpop {{s16-s31}}",
        "pop {{r3}}",
        "pop {{r4-r7}}",
        "mov r8, r4",
        "mov r9, r5",
        "mov r10, r6",
        "mov r11, r7",
        "msr primask, r3",
        "pop {{r4-r7, pc}}",
    )
}

/// Makes the [`capture`] of this frame return `value`.
///
/// # Safety
/// The frame, and all memory that the program needs, are as `capture` left them. The caller runs on
/// another stack.
#[allow(clippy::extra_unused_type_parameters)]
pub unsafe fn resume<T>(frame: usize, context: u32, value: usize) -> ! {
    if context & HANDLER == 0 {
        // SAFETY: *One state*, as the caller promises.
        unsafe { unwind::<T>(frame, value) }
    }
    // SAFETY: *One state*, as the caller promises. SVCall is `svcall`, which does not return here.
    unsafe {
        // With interrupts off, `svc` would fault.
        asm!("cpsie i", "isb", "svc 0", "udf #0", in("r4") frame, in("r5") value, options(noreturn))
    }
}

/// The SVCall handler, for programs that take checkpoints in interrupt handlers. Such a handler's
/// registers can be restored only in a handler, whose exit then is the interrupted handler's exit.
/// Put it into the vector table as `svcall::<()>`. Nothing else in the program may use `svc`.
///
/// # Safety
/// Only the core may call it, as an exception handler.
#[allow(clippy::extra_unused_type_parameters)]
#[unsafe(naked)]
pub unsafe extern "C" fn svcall<T>() {
    naked_asm!(
        "cpsid i",
        // `resume` writes r4 and r5; the exception entry changes neither.
        "mov r0, r4",
        "mov r1, r5",
        "bl {resume}",
        resume = sym unwind::<T>,
    )
}
