//! What a machine must do for a checkpoint of a running program: save its registers in a *frame* on
//! the program's stack, and return through such a frame.
//!
//! ```text
//!  program's stack                      private stack, which ends at `top`
//!    ...                                  (then's own variables)
//!    [frame: registers] <- frame
//!
//!  capture(of, top, then)                        resume(frame, context, value)
//!    push all registers that a call preserves      sp = frame, result = value
//!    interrupts off                                unwind: pop the registers
//!    frame = sp, sp = top                          interrupts as they were
//!    value = then(of, frame)                       return from `capture` once more
//!    unwind(frame, value)
//! ```
//!
//! Why this is safe: `capture` is a call like any other, so its caller expects that the call
//! changes memory, and all registers that the calling convention does not preserve. The frame holds
//! the rest, and the interrupt state. `then` runs on another stack, so the program's stack is
//! complete from the frame on while it is saved, and may be overwritten when it is restored.
//!
//! The functions are generic only so that they are assembled where they are used, and never for
//! another processor of the family.

use core::arch::naked_asm;

pub use machine::{ALIGN, context_flags, resume};

#[cfg(target_arch = "arm")]
pub use machine::svcall;

/// Defines [`capture`] and `unwind` by the instructions of a machine.
macro_rules! registers {
    (capture: { $($capture:tt)* } unwind: { $($unwind:tt)* }) => {
        /// Saves the registers on the stack, switches interrupts off, and calls `then(of, frame)`
        /// on the stack that ends at `top`. Returns the value of that call, with all registers and
        /// the interrupt state as before. [`resume`] makes it return once more.
        ///
        /// # Safety
        /// `top` is the end of an unused stack. It is a multiple of 16 ([`ALIGN`] on MSP430), and
        /// the stack is long enough.
        #[unsafe(naked)]
        pub unsafe extern "C" fn capture<T>(
            of: *mut T,
            top: *mut u8,
            then: unsafe extern "C" fn(*mut T, usize) -> usize,
        ) -> usize {
            naked_asm!($($capture)* unwind = sym unwind::<T>)
        }

        /// The end of [`capture`]: returns from it with `value`.
        #[allow(clippy::extra_unused_type_parameters)]
        #[unsafe(naked)]
        unsafe extern "C" fn unwind<T>(frame: usize, value: usize) -> ! {
            naked_asm!($($unwind)*)
        }
    };
}

/// Cortex-M. Uses only instructions that all Cortex-M have. With an FPU it saves the FPU's
/// registers too.
///
/// The frame, from its lowest address: with an FPU a padding word, FPSCR and s16 to s31; then
/// PRIMASK, r8 to r11, r4 to r7 and the return address.
#[cfg(target_arch = "arm")]
mod machine {
    use super::unwind;
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

    /// Makes the [`capture`](super::capture) of this frame return `value`.
    ///
    /// # Safety
    /// The frame, and all memory that the program needs, are as `capture` left them. The caller
    /// runs on another stack.
    pub unsafe fn resume<T>(frame: usize, context: u32, value: usize) -> ! {
        if context & HANDLER == 0 {
            // SAFETY: *One state*, as the caller promises.
            unsafe { unwind::<T>(frame, value) }
        }
        // SAFETY: *One state*, as the caller promises. SVCall is `svcall`, which does not return.
        unsafe {
            // With interrupts off, `svc` would fault.
            asm!("cpsie i", "isb", "svc 0", "udf #0", in("r4") frame, in("r5") value, options(noreturn))
        }
    }

    /// The SVCall handler, for programs that take checkpoints in interrupt handlers. Such a
    /// handler's registers can be restored only in a handler, whose exit then is the interrupted
    /// handler's exit. Put it into the vector table as `svcall::<()>`. Nothing else in the program
    /// may use `svc`.
    ///
    /// # Safety
    /// Only the core may call it, as an exception handler.
    #[unsafe(naked)]
    pub unsafe extern "C" fn svcall<T>() {
        naked_asm!(
            "cpsid i",
            // `resume` writes r4 and r5; the exception entry changes neither.
            "mov r0, r4",
            "mov r1, r5",
            "bl {unwind}",
            unwind = sym unwind::<T>,
        )
    }
}

/// A line of assembly for programs that are compiled for an FPU, and an empty one for others.
#[cfg(all(target_arch = "arm", target_abi = "eabihf"))]
macro_rules! with_fpu {
    ($line:literal) => {
        $line
    };
}
#[cfg(all(target_arch = "arm", not(target_abi = "eabihf")))]
macro_rules! with_fpu {
    ($line:literal) => {
        ""
    };
}

#[cfg(target_arch = "arm")]
registers! {
    capture: {
        // With link-time optimisation, a program's assembly knows no FPU without this.
        with_fpu!(".fpu fpv4-sp-d16"),
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
        with_fpu!("vpush {{s16-s31}}"),
        with_fpu!("vmrs r3, fpscr"),
        with_fpu!("push {{r2, r3}}"),
        "mov r4, sp",
        "mov sp, r1",
        "mov r1, r4",
        "blx r2",
        "mov r1, r0",
        "mov r0, r4",
        "bl {unwind}",
    }
    unwind: {
        with_fpu!(".fpu fpv4-sp-d16"),
        "mov sp, r0",
        "mov r0, r1",
        with_fpu!("pop {{r2, r3}}"),
        with_fpu!("vmsr fpscr, r3"),
        with_fpu!("vpop {{s16-s31}}"),
        "pop {{r3}}",
        "pop {{r4-r7}}",
        "mov r8, r4",
        "mov r9, r5",
        "mov r10, r6",
        "mov r11, r7",
        "msr primask, r3",
        "pop {{r4-r7, pc}}",
    }
}

/// RISC-V and MSP430: a frame has all that a handler needs, so it is resumed like any other code.
#[cfg(not(target_arch = "arm"))]
mod machine {
    use super::unwind;

    /// Frames begin at multiples of this.
    pub const ALIGN: usize = if cfg!(target_arch = "msp430") { 2 } else { 16 };

    /// The flags for the context, or `None` if the program cannot be resumed from here.
    pub fn context_flags() -> Option<u32> {
        Some(0)
    }

    /// Makes the [`capture`](super::capture) of this frame return `value`.
    ///
    /// # Safety
    /// The frame, and all memory that the program needs, are as `capture` left them. The caller
    /// runs on another stack.
    pub unsafe fn resume<T>(frame: usize, _context: u32, value: usize) -> ! {
        // SAFETY: *One state*, as the caller promises.
        unsafe { unwind::<T>(frame, value) }
    }
}

// MSP430, its small memory model. The frame, from its lowest address: SR, r10 to r4, and the return
// address. `reti` of a handler takes all it needs from the stack.
#[cfg(target_arch = "msp430")]
registers! {
    capture: {
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
    }
    unwind: {
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
    }
}

// RV32I with its 32 registers, in machine mode, without floating-point registers. The frame, from
// its lowest address: the return address, s0 to s11, `mstatus`, `mepc`, and a padding word.
#[cfg(target_arch = "riscv32")]
registers! {
    capture: {
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
    }
    unwind: {
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
    }
}
