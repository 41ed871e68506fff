//! The critical section of one core. The images of an MSP430 have this as a module.

use core::arch::asm;

struct OneCore;
critical_section::set_impl!(OneCore);

// SAFETY: one core; nothing interrupts while they are off.
unsafe impl critical_section::Impl for OneCore {
    unsafe fn acquire() -> bool {
        let before: u16;
        // SAFETY: reads the status register and clears its interrupt enable.
        unsafe { asm!("mov r2, {0}", "dint", "nop", out(reg) before) };
        before & 8 != 0
    }
    unsafe fn release(enabled: bool) {
        if enabled {
            // SAFETY: they were on before.
            unsafe { asm!("nop", "eint", "nop") }
        }
    }
}
