//! The loops of start-up. The images of the emulator include this file, too.

/// Sets RAM up as a program finds it: statics with their first values, and zeros. For
/// `global_asm!`. It uses the registers r12 to r14, and the numbers 1 to 4 for its labels.
macro_rules! ram {
    () => {
        "   mov #_data, r12
            mov #_data_load, r13
        1:  cmp #_data_end, r12
            jhs 2f
            mov @r13+, r14
            mov r14, 0(r12)
            incd r12
            jmp 1b
        2:  mov #_bss, r12
        3:  cmp #_bss_end, r12
            jhs 4f
            clr 0(r12)
            incd r12
            jmp 3b
        4:"
    };
}
