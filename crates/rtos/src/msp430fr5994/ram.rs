//! The loops of start-up. The images of the emulator include this file, too.

/// Sets RAM up as a program finds it: statics with their first values, and zeros. For
/// `global_asm!`. It uses the registers r12 to r15, and the numbers 1 to 4 for its labels.
macro_rules! ram {
    () => {
        "   mov #_data, r12
            mov #_data_end, r13
            mov #_data_load, r14
            jmp 2f
        1:  mov @r14+, r15
            mov r15, 0(r12)
            incd r12
        2:  cmp r13, r12
            jlo 1b
            mov #_bss, r12
            mov #_bss_end, r13
            jmp 4f
        3:  clr 0(r12)
            incd r12
        4:  cmp r13, r12
            jlo 3b"
    };
}
