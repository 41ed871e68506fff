//! Division and shifts that the compiler calls by the names of the MSP430 ABI, and that TI's
//! libraries would bring. Numbers are unsigned but for `__mspabi_divli` and `__mspabi_remli`; a
//! result is in the registers that begin with R12. R4 to R10 are kept.

use core::arch::global_asm;

// 16 bits: R12 / R13; 32 bits: R13:R12 / R15:R14. A bit of the quotient each time round.
global_asm!(
    ".section .text.divide,\"ax\",@progbits
    .global __mspabi_remu
    __mspabi_remu:
        call #__mspabi_divu
        mov r14, r12
        ret

    .global __mspabi_divu
    __mspabi_divu:
        mov #16, r15
        clr r14
    1:  rla r12
        rlc r14
        jc 2f
        cmp r13, r14
        jlo 3f
    2:  sub r13, r14
        bis #1, r12
    3:  dec r15
        jnz 1b
        ret

    .global __mspabi_remul
    __mspabi_remul:
        push r10
        call #__divide_32
        mov r10, r12
        mov r11, r13
        pop r10
        ret

    .global __mspabi_divul
    __mspabi_divul:
        push r10
        call #__divide_32
        pop r10
        ret

    .global __mspabi_divli
    __mspabi_divli:
        push r10
        push r8
        mov r13, r8
        xor r15, r8
        call #__divide_signs
        pop r8
        pop r10
        ret

    .global __mspabi_remli
    __mspabi_remli:
        push r10
        push r8
        mov r13, r8
        call #__divide_magnitudes
        mov r10, r12
        mov r11, r13
        call #__negate_as_r8
        pop r8
        pop r10
        ret

    __divide_signs:
        call #__divide_magnitudes
    __negate_as_r8:
        tst r8
        jge 1f
        inv r12
        inv r13
        inc r12
        adc r13
    1:  ret

    __divide_magnitudes:
        tst r13
        jge 1f
        inv r12
        inv r13
        inc r12
        adc r13
    1:  tst r15
        jge __divide_32
        inv r14
        inv r15
        inc r14
        adc r15

    __divide_32:
        push r9
        clr r10
        clr r11
        mov #32, r9
    1:  rla r12
        rlc r13
        rlc r10
        rlc r11
        jc 2f
        cmp r15, r11
        jlo 3f
        jne 2f
        cmp r14, r10
        jlo 3f
    2:  sub r14, r10
        subc r15, r11
        bis #1, r12
    3:  dec r9
        jnz 1b
        pop r9
        ret
    .section .text"
);

// Shifts of R13:R12 by R14 bits: by 16 bits at once, by 8, and the rest one by one.
global_asm!(
    ".section .text.shift,\"ax\",@progbits
    .global __mspabi_slll
    __mspabi_slll:
        cmp #16, r14
        jlo 1f
        mov r12, r13
        clr r12
        sub #16, r14
    1:  cmp #8, r14
        jlo 3f
        swpb r12
        swpb r13
        and #0xff00, r13
        mov.b r12, r15
        bis r15, r13
        and #0xff00, r12
        sub #8, r14
        jmp 3f
    2:  rla r12
        rlc r13
    3:  dec r14
        jge 2b
        ret

    .global __mspabi_srll
    __mspabi_srll:
        cmp #16, r14
        jlo 1f
        mov r13, r12
        clr r13
        sub #16, r14
    1:  cmp #8, r14
        jlo 3f
        swpb r12
        swpb r13
        mov.b r12, r12
        mov r13, r15
        and #0xff00, r15
        bis r15, r12
        mov.b r13, r13
        sub #8, r14
        jmp 3f
    2:  clrc
        rrc r13
        rrc r12
    3:  dec r14
        jge 2b
        ret
    .section .text"
);
