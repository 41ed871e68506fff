//! The switch of Cortex-M, all of the port's assembly that is more than one instruction.

#[cfg(psplim)]
use crate::port::bare::SLOTS;
use crate::port::bare::SWITCH;
use core::arch::naked_asm;

/// The handler of PendSV: the registers of the thread that runs go to its stack, those of the next
/// one come from there. An interrupt may come anywhere in it, and choose another next thread: then
/// PendSV is pending again. Stores nothing that is persistent.
///
/// # Safety
/// Only the core calls it, by the vector table.
#[unsafe(naked)]
#[rustfmt::skip]
pub unsafe extern "C" fn pendsv() {
    #[cfg(target_abi = "eabihf")]
    naked_asm!(
        ".fpu fpv4-sp-d16",
        "mrs r0, psp",
        "tst lr, #0x10",
        "bne 1f",
        "vstmdb r0!, {{s16-s31}}",
        "1: stmdb r0!, {{r4-r11, lr}}",
        "ldr r1, 3f",
        "ldr r2, [r1]", // runs
        "str r0, [r2]",
        "ldr r2, [r1, #4]", // next
        "str r2, [r1]",
        #[cfg(psplim)]
        "ldr r3, [r2, #{limits}]",
        #[cfg(psplim)]
        "msr psplim, r3",
        "ldr r0, [r2]",
        "ldmia r0!, {{r4-r11, lr}}",
        "tst lr, #0x10",
        "bne 2f",
        "vldmia r0!, {{s16-s31}}",
        "2: msr psp, r0",
        "bx lr",
        ".balign 4",
        "3: .word {switch}",
        switch = sym SWITCH,
        #[cfg(psplim)]
        limits = const SLOTS * size_of::<usize>(),
    );
    // ARMv6-M, and cores without a FPU: the same frame, with the instructions that all have.
    #[cfg(not(target_abi = "eabihf"))]
    naked_asm!(
        "mrs r0, psp",
        "subs r0, #36",
        "ldr r1, 3f",
        "ldr r2, [r1]", // runs
        "str r0, [r2]",
        "stmia r0!, {{r4-r7}}",
        "mov r4, r8", "mov r5, r9", "mov r6, r10", "mov r7, r11",
        "mov r3, lr",
        "stmia r0!, {{r4-r7}}", "str r3, [r0]",
        "ldr r2, [r1, #4]", // next
        "str r2, [r1]",
        #[cfg(psplim)]
        "ldr r3, [r2, #{limits}]",
        #[cfg(psplim)]
        "msr psplim, r3",
        "ldr r1, [r2]",
        "mov r0, r1",
        "adds r0, #16",
        "ldmia r0!, {{r4-r7}}",
        "mov r8, r4", "mov r9, r5", "mov r10, r6", "mov r11, r7",
        "ldmia r0!, {{r3}}",
        "msr psp, r0",
        "ldmia r1!, {{r4-r7}}",
        "bx r3",
        ".balign 4",
        "3: .word {switch}",
        switch = sym SWITCH,
        #[cfg(psplim)]
        limits = const SLOTS * size_of::<usize>(),
    );
}
