//! Multiplication that the compiler calls by the names of the MSP430 ABI, with the device's
//! multiplier MPY32. Numbers are unsigned; a result is in the registers that begin with R12. R4 to
//! R10 are kept, but for factors of 64 bits.
//!
//! No handler may run between the factors and the result: it may multiply, or switch to a thread
//! that does. So interrupts are masked meanwhile, 40 cycles at most.
//!
//! Registers and times are those of SLAU367, chapter "32-Bit Hardware Multiplier (MPY32)". An
//! instruction that reads a result by its address takes longer than the result does.

use core::arch::global_asm;

// 16 and 32 bits: R12 × R13, and R13:R12 × R15:R14. 64 bits: R11…R8 × R15…R12, by a convention of
// its own. There the sum of the two mixed products is added to the upper half of that of the lower
// halves.
global_asm!(
    ".equ MPY, 0x04C0
    .equ OP2, 0x04C8
    .equ RESLO, 0x04CA
    .equ MPY32L, 0x04D0
    .equ MPY32H, 0x04D2
    .equ MAC32L, 0x04D8
    .equ MAC32H, 0x04DA
    .equ OP2L, 0x04E0
    .equ OP2H, 0x04E2
    .equ RES0, 0x04E4
    .equ RES1, 0x04E6
    .equ RES2, 0x04E8
    .equ RES3, 0x04EA

    .section .text.multiply,\"ax\",@progbits
    .global __mspabi_mpyi
    __mspabi_mpyi:
        push r2
        dint
        nop
        mov r12, &MPY
        mov r13, &OP2
        mov &RESLO, r12
        pop r2
        ret

    .global __mspabi_mpyl
    __mspabi_mpyl:
        push r2
        dint
        nop
        mov r12, &MPY32L
        mov r13, &MPY32H
        mov r14, &OP2L
        mov r15, &OP2H
        mov &RES0, r12
        mov &RES1, r13
        pop r2
        ret

    .global __mspabi_mpyll
    __mspabi_mpyll:
        push r2
        dint
        nop
        mov r10, &MPY32L
        mov r11, &MPY32H
        mov r12, &OP2L
        mov r13, &OP2H
        mov r8, &MAC32L
        mov r9, &MAC32H
        mov r14, &OP2L
        mov r15, &OP2H
        mov &RES0, r14
        mov &RES1, r15
        mov r8, &MPY32L
        mov r9, &MPY32H
        mov r12, &OP2L
        mov r13, &OP2H
        mov &RES0, r12
        mov &RES1, r13
        add &RES2, r14
        addc &RES3, r15
        pop r2
        ret
    .section .text"
);
