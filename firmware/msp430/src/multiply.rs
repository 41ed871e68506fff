//! Multiplication that the compiler calls by the names of the MSP430 ABI, for an emulator without a
//! multiplier. Numbers are unsigned; a result is in the registers that begin with R12. R4 to R7 are
//! kept, and but for the factors of 64 bits R8 to R10.

use core::arch::global_asm;

// 16 and 32 bits: R12 × R13, and R13:R12 × R15:R14. 64 bits: R11…R8 × R15…R12, by a convention of
// its own.
global_asm!(
    ".section .text.multiply,\"ax\",@progbits
    .global __mspabi_mpyi
    __mspabi_mpyi:
        mov r12, r14
        clr r12
    1:  clrc
        rrc r13
        jnc 2f
        add r14, r12
    2:  rla r14
        tst r13
        jnz 1b
        ret

    .global __mspabi_mpyl
    __mspabi_mpyl:
        push r10
        clr r10
        clr r11
    1:  clrc
        rrc r15
        rrc r14
        jnc 2f
        add r12, r10
        addc r13, r11
    2:  rla r12
        rlc r13
        tst r15
        jnz 1b
        tst r14
        jnz 1b
        mov r10, r12
        mov r11, r13
        pop r10
        ret

    .global __mspabi_mpyll
    __mspabi_mpyll:
        push r4
        push r5
        push r6
        push r7
        push r8
        push r9
        push r10
        clr r4
        clr r5
        clr r6
        clr r7
    1:  clrc
        rrc r11
        rrc r10
        rrc r9
        rrc r8
        jnc 2f
        add r12, r4
        addc r13, r5
        addc r14, r6
        addc r15, r7
    2:  rla r12
        rlc r13
        rlc r14
        rlc r15
        tst r8
        jnz 1b
        tst r9
        jnz 1b
        tst r10
        jnz 1b
        tst r11
        jnz 1b
        mov r4, r12
        mov r5, r13
        mov r6, r14
        mov r7, r15
        pop r10
        pop r9
        pop r8
        pop r7
        pop r6
        pop r5
        pop r4
        ret
    .section .text"
);
