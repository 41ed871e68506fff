//! The change of the stack, all of this crate's assembly.

/// Calls `job(data)` on the stack that ends at `end`, and returns on the stack of the caller.
///
/// # Safety
/// `end` is the end of an unused stack, a multiple of 16 (of 2 on MSP430), that is long enough for
/// the job and for what interrupts it. `job` may be called with `data`, and returns.
#[cfg(all(target_arch = "arm", target_os = "none"))]
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(
    data: *mut (),
    job: unsafe extern "C-unwind" fn(*mut ()),
    end: *mut u8,
) {
    // Uses only instructions that all Cortex-M have.
    core::arch::naked_asm!(
        "push {{r4, lr}}",
        "mov r4, sp",
        "mov sp, r2",
        "blx r1",
        "mov sp, r4",
        "pop {{r4, pc}}",
    )
}

/// Calls `job(data)` on the stack that ends at `end`, and returns on the stack of the caller.
///
/// # Safety
/// As on the other machines.
#[cfg(target_arch = "msp430")]
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(
    data: *mut (),
    job: unsafe extern "C-unwind" fn(*mut ()),
    end: *mut u8,
) {
    core::arch::naked_asm!(
        "push r4",
        "mov r1, r4",
        "mov r14, r1",
        "call r13",
        "mov r4, r1",
        "pop r4",
        "ret",
    )
}

/// Calls `job(data)` on the stack that ends at `end`, and returns on the stack of the caller.
///
/// # Safety
/// As on the other machines.
#[cfg(all(target_arch = "riscv32", target_os = "none"))]
#[unsafe(naked)]
pub unsafe extern "C" fn on_stack(
    data: *mut (),
    job: unsafe extern "C-unwind" fn(*mut ()),
    end: *mut u8,
) {
    core::arch::naked_asm!(
        "addi sp, sp, -16",
        "sw ra, 12(sp)",
        "sw s0, 8(sp)",
        "mv s0, sp",
        "mv sp, a2",
        "jalr a1",
        "mv sp, s0",
        "lw s0, 8(sp)",
        "lw ra, 12(sp)",
        "addi sp, sp, 16",
        "ret",
    )
}

/// Calls `job(data)`, on the stack of the caller: there is no other one on this machine.
///
/// # Safety
/// `job` may be called with `data`.
#[cfg(not(any(
    target_arch = "msp430",
    all(target_os = "none", any(target_arch = "arm", target_arch = "riscv32"))
)))]
pub unsafe fn on_stack(data: *mut (), job: unsafe extern "C-unwind" fn(*mut ()), _end: *mut u8) {
    // SAFETY: as the caller promises.
    unsafe { job(data) }
}
