//! `memcpy` and `memset`, which the compiler calls. The images of the emulator include this file,
//! too.
//!
//! Those of the compiler's library save registers first, and come to words by way of bytes: a boot,
//! which moves and clears some hundred bytes, takes longer with them. They are weak there, so these
//! are linked.

use core::arch::global_asm;

// Two words at a time, then a word, then a byte. If one address is odd, bytes.
global_asm!(
    ".section .text.memcpy,\"ax\",@progbits
    .global memcpy
    memcpy:
        mov r12, r15
        mov r12, r11
        bis r13, r11
        bit #1, r11
        jnz 4f
    1:  sub #4, r14
        jnc 2f
        mov @r13+, r11
        mov r11, 0(r15)
        mov @r13+, r11
        mov r11, 2(r15)
        add #4, r15
        jmp 1b
    2:  bit #2, r14
        jz 3f
        mov @r13+, r11
        mov r11, 0(r15)
        incd r15
    3:  and #1, r14
    4:  sub #1, r14
        jnc 5f
        mov.b @r13+, r11
        mov.b r11, 0(r15)
        inc r15
        jmp 4b
    5:  ret
    .section .text"
);

// The same. A first byte at an odd address makes the rest even.
global_asm!(
    ".section .text.memset,\"ax\",@progbits
    .global memset
    memset:
        mov r12, r15
        mov.b r13, r13
        mov r13, r11
        swpb r11
        bis r11, r13
        bit #1, r15
        jz 1f
        sub #1, r14
        jnc 5f
        mov.b r13, 0(r15)
        inc r15
    1:  sub #8, r14
        jnc 2f
        mov r13, 0(r15)
        mov r13, 2(r15)
        mov r13, 4(r15)
        mov r13, 6(r15)
        add #8, r15
        jmp 1b
    2:  add #8, r14
    3:  sub #2, r14
        jnc 4f
        mov r13, 0(r15)
        incd r15
        jmp 3b
    4:  bit #1, r14
        jz 5f
        mov.b r13, 0(r15)
    5:  ret
    .section .text"
);
